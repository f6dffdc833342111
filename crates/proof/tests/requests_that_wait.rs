//! A request that waits before it is sent relies on what may not be so any more.

use carillon_proof::case::Case;
use carillon_proof::disturbance::Disturbance;
use carillon_proof::fault::{Fault, What};
use carillon_proof::{crash_anywhere, scenario};

/// Latencies follow from the seed: in some of these runs the pod is gone while the creation waits.
const SEEDS: u64 = 40;

#[test]
fn a_creation_that_has_waited_is_not_sent_when_its_attempt_is_over() {
    let mut all = scenario::all().into_iter();
    let mut scenario = all
        .find(|scenario| scenario.name == "a running pod is deleted and its node is tried again")
        .unwrap();
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
