//! What is counted when, and whose finalizer is taken then: upstream's cases with their numbers.

use serde_json::{Value, json};

use super::super::action::{Action, Plan};
use super::world::{World, uid};
use crate::pod::PodPhase::{self, Failed, Pending, Running, Succeeded};

fn text(n: u64) -> String {
    uid(n).to_string()
}

/// A Job that creates nothing.
fn idle(status: Value) -> World {
    World::new(json!({"parallelism": 0, "completions": 999})).with_status(status)
}

/// A pod in this phase, with or without our finalizer.
fn add(world: &mut World, phase: PodPhase, tracked: bool, deleting: bool) {
    world.pod(|pod| (pod.phase, pod.tracked, pod.deleting) = (phase, tracked, deleting));
}

fn released(plan: &Plan) -> usize {
    let actions = plan.steps.iter().flat_map(|step| &step.actions);
    actions
        .filter(|action| matches!(action, Action::ReleasePod { .. }))
        .count()
}

/// How many uids the status keeps: of pods that succeeded, and of failed ones.
fn kept(world: &World) -> (usize, usize) {
    let lists = world.job.status.uncounted_terminated_pods.as_ref().unwrap();
    let many = |uids: &Option<Vec<String>>| uids.as_ref().map_or(0, Vec::len);
    (many(&lists.succeeded), many(&lists.failed))
}

#[test]
fn only_pods_with_our_finalizer_that_are_not_stored_yet_are_new() {
    let mut counted = idle(json!({"succeeded": 2, "failed": 1}));
    for (phase, tracked) in [
        (Succeeded, false),
        (Succeeded, true),
        (Succeeded, true),
        (Failed, false),
        (Failed, true),
    ] {
        add(&mut counted, phase, tracked, false);
    }
    let mut stored = idle(
        json!({"succeeded": 1, "failed": 1, "uncountedTerminatedPods": {
            "succeeded": [text(1), text(3)], "failed": [text(5), text(6)],
        }}),
    );
    for (phase, tracked) in [
        (Succeeded, false),
        (Succeeded, false),
        (Succeeded, true),
        (Succeeded, true),
        (Failed, false),
        (Failed, true),
        (Failed, true),
    ] {
        add(&mut stored, phase, tracked, false);
    }
    for (mut world, succeeded, failed) in [(counted, 4, 2), (stored, 4, 4)] {
        world.settle();
        assert_eq!(world.counts(), (0, succeeded, failed));
        assert!(world.pods.values().all(|pod| !pod.tracked));
    }
}

#[test]
fn pods_that_are_told_to_stop_have_failed_unless_they_have_succeeded() {
    let mut world = idle(json!({"succeeded": 1, "failed": 1}));
    for (phase, tracked) in [
        (Succeeded, true),
        (Failed, true),
        (Running, true),
        (Pending, true),
        (Running, false),
        (Pending, false),
    ] {
        add(&mut world, phase, tracked, true);
    }
    world.settle();
    assert_eq!(world.counts(), (0, 2, 4));
}

#[test]
fn uids_of_before_and_new_ones_are_moved_by_the_same_write() {
    let mut world = idle(
        json!({"succeeded": 2, "failed": 3, "uncountedTerminatedPods": {
            "succeeded": [text(4), text(1)], "failed": [text(5), text(99)],
        }}),
    );
    for (phase, tracked) in [
        (Succeeded, false),
        (Failed, false),
        (Pending, false),
        (Succeeded, true),
        (Failed, true),
        (Succeeded, true),
        (Failed, true),
    ] {
        add(&mut world, phase, tracked, false);
    }
    world.job.spec.parallelism = 1;
    assert_eq!(released(&world.plan()), 4);
    world.sync();
    assert_eq!((world.counts(), kept(&world)), ((1, 3, 4), (2, 2)));
    world.sync();
    assert_eq!((world.counts(), kept(&world)), ((1, 5, 6), (0, 0)));
}

#[test]
fn while_finalizers_cannot_be_taken_uids_stay_and_what_went_through_is_stored() {
    let mut world = idle(json!({"uncountedTerminatedPods": {
        "succeeded": [text(1)], "failed": [text(99)],
    }}));
    add(&mut world, Succeeded, false, false);
    add(&mut world, Succeeded, true, false);
    add(&mut world, Failed, true, false);
    // The status is written, and nothing after it.
    world.sync_until(1);
    assert_eq!((world.counts(), kept(&world)), ((0, 1, 1), (1, 1)));
    let plan = world.plan();
    let actions = plan.steps.iter().map(|step| step.actions.len());
    assert_eq!((released(&plan), actions.sum::<usize>()), (2, 2));
    world.settle();
    assert_eq!((world.counts(), kept(&world)), ((0, 2, 2), (0, 0)));
}

#[test]
fn no_more_than_five_hundred_are_counted_at_once_with_those_of_before() {
    let mut world = idle(json!({"uncountedTerminatedPods": {"failed": [text(900), text(501)]}}));
    world.pods_in(Succeeded, 500);
    add(&mut world, Failed, true, false);
    // The last one to be looked at.
    let last = world.pods.remove("p501").unwrap();
    world.pods.insert("z".into(), last);
    assert_eq!(released(&world.plan()), 499);
    world.sync();
    assert_eq!((world.counts(), kept(&world)), ((0, 0, 1), (499, 1)));
    world.settle();
    assert_eq!((world.counts(), kept(&world)), ((0, 500, 2), (0, 0)));
}

#[test]
fn no_more_than_five_hundred_indexes_are_completed_at_once_and_the_lowest_first() {
    let mut world = World::new(json!({
        "parallelism": 0, "completions": 501, "completionMode": "Indexed",
    }));
    for index in (0..501).rev() {
        world.pod(|pod| (pod.phase, pod.index) = (Succeeded, Some(index)));
    }
    assert_eq!(released(&world.plan()), 500);
    world.sync();
    let status = &world.job.status;
    assert_eq!(status.completed_indexes.as_deref(), Some("0-499"));
    assert_eq!((world.counts(), kept(&world)), ((0, 500, 0), (0, 0)));
    assert!(
        world
            .conditions()
            .iter()
            .all(|(type_, ..)| *type_ != "Complete")
    );
    world.settle();
    assert_eq!(world.counts().1, 501);
    assert!(world.job.has("Complete"));
}

#[test]
fn a_pod_that_is_stored_as_failed_stays_so_though_it_succeeds_after_all() {
    let mut world = World::new(json!({"parallelism": 2, "completions": 2})).with_status(json!({
        "uncountedTerminatedPods": {"failed": [text(1), text(2)]},
        "startTime": "2023-11-14T22:13:00Z",
        "conditions": [{"type": "FailureTarget", "status": "True", "reason": "R"}],
    }));
    world.pods_in(Failed, 1);
    world.pods_in(Succeeded, 1);
    assert_eq!(released(&world.plan()), 2);
    world.settle();
    assert_eq!(world.counts(), (0, 0, 2));
    assert!(world.job.has("Failed"));
}

#[test]
fn a_pod_that_is_stored_as_succeeded_stays_so_whatever_is_written_into_its_status_later() {
    let mut world = World::new(json!({"parallelism": 2, "completions": 2, "backoffLimit": 0}));
    world.settle();
    let names = world.names();
    world.end(&names[0], Succeeded, 0);
    // It is counted, and keeps our finalizer for now.
    world.sync_until(1);
    assert_eq!(kept(&world), (1, 0));
    world.end(&names[0], Failed, 1);
    world.settle();
    assert_eq!(world.counts(), (1, 1, 0));
    world.end(&names[1], Succeeded, 0);
    world.settle();
    assert!(world.job.has("Complete"));
}

#[test]
fn a_pod_that_still_stops_is_counted_and_puts_off_either_end() {
    for (target, end, succeeded) in [
        ("FailureTarget", "Failed", 0),
        ("SuccessCriteriaMet", "Complete", 1),
    ] {
        let mut stored = json!({"failed": [text(1)]});
        if succeeded > 0 {
            stored["succeeded"] = json!([text(9)]);
        }
        let mut world =
            World::new(json!({"parallelism": 1, "completions": 1})).with_status(json!({
                "uncountedTerminatedPods": stored, "startTime": "2023-11-14T22:13:00Z",
                "conditions": [{"type": target, "status": "True", "reason": "R"}],
            }));
        add(&mut world, Running, false, true);
        world.pods.get_mut("p1").unwrap().assigned = true;
        world.settle();
        assert_eq!(world.counts(), (0, succeeded, 1), "{end}");
        assert_eq!(kept(&world), (0, 0), "{end}");
        assert_eq!(world.conditions(), [(target, "True", "R")]);
        world.end("p1", Failed, 137);
        world.settle();
        assert_eq!(world.counts(), (0, succeeded, 1), "{end}");
        assert!(world.job.has(end));
    }
}

#[test]
fn a_pod_that_is_pending_when_the_job_has_succeeded_early_is_released_and_not_counted() {
    let mut world = World::new(json!({"parallelism": 3, "completions": 3})).with_status(json!({
        "startTime": "2023-11-14T22:13:00Z",
        "conditions": [{"type": "SuccessCriteriaMet", "status": "True", "reason": "SuccessPolicy"}],
    }));
    for phase in [Succeeded, Failed, Pending] {
        add(&mut world, phase, true, false);
    }
    assert_eq!(released(&world.plan()), 3);
    world.settle();
    assert_eq!(world.counts(), (0, 1, 1));
    assert!(world.job.has("Complete"));
}

#[test]
fn a_job_that_is_deleted_lets_its_running_pods_go_and_does_not_count_them() {
    let mut world = World::new(json!({"parallelism": 2, "completions": 5}));
    world.job.meta.deleting = true;
    for phase in [Pending, Running, Succeeded, Failed] {
        add(&mut world, phase, true, false);
    }
    assert_eq!(released(&world.plan()), 4);
    world.settle();
    assert_eq!(world.counts(), (2, 1, 1));
    assert_eq!(world.active(), 2, "nothing stops them");
}

/// The indexes that have completed and the count, after one plan.
fn completed(world: &mut World) -> (String, i32) {
    world.sync();
    let indexes = world.job.status.completed_indexes.clone();
    (indexes.unwrap_or_default(), world.counts().1)
}

#[test]
fn completed_indexes_beyond_lowered_completions_vanish_also_without_new_pods() {
    for (phase, expected) in [(Running, ("", 0)), (Succeeded, ("1", 1))] {
        let mut world = World::new(json!({
            "parallelism": 2, "completions": 2, "completionMode": "Indexed",
        }))
        .with_status(json!({"active": 2, "succeeded": 1, "completedIndexes": "3"}));
        world.pod(|pod| (pod.phase, pod.index) = (Running, Some(0)));
        world.pod(|pod| (pod.phase, pod.index) = (phase, Some(1)));
        let (indexes, succeeded) = completed(&mut world);
        assert_eq!((&*indexes, succeeded), expected);
    }
}

#[test]
fn a_failed_pod_of_an_index_counts_once_it_is_replaced_or_its_index_has_failed() {
    for (failures, replaced, failed, indexes) in
        [(0, false, 0, ""), (0, true, 1, ""), (1, false, 1, "1")]
    {
        let mut world = World::new(json!({
            "parallelism": 1, "completions": 6, "completionMode": "Indexed",
            "backoffLimitPerIndex": 1,
        }));
        // Lower indexes have a pod each, or would be begun before.
        world.pod(|pod| {
            (pod.phase, pod.index, pod.failures) = (Failed, Some(1), failures);
        });
        if replaced {
            world.pod(|pod| (pod.phase, pod.index, pod.failures) = (Running, Some(1), 1));
        }
        world.settle();
        let case = (failures, replaced);
        assert_eq!(world.counts().2, failed, "{case:?}");
        assert_eq!(world.pods["p1"].tracked, failed == 0, "{case:?}");
        let status = &world.job.status;
        assert_eq!(status.failed_indexes.as_deref(), Some(indexes), "{case:?}");
    }
}
