//! Pods that have ended.

use jiff::SignedDuration;
use serde_json::json;

use super::world::World;
use crate::daemon_set::Why;
use crate::pod::PodPhase;

/// `TestDaemonKillFailedPods`.
#[test]
fn a_pod_that_has_ended_is_deleted_and_then_replaced() {
    for (phase, why) in [
        (PodPhase::Failed, Why::Failed),
        (PodPhase::Succeeded, Why::Succeeded),
    ] {
        let mut world = World::new(1, &json!({}));
        world.pod("node-00", "1").phase = phase;
        assert_eq!(world.planned(), (vec![], vec![("foo-001".to_owned(), why)]));
        assert_eq!(world.sync(), (0, 1));
        assert_eq!(world.sync(), (1, 0));
    }
}

/// `TestDaemonKillFailedPodsBackoff`: the wait does not grow while it lasts, and is exact.
#[test]
fn a_node_on_which_pods_fail_waits_longer_each_time() {
    let mut world = World::new(1, &json!({}));
    let nano = SignedDuration::from_nanos(1);
    for seconds in [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900] {
        world.pod("node-00", "1").phase = PodPhase::Failed;
        let wait = SignedDuration::from_secs(seconds);
        if seconds > 0 {
            let until = world.now + wait;
            world.now = until - nano;
            assert_eq!(world.planned(), (vec![], vec![]), "{seconds}");
            let changes = world.changes();
            assert_eq!(changes.wake, Some(until), "{seconds}");
            world.now = until;
        }
        assert_eq!(world.sync(), (0, 1), "{seconds}");
    }
}

#[test]
fn another_generation_or_half_an_hour_without_a_failure_begins_anew() {
    let fail = |world: &mut World| {
        world.pods.clear();
        world.pod("node-00", "1").phase = PodPhase::Failed;
    };
    let mut world = World::new(1, &json!({}));
    fail(&mut world);
    assert_eq!(world.sync(), (0, 1));
    fail(&mut world);
    assert_eq!(world.sync(), (0, 0));
    world.set.meta.generation += 1;
    assert_eq!(world.sync(), (0, 1));
    fail(&mut world);
    assert_eq!(world.sync(), (0, 0));
    world.now += SignedDuration::from_mins(31);
    assert_eq!(world.sync(), (0, 1));
    assert_eq!(
        world.failed["node-00"].replaced.wait,
        SignedDuration::from_secs(1)
    );
}

/// Upstream fills the node with failed pods (kubernetes issue 124388).
#[test]
fn with_a_surge_no_pod_comes_beside_a_failed_one_that_waits() {
    let surge = json!({"updateStrategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}});
    let mut world = World::new(1, &surge);
    world.pod("node-00", "1").phase = PodPhase::Failed;
    assert_eq!(world.sync(), (1, 1), "the first is replaced at once");
    for pod in world.pods.values_mut() {
        pod.phase = PodPhase::Failed;
    }
    assert_eq!(world.sync(), (0, 0));
    world.now += SignedDuration::from_secs(1);
    assert_eq!(world.sync(), (1, 1));
}
