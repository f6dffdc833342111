//! When and how a Job ends.

use serde_json::{Value, json};

use super::super::action::Action;
use super::world::{World, uid};
use crate::pod::PodPhase::{Failed, Pending, Running, Succeeded};

fn ended(world: &World) -> Vec<(&str, &str)> {
    let conditions = world.conditions();
    conditions
        .into_iter()
        .map(|(type_, _, reason)| (type_, reason))
        .collect()
}

#[test]
fn a_job_says_that_it_will_end_and_then_that_it_has() {
    let mut world = World::new(json!({"parallelism": 1, "completions": 1}));
    world.sync();
    let name = world.names().remove(0);
    world.end(&name, Succeeded, 0);
    world.sync();
    assert_eq!(
        ended(&world),
        [("SuccessCriteriaMet", "CompletionsReached")]
    );
    world.sync();
    let both = [
        ("SuccessCriteriaMet", "CompletionsReached"),
        ("Complete", "CompletionsReached"),
    ];
    assert_eq!(ended(&world), both);
    let status = &world.job.status;
    assert_eq!(
        (world.counts(), status.completion_time.is_some()),
        ((0, 1, 0), true)
    );
    assert_eq!(world.notes, ["Completed"]);
    assert!(world.plan().steps.is_empty());
}

#[test]
fn a_work_queue_ends_when_one_has_succeeded_and_none_runs() {
    let mut world = World::new(json!({"parallelism": 2}));
    world.sync();
    let names = world.names();
    world.end(&names[0], Succeeded, 0);
    world.settle();
    assert_eq!((world.counts(), ended(&world).len()), ((1, 1, 0), 0));
    world.end(&names[1], Failed, 1);
    world.settle();
    assert_eq!(world.counts(), (0, 1, 1));
    assert!(world.job.has("Complete"));
}

#[test]
fn a_pod_that_was_listed_as_failed_and_ends_well_completes_no_job() {
    let queue = json!({"parallelism": 1});
    let indexed = json!({"parallelism": 1, "completions": 1, "completionMode": "Indexed"});
    for (spec, index) in [(queue, None), (indexed, Some(0))] {
        let listed = json!({"uncountedTerminatedPods": {"failed": [uid(1).to_string()]}});
        let mut world = World::new(spec).with_status(listed);
        world.pod(|pod| {
            (pod.phase, pod.deleting, pod.index) = (Succeeded, true, index);
        });
        world.settle();
        // Another one is to succeed.
        assert_eq!((world.counts(), ended(&world).len()), ((1, 0, 1), 0));
    }
}

#[test]
fn a_job_without_completions_completes_at_once_also_while_it_is_suspended() {
    for suspend in [false, true] {
        let spec = json!({"parallelism": 1, "completions": 0, "suspend": suspend});
        let mut world = World::new(spec);
        world.settle();
        assert!(world.job.has("Complete") && !world.job.has("Suspended"));
        assert_eq!(world.job.status.start_time.is_none(), suspend);
    }
}

#[test]
fn more_failures_than_the_limit_fail_the_job() {
    for (limit, failures, fails) in [(6, 6, false), (6, 7, true), (0, 0, false), (0, 1, true)] {
        let mut world =
            World::new(json!({"parallelism": 1, "completions": 9, "backoffLimit": limit}));
        world.pods_in(Failed, failures);
        world.settle();
        assert_eq!(world.job.has("Failed"), fails, "{limit} {failures}");
    }
}

#[test]
fn restarts_count_against_the_limit_while_containers_restart_in_their_pod() {
    let template = json!({"spec": {"restartPolicy": "OnFailure"}});
    for (limit, restarts, phase, fails) in [
        (0, 0, Running, false),
        (0, 1, Running, true),
        (2, 1, Running, false),
        (2, 2, Pending, true),
        (2, 2, Succeeded, false),
    ] {
        let mut world = World::new(json!({
            "parallelism": 2, "completions": 9, "backoffLimit": limit, "template": template,
        }));
        world.pod(|pod| (pod.phase, pod.restarts.sum) = (phase, restarts));
        world.sync();
        assert_eq!(
            world.job.has("FailureTarget"),
            fails,
            "{limit} {restarts} {phase:?}"
        );
    }
}

#[test]
fn a_job_that_fails_stops_its_pods_and_counts_them_as_failed() {
    let mut world = World::new(json!({"parallelism": 3, "completions": 9, "backoffLimit": 0}));
    world.pods_in(Running, 2);
    world.pods.values_mut().for_each(|pod| {
        pod.assigned = true;
        pod.ready = Some(pod.created);
    });
    world.pods_in(Failed, 1);
    world.sync();
    let status = &world.job.status;
    assert_eq!(
        (status.ready, status.terminating, world.counts().0),
        (Some(0), Some(2), 0)
    );
    assert_eq!(ended(&world), [("FailureTarget", "BackoffLimitExceeded")]);
    world.settle();
    assert_eq!((world.counts(), ended(&world).len()), ((0, 0, 3), 1));
    for name in ["p1", "p2"] {
        world.end(name, Failed, 137);
    }
    world.settle();
    let failed = ("Failed", "BackoffLimitExceeded");
    assert_eq!((world.counts(), ended(&world)[1]), ((0, 0, 3), failed));
    assert_eq!(world.notes, ["BackoffLimitExceeded"]);
}

#[test]
fn nothing_is_told_of_an_end_before_every_pod_was_told_to_stop() {
    let mut world = World::new(json!({"parallelism": 3, "completions": 9, "backoffLimit": 0}));
    world.pods_in(Running, 2);
    world.pods_in(Failed, 1);
    let plan = world.plan();
    let stops = |action: &Action| matches!(action, Action::StopPod { .. });
    assert!(plan.steps[0].actions.iter().all(stops));
    assert_eq!(plan.steps[0].on_error, crate::OnError::Stop);
}

#[test]
fn the_deadline_counts_from_the_start_and_not_while_the_job_is_suspended() {
    for (seconds, passed, suspend, fails) in [
        (0, 0, false, true),
        (10, 9, false, false),
        (10, 10, false, true),
        (10, 99, true, false),
    ] {
        let mut world = World::new(json!({
            "parallelism": 1, "completions": 1, "activeDeadlineSeconds": seconds,
        }));
        if passed > 0 {
            world.settle();
            let start = world.plan().wake;
            assert_eq!(
                start,
                world
                    .now
                    .checked_add(jiff::SignedDuration::from_secs(10))
                    .ok()
            );
        }
        world.job.spec.suspend = suspend;
        world.pass(passed);
        world.sync();
        let case = (seconds, passed, suspend);
        assert_eq!(world.job.has("FailureTarget"), fails, "{case:?}");
        if fails {
            assert_eq!(ended(&world), [("FailureTarget", "DeadlineExceeded")]);
        }
    }
}

#[test]
fn the_backoff_limit_is_told_before_the_deadline() {
    let mut world = World::new(json!({
        "parallelism": 1, "completions": 1, "activeDeadlineSeconds": 0, "backoffLimit": 0,
    }));
    world.pods_in(Failed, 1);
    world.sync();
    assert_eq!(ended(&world), [("FailureTarget", "BackoffLimitExceeded")]);
}

#[test]
fn what_was_decided_stays_whatever_the_pods_do() {
    let interim = |type_: &str, status: &str| json!({"conditions": [{"type": type_, "status": status, "reason": "R", "message": "M"}]});
    let run = |stored: Value, limit: i32| {
        let mut world =
            World::new(json!({"parallelism": 1, "completions": 1, "backoffLimit": limit}))
                .with_status(stored);
        world.pods_in(Failed, 1);
        world.settle();
        world
    };
    let success = run(interim("SuccessCriteriaMet", "True"), 0);
    assert_eq!(ended(&success)[1..], [("Complete", "R")]);
    let failure = run(interim("FailureTarget", "True"), 9);
    assert_eq!(ended(&failure)[1..], [("Failed", "R")]);
    for type_ in ["FailureTarget", "SuccessCriteriaMet"] {
        let none = run(interim(type_, "False"), 9);
        assert!(
            !none.job.has("Complete") && !none.job.has("Failed"),
            "{type_}"
        );
    }
}

#[test]
fn a_condition_that_was_false_becomes_true_in_its_place() {
    let stored = json!({"conditions": [
        {"type": "Failed", "status": "False", "reason": "", "message": ""},
        {"type": "Other", "status": "True"},
    ]});
    let mut world = World::new(json!({"parallelism": 1, "completions": 1, "backoffLimit": 0}))
        .with_status(stored);
    world.pods_in(Failed, 1);
    world.settle();
    assert_eq!(ended(&world)[0], ("Failed", "BackoffLimitExceeded"));
    assert_eq!(ended(&world).len(), 3);
}

#[test]
fn what_will_happen_is_said_in_the_place_of_its_denial_and_with_strict_parity_beside_it() {
    for (strict, managed_by, told) in [
        (false, json!(null), 1),
        (true, json!(null), 2),
        (true, json!("carillon.dev/job-controller"), 1),
    ] {
        let spec =
            json!({"parallelism": 1, "completions": 1, "backoffLimit": 0, "managedBy": managed_by});
        let mut world = World::new(spec).with_status(json!({"conditions": [
            {"type": "FailureTarget", "status": "False", "reason": "", "message": ""},
        ]}));
        world.limits.strict_parity = strict;
        world.pods_in(Failed, 1);
        world.settle();
        let mut all = ended(&world);
        all.retain(|(type_, _)| *type_ == "FailureTarget");
        assert_eq!((all.len(), world.job.has("Failed")), (told, true));
    }
}

fn policy(rules: &Value) -> World {
    World::new(json!({
        "parallelism": 1, "completions": 2, "backoffLimit": 0, "podFailurePolicy": {"rules": rules},
    }))
}

#[test]
fn a_rule_that_fails_the_job_says_which_pod_and_rule() {
    let rules = json!([{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}]);
    let mut world = policy(&rules);
    world.sync();
    let name = world.names().remove(0);
    world.end(&name, Failed, 42);
    world.settle();
    let conditions = world.job.status.conditions.clone().unwrap();
    let expected = format!(
        "Container main for pod ops/{name} failed with exit code 42 matching FailJob rule at index 0"
    );
    assert!(
        conditions
            .iter()
            .all(|known| known.message.as_deref() == Some(&*expected))
    );
    assert_eq!(ended(&world)[1], ("Failed", "PodFailurePolicy"));
    // Also once the pod is gone.
    let mut world = policy(&rules);
    world.sync();
    let name = world.names().remove(0);
    world.end(&name, Failed, 42);
    world.sync();
    world.pods.clear();
    world.settle();
    assert_eq!(ended(&world)[1], ("Failed", "PodFailurePolicy"));
}

#[test]
fn a_failure_that_is_ignored_is_not_counted_and_yet_waited_for() {
    let rules = json!([{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [7]}}]);
    let mut world = policy(&rules);
    world.sync();
    let name = world.names().remove(0);
    world.end(&name, Failed, 7);
    let wake = world.plan().wake;
    world.settle();
    assert_eq!((world.counts(), wake.is_some()), ((0, 0, 0), true));
    assert!(!world.job.has("FailureTarget"));
    world.pass(10);
    world.settle();
    assert_eq!(world.counts(), (1, 0, 0));
}

fn per_index(spec: &Value) -> World {
    let mut all = json!({
        "parallelism": 3, "completions": 3, "completionMode": "Indexed", "backoffLimitPerIndex": 0,
    });
    for (key, value) in spec.as_object().unwrap() {
        all[key] = value.clone();
    }
    World::new(all)
}

#[test]
fn a_job_with_failed_indexes_fails_when_all_have_ended_or_too_many_have_failed() {
    for (most, ends) in [
        (json!(null), [None, Some("FailedIndexes")]),
        (json!(0), [Some("MaxFailedIndexesExceeded"); 2]),
        (json!(1), [None, Some("FailedIndexes")]),
    ] {
        let mut world = per_index(&json!({"maxFailedIndexes": most}));
        world.pod(|pod| (pod.phase, pod.index) = (Failed, Some(0)));
        for (index, end) in [1, 2].into_iter().zip(ends) {
            world.pod(|pod| (pod.phase, pod.index) = (Succeeded, Some(index)));
            let mut world = world.clone();
            world.sync();
            let found = world
                .conditions()
                .first()
                .map(|(_, _, reason)| reason.to_string());
            assert_eq!(found.as_deref(), end, "{most} {index}");
        }
    }
}

#[test]
fn a_rule_may_fail_an_index_before_its_limit_and_the_job_goes_first() {
    for (action, end) in [("FailIndex", None), ("FailJob", Some("PodFailurePolicy"))] {
        let rules = json!({"rules": [
            {"action": action, "onExitCodes": {"operator": "In", "values": [5]}}]});
        let mut world = per_index(&json!({"backoffLimitPerIndex": 9, "podFailurePolicy": rules}));
        world.sync();
        let (name, index) = {
            let (name, pod) = world.pods.first_key_value().unwrap();
            (name.to_string(), pod.index.unwrap())
        };
        world.end(&name, Failed, 5);
        world.sync();
        let status = &world.job.status;
        let expected = if end.is_none() {
            index.to_string()
        } else {
            String::new()
        };
        assert_eq!(
            status.failed_indexes.as_deref(),
            Some(&*expected),
            "{action}"
        );
        let found = world
            .conditions()
            .first()
            .map(|(_, _, reason)| reason.to_string());
        assert_eq!(found.as_deref(), end);
    }
}

fn early(limit: i32) -> World {
    World::new(json!({
        "parallelism": 3, "completions": 3, "completionMode": "Indexed", "backoffLimit": limit,
        "successPolicy": {"rules": [{"succeededIndexes": "1"}]},
    }))
}

#[test]
fn a_job_that_has_succeeded_early_stops_the_others_without_counting_them() {
    let mut world = early(6);
    for (phase, index) in [(Running, 0), (Succeeded, 1), (Pending, 2)] {
        world.pod(|pod| (pod.phase, pod.index) = (phase, Some(index)));
    }
    world.pods.values_mut().for_each(|pod| pod.assigned = true);
    world.sync();
    assert_eq!(ended(&world), [("SuccessCriteriaMet", "SuccessPolicy")]);
    world.settle();
    assert!(!world.job.has("Complete"));
    for name in ["p1", "p3"] {
        world.end(name, Failed, 137);
    }
    world.settle();
    assert_eq!(
        (world.counts(), ended(&world)[1]),
        ((0, 1, 0), ("Complete", "SuccessPolicy"))
    );
}

#[test]
fn a_job_that_ends_while_it_is_suspended_has_a_start() {
    let mut world = World::new(json!({"completions": 1}));
    world.sync();
    world.pods.values_mut().for_each(|pod| pod.assigned = true);
    world.job.spec.suspend = true;
    world.pods_in(Succeeded, 1);
    world.settle();
    for name in world.names() {
        world.end(&name, Failed, 137);
    }
    world.settle();
    assert!(world.job.has("Complete"), "{:?}", world.job.status);
    assert!(world.job.status.start_time.is_some());
}

#[test]
fn a_job_does_not_end_before_it_was_started_whatever_the_clock_says() {
    let mut world = World::new(json!({"completions": 1}));
    world.sync();
    let started = world.job.status.start_time.clone();
    world.pass(-60);
    let name = world.names().remove(0);
    world.end(&name, Succeeded, 0);
    world.settle();
    assert!(world.job.has("Complete"));
    assert_eq!(world.job.status.completion_time, started);
}

#[test]
fn what_is_still_seen_of_pods_that_were_released_at_the_end_changes_no_count() {
    let mut success = early(6);
    success.pod(|pod| (pod.phase, pod.index) = (Succeeded, Some(1)));
    let mut failure = per_index(&json!({"maxFailedIndexes": 0, "backoffLimitPerIndex": 0}));
    failure.pod(|pod| (pod.phase, pod.index) = (Failed, Some(1)));
    for (mut world, failed, indexes) in [(success, 0, None), (failure, 3, Some("1"))] {
        for index in [0, 2] {
            world.pod(|pod| (pod.phase, pod.index) = (Running, Some(index)));
        }
        world.pods.values_mut().for_each(|pod| pod.assigned = true);
        world.sync();
        // The cache has seen the deletions, but not that our finalizer was removed.
        for pod in world.pods.values_mut() {
            (pod.tracked, pod.deleting) = (true, true);
        }
        world.settle();
        for name in world.names() {
            world.end(&name, Failed, 137);
        }
        world.settle();
        assert_eq!(world.counts().2, failed);
        assert_eq!(world.job.status.failed_indexes.as_deref(), indexes);
    }
}

#[test]
fn a_failure_comes_before_an_early_success_of_the_same_moment() {
    let mut world = early(0);
    world.pod(|pod| (pod.phase, pod.index) = (Failed, Some(0)));
    world.pod(|pod| (pod.phase, pod.index) = (Succeeded, Some(1)));
    world.sync();
    assert_eq!(ended(&world), [("FailureTarget", "BackoffLimitExceeded")]);
}

#[test]
fn more_successes_than_were_asked_for_are_told() {
    let mut world = World::new(json!({"parallelism": 1, "completions": 1}));
    world.pods_in(Succeeded, 2);
    world.settle();
    assert_eq!(world.notes, ["TooManySucceededPods", "Completed"]);
}

#[test]
fn a_job_that_has_ended_lets_go_of_pods_and_does_nothing_else() {
    let complete = json!({"succeeded": 1, "conditions": [{"type": "Complete", "status": "True"}]});
    let mut world = World::new(json!({"parallelism": 1, "completions": 5})).with_status(complete);
    world.pods_in(Running, 1);
    let plan = world.sync();
    assert_eq!(plan.steps.len(), 1);
    assert!(!world.pods["p1"].tracked);
    assert!(world.plan().steps.is_empty());
}

#[test]
fn a_job_is_deleted_when_its_time_to_live_is_over() {
    for (ttl, passed, deleted) in [(0, 0, true), (5, 4, false), (5, 5, true)] {
        let ended = json!({"conditions": [{
            "type": "Failed", "status": "True", "lastTransitionTime": "2023-11-14T22:13:20Z",
        }]});
        let mut world = World::new(json!({"ttlSecondsAfterFinished": ttl})).with_status(ended);
        world.pass(passed);
        world.sync();
        assert_eq!(world.deleted, deleted, "{ttl} {passed}");
    }
}

#[test]
fn a_job_of_a_mode_that_is_not_known_is_left_alone() {
    let mut world = World::new(json!({"completionMode": "Later", "parallelism": 3}));
    let plan = world.sync();
    assert!(plan.steps.is_empty());
    assert_eq!(world.notes, ["UnknownCompletionMode"]);
}

#[test]
fn a_job_that_ends_is_planned_again_at_once_unless_it_only_waits_for_its_pods() {
    let target = json!({"terminating": 1, "ready": 0, "uncountedTerminatedPods": {},
        "startTime": "2023-11-14T22:13:00Z", "conditions": [{"type": "FailureTarget",
        "status": "True", "reason": "DeadlineExceeded"}]});
    let mut world = World::new(json!({"parallelism": 2, "completions": 2})).with_status(target);
    world.pod(|pod| (pod.phase, pod.deleting, pod.tracked) = (Running, true, false));
    let waits = world.plan();
    assert!(waits.steps.is_empty() && !waits.again, "{waits:?}");
    world.pod(|pod| pod.phase = Failed);
    let counts = world.plan();
    assert!(!counts.steps.is_empty() && counts.again, "{counts:?}");
    world.settle();
    let waiting = world.names();
    world.pods.remove(waiting[0].as_str());
    assert!(world.plan().again);
}

#[test]
fn a_job_whose_indexes_may_fail_is_complete_when_none_has() {
    let mut world = World::new(json!({
        "parallelism": 2, "completions": 2, "completionMode": "Indexed", "backoffLimitPerIndex": 1,
    }));
    for index in [0, 1] {
        world.pod(|pod| (pod.phase, pod.index) = (Succeeded, Some(index)));
    }
    world.settle();
    assert!(world.job.has("Complete") && !world.job.has("FailureTarget"));
}
