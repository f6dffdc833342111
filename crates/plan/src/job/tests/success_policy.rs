//! Success policies beside everything that fails a Job.

use serde_json::{Value, json};

use super::world::World;
use crate::pod::Failure;
use crate::pod::PodPhase::{Failed, Succeeded};

const RULES: &str = "Matched rules at index 0";

/// Two indexes of which one is enough, with changes to the spec.
fn one_of_two(spec: &Value) -> World {
    let mut all = json!({
        "parallelism": 2, "completions": 2, "completionMode": "Indexed", "backoffLimit": i32::MAX,
        "successPolicy": {"rules": [{"succeededIndexes": "0,1", "succeededCount": 1}]},
    });
    for (key, value) in spec.as_object().unwrap() {
        all[key] = value.clone();
    }
    World::new(all)
}

/// What can fail such a Job together with index 0: changes to the spec, failures of the index before,
/// the reason, and the indexes that have failed then.
fn ways_to_fail() -> [(Value, u32, &'static str, Option<&'static str>); 3] {
    let rules = json!({"rules": [{"action": "FailJob", "onPodConditions": [
        {"type": "DisruptionTarget", "status": "True"}]}]});
    let by_rule = json!({"podFailurePolicy": rules});
    let per_index = json!({"backoffLimitPerIndex": 1});
    [
        (by_rule, 0, "PodFailurePolicy", None),
        (per_index, 1, "FailedIndexes", Some("0")),
        (json!({"backoffLimit": 0}), 0, "BackoffLimitExceeded", None),
    ]
}

/// Index 0 has failed, and index 1 has succeeded.
fn both(world: &mut World, failures: u32) {
    let disrupted = Failure {
        exits: [].into(),
        conditions: [("DisruptionTarget".into(), "True".into())].into(),
    };
    world.pod(|pod| {
        (pod.phase, pod.index, pod.failures) = (Failed, Some(0), failures);
        pod.failure = Some(disrupted.into());
    });
    world.pod(|pod| (pod.phase, pod.index) = (Succeeded, Some(1)));
}

#[test]
fn whatever_fails_a_job_comes_before_its_early_success_of_the_same_moment() {
    for (spec, failures, reason, failed) in ways_to_fail() {
        let mut world = one_of_two(&spec);
        both(&mut world, failures);
        world.settle();
        let ends = [
            ("FailureTarget", "True", reason),
            ("Failed", "True", reason),
        ];
        assert_eq!(world.conditions(), ends);
        assert_eq!(world.counts(), (0, 1, 1), "{reason}");
        let status = &world.job.status;
        assert_eq!(status.completed_indexes.as_deref(), Some("1"), "{reason}");
        assert_eq!(status.failed_indexes.as_deref(), failed, "{reason}");
    }
}

#[test]
fn a_job_that_has_succeeded_early_never_fails_and_keeps_the_reason_for_its_end() {
    for (spec, failures, reason, failed) in ways_to_fail() {
        let met = json!({"type": "SuccessCriteriaMet", "status": "True",
            "reason": "SuccessPolicy", "message": RULES});
        let mut world = one_of_two(&spec).with_status(json!({
            "startTime": "2023-11-14T22:13:00Z", "succeeded": 1, "completedIndexes": "1",
            "conditions": [met],
        }));
        both(&mut world, failures);
        world.settle();
        let ends = [
            ("SuccessCriteriaMet", "True", "SuccessPolicy"),
            ("Complete", "True", "SuccessPolicy"),
        ];
        assert_eq!(world.conditions(), ends, "{reason}");
        assert_eq!(world.counts(), (0, 1, 1), "{reason}");
        let status = &world.job.status;
        assert_eq!(status.failed_indexes.as_deref(), failed, "{reason}");
        let conditions = status.conditions.iter().flatten();
        let told: Vec<_> = conditions.map(|known| known.message.as_deref()).collect();
        assert_eq!(told, [Some(RULES); 2]);
    }
}

#[test]
fn a_job_that_is_going_to_fail_never_succeeds_early() {
    let message = "Pod ops/p1 has condition DisruptionTarget matching FailJob rule at index 0";
    let target = json!({"type": "FailureTarget", "status": "True", "reason": "PodFailurePolicy",
        "message": message});
    let (spec, ..) = &ways_to_fail()[0];
    let mut world = one_of_two(spec).with_status(json!({
        "startTime": "2023-11-14T22:13:00Z", "failed": 1, "completedIndexes": "1",
        "conditions": [target],
    }));
    both(&mut world, 0);
    // It was counted before.
    world.pods.get_mut("p1").unwrap().tracked = false;
    world.settle();
    let reason = "PodFailurePolicy";
    let ends = [
        ("FailureTarget", "True", reason),
        ("Failed", "True", reason),
    ];
    assert_eq!(world.conditions(), ends);
    assert_eq!(world.counts(), (0, 1, 1));
}

#[test]
fn a_job_completes_for_its_policy_also_when_its_pods_have_ended_otherwise() {
    let met = json!({"type": "SuccessCriteriaMet", "status": "True", "reason": "SuccessPolicy",
        "message": RULES});
    let mut world = one_of_two(&json!({"backoffLimitPerIndex": 2})).with_status(json!({
        "startTime": "2023-11-14T22:13:00Z", "conditions": [met],
    }));
    both(&mut world, 0);
    world.settle();
    let ends = [
        ("SuccessCriteriaMet", "True", "SuccessPolicy"),
        ("Complete", "True", "SuccessPolicy"),
    ];
    assert_eq!(
        (world.conditions(), world.counts()),
        (ends.into(), (0, 1, 1))
    );
    let status = &world.job.status;
    assert_eq!(status.failed_indexes.as_deref(), Some(""));
}
