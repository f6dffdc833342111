//! What happens to nodes.

use carillon_proof::scenario::{Ends, Scenario, View};
use serde_json::json;

use crate::played::{
    as_cluster, cordon, hangs, holds, later, play, says, silence, step, succeeds, three_nodes,
};

fn one_by_one() -> Scenario {
    three_nodes(json!({"parallelism": 1}))
}

fn runs_on_0(view: &View<'_>) -> bool {
    view.pod_on("node-0", "Running").is_some()
}

fn done_on_0(view: &View<'_>) -> bool {
    view.pod_on("node-0", "Succeeded").is_some()
}

#[test]
fn a_node_cordoned_before_its_turn_is_left_out_and_named() {
    let played = play(&Scenario {
        script: vec![step(runs_on_0, |view| cordon(view, "node-2", true))],
        ..one_by_one()
    });
    assert_eq!(played.end(), ("Complete", "AllNodesSucceeded"));
    assert_eq!(played.pods_for("node-2").len(), 0);
    let refused = &played.job()["status"]["refused"][0];
    assert_eq!(refused["reason"], "NodeUnschedulable", "{refused}");
    assert_eq!(refused["count"], 1, "{refused}");
}

#[test]
fn a_node_uncordoned_while_the_job_is_open_is_served() {
    let played = play(&Scenario {
        script: vec![
            step(runs_on_0, |view| cordon(view, "node-1", true)),
            step(
                |view| view.pod_on("node-2", "Running").is_some(),
                |view| cordon(view, "node-1", false),
            ),
        ],
        ..one_by_one()
    });
    assert_eq!((played.count("succeeded"), played.pods()), (3, 3));
}

#[test]
fn a_node_cordoned_while_its_pod_runs_is_left_to_finish() {
    let played = play(&Scenario {
        script: vec![step(runs_on_0, |view| cordon(view, "node-0", true))],
        ..one_by_one()
    });
    assert_eq!(played.outcomes("node-0"), [("Succeeded", "")]);
    assert_eq!((played.stopped_by_us(), played.pods()), (0, 3));
}

#[test]
fn a_node_cordoned_after_its_success_keeps_it_and_does_not_run_again_once_uncordoned() {
    let played = play(&Scenario {
        script: vec![
            step(done_on_0, |view| cordon(view, "node-0", true)),
            step(
                |view| view.pod_on("node-2", "Running").is_some(),
                |view| cordon(view, "node-0", false),
            ),
        ],
        ..one_by_one()
    });
    assert_eq!(played.pods_for("node-0").len(), 1);
    assert_eq!((played.count("succeeded"), played.count("failed")), (3, 0));
    let taken_back = played
        .jobs()
        .any(|(_, job)| job["status"]["failed"].as_i64() > Some(0));
    assert!(!taken_back, "a success was counted as a failure meanwhile");
}

#[test]
fn a_taint_of_pressure_does_not_stop_the_pod_that_runs() {
    let played = play(&Scenario {
        script: vec![step(
            |view| view.count("active") == 3,
            |view| {
                for (node, pressure) in ["disk", "pid", "memory"].iter().enumerate() {
                    let key = format!("node.kubernetes.io/{pressure}-pressure");
                    let taints =
                        json!({"spec": {"taints": [{"key": key, "effect": "NoSchedule"}]}});
                    view.patch_node(&format!("node-{node}"), &taints);
                }
            },
        )],
        ..three_nodes(json!({}))
    });
    assert_eq!((played.count("succeeded"), played.pods()), (3, 3));
    assert_eq!(played.stopped_by_us(), 0);
}

/// The first pod on node-0 hangs on a node that does not answer any more.
fn silent_node() -> Scenario {
    Scenario {
        fates: |node, nth| match (node, nth) {
            ("node-0", 0) => hangs(),
            _ => succeeds(),
        },
        script: vec![step(runs_on_0, |view| silence(view, "node-0", true))],
        ..one_by_one()
    }
}

#[test]
fn an_unreachable_node_holds_up_no_other_even_one_by_one_and_is_tried_again_when_it_is_back() {
    let mut scenario = silent_node();
    scenario.script.push(later(
        |view| view.count("succeeded") == 2,
        1800,
        |view| silence(view, "node-0", false),
    ));
    let played = play(&scenario);
    assert_eq!(played.end(), ("Complete", "AllNodesSucceeded"));
    assert_eq!((played.count("succeeded"), played.count("failed")), (3, 0));
    let records = played.outcomes("node-0");
    assert_eq!(records.len(), 2, "{records:?}");
    assert_eq!(records[0], ("Unknown", "NodeLost"));
    assert_eq!(records[1], ("Succeeded", ""));
    let lost = played.jobs().any(|(_, job)| job["status"]["lost"] == 1);
    assert!(lost, "nobody was told of the lost node");
}

#[test]
fn a_job_waits_for_a_lost_node_no_longer_when_its_node_object_is_deleted() {
    let mut scenario = silent_node();
    scenario.script.push(later(
        |view| view.count("succeeded") == 2,
        1800,
        |view| view.delete_node("node-0"),
    ));
    let played = play(&scenario);
    assert_eq!(played.end(), ("Complete", "AllNodesSucceeded"));
    assert_eq!((played.count("succeeded"), played.count("failed")), (2, 0));
    let ended_before = played
        .jobs()
        .any(|(at, job)| at < 1800 && holds(job, "Complete"));
    assert!(!ended_before, "the job did not wait");
}

#[test]
fn a_node_deleted_while_its_pod_runs_is_no_failure_and_its_pod_is_reaped() {
    let played = play(&Scenario {
        fates: |node, _| {
            if node == "node-0" {
                hangs()
            } else {
                succeeds()
            }
        },
        script: vec![step(runs_on_0, |view| view.delete_node("node-0"))],
        ..one_by_one()
    });
    assert_eq!(played.end(), ("Complete", "AllNodesSucceeded"));
    assert_eq!(played.outcomes("node-0"), [("Disrupted", "NodeGone")]);
    assert_eq!((played.count("desired"), played.count("failed")), (2, 0));
    assert_eq!(played.pods_left().len(), 2);
}

#[test]
fn a_pod_that_was_never_bound_to_a_vanished_node_is_reaped_and_frees_its_place() {
    let played = play(&Scenario {
        script: vec![step(
            |view| {
                view.pods()
                    .iter()
                    .any(|pod| pod["spec"]["nodeName"].is_null())
            },
            |view| view.delete_node("node-0"),
        )],
        ..one_by_one()
    });
    assert_eq!(played.end(), ("Complete", "AllNodesSucceeded"));
    assert_eq!(played.outcomes("node-0"), [("Disrupted", "Withdrawn")]);
    assert_eq!(played.pods_for("node-0").len(), 1);
    assert_eq!(
        (played.count("succeeded"), played.pods_left().len()),
        (2, 2)
    );
}

#[test]
fn a_replaced_node_of_the_same_name_is_served_again_though_the_old_pod_is_still_there() {
    let played = play(&Scenario {
        script: vec![step(done_on_0, |view| {
            view.delete_node("node-0");
            view.add_node("node-0");
        })],
        ..one_by_one()
    });
    let records = played.records("node-0");
    assert_eq!(played.outcomes("node-0"), [("Succeeded", ""); 2]);
    assert_ne!(records[0]["nodeUID"], records[1]["nodeUID"]);
    assert_eq!(played.count("succeeded"), 4);
}

#[test]
fn a_rebooted_node_that_was_served_is_not_served_again() {
    let played = play(&Scenario {
        script: vec![step(done_on_0, |view| {
            for (ready, boot) in [("False", "one"), ("True", "two")] {
                let status = json!({
                    "nodeInfo": {"bootID": boot},
                    "conditions": [{
                        "type": "Ready", "status": ready,
                        "lastTransitionTime": "2026-01-01T00:00:10Z",
                    }],
                });
                as_cluster(view, "nodes", "", "node-0", &status);
            }
        })],
        ..one_by_one()
    });
    assert_eq!((played.pods_for("node-0").len(), played.pods()), (1, 3));
}

#[test]
fn a_node_that_joins_while_the_job_runs_is_served() {
    let played = play(&Scenario {
        script: vec![step(done_on_0, |view| view.add_node("node-7"))],
        ..one_by_one()
    });
    assert_eq!(played.outcomes("node-7"), [("Succeeded", "")]);
    assert_eq!(played.count("desired"), 4);
}

#[test]
fn a_node_that_joins_after_the_end_is_not_served() {
    let played = play(&Scenario {
        script: vec![later(
            |view| view.is("Complete"),
            10,
            |view| view.add_node("node-7"),
        )],
        ..one_by_one()
    });
    assert_eq!(played.pods_for("node-7").len(), 0);
    assert_eq!(played.count("desired"), 3);
}

#[test]
fn a_job_of_type_never_serves_each_later_node_once() {
    let played = play(&Scenario {
        script: vec![
            later(
                |view| view.count("succeeded") == 3,
                600,
                |view| view.add_node("node-7"),
            ),
            later(
                |view| view.count("succeeded") == 4,
                600,
                |view| view.add_node("node-8"),
            ),
        ],
        ends: Ends::Served(5),
        ..three_nodes(json!({"completionPolicy": {"type": "Never"}}))
    });
    assert_eq!((played.pods(), played.count("succeeded")), (5, 5));
}

#[test]
fn a_label_or_a_taint_that_changes_makes_a_node_eligible() {
    let played = play(&Scenario {
        script: vec![
            step(
                |view| says(view, "Reconciling", "NoEligibleNodes"),
                |view| {
                    let taint = json!({"key": "reserved", "effect": "NoSchedule"});
                    view.patch_node("node-0", &json!({"metadata": {"labels": {"pool": "a"}}}));
                    let both = json!({
                        "metadata": {"labels": {"pool": "a"}}, "spec": {"taints": [taint]},
                    });
                    view.patch_node("node-1", &both);
                },
            ),
            step(runs_on_0, |view| {
                view.patch_node("node-1", &json!({"spec": {"taints": null}}));
                view.patch_node("node-2", &json!({"metadata": {"labels": {"pool": "a"}}}));
            }),
        ],
        ..three_nodes(json!({"template": {"spec": {"nodeSelector": {"pool": "a"}}}}))
    });
    assert_eq!(played.end(), ("Complete", "AllNodesSucceeded"));
    assert_eq!((played.count("succeeded"), played.pods()), (3, 3));
}

#[test]
fn without_an_eligible_node_a_job_says_so_and_waits_for_the_first() {
    let played = play(&Scenario {
        nodes: 0,
        script: vec![later(
            |view| says(view, "Reconciling", "NoEligibleNodes"),
            600,
            |view| view.add_node("node-0"),
        )],
        ..three_nodes(json!({}))
    });
    assert_eq!(played.count("succeeded"), 1);
}

#[test]
fn without_an_eligible_node_a_job_ends_at_once_if_it_is_to() {
    for (policy, end) in [("Complete", "Complete"), ("Fail", "Failed")] {
        let played = play(&Scenario {
            nodes: 0,
            ..three_nodes(json!({"noEligibleNodesPolicy": policy}))
        });
        assert_eq!(played.end(), (end, "NoEligibleNodes"));
    }
}

#[test]
fn nodes_are_served_in_the_order_of_their_names() {
    let played = play(&Scenario {
        nodes: 6,
        ..one_by_one()
    });
    let mut last = 0;
    for node in 0..6 {
        let created = played.pods_for(&format!("node-{node}"))[0].rev;
        assert!(created > last, "node-{node} was served too early");
        last = created;
    }
}

#[test]
fn the_number_of_writes_does_not_grow_with_pods_times_nodes() {
    let of = |nodes: usize| {
        let played = play(&Scenario {
            nodes,
            ..three_nodes(json!({}))
        });
        assert_eq!(played.pods(), nodes);
        let pods = played.written_by_us("pods");
        let rest = played.written_by_us("broadcastjobs.carillon.dev")
            + played.written_by_us("noderesultslices.carillon.dev");
        (pods, rest)
    };
    let ((few, few_rest), (many, many_rest)) = (of(10), of(60));
    assert_eq!(
        (few, many),
        (10 * 2, 60 * 2),
        "a creation and a release each"
    );
    assert!(
        many_rest <= few_rest * 2,
        "{few_rest} writes of status and results for 10 nodes, {many_rest} for 60"
    );
}
