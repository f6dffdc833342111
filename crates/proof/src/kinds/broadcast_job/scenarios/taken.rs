//! Pods that somebody takes from their job while they run.

use carillon_sim::actors::Fate;
use carillon_sim::{Delete, Propagation};
use serde_json::{Value, json};

use super::fixtures::plain;
use crate::scenario::{Ends, SECOND, Same, Scenario, Step, View, step};

pub(super) fn all() -> Vec<Scenario> {
    vec![
        Scenario {
            script: vec![step(runs, |view| view.patch_running(NODE, &no_owner()))],
            ..long("a pod loses its owner while it runs")
        },
        Scenario {
            script: vec![step(runs, |view| view.patch_running(NODE, &no_label()))],
            ..long("a pod loses its label while it runs")
        },
        Scenario {
            script: vec![step(exists, |view| view.patch_running(NODE, &no_label()))],
            ..long("a pod loses its label before it was seen")
        },
        Scenario {
            script: vec![
                step(runs, |view| view.patch_running(NODE, &no_label())),
                step(runs, |view| view.patch_running(NODE, &no_owner())),
            ],
            spec: json!({"parallelism": 2, "executionPolicy": "AtMostOnce"}),
            ..long("a pod loses label and owner while it runs where nothing may run twice")
        },
        Scenario {
            script: vec![step(runs, |view| {
                view.patch_running(NODE, &no_label());
                view.patch_running(NODE, &no_owner());
            })],
            spec: json!({
                "parallelism": 2, "backoffLimitPerNode": 1, "failurePolicy": {"type": "Continue"},
            }),
            fates: |node, nth| Fate::ends(8 * SECOND, i32::from(node == NODE && nth == 0)),
            ..long("a pod that was taken from its job fails and its node is tried again")
        },
        Scenario {
            script: vec![
                step(runs, |view| view.patch_running(NODE, &no_owner())),
                later(3, |view| {
                    if let Some(job) = view.job() {
                        let owner = reference(&job);
                        let back = json!({"metadata": {"ownerReferences": [owner]}});
                        view.patch_running(NODE, &back);
                    }
                }),
            ],
            ..long("a pod loses its owner and gets it back")
        },
        Scenario {
            spec: json!({"parallelism": 6, "completionPolicy": {"activeDeadlineSeconds": 6}}),
            fates: |node, _| Fate::ends(if node == NODE { 60 } else { 2 } * SECOND, 0),
            script: vec![step(runs, |view| {
                view.patch_running(NODE, &no_label());
                view.patch_running(NODE, &no_owner());
            })],
            same: Same::Condition,
            ..plain("a pod that was taken from its job is stopped with it")
        },
        Scenario {
            script: vec![step(runs, |view| {
                view.delete_job(&Delete::with(Propagation::Orphan));
            })],
            ends: Ends::Gone,
            // What was done by then is left behind.
            same: Same::Condition,
            ..long("its user deletes the job and leaves its pods behind")
        },
        Scenario {
            script: vec![
                step(runs, |view| view.patch_running(NODE, &no_owner())),
                later(1, |view| {
                    view.delete_job(&Delete::with(Propagation::Foreground));
                }),
            ],
            ends: Ends::Gone,
            ..long("its user deletes the job after a pod has lost its owner")
        },
    ]
}

/// Where an operator that is down meanwhile finds nothing that names the pod, see decision 0034.
pub(super) fn undisturbed() -> Vec<Scenario> {
    vec![
        loses_its_label_and_its_job(
            runs,
            "its user deletes the job after a pod has lost its label",
        ),
        Scenario {
            script: vec![step(exists, |view| view.patch_running(NODE, &no_owner()))],
            ..long("a pod loses its owner before it was seen")
        },
        loses_its_label_and_its_job(
            exists,
            "its user deletes the job after a pod has lost its label before it was seen",
        ),
    ]
}

/// The pod loses its label as soon as `when` is so, and the job is deleted a second later.
fn loses_its_label_and_its_job(when: fn(&View<'_>) -> bool, name: &'static str) -> Scenario {
    Scenario {
        script: vec![
            step(when, |view| view.patch_running(NODE, &no_label())),
            later(1, |view| {
                view.delete_job(&Delete::with(Propagation::Background));
            }),
        ],
        ends: Ends::Gone,
        ..long(name)
    }
}

/// Its pod runs, whether that was seen or not.
fn exists(view: &View<'_>) -> bool {
    view.pod_on(NODE, "Running").is_some()
}

/// Whose pod is taken.
const NODE: &str = "node-2";

/// A job whose pods run for so long that there is time to take one.
fn long(name: &'static str) -> Scenario {
    Scenario {
        spec: json!({"parallelism": 2}),
        fates: |_, _| Fate::ends(8 * SECOND, 0),
        ..plain(name)
    }
}

/// Its uid is in the records; or all is over, and it is too late.
fn runs(view: &View<'_>) -> bool {
    if view.is("Complete") || view.is("Failed") {
        return true;
    }
    let Some(pod) = view.pod_on(NODE, "Running") else {
        return false;
    };
    let records = view.slices();
    let records = records
        .iter()
        .filter_map(|slice| slice["results"].as_array());
    let mut records = records.flatten();
    records.any(|record| record["podUID"] == pod["metadata"]["uid"])
}

fn later(seconds: i32, act: fn(&View<'_>)) -> Step {
    Step {
        when: |_| true,
        after: SECOND * seconds,
        act,
    }
}

fn no_owner() -> Value {
    json!({"metadata": {"ownerReferences": null}})
}

fn no_label() -> Value {
    json!({"metadata": {"labels": {"carillon.dev/broadcastjob-uid": null}}})
}

fn reference(job: &Value) -> Value {
    json!({
        "apiVersion": job["apiVersion"], "kind": job["kind"], "controller": true,
        "name": job["metadata"]["name"], "uid": job["metadata"]["uid"],
    })
}
