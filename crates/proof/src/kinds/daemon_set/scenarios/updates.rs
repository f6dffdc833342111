//! Another template.

use serde_json::json;

use super::nodes::{available, later};
use crate::kinds::daemon_set::subject::scenario as plain;
use crate::kinds::daemon_set::template::template;
use crate::scenario::{Scenario, Step, View};

fn image(view: &View<'_>, image: &str) {
    view.edit_job(json!({"template": template(image)}));
}

fn updated(view: &View<'_>, nodes: i64) -> bool {
    available(view, 3) && view.count("updatedNumberScheduled") == nodes
}

/// Another template when all run, and the first again when so many are updated.
fn there_and_back(at: fn(&View<'_>) -> bool) -> Vec<Step> {
    vec![
        later(
            |view| available(view, 3),
            5,
            |view| image(view, "example.com/work:2"),
        ),
        later(at, 1, |view| image(view, "example.com/work:1")),
    ]
}

fn once() -> Vec<Step> {
    vec![later(
        |view| available(view, 3),
        5,
        |view| image(view, "example.com/work:2"),
    )]
}

pub(super) fn all() -> Vec<Scenario> {
    let rolling = |rolling| json!({"updateStrategy": {"rollingUpdate": rolling}});
    vec![
        Scenario {
            script: once(),
            ..plain("daemon: an update, one node at a time")
        },
        Scenario {
            spec: rolling(json!({"maxUnavailable": "60%"})),
            script: once(),
            ..plain("daemon: an update, two nodes at a time")
        },
        Scenario {
            spec: rolling(json!({"maxSurge": 1})),
            script: once(),
            ..plain("daemon: an update with a surge")
        },
        Scenario {
            spec: json!({"minReadySeconds": 10}),
            script: once(),
            ..plain("daemon: an update whose pods have to be ready for a while")
        },
        Scenario {
            script: there_and_back(|view| updated(view, 1)),
            ..plain("daemon: an update that is taken back half way")
        },
        Scenario {
            spec: json!({"revisionHistoryLimit": 0}),
            script: there_and_back(|view| updated(view, 3)),
            ..plain("daemon: an update that is taken back, without a history")
        },
        Scenario {
            spec: json!({"updateStrategy": {"type": "OnDelete"}}),
            script: vec![
                later(
                    |view| available(view, 3),
                    5,
                    |view| image(view, "example.com/work:2"),
                ),
                later(
                    |_| true,
                    20,
                    |view| {
                        if let Some(pod) = view.pod_on("node-1", "Running") {
                            view.delete_pod(&pod);
                        }
                    },
                ),
            ],
            ..plain("daemon: an update by request")
        },
        Scenario {
            spec: rolling(json!({"partition": 2})),
            script: vec![
                later(
                    |view| available(view, 3),
                    5,
                    |view| image(view, "example.com/work:2"),
                ),
                later(
                    |view| updated(view, 1),
                    20,
                    |view| {
                        view.edit_job(
                            json!({"updateStrategy": {"rollingUpdate": {"partition": 0}}}),
                        );
                    },
                ),
            ],
            ..plain("daemon: an update of one node, and then of the others")
        },
    ]
}
