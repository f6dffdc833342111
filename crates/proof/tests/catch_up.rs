//! The operator is off for an hour, while pods end and users act, and catches up.

use carillon_proof::case::Case;
use carillon_proof::disturbance::Disturbance;
use carillon_proof::scenario::Scenario;
use carillon_proof::span::Span;
use carillon_proof::{campaign, crash_anywhere, kinds};

const HOUR: u64 = 3600;
/// Their user waits for counts that are never there when the operator is off, and acts on them.
const WAIT_FOR_COUNTS: [&str; 3] = [
    "an elastic job grows",
    "an elastic job shrinks",
    "an elastic job shrinks and grows again",
];

fn jobs() -> Vec<Scenario> {
    let mut all = kinds::scenarios();
    all.retain(|scenario| {
        scenario.subject.kind == "Job" && !WAIT_FOR_COUNTS.contains(&scenario.name)
    });
    all
}

/// Off for an hour, from this second on.
fn off(scenario: &Scenario, from: u64) -> Case {
    Case {
        disturbance: Disturbance {
            down: vec![Span {
                from,
                to: from + HOUR,
            }],
            ..Disturbance::none(1)
        },
        ..crash_anywhere::clean(scenario)
    }
}

#[test]
fn an_operator_that_was_off_for_an_hour_brings_each_job_to_the_end_it_would_have_had() {
    let mut failures = Vec::new();
    for scenario in jobs() {
        let clean = crash_anywhere::clean(&scenario).run(&scenario).unwrap();
        assert!(clean.ended, "{}", scenario.name);
        // Before its first pods have ended, and when some of them have.
        let cases: Vec<Case> = [1, 3].map(|from| off(&scenario, from)).into();
        let jobs = campaign::every_nth(1, &cases, &scenario, &clean.end);
        failures.extend(campaign::run(&jobs, 3).unwrap().failures);
    }
    for failure in failures.iter().take(5) {
        println!("{failure}");
    }
    assert!(failures.is_empty(), "{}", failures.len());
}
