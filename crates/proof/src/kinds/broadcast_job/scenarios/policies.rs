//! What the policies of a job are for.

use carillon_sim::Status;
use carillon_sim::actors::{Fate, Work};
use jiff::SignedDuration;
use serde_json::json;

use super::fixtures::{fails, plain};
use crate::scenario::{SECOND, Same, Scenario, Step, View, step};

pub(super) fn all() -> Vec<Scenario> {
    [attempts(), failures(), nodes()].concat()
}

fn attempts() -> Vec<Scenario> {
    vec![
        Scenario {
            spec: json!({
                "parallelism": 2,
                "executionPolicy": "AtMostOnce",
                "failurePolicy": {"type": "Continue"},
            }),
            script: vec![step(
                |view| view.pod_on("node-2", "Running").is_some(),
                |view| {
                    if let Some(pod) = view.pod_on("node-2", "Running") {
                        view.delete_pod(&pod);
                    }
                },
            )],
            ..plain("a drained pod is not tried again where nothing may run twice")
        },
        Scenario {
            spec: json!({"parallelism": 2, "backoffLimitPerNode": 2}),
            fates: |node, nth| fails(node, if nth < 2 { "node-2" } else { "" }, 3),
            ..plain("a node fails twice and then succeeds")
        },
        Scenario {
            spec: json!({
                "parallelism": 2,
                "backoffLimitPerNode": 2,
                "failurePolicy": {"type": "Continue"},
            }),
            fates: |node, _| fails(node, "node-2", 3),
            ..plain("a node fails as often as it may and is given up")
        },
        Scenario {
            spec: json!({"parallelism": 2, "failurePolicy": {"type": "Continue"}}),
            // The last node leaves its user the time to ask.
            fates: |node, nth| match node {
                "node-5" => Fate::ends(SignedDuration::from_mins(2), 0),
                _ => fails(node, if nth == 0 { "node-2" } else { "" }, 3),
            },
            script: vec![step(
                |view| view.count("failed") == 1,
                |view| view.retry(&view.last_pod("node-2")),
            )],
            ..plain("its user has a failed node tried again")
        },
    ]
}

fn fill_quota(view: &View<'_>) {
    view.server().set_admission(|call, object| {
        if object["kind"] != "Pod" {
            return Ok(());
        }
        let why = "exceeded quota: pods, requested: pods=1, used: pods=3";
        Err(Status::forbidden("pods", &call.name, why))
    });
}

fn failures() -> Vec<Scenario> {
    vec![
        Scenario {
            spec: json!({
                "parallelism": 2,
                "failurePolicy": {"type": "Continue"},
                "podFailurePolicy": {"rules": [
                    {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}},
                ]},
            }),
            fates: |node, _| fails(node, "node-2", 42),
            same: Same::Condition,
            ..plain("an exit code fails the whole job")
        },
        Scenario {
            spec: json!({
                "parallelism": 2,
                "failurePolicy": {"type": "FailFast", "maxFailedNodes": 1},
            }),
            fates: |node, _| fails(node, "node-2", 3),
            ..plain("as many nodes fail as may")
        },
        Scenario {
            spec: json!({
                "parallelism": 2,
                "failurePolicy": {"type": "Continue"},
                "podStartDeadlineSeconds": 30,
            }),
            fates: |node, _| Fate {
                waits: (node == "node-2").then_some("ImagePullBackOff"),
                ..Fate::ends(2 * SECOND, 0)
            },
            ..plain("a pod does not start in time")
        },
        Scenario {
            nodes: 8,
            spec: json!({
                "parallelism": 8,
                "failurePolicy": {"type": "Continue"},
                "podStartDeadlineSeconds": 30,
            }),
            // Some before they are given up, some while they are, and some after.
            fates: |node, _| {
                let nth = node
                    .bytes()
                    .last()
                    .map_or(0, |digit| i64::from(digit - b'0'));
                Fate {
                    start: SignedDuration::from_millis(29_900 + 15 * nth),
                    ..Fate::ends(2 * SECOND, 0)
                }
            },
            same: Same::Type,
            ..plain("pods start when their time to start is over")
        },
        Scenario {
            script: vec![
                step(|view| view.count("succeeded") >= 1, fill_quota),
                Step {
                    when: |view| view.count("active") == 0,
                    after: SignedDuration::from_mins(2),
                    act: |view| view.server().clear_admission(),
                },
            ],
            ..plain("a quota is full for a while")
        },
        Scenario {
            script: vec![
                step(|_| true, fill_quota),
                Step {
                    when: |view| {
                        view.job()
                            .is_some_and(|job| job["status"]["observedGeneration"] == 1)
                    },
                    after: SignedDuration::from_mins(2),
                    act: |view| view.server().clear_admission(),
                },
            ],
            ..plain("a quota is full when the job begins")
        },
        Scenario {
            nodes: 12,
            spec: json!({"parallelism": 4}),
            script: vec![
                step(|view| view.count("succeeded") >= 1, fill_quota),
                Step {
                    when: |view| view.count("active") == 0,
                    after: SignedDuration::from_mins(1),
                    act: |view| view.edit_job(json!({"parallelism": 1})),
                },
                Step {
                    when: |_| true,
                    after: SignedDuration::from_mins(3),
                    act: |view| view.server().clear_admission(),
                },
            ],
            ..plain("parallelism is lowered while a quota is full")
        },
    ]
}

fn nodes() -> Vec<Scenario> {
    vec![
        Scenario {
            nodes: 3,
            spec: json!({"parallelism": 1, "nodeLostTimeoutSeconds": 60}),
            fates: |node, nth| Fate {
                works: vec![if node == "node-1" && nth == 0 {
                    Work::Hangs
                } else {
                    Work::Ends(2 * SECOND, 0)
                }],
                ..Fate::ends(SECOND, 0)
            },
            script: vec![
                step(
                    |view| view.pod_on("node-1", "Running").is_some(),
                    |view| view.stop_kubelet("node-1", true),
                ),
                Step {
                    when: |view| view.count("succeeded") == 2,
                    after: SignedDuration::from_mins(10),
                    act: |view| view.stop_kubelet("node-1", false),
                },
            ],
            ..plain("a lost node gives up its place to the others")
        },
        Scenario {
            nodes: 0,
            spec: json!({"noEligibleNodesPolicy": "Fail"}),
            ..plain("a job without nodes fails where that is asked for")
        },
    ]
}
