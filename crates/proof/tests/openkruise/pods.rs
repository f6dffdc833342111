//! What happens to pods from outside.

use carillon_proof::scenario::{Ends, NAMESPACE, Scenario, View};
use serde_json::json;

use crate::played::{
    as_cluster, cordon, hangs, holds, later, play, says, step, succeeds, three_nodes,
};

fn one_by_one() -> Scenario {
    three_nodes(json!({"parallelism": 1}))
}

fn delete(view: &View<'_>, node: &str, phase: &str) {
    view.delete_pod(&view.pod_on(node, phase).unwrap());
}

#[test]
fn a_drained_node_is_no_failure_and_the_job_does_not_complete_without_it() {
    let played = play(&Scenario {
        script: vec![
            step(
                |view| view.pod_on("node-2", "Running").is_some(),
                |view| {
                    cordon(view, "node-2", true);
                    delete(view, "node-2", "Running");
                },
            ),
            later(
                |view| says(view, "Reconciling", "WaitingForInterruptedNodes"),
                600,
                |view| cordon(view, "node-2", false),
            ),
        ],
        ..one_by_one()
    });
    assert_eq!(played.end(), ("Complete", "AllNodesSucceeded"));
    let complete = played.when("Complete");
    assert!(
        complete > Some(600),
        "complete without the drained node: {complete:?}"
    );
    assert_eq!(
        played.outcomes("node-2"),
        [("Disrupted", "PodDeleted"), ("Succeeded", "")]
    );
    assert_eq!((played.count("succeeded"), played.count("failed")), (3, 0));
    assert_eq!(played.count("disrupted"), 1);
}

#[test]
fn a_running_pod_that_somebody_deletes_is_an_interruption_and_its_node_is_tried_again() {
    let played = play(&Scenario {
        script: vec![step(
            |view| view.pod_on("node-1", "Running").is_some(),
            |view| delete(view, "node-1", "Running"),
        )],
        ..one_by_one()
    });
    assert_eq!(
        played.outcomes("node-1"),
        [("Disrupted", "PodDeleted"), ("Succeeded", "")]
    );
    assert_eq!((played.count("succeeded"), played.count("failed")), (3, 0));
}

#[test]
fn a_finished_pod_that_is_deleted_makes_nothing_run_again_though_the_job_never_ends() {
    let played = play(&Scenario {
        script: vec![
            step(
                |view| view.count("succeeded") == 3,
                |view| {
                    for node in ["node-0", "node-1", "node-2"] {
                        delete(view, node, "Succeeded");
                    }
                },
            ),
            later(
                |view| view.pods().is_empty(),
                600,
                |view| view.add_node("node-7"),
            ),
        ],
        ends: Ends::Served(4),
        ..three_nodes(json!({"completionPolicy": {"type": "Never"}}))
    });
    assert_eq!(played.pods(), 4);
    for node in ["node-0", "node-1", "node-2", "node-7"] {
        assert_eq!(played.outcomes(node), [("Succeeded", "")]);
    }
}

#[test]
fn eviction_preemption_and_node_shutdown_are_no_failures_though_the_policy_is_fail_fast() {
    let played = play(&Scenario {
        fates: |_, nth| if nth == 0 { hangs() } else { succeeds() },
        script: vec![step(
            |view| view.count("active") == 3,
            |view| {
                for (node, reason) in [
                    ("node-0", "TerminationByKubelet"),
                    ("node-1", "PreemptionByScheduler"),
                    ("node-2", "EvictionByEvictionAPI"),
                ] {
                    let pod = view.pod_on(node, "Running").unwrap();
                    let name = pod["metadata"]["name"].as_str().unwrap();
                    let status = json!({
                        "phase": "Failed",
                        "conditions": [{
                            "type": "DisruptionTarget", "status": "True", "reason": reason,
                            "lastTransitionTime": "2026-01-01T00:00:10Z",
                        }],
                    });
                    as_cluster(view, "pods", NAMESPACE, name, &status);
                }
            },
        )],
        ..three_nodes(json!({"failurePolicy": {"type": "FailFast"}}))
    });
    assert_eq!(played.end(), ("Complete", "AllNodesSucceeded"));
    assert_eq!((played.count("succeeded"), played.count("failed")), (3, 0));
    assert_eq!(played.count("disrupted"), 3);
    for node in ["node-0", "node-1", "node-2"] {
        assert_eq!(
            played.outcomes(node),
            [("Disrupted", "PodDisrupted"), ("Succeeded", "")]
        );
    }
}

#[test]
fn labels_of_pods_and_results_have_a_prefix() {
    let played = play(&one_by_one());
    for resource in ["pods", "noderesultslices.carillon.dev"] {
        for change in played.changes(resource) {
            let labels = change.new.as_ref().unwrap()["metadata"]["labels"].clone();
            let labels = labels.as_object().unwrap();
            assert!(!labels.is_empty());
            assert!(labels.keys().all(|key| key.starts_with("carillon.dev/")));
        }
    }
}

#[test]
fn the_status_of_every_moment_says_no_more_than_the_pods_there_are() {
    let played = play(&Scenario {
        nodes: 6,
        ..three_nodes(json!({"parallelism": 2}))
    });
    for (_, job) in played.jobs() {
        let status = &job["status"];
        let active = status["active"].as_i64().unwrap_or(0);
        assert!((0..=2).contains(&active), "{status}");
        assert!(!holds(job, "Complete") || status["succeeded"] == 6);
    }
}
