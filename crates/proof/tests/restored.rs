//! The API server is restored from a backup: what was done since is forgotten, and the operator remembers it.

use carillon_proof::case::Case;
use carillon_proof::disturbance::{Disturbance, Restore};
use carillon_proof::world::Outcome;
use carillon_proof::{crash_anywhere, scenario};
use jiff::SignedDuration;

/// Every how many revisions a backup is restored. A prime, so that it is not always the same write that was last.
const STEP: usize = 41;
/// How many are lost, and for how many seconds nobody can connect.
const LOST: [(u64, u64); 3] = [(4, 12), (40, 12), (20, 60)];

/// Whether only controllers, nodes and the operator had to do with the last changes before this revision, and in the
/// minute after it, too. What users have lost nobody orders again.
fn is_not_of_users(undisturbed: &Outcome, (at, lost, down): (u64, u64, u64)) -> bool {
    let steps = &undisturbed.history.steps;
    let begin = steps.iter().find(|step| step.rev >= at);
    let begin = begin.map_or(undisturbed.over_at, |step| step.at);
    let end = begin + SignedDuration::from_secs(down as i64 + 60);
    !steps.iter().any(|step| {
        let by = step.by.as_ref().map(|by| &*by.user);
        step.rev >= at - lost && step.at <= end && matches!(by, Some("user" | "admin"))
    })
}

#[test]
fn what_a_restored_backup_does_not_know_is_lost_and_no_more() {
    let (mut runs, mut wrong) = (0, Vec::new());
    for scenario in scenario::all() {
        let clean = crash_anywhere::clean_without_lease(&scenario);
        let undisturbed = clean.run(&scenario).unwrap();
        let last = undisturbed.history.steps.last().map_or(0, |step| step.rev);
        for at in (STEP as u64..last).step_by(STEP) {
            for (lost, down) in LOST.into_iter().filter(|(lost, _)| *lost < at) {
                if !is_not_of_users(&undisturbed, (at, lost, down)) {
                    continue;
                }
                let case = Case {
                    disturbance: Disturbance {
                        restore: Some(Restore { at, lost, down }),
                        // With a lease the process would end: it could not renew it.
                        without_lease: true,
                        ..Disturbance::none(1)
                    },
                    ..clean.clone()
                };
                let outcome = case.run(&scenario).unwrap();
                runs += 1;
                if let Err(failure) = case.judge(&scenario, &outcome, None) {
                    println!("{}: {failure}", scenario.name);
                    wrong.push((scenario.name, at, lost));
                }
            }
        }
    }
    println!("{runs} backups restored");
    assert!(runs > 100 && wrong.is_empty(), "{wrong:?}");
}

#[test]
fn a_watch_that_panics_ends_its_process_and_the_next_one_goes_on() {
    let (mut runs, mut panics) = (0, 0);
    for scenario in scenario::all().into_iter().step_by(9) {
        let clean = crash_anywhere::clean(&scenario);
        let undisturbed = clean.run(&scenario).unwrap();
        for event in (1..=undisturbed.events).step_by(STEP) {
            let case = Case {
                disturbance: Disturbance {
                    panic_at_event: Some(event),
                    ..Disturbance::none(1)
                },
                ..clean.clone()
            };
            let outcome = case.run(&scenario).unwrap();
            runs += 1;
            panics += outcome
                .exits
                .iter()
                .filter(|exit| exit.contains("panicked"))
                .count();
            let judged = case.judge(&scenario, &outcome, None);
            judged.unwrap_or_else(|failure| panic!("{}: {failure}", scenario.name));
        }
    }
    println!("{panics} panics in {runs} runs");
    assert!(
        runs > 20 && panics == runs,
        "{panics} panics in {runs} runs"
    );
}
