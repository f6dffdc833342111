//! A watch loses an event, and nobody says it again.

use carillon_proof::campaign::{self, Job};
use carillon_proof::case::Case;
use carillon_proof::disturbance::Disturbance;
use carillon_proof::storm::Weather;
use carillon_proof::world::Outcome;
use carillon_proof::{crash_anywhere, kinds};
use jiff::SignedDuration;

/// One period of audits with its jitter, the wait for a bookmark, and what the job then has left.
const HEALED_WITHIN: SignedDuration = SignedDuration::from_mins(12 + 1 + 1);

/// Every how many events one is lost.
const STEP: usize = 7;

/// How long a run took.
fn took(outcome: &Outcome) -> SignedDuration {
    let first = outcome.history.steps.first().expect("a revision");
    outcome.over_at.duration_since(first.at)
}

#[test]
fn a_job_ends_within_a_period_of_audits_after_an_event_was_lost() {
    let scenario = &kinds::scenarios()[0];
    let clean = crash_anywhere::clean(scenario);
    let undisturbed = clean.run(scenario).unwrap();
    assert!(undisturbed.ended);
    println!("{} events", undisturbed.events);
    let with = |disturbance| Case {
        disturbance,
        ..clean.clone()
    };
    let mut late = Vec::new();
    // A prime, so that no kind of event is always the one that is left out.
    for event in (1..=undisturbed.events).step_by(STEP) {
        let disturbance = Disturbance {
            lost_event: Some(event),
            ..Disturbance::none(1)
        };
        let case = with(disturbance.clone());
        let outcome = case.run(scenario).unwrap();
        if let Err(failure) = case.judge(scenario, &outcome, Some(&undisturbed.end)) {
            panic!("event {event}: {failure}");
        }
        let longer = took(&outcome) - took(&undisturbed);
        assert!(longer < HEALED_WITHIN, "event {event}: {longer:#} longer");
        println!("event {event}: {longer:#} longer");
        if longer > SignedDuration::from_mins(5) {
            late.push(disturbance);
        }
    }
    // That it is the audit which helps: without it these jobs hang.
    assert!(!late.is_empty(), "no lost event made a difference");
    if let Some(disturbance) = late.pop() {
        let case = with(Disturbance {
            without_audit: true,
            ..disturbance
        });
        assert!(!case.run(scenario).unwrap().ended, "{case:?}");
    }
}

#[test]
fn watches_that_lose_every_tenth_event_keep_no_job_from_its_end() {
    let mut scenarios = kinds::scenarios();
    scenarios.truncate(2);
    let lossy = |seed| Case {
        scenario: String::new(),
        seed,
        disturbance: Disturbance {
            weather: Some(Weather {
                event_lost: 100,
                ..Weather::default()
            }),
            ..Disturbance::none(1)
        },
    };
    let cases: Vec<Case> = scenarios
        .iter()
        .zip(0..)
        .map(|(scenario, seed)| Case {
            scenario: scenario.name.to_owned(),
            ..lossy(seed)
        })
        .collect();
    let jobs: Vec<Job<'_>> = cases
        .iter()
        .zip(&scenarios)
        .map(|(case, scenario)| Job::alone(case, scenario))
        .collect();
    let found = campaign::run(&jobs, 3).unwrap();
    for failure in &found.failures {
        println!("{failure}");
    }
    assert!(found.failures.is_empty(), "{}", found.failures.len());
    assert_eq!(found.counts.runs as usize, scenarios.len());
}
