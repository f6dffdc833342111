//! What the work itself does wrong.

use carillon_proof::scenario::{Ends, Scenario};
use carillon_sim::actors::Fate;
use serde_json::json;

use crate::played::{Played, exits, hangs, later, play, says, step, succeeds, three_nodes};

fn crash_loop(policy: &str, fates: fn(&str, usize) -> Fate) -> Played {
    play(&Scenario {
        fates,
        ..three_nodes(json!({
            "failurePolicy": {"type": policy, "restartLimit": 2},
            "template": {"spec": {"restartPolicy": "OnFailure"}},
        }))
    })
}

#[test]
fn a_crash_loop_is_stopped_at_its_limit_and_restarts_nothing_after_the_job_has_failed() {
    let played = crash_loop("FailFast", |node, _| match node {
        "node-0" => exits(7),
        "node-1" => hangs(),
        _ => succeeds(),
    });
    assert_eq!(played.end(), ("Failed", "MaxFailedNodesExceeded"));
    let record = played.records("node-0")[0];
    assert_eq!(record["state"], "Failed", "{record}");
    assert_eq!(record["reason"], "RestartLimitExceeded", "{record}");
    assert_eq!(record["exitCode"], 7, "{record}");
    assert_eq!(played.outcomes("node-1"), [("Failed", "StoppedByFailure")]);
    for pod in played.pods_left() {
        let phase = pod["status"]["phase"].as_str().unwrap();
        assert!(
            ["Succeeded", "Failed"].contains(&phase),
            "{phase} after the end"
        );
    }
    let failed = played.when("Failed").unwrap();
    let starts_later = played.changes("pods").any(|change| {
        let pod = change.new.as_ref();
        played.seconds(change) > failed
            && pod.is_some_and(|pod| pod["status"]["phase"] == "Running")
    });
    assert!(!starts_later, "a container was started after the end");
}

#[test]
fn a_crash_loop_does_not_keep_a_job_with_continue_from_completing() {
    let played = crash_loop("Continue", |node, _| exits(i32::from(node == "node-0")));
    assert_eq!(played.end(), ("Complete", "CompletedWithFailures"));
    assert_eq!(
        played.outcomes("node-0"),
        [("Failed", "RestartLimitExceeded")]
    );
    assert_eq!(played.count("failed"), 1);
}

#[test]
fn a_pod_whose_image_cannot_be_pulled_is_given_up_with_the_reason_and_frees_its_place() {
    let played = play(&Scenario {
        fates: |node, _| Fate {
            waits: (node == "node-0").then_some("ImagePullBackOff"),
            ..succeeds()
        },
        ..three_nodes(json!({
            "parallelism": 1,
            "podStartDeadlineSeconds": 30,
            "failurePolicy": {"type": "Continue"},
        }))
    });
    assert_eq!(played.end(), ("Complete", "CompletedWithFailures"));
    assert_eq!(played.outcomes("node-0"), [("Failed", "ImagePullBackOff")]);
    assert_eq!((played.count("succeeded"), played.count("failed")), (2, 1));
}

#[test]
fn a_job_paused_by_a_failure_is_resumed_and_its_spec_is_left_alone() {
    let played = play(&Scenario {
        fates: |node, _| exits(i32::from(node == "node-0")),
        script: vec![later(
            |view| says(view, "Paused", "PausedByFailure"),
            600,
            |view| {
                let annotations = json!({"carillon.dev/resume": "1"});
                view.patch_job(&json!({"metadata": {"annotations": annotations}}));
            },
        )],
        ..three_nodes(json!({"parallelism": 1, "failurePolicy": {"type": "Pause"}}))
    });
    assert_eq!(played.end(), ("Complete", "CompletedWithFailures"));
    assert_eq!((played.count("succeeded"), played.count("failed")), (2, 1));
    assert_eq!(played.count("acknowledgedFailedNodes"), 1);
    let paused = |job: &serde_json::Value| job["spec"]["paused"] == true;
    assert!(!played.jobs().any(|(_, job)| paused(job)));
    let between = played
        .changes("pods")
        .filter(|change| change.old.is_none())
        .any(|change| (10..600).contains(&played.seconds(change)));
    assert!(!between, "a pod was started while the job was paused");
}

#[test]
fn a_failed_node_of_a_paused_job_runs_again_when_somebody_asks() {
    let played = play(&Scenario {
        fates: |node, nth| exits(i32::from(node == "node-0" && nth == 0)),
        script: vec![step(
            |view| says(view, "Paused", "PausedByFailure"),
            |view| {
                let retry = view.last_pod("node-0");
                let annotations = json!({"carillon.dev/resume": "1", "carillon.dev/retry": retry});
                view.patch_job(&json!({"metadata": {"annotations": annotations}}));
            },
        )],
        ..three_nodes(json!({"parallelism": 1, "failurePolicy": {"type": "Pause"}}))
    });
    assert_eq!((played.count("succeeded"), played.count("failed")), (3, 0));
    assert_eq!(
        played.outcomes("node-0"),
        [("Failed", "NonZeroExitCode"), ("Succeeded", "")]
    );
}

#[test]
fn never_with_fail_fast_ends_at_the_first_failure_as_in_openkruise() {
    let played = play(&Scenario {
        fates: |node, _| exits(i32::from(node == "node-1")),
        script: vec![later(
            |view| view.is("Failed"),
            60,
            |view| view.add_node("node-7"),
        )],
        ..three_nodes(json!({
            "parallelism": 1,
            "completionPolicy": {"type": "Never"},
            "failurePolicy": {"type": "FailFast"},
        }))
    });
    assert_eq!(played.end(), ("Failed", "MaxFailedNodesExceeded"));
    assert_eq!(played.pods(), 2);
    assert_eq!((played.count("succeeded"), played.count("failed")), (1, 1));
}

#[test]
fn never_with_continue_serves_later_nodes_after_a_failure() {
    let played = play(&Scenario {
        fates: |node, _| exits(i32::from(node == "node-1")),
        script: vec![later(
            |view| view.count("failed") == 1 && view.count("succeeded") == 2,
            60,
            |view| view.add_node("node-7"),
        )],
        ends: Ends::Served(3),
        ..three_nodes(json!({
            "completionPolicy": {"type": "Never"},
            "failurePolicy": {"type": "Continue"},
        }))
    });
    assert_eq!(played.outcomes("node-7"), [("Succeeded", "")]);
    assert_eq!(played.count("failed"), 1);
}

#[test]
fn exit_code_last_words_and_times_of_each_node_are_kept() {
    let played = play(&Scenario {
        fates: |node, _| exits(if node == "node-1" { 3 } else { 0 }),
        ..three_nodes(json!({"failurePolicy": {"type": "Continue"}}))
    });
    let record = played.records("node-1")[0];
    assert_eq!(record["exitCode"], 3, "{record}");
    assert_eq!(record["message"], "ended with 3", "{record}");
    for time in ["startTime", "completionTime"] {
        assert!(record[time].is_string(), "{record}");
    }
}
