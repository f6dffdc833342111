//! What live edits must not lead to, and what a kubelet may do about a pod.

use carillon_sim::actors::{Fate, Work};
use serde_json::json;

use super::fixtures::{fails, hangs_first, plain};
use crate::scenario::{SECOND, Same, Scenario, Step, View, step};

/// node-2 fails at its first attempt, node-4 at each.
fn two_fail(node: &str, nth: usize) -> Fate {
    let fails = node == "node-4" || node == "node-2" && nth == 0;
    Fate::ends(SECOND, if fails { 3 } else { 0 })
}

pub(super) fn all() -> Vec<Scenario> {
    let deleted = |view: &View<'_>| view.delete_node("node-2");
    vec![
        Scenario {
            spec: json!({"parallelism": 1, "failurePolicy": {"type": "Pause"}}),
            fates: two_fail,
            script: vec![
                step(|view| view.is("Paused"), |view| view.resume("first")),
                step(
                    |view| view.count("acknowledgedFailedNodes") == 1,
                    |view| view.retry(&view.last_pod("node-2")),
                ),
                step(
                    |view| view.is("Paused") && view.count("acknowledgedFailedNodes") == 0,
                    |view| view.resume("second"),
                ),
            ],
            ..plain("a failure that was accepted is made good and the next one pauses the job")
        },
        Scenario {
            spec: json!({
                "parallelism": 2,
                "failurePolicy": {"type": "Pause"},
                "completionPolicy": {"type": "Always", "activeDeadlineSeconds": 30},
            }),
            fates: hangs_first,
            same: Same::Condition,
            ..plain("the deadline passes while a pod hangs that Pause would let pass")
        },
        Scenario {
            spec: json!({
                "parallelism": 2,
                "failurePolicy": {"type": "Continue"},
                "podFailurePolicy": {"rules": [
                    {"action": "Count", "onPodConditions": [{"type": "DisruptionTarget"}]}]},
            }),
            fates: |node, _| match node {
                "node-2" => Fate {
                    works: vec![Work::Evicted(SECOND)],
                    ..Fate::ends(SECOND, 0)
                },
                _ => Fate::ends(2 * SECOND, 0),
            },
            ..plain("a rule counts an eviction as a failure")
        },
        Scenario {
            spec: json!({"parallelism": 2, "executionPolicy": "AtMostOnce"}),
            fates: |node, nth| Fate {
                refused: (node == "node-2" && nth == 0).then_some("OutOfcpu"),
                ..Fate::ends(2 * SECOND, 0)
            },
            ..plain("a kubelet refuses a pod and takes the next one")
        },
        Scenario {
            fates: |node, _| match node {
                "node-5" => Fate {
                    works: vec![Work::Hangs],
                    ..Fate::ends(SECOND, 0)
                },
                _ => Fate::ends(2 * SECOND, 0),
            },
            script: vec![
                step(
                    |view| view.count("active") > 0,
                    |view| view.patch_node("node-5", &json!({"spec": {"unschedulable": true}})),
                ),
                step(
                    |view| view.pod_on("node-2", "Running").is_some(),
                    |view| {
                        if let Some(pod) = view.pod_on("node-2", "Running") {
                            view.copy_pod(&pod, "node-5");
                        }
                    },
                ),
            ],
            ..plain("a copy of a pod hangs on a node that is not served as the job ends")
        },
        Scenario {
            // The nodes have 4 CPUs.
            spec: json!({
                "noEligibleNodesPolicy": "Fail",
                "template": {"spec": {"resources": {"requests": {"cpu": "8"}}}},
            }),
            ..plain("a pod as a whole asks for more than any node has")
        },
        Scenario {
            spec: json!({"parallelism": 2, "backoffLimitPerNode": 1}),
            fates: |node, _| fails(node, "node-2", 3),
            script: vec![Step {
                when: |view| view.count("retrying") == 1,
                after: SECOND,
                act: deleted,
            }],
            same: Same::Condition,
            ..plain("a node is deleted before its second attempt")
        },
    ]
}
