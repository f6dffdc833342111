//! What changes while a job runs: parallelism, policies, pauses, requests, machines.

use carillon_api::NodeState::{Disrupted, Failed, Skipped, Succeeded};
use carillon_api::condition::{reasons, results, types};
use serde_json::json;

use super::world::World;
use crate::broadcast_job::Refused;

/// Two nodes that have failed and may be tried again by request only.
fn two_that_failed() -> World {
    let mut world = World::new(
        3,
        json!({
            "parallelism": 3, "executionPolicy": "AtMostOnce", "failurePolicy": {"type": "Continue"},
        }),
    );
    world.start();
    world.end("n0000", 1);
    world.end("n0001", 1);
    world.settle();
    world
}

#[test]
fn at_most_once_a_retry_that_was_withdrawn_is_made_up_for_though_its_request_is_gone() {
    let mut world = two_that_failed();
    world.retry = Some(world.pod_of("n0000", 1));
    world.settle();
    world.cordon("n0000");
    world.settle();
    let withdrawn = (Disrupted, results::WITHDRAWN.to_owned());
    assert_eq!(world.attempts("n0000")[1], withdrawn);
    world.retry = Some(world.pod_of("n0001", 1));
    world.node("n0000").unschedulable = false;
    world.start();
    world.end_all();
    world.settle();
    let succeeded = (Succeeded, String::new());
    assert_eq!(world.attempts("n0000")[2], succeeded);
    assert_eq!(world.attempts("n0001")[1], succeeded);
    assert!(world.is(types::COMPLETE));
}

#[test]
fn at_most_once_a_promise_that_was_withdrawn_asks_for_nothing_where_something_ran() {
    let mut world = two_that_failed();
    world.retry = Some(world.pod_of("n0000", 1));
    world.start();
    world.end("n0000", 1);
    world.settle();
    assert_eq!(world.attempts("n0000").len(), 2);
    world.end("n0002", 0);
    world.settle();
    assert_eq!(world.status["failed"], 2);
    assert!(world.is(types::COMPLETE), "the request was for one attempt");
}

#[test]
fn a_failure_that_was_accepted_and_mended_accepts_no_other() {
    let mut world = World::new(
        2,
        json!({"failurePolicy": {"type": "Pause"}, "backoffLimitPerNode": 0}),
    );
    world.start();
    world.end("n0000", 1);
    world.settle();
    world.resume = Some("1".to_owned());
    world.settle();
    world.retry = Some(world.pod_of("n0000", 1));
    world.start();
    // Both become known at the same time.
    world.end("n0000", 0);
    world.end("n0001", 1);
    world.settle();
    let paused = (true, reasons::PAUSED_BY_FAILURE.to_owned());
    assert_eq!(world.condition(types::PAUSED), Some(paused));
}

#[test]
fn a_resume_accepts_no_failure_that_nobody_could_have_seen() {
    let mut world = World::new(3, json!({"failurePolicy": {"type": "Pause"}}));
    world.start();
    world.end("n0000", 1);
    world.settle();
    assert!(world.is(types::PAUSED));
    // Another one fails before the resume is seen.
    world.pass(1);
    world.end("n0001", 1);
    world.resume = Some("1".to_owned());
    world.settle();
    let paused = (true, reasons::PAUSED_BY_FAILURE.to_owned());
    assert_eq!(world.condition(types::PAUSED), Some(paused));
    world.resume = Some("2".to_owned());
    world.settle();
    assert!(!world.is(types::PAUSED));
    world.run_to_the_end();
    assert!(world.is(types::COMPLETE));
}

#[test]
fn a_lowered_parallelism_holds_for_promises_too() {
    let mut world = World::new(20, json!({}));
    world.creation_problem = Some(Refused {
        reason: reasons::QUOTA_EXCEEDED,
        message: "no room".to_owned(),
    });
    world.crash_after(usize::MAX);
    assert_eq!((world.slices[0].records.len(), world.live()), (20, 0));
    world.spec["parallelism"] = json!(1);
    world.creation_problem = None;
    let mut most = 0;
    for _ in 0..20 {
        world.start();
        most = most.max(world.live());
        world.end_all();
    }
    world.settle();
    assert_eq!(most, 1);
    assert_eq!(world.status["succeeded"], 20);
}

#[test]
fn a_failed_node_whose_further_attempt_is_taken_back_as_the_job_fails_has_failed() {
    let mut world = World::new(
        2,
        json!({"backoffLimitPerNode": 0, "failurePolicy": {"type": "FailFast", "maxFailedNodes": 1}}),
    );
    world.start();
    world.end("n0000", 1);
    world.settle();
    world.retry = Some(world.pod_of("n0000", 1));
    world.creation_problem = Some(Refused {
        reason: reasons::QUOTA_EXCEEDED,
        message: "no room".to_owned(),
    });
    // The attempt is reserved, and its pod not created.
    world.crash_after(1);
    world.end("n0001", 1);
    world.retry = None;
    world.spec["failurePolicy"]["maxFailedNodes"] = json!(0);
    world.settle();
    assert!(world.is(types::FAILED));
    let skipped = (Skipped, results::NOT_STARTED.to_owned());
    assert_eq!(world.attempts("n0000")[1], skipped);
    let counts = [&world.status["failed"], &world.status["done"]];
    assert_eq!(counts, [&json!(2), &json!("2/2")]);
}

#[test]
fn a_request_that_comes_as_the_job_completes_comes_too_late() {
    let mut world = World::new(
        2,
        json!({"failurePolicy": {"type": "Continue"}, "backoffLimitPerNode": 0}),
    );
    world.start();
    world.end("n0000", 1);
    world.settle();
    world.end("n0001", 0);
    // The log is sealed, and the end not yet stored.
    while !world.slices[0].sealed {
        assert!(world.crash_after(1) > 0);
    }
    assert!(!world.is(types::COMPLETE));
    world.retry = Some(world.pod_of("n0000", 1));
    world.settle();
    assert!(world.is(types::COMPLETE));
    assert_eq!(world.attempts("n0000").len(), 1);
    let counts = ["failed", "done"].map(|field| &world.status[field]);
    assert_eq!(counts, [&json!(1), &json!("2/2")]);
    assert_eq!(world.status.get("retrying"), None);
}

#[test]
fn a_percentage_is_of_the_nodes_of_now() {
    let mut world = World::new(
        10,
        json!({
            "parallelism": "10%", "completionPolicy": {"type": "Never"},
            "failurePolicy": {"type": "Pause", "maxFailedNodes": "10%"},
        }),
    );
    for _ in 0..10 {
        world.run_to_the_end();
        for n in 0..10 {
            world.join(&format!("n{n:04}"));
        }
    }
    world.settle();
    assert_eq!((world.live(), &world.status["succeeded"]), (1, &json!(100)));
    // One of ten is allowed, and not ten of the hundred and ten there ever were.
    world.run_all();
    world.end("n0000", 1);
    world.start();
    assert!(!world.is(types::PAUSED));
    world.end("n0001", 1);
    world.settle();
    assert!(world.is(types::PAUSED));
}

#[test]
fn a_job_that_fails_is_not_paused() {
    for paused_by_user in [false, true] {
        let mut world = World::new(
            2,
            json!({
                "completionPolicy": {"type": "Always", "activeDeadlineSeconds": 60},
                "failurePolicy": {"type": "Pause"},
            }),
        );
        world.start();
        world.pass(60);
        world.settle();
        world.spec["paused"] = json!(paused_by_user);
        world.end_all();
        world.settle();
        let failed = (true, reasons::DEADLINE_EXCEEDED.to_owned());
        assert_eq!(world.condition(types::FAILED), Some(failed));
        assert!(!world.is(types::PAUSED), "paused by user: {paused_by_user}");
        assert_eq!(world.status["phase"], "failed");
    }
}

#[test]
fn a_pause_ends_when_the_job_begins_to_fail() {
    let rules = json!({"rules": [
        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}},
    ]});
    let mut world = World::new(
        3,
        json!({"failurePolicy": {"type": "Pause"}, "podFailurePolicy": rules}),
    );
    world.start();
    world.end("n0000", 1);
    world.settle();
    assert!(world.is(types::PAUSED));
    world.end("n0001", 42);
    world.settle();
    assert!(world.is(types::FAILURE_TARGET) && !world.is(types::PAUSED));
    assert_eq!(world.status["phase"], "running");
}

#[test]
fn a_machine_that_is_replaced_waits_for_no_back_off_of_the_one_before() {
    let mut world = World::new(1, json!({}));
    for _ in 0..4 {
        world.start();
        world.evict("n0000");
        world.settle();
        world.pass(600);
    }
    world.start();
    world.join("n0000");
    world.evict("n0000");
    world.settle();
    world.start();
    let before = world.creations_on("n0000");
    world.evict("n0000");
    world.settle();
    world.start();
    assert_eq!(
        world.creations_on("n0000"),
        before + 1,
        "its first interruption"
    );
}

#[test]
fn an_attempt_that_was_withdrawn_counts_for_no_interruption_and_many_for_each_other() {
    let mut world = World::new(1, json!({}));
    for wait in [0, 10, 20, 40] {
        world.settle();
        world.cordon("n0000");
        world.settle();
        world.node("n0000").unschedulable = false;
        world.settle();
        let due = world.plan().wake.unwrap_or(world.now);
        assert_eq!(due.duration_since(world.now).as_secs(), wait);
        world.now = due;
    }
    world.start();
    let before = world.creations_on("n0000");
    world.evict("n0000");
    world.settle();
    assert_eq!(world.creations_on("n0000"), before + 1);
}

#[test]
fn a_node_that_is_gone_with_retries_left_is_no_failure() {
    let mut world = World::new(
        2,
        json!({"backoffLimitPerNode": 2, "failurePolicy": {"type": "FailFast"}}),
    );
    world.start();
    world.end("n0000", 1);
    world.settle();
    world.nodes.remove("n0000");
    world.settle();
    assert!(!world.is(types::FAILURE_TARGET));
    assert_eq!(
        (&world.status["failed"], &world.status["desired"]),
        (&json!(0), &json!(1))
    );
    let refused = &world.status["refused"][0];
    assert_eq!(refused["reason"], results::NODE_GONE);
    world.run_to_the_end();
    assert!(world.is(types::COMPLETE));
    assert_eq!(world.attempts("n0000")[0].0, Failed, "the record stays");
}

#[test]
fn a_pod_that_the_kubelet_has_refused_has_not_run_and_its_node_is_tried_again() {
    for execution in ["AtLeastOnce", "AtMostOnce"] {
        let mut world = World::new(
            2,
            json!({"executionPolicy": execution, "failurePolicy": {"type": "FailFast"}}),
        );
        world.settle();
        world.reject("n0000");
        world.settle();
        let refused = (Disrupted, results::REJECTED.to_owned());
        assert_eq!(world.attempts("n0000")[0], refused);
        let record = &world.slices[0].records[0];
        assert_eq!(&*record.message, "OutOfcpu: in its words");
        assert!(!world.is(types::FAILURE_TARGET), "{execution}");
        assert_eq!(world.status["failed"], 0);
        // At once the first time, and then less and less often.
        assert_eq!(world.creations_on("n0000"), 2);
        world.reject("n0000");
        world.settle();
        let due = world.plan().wake.unwrap();
        assert_eq!(due.duration_since(world.now).as_secs(), 10);
        world.now = due;
        world.run_to_the_end();
        assert!(world.is(types::COMPLETE));
        assert_eq!(world.attempts("n0000")[2], (Succeeded, String::new()));
    }
}

#[test]
fn a_pod_that_was_seen_to_run_was_not_refused() {
    let mut world = World::new(1, json!({"executionPolicy": "AtMostOnce"}));
    world.start();
    let before = world.pods[&world.pod_on("n0000")].clone();
    world.reject("n0000");
    let pod = world.pod_on("n0000");
    world.pods.get_mut(&pod).unwrap().remember(&before);
    world.settle();
    assert_eq!(world.attempts("n0000")[0].0, Failed);
}

#[test]
fn a_pod_of_an_earlier_attempt_holds_its_node_also_in_a_log_that_somebody_has_edited() {
    let mut world = World::new(2, json!({"backoffLimitPerNode": 3}));
    world.start();
    let mut later = world.slices[0].records[0].clone();
    later.attempt = 2;
    later.pod = world.pod_of("n0000", 2).into();
    (later.pod_uid, later.state) = (None, Disrupted);
    later.reason = results::WITHDRAWN.into();
    later.finished = Some(world.now);
    world.slices[0].records.push(later);
    world.pass(3_600);
    world.settle();
    assert_eq!(world.creations_on("n0000"), 1);
    world.end_all();
    world.settle();
    world.run_to_the_end();
    assert!(world.is(types::COMPLETE));
}
