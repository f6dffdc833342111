//! Another template.

use std::collections::BTreeSet;

use carillon_sim::actors::Fate;
use serde_json::{Value, json};

use super::nodes::{available, later};
use crate::kinds::daemon_set::subject::{runs, scenario as plain};
use crate::kinds::daemon_set::template::template;
use crate::scenario::{SECOND, Scenario, Step, View, is_true};

pub(super) fn image(view: &View<'_>, image: &str) {
    view.edit_job(json!({"template": template(image)}));
}

/// A template that tolerates the taints of a node that is silent, so that one should have a pod.
fn tolerant(image: &str) -> Value {
    let mut template = template(image);
    template["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
    json!({"template": template})
}

/// Whether so many nodes, at least, have a ready pod of the template. No status is asked: it may not tell of each.
pub(super) fn updated(view: &View<'_>, nodes: usize) -> bool {
    let Some(set) = view.job() else { return false };
    let image = &set["spec"]["template"]["spec"]["containers"][0]["image"];
    let pods = view.pods().into_iter().filter(|pod| {
        pod["spec"]["containers"][0]["image"] == *image
            && pod["metadata"]["deletionTimestamp"].is_null()
            && is_true(pod, "Ready")
    });
    let on = pods.filter_map(|pod| pod["spec"]["nodeName"].as_str().map(str::to_owned));
    on.collect::<BTreeSet<_>>().len() >= nodes
}

/// Another template when all run, and the first again when so many are updated.
pub(super) fn there_and_back(at: fn(&View<'_>) -> bool) -> Vec<Step> {
    vec![
        new_image(),
        later(at, 1, |view| image(view, "example.com/work:1")),
    ]
}

/// Another template when all run.
fn new_image() -> Step {
    later(
        |view| available(view, 3),
        5,
        |view| image(view, "example.com/work:2"),
    )
}

pub(super) fn once() -> Vec<Step> {
    vec![new_image()]
}

fn start_slowly(_: &str, _: usize) -> Fate {
    Fate {
        start: SECOND * 10,
        ..runs()
    }
}

/// On the first node they stop at once.
pub(super) fn stop_slowly(place: &str, _: usize) -> Fate {
    Fate {
        obeys: Some(0).filter(|_| place.ends_with('0')),
        ..runs()
    }
}

#[allow(clippy::needless_pass_by_value)] // reads better with json!
pub(super) fn rolling(rolling: Value) -> Value {
    json!({"updateStrategy": {"rollingUpdate": rolling}})
}

pub(super) fn all() -> Vec<Scenario> {
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
            fates: start_slowly,
            script: once(),
            ..plain("daemon: an update with a surge")
        },
        Scenario {
            spec: json!({"minReadySeconds": 10}),
            script: vec![later(
                |view| available(view, 3),
                20,
                |view| image(view, "example.com/work:2"),
            )],
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
    ]
}

/// Updates that somebody holds up, and one that a node does.
pub(super) fn held() -> Vec<Scenario> {
    vec![
        Scenario {
            spec: json!({"updateStrategy": {"type": "OnDelete"}}),
            fates: start_slowly,
            script: vec![
                new_image(),
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
            fates: start_slowly,
            script: vec![
                new_image(),
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
        Scenario {
            fates: stop_slowly,
            script: once(),
            ..plain("daemon: an update of pods that stop slowly")
        },
        Scenario {
            fates: start_slowly,
            script: vec![
                new_image(),
                later(
                    |view| updated(view, 1),
                    1,
                    |view| view.edit_job(rolling(json!({"paused": true}))),
                ),
                later(
                    |_| true,
                    60,
                    |view| view.edit_job(rolling(json!({"paused": false}))),
                ),
            ],
            ..plain("daemon: an update that is paused half way")
        },
        Scenario {
            spec: tolerant("example.com/work:1"),
            script: vec![
                later(
                    |view| available(view, 3),
                    5,
                    |view| view.stop_kubelet("node-0", true),
                ),
                later(
                    |_| true,
                    90,
                    |view| view.edit_job(tolerant("example.com/work:2")),
                ),
            ],
            ..plain("daemon: an update while a node is silent")
        },
    ]
}
