//! Writes that the API server refuses for ever.

use carillon_api::condition::{reasons, types};
use serde_json::json;

use super::world::World;
use crate::broadcast_job::action::Action;
use crate::condition::{self, Refusal};

#[test]
fn a_write_that_is_refused_for_ever_is_told_before_what_it_stands_in_the_way_of() {
    let mut world = World::new(2, json!({}));
    world.refusal = Some(Refusal("write_slice: denied".to_owned()));
    let plan = world.plan();
    let [Action::WriteStatus(status)] = &plan.steps[0].actions[..] else {
        panic!("{plan:?}");
    };
    let stalled = condition::find(&status.conditions, types::STALLED).unwrap();
    assert_eq!(
        (&*stalled.reason, &*stalled.message),
        (reasons::WRITE_REFUSED, "write_slice: denied")
    );
    assert!(!condition::is_true(&status.conditions, types::RECONCILING));
    assert_eq!(
        status.observed_generation,
        Some(world.job().meta.generation)
    );
    assert_eq!((plan.steps.len(), plan.again), (1, true));
    // Once it is told, the rest is tried; when that goes through, it is told no more.
    world.run_to_the_end();
    assert!(world.is(types::COMPLETE));
    let mut world = World::new(2, json!({}));
    world.refusal = Some(Refusal("write_slice: denied".to_owned()));
    world.crash_after(usize::MAX);
    assert!(world.is(types::STALLED));
    world.refusal = None;
    world.crash_after(usize::MAX);
    assert!(!world.is(types::STALLED));
}

#[test]
fn a_job_that_stops_goes_on_to_say_what_is_refused() {
    let mut world = World::new(3, json!({}));
    world.start();
    world.end("n0001", 3);
    world.crash_after(usize::MAX);
    let running = (true, reasons::STOPPING.to_owned());
    assert_eq!(world.condition(types::RECONCILING), Some(running));
    world.refusal = Some(Refusal("delete_pod: denied".to_owned()));
    for turn in 0..3 {
        // The pods stay: each deletion is refused.
        world.crash_after(usize::MAX);
        let stalled = (true, reasons::WRITE_REFUSED.to_owned());
        assert_eq!(world.condition(types::STALLED), Some(stalled), "{turn}");
        assert!(!world.is(types::RECONCILING), "{turn}");
        assert!(world.is(types::FAILURE_TARGET), "{turn}");
    }
    world.refusal = None;
    world.settle();
    assert!(!world.is(types::STALLED) && world.is(types::RECONCILING));
}
