//! The API server is restored from a backup: what was done since is forgotten, and the operator remembers it.

use std::ops::{ControlFlow, RangeInclusive};

use carillon_oracle::Step;
use carillon_proof::case::Case;
use carillon_proof::disturbance::{Disturbance, Restore};
use carillon_proof::processors::on_all;
use carillon_proof::scenario::Scenario;
use carillon_proof::world::Outcome;
use carillon_proof::{crash_anywhere, kinds};
use jiff::SignedDuration;

/// Every how many revisions a backup is restored. A prime, so that it is not always the same write that was last.
const STEP: usize = 41;
/// How many are lost, renewals of the lease among them, and for how many seconds nobody can connect. Four seconds leave
/// the leader its lease.
const LOST: [(u64, u64); 4] = [(6, 4), (60, 4), (60, 12), (30, 60)];

/// For how long a controller may wait once more for what it has waited for: pods tolerate a lost node for five minutes.
const AGAIN: i64 = 360;

/// Whether only controllers, nodes and the operator had to do with the last changes before this revision, and in the
/// time after it, too. What users have lost nobody orders again, and they order nothing later because others are late.
fn is_not_of_users(undisturbed: &Outcome, (at, lost, down): (u64, u64, u64)) -> bool {
    let steps = &undisturbed.history.steps;
    let begin = steps.iter().find(|step| step.rev >= at);
    let begin = begin.map_or(undisturbed.over_at, |step| step.at);
    let end = begin + SignedDuration::from_secs(down as i64 + AGAIN);
    !steps.iter().any(|step| {
        let by = step.by.as_ref().map(|by| &*by.user);
        step.rev >= at - lost && step.at <= end && matches!(by, Some("user" | "admin"))
    })
}

/// Whether the lease was written in these revisions.
fn is_renewed(undisturbed: &Outcome, mut revisions: RangeInclusive<u64>) -> bool {
    let steps = &undisturbed.history.steps;
    let of_leases = |step: &&Step| step.key.resource.starts_with("leases.");
    let mut renewals = steps.iter().filter(of_leases);
    revisions.next();
    renewals.any(|step| revisions.contains(&step.rev))
}

/// What came of the backups of a scenario.
#[derive(Default)]
struct Found {
    runs: usize,
    /// How many the lease gave away.
    noticed: usize,
    wrong: Vec<(&'static str, Restore)>,
}

/// Restores backups of a scenario, one for each [`STEP`]. `number` has each scenario begin with another loss.
fn restore(number: usize, scenario: &Scenario) -> Found {
    // With a standby the revisions are others.
    let clean = [
        crash_anywhere::clean(scenario),
        crash_anywhere::clean_with_standby(scenario),
    ];
    let undisturbed = clean
        .each_ref()
        .map(|case| case.run(scenario).expect("it runs"));
    let steps = undisturbed
        .iter()
        .filter_map(|outcome| outcome.history.steps.last());
    let end = steps.map(|step| step.rev).min().unwrap_or_default();
    let mut found = Found::default();
    for (turn, at) in (STEP as u64..end).step_by(STEP).enumerate() {
        let (lost, down) = LOST[(number + turn) % LOST.len()];
        let (clean, undisturbed) = (&clean[turn % 2], &undisturbed[turn % 2]);
        if lost >= at || !is_not_of_users(undisturbed, (at, lost, down)) {
            continue;
        }
        // A leader that goes on and has not renewed its lease in what is lost knows of nothing.
        if down < 10 && !is_renewed(undisturbed, (at - lost)..=at) {
            continue;
        }
        let restore = Restore { at, lost, down };
        let case = Case {
            disturbance: Disturbance {
                restore: Some(restore),
                ..Disturbance::none(1 + turn % 2)
            },
            ..clean.clone()
        };
        let outcome = case.run(scenario).expect("it runs");
        found.runs += 1;
        let mut exits = outcome.exits.iter();
        found.noticed += usize::from(exits.any(|exit| exit.contains("restored from a backup")));
        if let Err(failure) = case.judge(scenario, &outcome, None) {
            let again = serde_json::to_string(&case).expect("it can be written");
            println!("{}: {failure}\n{again}", scenario.name);
            found.wrong.push((scenario.name, restore));
        }
    }
    found
}

#[test]
fn what_a_restored_backup_does_not_know_is_lost_and_no_more() {
    let scenarios = kinds::scenarios();
    let found = on_all(
        scenarios.len(),
        || (),
        |(), number| ControlFlow::Continue(restore(number, &scenarios[number])),
    );
    let sum = |count: fn(&Found) -> usize| found.iter().map(count).sum::<usize>();
    let (runs, noticed) = (sum(|found| found.runs), sum(|found| found.noticed));
    let wrong: Vec<_> = found.iter().flat_map(|found| &found.wrong).collect();
    println!("{runs} backups restored, {noticed} noticed by the lease");
    assert!(runs > 100 && noticed > 10 && wrong.is_empty(), "{wrong:?}");
}

#[test]
fn a_watch_that_panics_ends_its_process_and_the_next_one_goes_on() {
    let (mut runs, mut panics) = (0, 0);
    for scenario in kinds::scenarios().into_iter().step_by(9) {
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
