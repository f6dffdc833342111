//! Nodes with more pods than one, or with none.

use serde_json::json;

use super::world::{World, at};
use crate::daemon_set::Why;
use crate::node::Effect;

/// `TestDealsWithExistingPods`, without pods of others.
#[test]
fn of_several_pods_on_a_node_the_oldest_bound_one_stays() {
    let mut world = World::new(1, &json!({}));
    world.now = at(9);
    world.pod("node-00", "1");
    world.pod("node-00", "1").created = at(1);
    world.pod("node-00", "1").bound = false;
    let expected = ["foo-001", "foo-003"].map(|name| (name.to_owned(), Why::Duplicate));
    assert_eq!(world.planned(), (vec![], expected.to_vec()));
}

/// `TestDaemonSetRespectsTermination`.
#[test]
fn a_pod_that_stops_keeps_its_node_without_a_surge_and_not_with_one() {
    let mut world = World::new(1, &json!({}));
    world.pod("node-00", "1").deletion = Some(at(0));
    assert_eq!(world.sync(), (0, 0));
    world.edit("1", &json!({"maxUnavailable": 0, "maxSurge": 1}));
    assert_eq!(world.sync(), (1, 0));
    assert_eq!(world.sync(), (0, 0));
}

/// Of `TestGetNodesToDaemonPods`: one that only a finalizer keeps does not count.
#[test]
fn a_pod_that_has_ended_and_is_kept_by_a_finalizer_is_replaced() {
    let mut world = World::new(1, &json!({}));
    let pod = world.pod("node-00", "1");
    (pod.deletion, pod.phase) = (Some(at(0)), crate::pod::PodPhase::Failed);
    assert_eq!(world.sync(), (1, 0));
}

/// `TestNoScheduleTaintedDoesntEvicitRunningIntolerantPod`, `TestNoExecuteTaintedDoesEvicitRunningIntolerantPod`.
#[test]
fn a_taint_takes_a_pod_away_only_if_it_says_no_execute() {
    let mut world = World::running(2);
    world.taint("node-00", "k", Effect::NoSchedule);
    assert_eq!(world.sync(), (0, 0));
    let status = world.status();
    assert_eq!(
        (status.desired_number_scheduled, status.number_misscheduled),
        (1, 1)
    );
    world.taint("node-00", "k", Effect::NoExecute);
    assert_eq!(world.planned().1, [("foo-001".to_owned(), Why::NotWanted)]);
}

/// `TestDeleteUnscheduledPodForNotExistingNode`.
#[test]
fn of_a_node_that_is_gone_only_a_pod_that_waits_for_it_is_removed() {
    let mut world = World::running(1);
    world.pod("gone", "1");
    world.pod("gone", "1").bound = false;
    assert_eq!(world.planned().1, [("foo-003".to_owned(), Why::NotWanted)]);
}

/// `TestSurgeDealsWithExistingPods`, `TestSurgePreservesReadyOldPods`, `TestSurgeDeletesUnreadyOldPods` and those of
/// minimum readiness.
#[test]
fn with_a_surge_a_new_pod_replaces_an_old_one_when_it_is_available_or_the_old_one_is_not_ready() {
    for (old_ready, new_ready, deleted) in [
        (Some(0), None, vec![]),
        (None, None, vec!["foo-001"]),
        (Some(0), Some(90), vec![]),
        (Some(0), Some(80), vec!["foo-001"]),
    ] {
        let mut world = World::new(1, &json!({"minReadySeconds": 15}));
        world.edit("2", &json!({"maxUnavailable": 0, "maxSurge": 1}));
        world.pod("node-00", "1").ready = old_ready.map(at);
        world.pod("node-00", "2").ready = new_ready.map(at);
        world.now = at(100);
        let (create, delete) = world.planned();
        let names: Vec<_> = delete.iter().map(|(name, _)| &**name).collect();
        assert_eq!(
            (create.len(), names),
            (0, deleted),
            "{old_ready:?} {new_ready:?}"
        );
    }
}

/// `TestSurgeCreatesNewPodWhenAtMaxSurgeAndOldPodDeleted`.
#[test]
fn a_node_whose_old_pod_was_deleted_gets_a_new_one_whatever_the_surge() {
    let mut world = World::running(3);
    world.edit("2", &json!({"maxUnavailable": 0, "maxSurge": 1}));
    assert_eq!(world.sync(), (1, 0));
    let old = world.pods.get_mut("foo-003").unwrap();
    old.deletion = Some(at(0));
    assert_eq!(world.planned(), (vec!["node-02".to_owned()], vec![]));
}
