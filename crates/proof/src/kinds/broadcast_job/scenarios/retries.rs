//! A job and its retries. The names of the retries begin with that of the job.

use carillon_sim::Delete;
use carillon_sim::actors::Fate;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::fixtures::plain;
use crate::kinds::broadcast_job::subject::manifest;
use crate::scenario::{Ends, JOB, NAMESPACE, SECOND, Same, Scenario, Step, View, step};

const JOBS: &str = "broadcastjobs.carillon.dev";

/// The scenarios.
pub(super) fn all() -> Vec<Scenario> {
    vec![
        Scenario {
            script: vec![step(ended, |view| {
                for name in ["job-retry-1", "job-retry-2", "job-retry-3"] {
                    retry(view, name, 0, &json!(["node-1"]));
                }
            })],
            ..family("a retry is made three times")
        },
        Scenario {
            fates: |node, nth| fails_before(node, nth, 3),
            script: vec![
                step(ended, |view| {
                    retry(view, "job-retry-1", 0, &json!(["node-1"]));
                }),
                step(
                    |view| has_ended(view, "job-retry-1"),
                    |view| {
                        retry(view, "job-retry-2", 0, &json!(["node-1"]));
                        retry(view, "job-retry-3", 1, &json!(["node-1"]));
                        retry(view, "job-retry-4", 2, &Value::Null);
                    },
                ),
            ],
            ..family("a retry fails and is made again by who knows and who does not")
        },
        Scenario {
            script: vec![
                step(
                    |view| view.count("active") > 0,
                    |view| {
                        retry(view, "job-retry-1", 0, &json!(["node-1"]));
                        retry(view, "job-retry-2", 0, &Value::Null);
                    },
                ),
                step(ended, |view| delete(view, "job-retry-1")),
            ],
            ..family("retries are made while the job runs, and one is deleted when it ends")
        },
        Scenario {
            script: vec![
                step(ended, |view| {
                    retry(view, "job-retry-1", 0, &json!(["node-1"]));
                    retry(view, "job-retry-2", 0, &json!(["node-1"]));
                }),
                Step {
                    when: |view| runs(view, "job-retry-1") || runs(view, "job-retry-2"),
                    // Its pod has started by then.
                    after: SECOND,
                    act: |view| {
                        for name in ["job-retry-1", "job-retry-2"] {
                            if runs(view, name) {
                                delete(view, name);
                            }
                        }
                    },
                },
            ],
            // Its pod ends by itself while it is told to stop.
            fates: |node, nth| Fate {
                obeys: None,
                ..fails_before(node, nth, 1)
            },
            ..family("the retry that has its turn is deleted")
        },
        Scenario {
            fates: |node, nth| fails_before(node, nth, 2),
            script: vec![
                step(ended, |view| {
                    retry(view, "job-retry-1", 0, &json!(["node-1"]));
                }),
                step(
                    |view| has_ended(view, "job-retry-1"),
                    |view| {
                        delete(view, "job-retry-1");
                        retry(view, "job-retry-2", 0, &json!(["node-1"]));
                        retry(view, "job-retry-3", 1, &Value::Null);
                    },
                ),
            ],
            ..family("a retry that has ended is deleted, and others are made")
        },
        Scenario {
            script: vec![
                step(ended, |view| {
                    retry(view, "job-retry-1", 0, &json!(["node-1"]));
                    retry(view, "job-retry-2", 0, &json!(["node-1"]));
                }),
                step(
                    |view| runs(view, "job-retry-1") || runs(view, "job-retry-2"),
                    |view| view.delete_job(&Delete::default()),
                ),
            ],
            same: Same::Condition,
            ..family("the job is deleted while it is retried")
        },
    ]
}

/// A job that fails on node-1, once.
fn family(name: &'static str) -> Scenario {
    Scenario {
        nodes: 3,
        spec: json!({"parallelism": 2, "failurePolicy": {"type": "Continue"}}),
        fates: |node, nth| fails_before(node, nth, 1),
        // Which of them has its turn depends on the time.
        same: Same::Condition,
        ends: Ends::After(SignedDuration::from_mins(4)),
        ..plain(name)
    }
}

/// The first pods on node-1 fail, so many of them.
fn fails_before(node: &str, nth: usize, pods: usize) -> Fate {
    let fails = node == "node-1" && nth < pods;
    Fate::ends(2 * SECOND, i32::from(fails))
}

fn ended(view: &View<'_>) -> bool {
    view.is("Complete")
}

fn get(view: &View<'_>, name: &str) -> Option<std::sync::Arc<Value>> {
    view.actor().get(JOBS, NAMESPACE, name).ok()
}

fn has_ended(view: &View<'_>, name: &str) -> bool {
    get(view, name).is_some_and(|job| job["status"]["completionTime"].is_string())
}

/// Whether a pod of it runs; or has run, if nobody has looked meanwhile.
fn runs(view: &View<'_>, name: &str) -> bool {
    let active = |job: &Value| job["status"]["active"].as_i64() > Some(0);
    get(view, name).is_some_and(|job| active(&job)) || has_ended(view, name)
}

/// Somebody makes a retry of the job.
pub(crate) fn retry(view: &View<'_>, name: &str, known: usize, nodes: &Value) {
    let Some(first) = view.job() else { return };
    let mut spec = json!({
        "failurePolicy": {"type": "Continue"},
        "retryOf": {"name": JOB, "uid": first["metadata"]["uid"], "knownRetries": known},
    });
    if !nodes.is_null() {
        spec["nodeNames"] = nodes.clone();
    }
    let mut retry = manifest(&spec);
    retry["metadata"]["name"] = json!(name);
    drop(view.actor().create(JOBS, NAMESPACE, &retry));
}

/// Somebody deletes it.
pub(crate) fn delete(view: &View<'_>, name: &str) {
    drop(
        view.actor()
            .delete(JOBS, NAMESPACE, name, &Delete::default()),
    );
}
