//! A request that waits before it is sent relies on what may not be so any more.

use carillon_proof::case::Case;
use carillon_proof::disturbance::Disturbance;
use carillon_proof::fault::{Fault, What};
use carillon_proof::scenario::{Scenario, Step};
use carillon_proof::{crash_anywhere, kinds};
use jiff::SignedDuration;
use serde_json::json;

/// Latencies follow from the seed: in some of these runs the pod is gone while the creation waits.
const SEEDS: u64 = 40;

fn called(name: &str) -> Scenario {
    let mut all = kinds::scenarios().into_iter();
    all.find(|scenario| scenario.name == name)
        .expect("there is such a scenario")
}

#[test]
fn a_creation_that_has_waited_is_not_sent_when_its_attempt_is_over() {
    let mut scenario = called("a running pod is deleted and its node is tried again");
    // The end of the pod is stored long before the creation has waited.
    scenario.flags = &["--job-sync-batch-period=100ms"];
    // The API server has one leader wait for five seconds; the other one creates the pod meanwhile, a user
    // deletes it, and its end is stored.
    let busy = Fault::new("create", "pods", 1, What::Busy(5)).containing("node-2");
    for seed in 0..SEEDS {
        let case = Case {
            seed,
            disturbance: Disturbance {
                without_lease: true,
                faults: vec![busy.clone()],
                ..Disturbance::none(2)
            },
            ..crash_anywhere::clean(&scenario)
        };
        let outcome = case.run(&scenario).unwrap();
        assert_eq!(outcome.unmet, 0);
        if let Err(failure) = case.judge(&scenario, &outcome, None) {
            panic!("seed {seed}: {failure}");
        }
    }
}

#[test]
fn a_run_that_has_waited_is_not_created_when_its_cron_job_was_suspended_meanwhile() {
    let mut scenario = called("each tick starts a job");
    scenario.script = vec![Step {
        when: |view| {
            view.cron()
                .is_some_and(|cron| !cron["status"]["active"].is_null())
        },
        after: SignedDuration::from_secs(1),
        act: |view| view.edit_cron(json!({"suspend": true})),
    }];
    let busy = Fault::new("create", "jobs.batch", 1, What::Busy(9));
    for seed in 0..SEEDS {
        let case = Case {
            seed,
            disturbance: Disturbance {
                faults: vec![busy.clone()],
                ..Disturbance::none(1)
            },
            ..crash_anywhere::clean(&scenario)
        };
        let outcome = case.run(&scenario).unwrap();
        assert_eq!(outcome.unmet, 0);
        let judged = case.judge(&scenario, &outcome, None);
        judged.unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
        let mut steps = outcome.history.steps.iter();
        let created = steps.find(|step| &*step.key.resource == "jobs.batch");
        assert!(created.is_none(), "seed {seed}: {created:?}");
    }
}
