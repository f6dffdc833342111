//! Nodes come, go, and change.

use carillon_sim::Status;
use serde_json::json;

use crate::kinds::daemon_set::subject::scenario as plain;
use crate::scenario::{SECOND, Scenario, Step, View};

/// So many nodes have an available pod.
pub(super) fn available(view: &View<'_>, nodes: i64) -> bool {
    view.count("numberAvailable") == nodes
}

/// So many seconds after that.
pub(super) fn later(when: fn(&View<'_>) -> bool, seconds: i32, act: fn(&View<'_>)) -> Step {
    Step {
        when,
        after: SECOND * seconds,
        act,
    }
}

/// An admission webhook that denies what is for the first node, for what is on it.
fn deny_the_first(view: &View<'_>) {
    view.server().set_admission(|call, object| {
        let only = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution";
        let terms = object.pointer(only).map(ToString::to_string);
        if object["kind"] == "Pod" && terms.is_some_and(|terms| terms.contains("\"node-0\"")) {
            let why = "admission webhook denied it: not on node-0";
            return Err(Status::forbidden("pods", &call.name, why));
        }
        Ok(())
    });
}

fn denied() -> Scenario {
    Scenario {
        spec: json!({"burstReplicas": 1}),
        script: vec![
            later(|_| true, 0, deny_the_first),
            // The others do not wait for it, and it not for ever.
            later(
                |view| available(view, 2),
                30,
                |view| view.server().clear_admission(),
            ),
        ],
        ..plain("daemon: the pod of the first node is denied for a while")
    }
}

pub(super) fn all() -> Vec<Scenario> {
    vec![
        plain("daemon: a pod on each of three nodes"),
        denied(),
        Scenario {
            script: vec![later(
                |view| available(view, 3),
                5,
                |view| view.add_node("node-9"),
            )],
            ..plain("daemon: a node joins")
        },
        Scenario {
            script: vec![later(
                |view| available(view, 3),
                5,
                |view| view.delete_node("node-1"),
            )],
            ..plain("daemon: a node leaves")
        },
        Scenario {
            script: vec![later(
                |view| available(view, 3),
                5,
                |view| {
                    view.patch_node("node-1", &json!({"spec": {"unschedulable": true}}));
                },
            )],
            ..plain("daemon: a node is cordoned and keeps its pod")
        },
        Scenario {
            script: vec![
                later(
                    |view| available(view, 3),
                    5,
                    |view| {
                        let taints = json!([{"key": "role", "effect": "NoExecute"}]);
                        view.patch_node("node-1", &json!({"spec": {"taints": taints}}));
                    },
                ),
                later(
                    |view| available(view, 2),
                    30,
                    |view| {
                        view.patch_node("node-1", &json!({"spec": {"taints": null}}));
                    },
                ),
            ],
            ..plain("daemon: a node is tainted, and is not any more")
        },
        Scenario {
            script: vec![later(
                |view| available(view, 3),
                5,
                |view| {
                    let taints = json!([{"key": "role", "effect": "NoSchedule"}]);
                    view.patch_node("node-1", &json!({"spec": {"taints": taints}}));
                },
            )],
            ..plain("daemon: a node that takes no more pods keeps its own")
        },
        Scenario {
            script: vec![
                later(
                    |view| available(view, 3),
                    5,
                    |view| view.stop_kubelet("node-1", true),
                ),
                later(|_| true, 120, |view| view.stop_kubelet("node-1", false)),
            ],
            ..plain("daemon: a node is silent for two minutes")
        },
        Scenario {
            spec: json!({"template": {
                "metadata": {"labels": {"app": "agent"}},
                "spec": {
                    "nodeSelector": {"pool": "a"},
                    "containers": [{"name": "main", "image": "example.com/work:1"}],
                },
            }}),
            script: vec![
                later(
                    |_| true,
                    10,
                    |view| {
                        view.patch_node("node-1", &json!({"metadata": {"labels": {"pool": "a"}}}));
                    },
                ),
                later(
                    |view| available(view, 1),
                    10,
                    |view| {
                        view.patch_node("node-1", &json!({"metadata": {"labels": {"pool": null}}}));
                    },
                ),
            ],
            ..plain("daemon: a label comes and goes")
        },
    ]
}
