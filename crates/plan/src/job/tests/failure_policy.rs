//! Pod failure policies, as they meet the rest of a Job.

use serde_json::{Value, json};

use super::world::World;
use crate::pod::Failure;
use crate::pod::PodPhase::{Failed, Running, Succeeded};

fn rule(action: &str, codes: &[i32]) -> Value {
    json!({"action": action, "onExitCodes": {"operator": "In", "values": codes}})
}

/// A Job of one pod with these rules.
fn ruled(limit: i32, rules: &[Value]) -> World {
    World::new(json!({
        "parallelism": 1, "completions": 1, "backoffLimit": limit,
        "podFailurePolicy": {"rules": rules},
    }))
}

fn exited(code: i32) -> Failure {
    Failure {
        exits: [("main".into(), code)].into(),
        conditions: [].into(),
    }
}

#[test]
fn a_job_that_is_going_to_fail_keeps_its_message_though_another_pod_would_give_one() {
    let message = "Container main for pod ops/gone failed with exit code 5 \
                   matching FailJob rule at index 1";
    let target = json!({"type": "FailureTarget", "status": "True", "reason": "PodFailurePolicy",
        "message": message});
    let mut world = ruled(6, &[rule("Ignore", &[9]), rule("FailJob", &[5])])
        .with_status(json!({"conditions": [target], "startTime": "2023-11-14T22:13:00Z"}));
    world.pod(|pod| {
        pod.phase = Failed;
        pod.failure = Some(exited(5).into());
    });
    world.settle();
    assert_eq!(world.counts(), (0, 0, 1));
    let conditions = world.job.status.conditions.clone().unwrap();
    let told = conditions
        .iter()
        .map(|known| (&*known.type_, known.message.as_deref()));
    assert!(told.eq([("FailureTarget", Some(message)), ("Failed", Some(message))]));
}

#[test]
fn a_container_that_has_ended_decides_nothing_while_its_pod_runs() {
    for action in ["FailJob", "Ignore", "Count"] {
        let mut world = ruled(0, &[rule(action, &[5])]);
        world.pod(|pod| {
            pod.phase = Running;
            pod.failure = Some(exited(5).into());
        });
        world.settle();
        assert_eq!(world.counts(), (1, 0, 0), "{action}");
        assert!(world.conditions().is_empty(), "{action}");
    }
}

#[test]
fn a_pod_that_is_told_to_stop_has_not_failed_under_a_policy_until_it_has_ended() {
    let on_disruption = json!({"action": "Count", "onPodConditions": [
        {"type": "DisruptionTarget", "status": "True"}]});
    let mut world = ruled(0, &[on_disruption]);
    world.pod(|pod| (pod.phase, pod.deleting, pod.assigned) = (Running, true, true));
    world.settle();
    assert_eq!(
        (world.counts(), world.job.status.terminating),
        ((0, 0, 0), Some(1))
    );
    assert!(world.conditions().is_empty());
    world.end("p1", Failed, 143);
    world.settle();
    assert_eq!(world.counts(), (0, 0, 1));
    assert!(world.job.has("Failed"));
}

#[test]
fn an_operator_that_dies_while_it_fails_a_job_leaves_the_reason_behind_also_without_the_pod() {
    for writes in 0..9 {
        let mut world = ruled(6, &[rule("FailJob", &[42])]);
        world.sync();
        let name = world.names().remove(0);
        world.end(&name, Failed, 42);
        world.sync_until(writes);
        // Nobody holds it any more, and its namesakes may go, too.
        if !world.pods[name.as_str()].tracked {
            world.pods.clear();
        }
        world.backoff = super::super::backoff::BackoffRecord::default();
        world.settle();
        let failed = ("Failed", "True", "PodFailurePolicy");
        assert_eq!(world.conditions()[1], failed, "after {writes} writes");
        assert_eq!(world.counts(), (0, 0, 1), "after {writes} writes");
    }
}

#[test]
fn the_indexes_that_have_failed_are_forgotten_where_failures_are_not_counted_per_index() {
    for (limit, expected) in [(json!(1), Some("0")), (json!(null), None)] {
        let mut world = World::new(json!({
            "parallelism": 2, "completions": 3, "completionMode": "Indexed",
            "backoffLimitPerIndex": limit,
        }))
        .with_status(json!({"failedIndexes": "0", "completedIndexes": "1", "succeeded": 1}));
        world.pod(|pod| (pod.phase, pod.index) = (Succeeded, Some(2)));
        world.sync();
        let status = &world.job.status;
        assert_eq!(status.failed_indexes.as_deref(), expected, "{limit}");
        assert_eq!(status.completed_indexes.as_deref(), Some("1,2"), "{limit}");
    }
}
