//! What counts as a failure: rules by exit code and condition, pods that never start, how many.

use carillon_api::NodeState::{Disrupted, Failed, Succeeded};
use carillon_api::condition::{reasons, results, types};
use serde_json::{Value, json};

use super::world::World;
use crate::pod::PodPhase;

fn rules() -> Value {
    json!({"rules": [
        {"action": "Count", "onExitCodes": {"operator": "In", "values": [1]}},
        {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [2]}},
        {"action": "FailNode", "onExitCodes": {"operator": "In", "values": [3]}},
        {"action": "FailJob", "onExitCodes": {"containerName": "c", "operator": "NotIn", "values": [1, 2, 3]}},
    ]})
}

#[test]
fn each_action_of_a_rule_does_what_it_says() {
    for (code, attempt, failed, retrying) in [
        (1, (Failed, results::NON_ZERO_EXIT_CODE), 0, json!(1)),
        (2, (Disrupted, results::IGNORED_BY_RULE), 0, json!(null)),
        (3, (Failed, results::FAILED_BY_RULE), 1, json!(null)),
    ] {
        let mut world = World::new(
            2,
            json!({
                "podFailurePolicy": rules(), "backoffLimitPerNode": 1,
                "failurePolicy": {"type": "Continue"},
            }),
        );
        world.start();
        world.end("n0000", code);
        world.settle();
        let (state, reason) = attempt;
        assert_eq!(world.attempts("n0000")[0], (state, reason.to_owned()));
        assert_eq!(
            (&world.status["failed"], &world.status["retrying"]),
            (&json!(failed), &retrying),
            "{code}"
        );
    }
}

#[test]
fn an_ignored_failure_is_tried_again_and_counts_nowhere() {
    let mut world = World::new(1, json!({"podFailurePolicy": rules()}));
    world.start();
    world.end("n0000", 2);
    world.run_to_the_end();
    assert!(world.is(types::COMPLETE));
    assert_eq!(world.attempts("n0000")[1], (Succeeded, String::new()));
}

#[test]
fn a_rule_fails_the_job_with_rule_node_container_and_code_also_after_a_crash() {
    let policy = json!({"type": "Continue"});
    let mut world = World::new(
        3,
        json!({"podFailurePolicy": rules(), "failurePolicy": policy, "parallelism": 2}),
    );
    world.start();
    world.end("n0001", 42);
    // The outcome is stored; then the process dies, and somebody removes the pod.
    world.crash_after(1);
    let pod = world.pod_on("n0001");
    world.vanish(&pod);
    world.settle();
    world.pass(1);
    world.end_all();
    world.settle();
    let failed = Some((true, reasons::POD_FAILURE_POLICY.to_owned()));
    assert_eq!(world.condition(types::FAILED), failed);
    let message = world.message(types::FAILURE_TARGET);
    assert_eq!(
        message,
        "node n0001: podFailurePolicy.rules[3] FailJob: container c exited with 42; last words"
    );
    assert_eq!(world.creations_on("n0002"), 0);
}

#[test]
fn a_rule_that_fails_the_job_wins_over_a_pause() {
    let mut world = World::new(
        2,
        json!({"podFailurePolicy": rules(), "failurePolicy": {"type": "Pause"}}),
    );
    world.start();
    world.end("n0000", 42);
    world.settle();
    assert!(world.is(types::FAILURE_TARGET) && !world.is(types::PAUSED));
}

#[test]
fn an_eviction_is_judged_by_conditions_and_never_by_its_exit_code() {
    let on_disruption = |action: &str| {
        json!({"rules": [
        {"action": action, "onPodConditions": [{"type": "DisruptionTarget"}]}]})
    };
    for (policy, state, reason, fails) in [
        (rules(), Disrupted, results::POD_DISRUPTED, false),
        (on_disruption("Count"), Failed, results::POD_DISRUPTED, true),
        (
            on_disruption("Ignore"),
            Disrupted,
            results::IGNORED_BY_RULE,
            false,
        ),
        (
            on_disruption("FailJob"),
            Failed,
            results::JOB_FAILED_BY_RULE,
            true,
        ),
    ] {
        let mut world = World::new(2, json!({"podFailurePolicy": policy}));
        world.start();
        world.evict("n0000");
        world.settle();
        assert_eq!(
            world.attempts("n0000")[0],
            (state, reason.to_owned()),
            "{policy}"
        );
        assert_eq!(world.is(types::FAILURE_TARGET), fails, "{policy}");
    }
}

#[test]
fn a_pod_that_never_starts_is_recorded_with_the_reason_and_then_deleted() {
    for (waiting, bound, reason) in [
        ("ImagePullBackOff", true, "ImagePullBackOff"),
        ("Unschedulable", false, "Unschedulable"),
        ("", false, results::POD_START_DEADLINE_EXCEEDED),
    ] {
        let more = json!({
            "podStartDeadlineSeconds": 30, "parallelism": 1,
            "failurePolicy": {"type": "Continue"},
        });
        let mut world = World::new(2, more);
        world.settle();
        world.wait_for("n0000", waiting, bound);
        world.pass(29);
        world.settle();
        assert_eq!(
            world.attempts("n0000")[0].0,
            carillon_api::NodeState::Started
        );
        let due = world.plan().wake.unwrap();
        assert_eq!(due.duration_since(world.now).as_secs(), 1);
        world.now = due;
        assert_eq!(
            world.words(),
            ["write_slice", "delete_pod"],
            "the reason is stored before the pod is deleted"
        );
        world.crash_after(usize::MAX);
        let intended = (carillon_api::NodeState::Started, reason.to_owned());
        assert_eq!(world.attempts("n0000"), [intended]);
        assert_eq!(
            world.words(),
            ["write_slice", "release_pod", "write_status"]
        );
        world.settle();
        assert_eq!(world.attempts("n0000"), [(Failed, reason.to_owned())]);
        let message = &world.slices[0].records[0].message;
        assert_eq!(&**message, "in their words");
        assert_eq!(world.status["failed"], 1);
    }
}

#[test]
fn a_pod_that_starts_before_it_is_told_to_stop_goes_on_and_its_outcome_counts() {
    let more = json!({"podStartDeadlineSeconds": 30, "failurePolicy": {"type": "Continue"}});
    let mut world = World::new(1, more);
    world.settle();
    world.pass(30);
    world.crash_after(1);
    world.run_all();
    world.settle();
    let pod = world.pod_on("n0000");
    assert!(world.pods[&pod].deletion.is_none(), "it goes on");
    assert_eq!(
        world.attempts("n0000"),
        [(carillon_api::NodeState::Started, String::new())]
    );
    world.end("n0000", 0);
    world.settle();
    assert_eq!(world.attempts("n0000"), [(Succeeded, String::new())]);
}

#[test]
fn a_pod_that_starts_after_it_was_told_to_stop_is_no_success() {
    let more = json!({"podStartDeadlineSeconds": 30, "failurePolicy": {"type": "Continue"}});
    let mut world = World::new(1, more);
    world.settle();
    world.wait_for("n0000", "ImagePullBackOff", true);
    world.pass(30);
    world.crash_after(usize::MAX);
    let row = world.pods.get_mut(&world.created[0].0).unwrap();
    // Its container started in the same second: which was first nobody knows.
    row.started = row.deletion.map(crate::pod::Deletion::asked);
    assert!(row.started.is_some());
    row.phase = PodPhase::Running;
    world.pass(1);
    world.end("n0000", 0);
    world.settle();
    let failed = (Failed, "ImagePullBackOff".to_owned());
    assert_eq!(world.attempts("n0000"), [failed]);
    assert_eq!(world.status["succeeded"], 0);
}

#[test]
fn a_pod_that_has_not_started_in_time_counts_as_a_failed_attempt_with_retries() {
    let mut world = World::new(
        1,
        json!({"podStartDeadlineSeconds": 30, "backoffLimitPerNode": 1}),
    );
    world.settle();
    world.pass(30);
    world.settle();
    assert_eq!(world.status["retrying"], 1);
    world.pass(10);
    world.run_to_the_end();
    assert_eq!(world.attempts("n0000")[1].0, Succeeded);
}

#[test]
fn a_pod_that_has_started_has_no_start_deadline() {
    let mut world = World::new(1, json!({"podStartDeadlineSeconds": 30}));
    world.start();
    world.pass(3600);
    assert!(world.words().is_empty() && world.plan().wake.is_none());
}

#[test]
fn fail_fast_and_pause_act_when_more_nodes_failed_than_allowed() {
    for (policy, condition) in [
        ("FailFast", types::FAILURE_TARGET),
        ("Pause", types::PAUSED),
    ] {
        for (allowed, nodes) in [(json!(2), 5), (json!("25%"), 11)] {
            let more = json!({"failurePolicy": {"type": policy, "maxFailedNodes": allowed}});
            let mut world = World::new(nodes, more);
            world.start();
            world.end("n0000", 1);
            world.end("n0001", 1);
            world.settle();
            assert!(!world.is(condition), "{policy} {allowed}");
            world.end("n0002", 1);
            world.settle();
            assert!(world.is(condition), "{policy} {allowed}");
        }
    }
}

#[test]
fn a_resumed_job_puts_up_with_what_was_accepted_or_allowed_whichever_is_more() {
    let mut world = World::new(
        6,
        json!({"failurePolicy": {"type": "Pause", "maxFailedNodes": 1}}),
    );
    world.start();
    world.end("n0000", 1);
    world.end("n0001", 1);
    world.settle();
    assert!(world.is(types::PAUSED));
    world.spec["failurePolicy"]["maxFailedNodes"] = json!(3);
    world.settle();
    assert!(world.is(types::PAUSED), "only a resume ends the pause");
    world.resume = Some("1".to_owned());
    world.settle();
    assert!(!world.is(types::PAUSED));
    world.end("n0002", 1);
    world.settle();
    assert!(!world.is(types::PAUSED), "three are allowed");
    world.end("n0003", 1);
    world.settle();
    assert!(world.is(types::PAUSED));
}

#[test]
fn a_job_that_has_ended_still_says_what_was_accepted_and_how_long_it_was_paused() {
    let mut world = World::new(2, json!({"failurePolicy": {"type": "Pause"}}));
    world.start();
    world.end("n0000", 1);
    world.settle();
    assert!(world.is(types::PAUSED));
    world.pass(90);
    world.resume = Some("1".to_owned());
    world.settle();
    world.end("n0001", 0);
    world.run_to_the_end();
    assert!(
        world.is(types::COMPLETE) || world.is(types::FAILED),
        "{}",
        world.status
    );
    let kept = [
        "acknowledgedFailedNodes",
        "pausedSeconds",
        "lastHandledResume",
    ]
    .map(|field| world.status[field].clone());
    assert_eq!(kept, [json!(1), json!(90), json!("1")]);
}

#[test]
fn a_job_that_nobody_has_paused_says_nothing_of_pauses() {
    let mut world = World::new(2, json!({}));
    world.start();
    assert_eq!(world.condition(types::PAUSED), None);
    world.run_to_the_end();
    assert_eq!(world.condition(types::PAUSED), None);
}
