//! What a job says to tools that know no word but kstatus'.

use carillon_api::condition::{reasons, types};
use serde_json::json;

use super::world::World;

/// kstatus takes the first of Reconciling and Stalled that is true, and calls a job ready of which neither is.
#[test]
fn a_job_that_needs_a_person_is_stalled_and_not_reconciling() {
    let stalled = |policy: &str| {
        let mut world = World::new(
            2,
            json!({"failurePolicy": {"type": policy}, "parallelism": 1}),
        );
        world.settle();
        assert!(world.is(types::RECONCILING) && !world.is(types::STALLED));
        world.run_all();
        world.end("n0000", 1);
        world.settle();
        world
    };
    let failed = stalled("FailFast");
    assert_eq!(
        failed.condition(types::STALLED),
        failed.condition(types::FAILED)
    );
    assert_eq!(
        failed.message(types::STALLED),
        failed.message(types::FAILED)
    );
    assert!(!failed.is(types::RECONCILING));
    assert_eq!(failed.status["summary"], "failed");

    let mut paused = stalled("Pause");
    assert_eq!(
        paused.condition(types::STALLED),
        paused.condition(types::PAUSED)
    );
    assert!(!paused.is(types::RECONCILING));
    assert_eq!(paused.status["summary"], "paused");
    paused.spec["paused"] = json!(true);
    paused.settle();
    assert!(!paused.is(types::STALLED) && paused.is(types::RECONCILING));
    paused.spec["paused"] = json!(false);
    paused.resume = Some("1".to_owned());
    paused.settle();
    let resumed = (false, reasons::RESUMED.to_owned());
    assert_eq!(paused.condition(types::STALLED), Some(resumed));
    assert!(paused.is(types::RECONCILING));
}
