//! Nodes that come and go, and what is done to them.

use jiff::SignedDuration;
use serde_json::json;

use super::fixtures::{hangs_first, plain};
use crate::scenario::{Ends, Scenario, Step, View, step};

pub(super) fn all() -> Vec<Scenario> {
    let cordon = |view: &View<'_>| {
        view.patch_node("node-5", &json!({"spec": {"unschedulable": true}}));
    };
    vec![
        Scenario {
            script: vec![step(|view| view.count("active") > 0, cordon)],
            ..plain("a node is cordoned before its turn")
        },
        Scenario {
            script: vec![step(
                |view| view.pod_on("node-5", "Running").is_some(),
                cordon,
            )],
            ..plain("a node is cordoned while its pod runs")
        },
        Scenario {
            script: vec![
                step(
                    |view| view.pod_on("node-1", "Succeeded").is_some(),
                    |view| view.patch_node("node-1", &json!({"spec": {"unschedulable": true}})),
                ),
                step(
                    |view| view.count("succeeded") >= 4,
                    |view| view.patch_node("node-1", &json!({"spec": {"unschedulable": null}})),
                ),
            ],
            ..plain("a node is cordoned after its pod succeeded and uncordoned later")
        },
        Scenario {
            script: vec![step(
                |view| view.pod_on("node-1", "Running").is_some(),
                |view| view.delete_node("node-1"),
            )],
            ..plain("a node goes away while its pod runs")
        },
        Scenario {
            script: vec![step(
                |view| view.pod_on("node-1", "Succeeded").is_some(),
                |view| {
                    view.delete_node("node-1");
                    view.add_node("node-1");
                },
            )],
            ..plain("a node that was served is replaced under its name")
        },
        Scenario {
            script: vec![step(
                |view| view.count("succeeded") >= 2,
                |view| view.add_node("node-7"),
            )],
            ..plain("a node joins while the job runs")
        },
        Scenario {
            fates: hangs_first,
            script: vec![
                step(
                    |view| view.pod_on("node-2", "Running").is_some(),
                    |view| view.stop_kubelet("node-2", true),
                ),
                Step {
                    when: |view| view.count("succeeded") == 5,
                    after: SignedDuration::from_mins(30),
                    act: |view| view.stop_kubelet("node-2", false),
                },
            ],
            ..plain("a node is silent while its pod runs and comes back")
        },
        Scenario {
            spec: json!({"parallelism": 2, "completionPolicy": {"type": "Never"}}),
            script: vec![step(
                |view| view.count("succeeded") == 6,
                |view| view.add_node("node-7"),
            )],
            ends: Ends::Served(7),
            ..plain("a job that never ends serves a node that joins later")
        },
    ]
}
