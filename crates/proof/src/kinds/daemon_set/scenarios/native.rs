//! DaemonSets of apps/v1.

use serde_json::json;

use super::nodes::{available, later};
use super::updates::{once, rolling, there_and_back, updated};
use crate::kinds::daemon_set::subject::native as plain;
use crate::scenario::{Ends, Scenario};

pub(super) fn all() -> Vec<Scenario> {
    vec![
        plain("native daemon: a pod on each of three nodes"),
        Scenario {
            script: once(),
            ..plain("native daemon: an update, one node at a time")
        },
        Scenario {
            spec: rolling(json!({"maxUnavailable": 0, "maxSurge": 1})),
            script: once(),
            ..plain("native daemon: an update with a surge")
        },
        Scenario {
            spec: json!({"revisionHistoryLimit": 0}),
            script: there_and_back(|view| updated(view, 1)),
            ..plain("native daemon: an update that is taken back half way, without a history")
        },
        Scenario {
            script: vec![later(
                |view| available(view, 3),
                5,
                |view| {
                    let taints = json!([{"key": "role", "effect": "NoExecute"}]);
                    view.patch_node("node-1", &json!({"spec": {"taints": taints}}));
                },
            )],
            ..plain("native daemon: a node is tainted")
        },
        Scenario {
            script: vec![later(
                |view| available(view, 3),
                5,
                |view| {
                    view.delete_job(&carillon_sim::Delete::default());
                },
            )],
            ends: Ends::Gone,
            ..plain("native daemon: it goes, and its pods with it")
        },
    ]
}
