//! Pods that wait for a hook before they are deleted.

use std::sync::Arc;

use serde_json::{Value, json};

use super::nodes::{available, later};
use super::updates::{image, updated};
use crate::kinds::daemon_set::subject::scenario as plain;
use crate::scenario::{NAMESPACE, Scenario, Step, View};

const HOOK: &str = "example.com/hold";

/// Pods that carry a hook, and are updated so.
fn hooked(rolling: &Value) -> Value {
    json!({
        "template": {
            "metadata": {"labels": {"app": "agent", HOOK: "yes"}},
            "spec": {"containers": [{"name": "main", "image": "example.com/work:1"}]},
        },
        "lifecycle": {"preDelete": {"labelsHandler": {HOOK: "yes"}}},
        "updateStrategy": {"rollingUpdate": rolling},
    })
}

/// The pods that were told that they go, and still carry the hook.
fn waiting(view: &View<'_>) -> Vec<Arc<Value>> {
    let mut pods = view.pods();
    pods.retain(|pod| {
        let labels = &pod["metadata"]["labels"];
        labels["lifecycle.apps.kruise.io/state"] == "PreparingDelete" && labels[HOOK] == "yes"
    });
    pods
}

/// The hook does its work, and lets go of all that wait.
fn let_go(view: &View<'_>) {
    for pod in waiting(view) {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let patch = json!({"metadata": {"labels": {HOOK: null}}});
        drop(view.actor().patch_merge("pods", NAMESPACE, name, &patch));
    }
}

/// Another template, whose pods carry the hook as well.
fn new_image() -> Step {
    later(
        |view| available(view, 3),
        5,
        |view| image(view, "example.com/work:2"),
    )
}

fn once_all_are_let_go() -> Vec<Step> {
    let lets_go = || {
        later(
            |view| updated(view, 3) || !waiting(view).is_empty(),
            20,
            let_go,
        )
    };
    let mut script = vec![new_image(), lets_go(), lets_go(), lets_go()];
    // Whoever crashed or was stopped meanwhile may have said it to others, or again.
    let in_the_end = (0..2).map(|_| later(|_| true, 300, let_go));
    script.extend(in_the_end);
    script
}

fn taint(view: &View<'_>, taints: &Value) {
    view.patch_node("node-1", &json!({"spec": {"taints": taints}}));
}

pub(super) fn all() -> Vec<Scenario> {
    vec![
        Scenario {
            spec: hooked(&json!({})),
            script: once_all_are_let_go(),
            ..plain("daemon: an update of pods that wait for a hook")
        },
        Scenario {
            spec: hooked(&json!({"maxSurge": 1})),
            script: once_all_are_let_go(),
            ..plain("daemon: an update with a surge of pods that wait for a hook")
        },
        Scenario {
            spec: hooked(&json!({})),
            script: vec![
                new_image(),
                later(
                    |view| !waiting(view).is_empty(),
                    20,
                    |view| image(view, "example.com/work:1"),
                ),
            ],
            ..plain("daemon: an update that is taken back while a pod waits for a hook")
        },
        Scenario {
            spec: hooked(&json!({})),
            script: vec![
                later(
                    |view| available(view, 3),
                    5,
                    |view| taint(view, &json!([{"key": "role", "effect": "NoExecute"}])),
                ),
                later(
                    |view| !waiting(view).is_empty(),
                    20,
                    |view| taint(view, &Value::Null),
                ),
            ],
            ..plain("daemon: a node is tainted, and not any more while its pod waits for a hook")
        },
    ]
}
