//! Pods that are deleted, copied and changed.

use carillon_sim::actors::Fate;
use serde_json::json;

use super::fixtures::{hangs_first, plain};
use crate::scenario::{SECOND, Scenario, Step, step};

pub(super) fn all() -> Vec<Scenario> {
    vec![
        Scenario {
            script: vec![step(
                |view| view.pod_on("node-2", "Running").is_some(),
                |view| {
                    if let Some(pod) = view.pod_on("node-2", "Running") {
                        view.delete_pod(&pod);
                    }
                },
            )],
            ..plain("a running pod is deleted and its node is tried again")
        },
        Scenario {
            script: vec![step(
                |view| view.pod_on("node-0", "Running").is_some(),
                |view| {
                    if let Some(pod) = view.pod_on("node-0", "Running") {
                        view.copy_pod(&pod, "node-3");
                    }
                },
            )],
            ..plain("a copy of a pod is on a node whose turn has not come")
        },
        Scenario {
            spec: json!({"parallelism": 2, "failurePolicy": {"type": "Continue"}}),
            script: vec![step(
                |view| view.unbound_for("node-2").is_some(),
                |view| {
                    if let Some(pod) = view.unbound_for("node-2") {
                        view.bind_pod(&pod, "node-5");
                    }
                },
            )],
            ..plain("a pod is bound to another node than its own")
        },
        Scenario {
            script: vec![step(
                |view| view.pod_on("node-1", "Succeeded").is_some(),
                |view| {
                    if let Some(pod) = view.pod_on("node-1", "Succeeded") {
                        view.delete_pod(&pod);
                    }
                },
            )],
            ..plain("a finished pod is deleted and its node stays done")
        },
        Scenario {
            fates: |node, nth| Fate {
                obeys: None,
                ..hangs_first(node, nth)
            },
            script: vec![step(
                |view| view.pod_on("node-2", "Running").is_some(),
                |view| {
                    if let Some(pod) = view.pod_on("node-2", "Running") {
                        view.delete_pod(&pod);
                    }
                },
            )],
            ..plain("a running pod is deleted and takes its time to stop")
        },
        Scenario {
            fates: hangs_first,
            script: vec![Step {
                when: |view| view.pod_on("node-2", "Running").is_some(),
                after: 4 * SECOND,
                act: |view| {
                    if let Some(pod) = view.pod_on("node-2", "Running") {
                        view.remove_pod(&pod);
                    }
                },
            }],
            ..plain("a running pod is taken out of the store by force")
        },
        Scenario {
            script: vec![step(
                |view| view.pod_on("node-1", "Succeeded").is_some() && view.count("succeeded") >= 2,
                |view| {
                    if let Some(pod) = view.pod_on("node-1", "Succeeded") {
                        view.patch_pod_status(&pod, &json!({"phase": "Failed"}));
                    }
                },
            )],
            ..plain("a pod that succeeded says later that it failed")
        },
    ]
}
