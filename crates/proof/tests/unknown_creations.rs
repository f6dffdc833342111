//! A creation of which its sender never learns whether it was done.

use carillon_proof::case::Case;
use carillon_proof::disturbance::Disturbance;
use carillon_proof::scenario::{Scenario, Step};
use carillon_proof::{crash_anywhere, kinds};
use carillon_sim::actors::Fate;
use jiff::SignedDuration;
use serde_json::json;

const SEEDS: u64 = 20;

#[test]
fn a_pod_of_a_job_that_may_be_there_is_not_made_a_second_time_under_another_name() {
    is_kept(&called(
        "a job is suspended from the start and resumed elsewhere",
    ));
}

#[test]
fn a_pod_of_a_job_that_may_be_there_is_asked_for_before_its_status_is_written_for_another_reason() {
    let mut scenario = called("a job runs four pods, two at a time");
    scenario.spec = json!({"completions": 1, "parallelism": 1});
    scenario.fates = |_, _| Fate::ends(SignedDuration::from_secs(30), 0);
    scenario.script = vec![
        Step {
            when: |view| !view.pods().is_empty(),
            after: SignedDuration::ZERO,
            act: |view| view.edit_job(json!({"suspend": true})),
        },
        Step {
            when: |view| view.is("Suspended"),
            after: SignedDuration::from_secs(5),
            act: |view| view.edit_job(json!({"suspend": false})),
        },
    ];
    is_kept(&scenario);
}

fn called(name: &str) -> Scenario {
    let mut all = kinds::scenarios().into_iter();
    all.find(|scenario| scenario.name == name)
        .expect("there is such a scenario")
}

fn is_kept(scenario: &Scenario) {
    for seed in 0..SEEDS {
        let case = Case {
            seed,
            disturbance: Disturbance::unknown_creation(),
            ..crash_anywhere::clean(scenario)
        };
        let outcome = case.run(scenario).expect("it begins");
        assert_eq!(outcome.unmet, 0, "seed {seed}");
        let judged = case.judge(scenario, &outcome, None);
        judged.unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    }
}
