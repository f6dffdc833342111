//! Each pod is counted, once.

use serde_json::json;

use super::super::action::Action;
use super::world::{World, uid};
use crate::pod::PodPhase::{Failed, Running, Succeeded};

fn uncounted(world: &World) -> (usize, usize) {
    let lists = world.job.status.uncounted_terminated_pods.as_ref().unwrap();
    let many = |uids: &Option<Vec<String>>| uids.as_ref().map_or(0, Vec::len);
    (many(&lists.succeeded), many(&lists.failed))
}

#[test]
fn the_uid_is_stored_before_the_finalizer_goes_and_counted_after() {
    let mut world = World::new(json!({"parallelism": 0, "completions": 9}));
    world.pods_in(Succeeded, 2);
    world.pods_in(Failed, 1);
    world.sync_until(1);
    assert_eq!((uncounted(&world), world.counts()), ((2, 1), (0, 0, 0)));
    assert!(world.pods.values().all(|pod| pod.tracked));
    world.sync();
    assert!(world.pods.values().all(|pod| !pod.tracked));
    assert_eq!(world.counts(), (0, 0, 0));
    world.sync();
    assert_eq!((uncounted(&world), world.counts()), ((0, 0), (0, 2, 1)));
}

#[test]
fn without_the_status_no_finalizer_goes() {
    let mut world = World::new(json!({"parallelism": 0, "completions": 9}));
    world.pods_in(Succeeded, 1);
    let plan = world.plan();
    let release = plan.steps.iter().position(|step| {
        step.actions
            .iter()
            .any(|action| matches!(action, Action::ReleasePod { .. }))
    });
    let before = &plan.steps[release.unwrap() - 1];
    assert!(matches!(before.actions[0], Action::WriteStatus(_)));
    assert_eq!(before.on_error, crate::OnError::Stop);
}

#[test]
fn what_was_stored_before_is_counted_together_with_what_is_new() {
    let text = |n: u64| uid(n).to_string();
    let stored = json!({"succeeded": [text(77)], "failed": [text(78), text(79)]});
    let mut world = World::new(json!({"parallelism": 0, "completions": 9}))
        .with_status(json!({"uncountedTerminatedPods": stored, "succeeded": 1}));
    world.pods_in(Succeeded, 1);
    world.sync();
    assert_eq!((uncounted(&world), world.counts()), ((1, 0), (0, 2, 2)));
}

#[test]
fn a_pod_that_is_stored_already_is_not_stored_again() {
    let text = uid(1).to_string();
    for (list, phase) in [
        ("succeeded", Succeeded),
        ("failed", Failed),
        ("failed", Succeeded),
    ] {
        let mut world = World::new(json!({"parallelism": 0, "completions": 9}))
            .with_status(json!({"uncountedTerminatedPods": {list: [text]}}));
        world.pod(|pod| pod.phase = phase);
        world.settle();
        let (succeeded, failed) = (list == "succeeded", list == "failed");
        let expected = (0, i32::from(succeeded), i32::from(failed));
        assert_eq!(world.counts(), expected, "{list} {phase:?}");
    }
}

#[test]
fn a_status_never_holds_more_uids_than_it_may() {
    let mut world = World::new(json!({"parallelism": 0, "completions": 99}));
    world.limits.max_uncounted = 5;
    world.pods_in(Succeeded, 9);
    world.pods_in(Failed, 3);
    world.sync();
    let (succeeded, failed) = uncounted(&world);
    assert_eq!(succeeded + failed, 5);
    assert_eq!(world.pods.values().filter(|pod| pod.tracked).count(), 7);
    world.settle();
    assert_eq!(world.counts(), (0, 9, 3));
}

#[test]
fn pods_without_our_finalizer_are_not_counted() {
    let mut world = World::new(json!({"parallelism": 0, "completions": 9}));
    world.pod(|pod| (pod.phase, pod.tracked) = (Succeeded, false));
    world.pod(|pod| (pod.phase, pod.tracked) = (Failed, false));
    world.settle();
    assert_eq!(world.counts(), (0, 0, 0));
}

#[test]
fn a_pod_that_was_told_to_stop_has_failed_unless_it_is_waited_for() {
    for (policy, failed) in [("TerminatingOrFailed", 1), ("Failed", 0)] {
        let mut world = World::new(json!({
            "parallelism": 0, "completions": 9, "podReplacementPolicy": policy,
        }));
        world.pod(|pod| (pod.phase, pod.deleting, pod.assigned) = (Running, true, true));
        world.pod(|pod| (pod.phase, pod.deleting) = (Succeeded, true));
        world.settle();
        assert_eq!(world.counts(), (0, 1, failed), "{policy}");
        world.end("p1", Failed, 143);
        world.settle();
        assert_eq!(world.counts(), (0, 1, 1), "{policy}");
    }
}

#[test]
fn an_index_that_succeeds_twice_counts_once_and_pods_of_no_index_not_at_all() {
    let mut world = World::new(json!({
        "parallelism": 0, "completions": 4, "completionMode": "Indexed",
    }));
    for (phase, index) in [
        (Succeeded, Some(1)),
        (Succeeded, Some(1)),
        (Succeeded, Some(4)),
        (Succeeded, None),
        (Failed, Some(2)),
        (Failed, Some(9)),
        (Failed, None),
    ] {
        world.pod(|pod| (pod.phase, pod.index) = (phase, index));
    }
    world.settle();
    assert_eq!(world.counts(), (0, 1, 1));
    assert_eq!(world.job.status.completed_indexes.as_deref(), Some("1"));
    assert!(world.pods.values().all(|pod| !pod.tracked));
}

#[test]
fn indexes_are_completed_in_one_write_without_uids() {
    let mut world = World::new(json!({
        "parallelism": 0, "completions": 9, "completionMode": "Indexed",
    }));
    for index in [4, 2, 3] {
        world.pod(|pod| (pod.phase, pod.index) = (Succeeded, Some(index)));
    }
    world.sync();
    assert_eq!((uncounted(&world), world.counts()), ((0, 0), (0, 3, 0)));
    assert_eq!(world.job.status.completed_indexes.as_deref(), Some("2-4"));
    assert!(world.plan().steps.is_empty());
}

#[test]
fn damaged_indexes_are_dropped_and_the_rest_is_kept() {
    let mut world = World::new(json!({
        "parallelism": 0, "completions": 9, "completionMode": "Indexed",
    }))
    .with_status(json!({"completedIndexes": "0,x,3-y,5-6", "succeeded": 3}));
    world.sync();
    assert_eq!(world.job.status.completed_indexes.as_deref(), Some("0,5,6"));
    assert_eq!(world.counts().1, 3);
}

#[test]
fn a_failed_pod_stays_until_its_index_has_another_one() {
    let mut world = World::new(json!({
        "parallelism": 1, "completions": 1, "completionMode": "Indexed", "backoffLimitPerIndex": 2,
    }));
    world.pod(|pod| (pod.phase, pod.index) = (Failed, Some(0)));
    world.settle();
    assert_eq!(world.counts(), (0, 0, 0));
    assert!(world.pods["p1"].tracked);
    world.pass(10);
    world.settle();
    assert!(!world.pods["p1"].tracked);
    assert_eq!(world.counts(), (1, 0, 1));
    let new = world.pods.values().find(|pod| pod.is_active()).unwrap();
    assert_eq!((new.index, new.failures), (Some(0), 1));
}

#[test]
fn an_index_that_has_failed_lets_its_pod_go() {
    let mut world = World::new(json!({
        "parallelism": 1, "completions": 2, "completionMode": "Indexed", "backoffLimitPerIndex": 1,
    }));
    world.pod(|pod| (pod.phase, pod.index, pod.failures) = (Failed, Some(0), 1));
    world.settle();
    assert_eq!(world.job.status.failed_indexes.as_deref(), Some("0"));
    assert_eq!(world.counts(), (1, 0, 1));
    assert!(!world.pods["p1"].tracked);
}

#[test]
fn where_failures_are_counted_per_index_there_is_a_list_even_when_it_is_empty() {
    for (limit, expected) in [(json!(1), Some("")), (json!(null), None)] {
        let mut world = World::new(json!({
            "parallelism": 1, "completions": 1, "completionMode": "Indexed",
            "backoffLimitPerIndex": limit,
        }));
        world.settle();
        assert_eq!(world.job.status.failed_indexes.as_deref(), expected);
    }
}

#[test]
fn an_index_that_has_failed_does_not_succeed_any_more() {
    let mut world = World::new(json!({
        "parallelism": 1, "completions": 3, "completionMode": "Indexed", "backoffLimitPerIndex": 0,
    }))
    .with_status(json!({"failedIndexes": "1", "failed": 1}));
    world.pod(|pod| (pod.phase, pod.index) = (Succeeded, Some(1)));
    world.settle();
    let status = &world.job.status;
    assert_eq!(status.failed_indexes.as_deref(), Some("1"));
    assert_eq!((world.counts().1, world.pods["p1"].tracked), (0, false));
}

#[test]
fn a_list_that_alone_is_damaged_is_written_anew_and_an_empty_one_is_none() {
    let mut world = World::new(json!({
        "parallelism": 0, "completions": 3, "completionMode": "Indexed",
    }));
    world.settle();
    world.job.status.completed_indexes = None;
    assert!(world.plan().steps.is_empty());
    world.job.status.completed_indexes = Some("0".to_owned());
    world.job.status.succeeded = Some(1);
    assert!(world.plan().steps.is_empty());
    world.job.status.completed_indexes = Some("0,x".to_owned());
    world.settle();
    assert_eq!(world.job.status.completed_indexes.as_deref(), Some("0"));
}
