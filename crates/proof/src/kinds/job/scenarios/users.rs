//! Jobs whose pods, nodes or numbers are changed by users.

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::fixtures::{after, hangs, plain, stubborn};
use crate::kinds::cron_job;
use crate::kinds::job::subject;
use crate::scenario::{Ends, NAMESPACE, Same, Scenario, Step, step};

pub(super) fn all() -> Vec<Scenario> {
    [pods(), owners(), nodes(), numbers(), beside()].concat()
}

fn pods() -> Vec<Scenario> {
    vec![
        fails_and_succeeds(
            json!({"parallelism": 1}),
            "a pod of a work queue that counts as failed succeeds after all",
        ),
        fails_and_succeeds(
            json!({"completionMode": "Indexed", "completions": 2, "parallelism": 2}),
            "the pod of an index that counts as failed succeeds after all",
        ),
        Scenario {
            fates: |_, nth| if nth == 0 { hangs() } else { after(2, 0) },
            spec: json!({"completions": 3, "parallelism": 1}),
            script: vec![step(
                |view| view.pod_in("Running").is_some(),
                |view| {
                    if let Some(pod) = view.pod_in("Running") {
                        view.delete_pod(&pod);
                    }
                },
            )],
            ..plain("a user deletes a running pod")
        },
        Scenario {
            script: vec![step(
                |view| view.pod_in("Succeeded").is_some(),
                |view| {
                    if let Some(pod) = view.pod_in("Succeeded") {
                        view.delete_pod(&pod);
                    }
                },
            )],
            ..plain("a user deletes a pod that has succeeded and it counts")
        },
        Scenario {
            spec: json!({"completionMode": "Indexed", "completions": 3, "parallelism": 2}),
            fates: |place, nth| {
                if place == "index-0" && nth == 0 {
                    hangs()
                } else {
                    after(2, 0)
                }
            },
            script: vec![Step {
                when: |view| view.count("succeeded") == 2,
                after: SignedDuration::from_secs(4),
                act: |view| {
                    if let Some(pod) = view.pod_in("Running") {
                        view.remove_pod(&pod);
                    }
                },
            }],
            ..plain("a user takes a pod out of the store by force")
        },
    ]
}

/// A user deletes the first pod, which does not care and succeeds seconds later.
fn fails_and_succeeds(spec: Value, name: &'static str) -> Scenario {
    Scenario {
        fates: |_, nth| stubborn(after(if nth == 0 { 8 } else { 2 }, 0)),
        spec,
        script: vec![step(
            |view| view.pod_in("Running").is_some(),
            |view| {
                if let Some(pod) = view.pod_in("Running") {
                    view.delete_pod(&pod);
                }
            },
        )],
        // Whether it has failed depends on when it was noticed that it is to stop.
        same: Same::Condition,
        ..plain(name)
    }
}

/// The label by which a Job selects its pods.
const SELECTED: &str = "batch.kubernetes.io/controller-uid";

fn owners() -> Vec<Scenario> {
    vec![
        Scenario {
            fates: |_, _| after(20, 0),
            spec: json!({"completions": 3, "parallelism": 2}),
            script: vec![step(
                |view| view.count("active") == 2,
                |view| {
                    let Some(job) = view.job() else { return };
                    let pod = json!({
                        "metadata": {
                            "name": "stray", "labels": {SELECTED: job["metadata"]["uid"]},
                        },
                        "spec": job["spec"]["template"]["spec"],
                    });
                    drop(view.server().actor("user").create("pods", NAMESPACE, &pod));
                },
            )],
            // How many pods there are then depends on when it was noticed.
            same: Same::Condition,
            ..plain("a pod that nothing controls is adopted")
        },
        Scenario {
            spec: json!({"completions": 2, "parallelism": 1}),
            fates: |_, nth| after(if nth == 0 { 100 } else { 2 }, 0),
            script: vec![step(
                |view| view.pod_in("Running").is_some() && view.count("active") == 1,
                |view| {
                    let Some(pod) = view.pod_in("Running") else {
                        return;
                    };
                    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
                    let other = json!({"metadata": {"labels": {SELECTED: "other"}}});
                    let user = view.server().actor("user");
                    drop(user.patch_merge("pods", NAMESPACE, name, &other));
                },
            )],
            ..plain("a pod that is no longer selected is given away and replaced")
        },
    ]
}

fn nodes() -> Vec<Scenario> {
    vec![
        Scenario {
            spec: json!({"completions": 2, "parallelism": 2}),
            fates: |_, nth| if nth < 2 { hangs() } else { after(2, 0) },
            script: vec![
                step(
                    |view| view.pod_on("node-0", "Running").is_some(),
                    |view| view.delete_node("node-0"),
                ),
                step(
                    |view| view.count("succeeded") == 1,
                    |view| view.delete_node("node-1"),
                ),
                step(|_| true, |view| view.add_node("node-2")),
            ],
            same: Same::Condition,
            ..plain("a node goes away with its pod")
        },
        Scenario {
            spec: json!({
                "completionMode": "Indexed", "completions": 2, "parallelism": 2,
                "podReplacementPolicy": "Failed",
            }),
            fates: |_, nth| if nth == 0 { hangs() } else { after(2, 0) },
            script: vec![
                step(
                    |view| {
                        let on = |node| view.pod_on(node, "Running").is_some();
                        on("node-0") && on("node-1")
                    },
                    |view| {
                        for node in ["node-0", "node-1"] {
                            view.stop_kubelet(node, true);
                        }
                    },
                ),
                Step {
                    when: |view| view.count("terminating") == 2,
                    after: SignedDuration::from_mins(10),
                    act: |view| {
                        for node in ["node-0", "node-1"] {
                            view.stop_kubelet(node, false);
                        }
                    },
                },
            ],
            ..plain("nodes are silent and an index is not run elsewhere meanwhile")
        },
    ]
}

fn numbers() -> Vec<Scenario> {
    vec![
        Scenario {
            spec: json!({"completions": 6, "parallelism": 4}),
            fates: |_, _| after(30, 0),
            script: vec![
                // Where requests are refused its status may never say so.
                step(
                    |view| view.count("active") == 4 || view.is("Complete"),
                    |view| view.edit_job(json!({"parallelism": 1})),
                ),
                step(
                    |view| view.count("active") == 1 || view.is("Complete"),
                    |view| view.edit_job(json!({"parallelism": 3})),
                ),
            ],
            ..plain("fewer pods are wanted and then more")
        },
        Scenario {
            spec: json!({"completions": 4, "parallelism": 2, "backoffLimit": 0}),
            fates: |_, nth| after(if nth == 0 { 40 } else { 20 }, i32::from(nth == 0)),
            script: vec![step(
                |view| view.count("active") == 2,
                |view| view.edit_job(json!({"backoffLimit": 2})),
            )],
            ..plain("more failures are allowed while it runs")
        },
    ]
}

fn beside() -> Vec<Scenario> {
    vec![
        Scenario {
            script: vec![step(
                |_| true,
                |view| {
                    let spec =
                        json!({"completionMode": "Indexed", "completions": 3, "parallelism": 2});
                    let other = subject::manifest("other", &spec, false);
                    let user = view.server().actor("user");
                    drop(user.create("jobs.batch", NAMESPACE, &other));
                },
            )],
            ..plain("two jobs run side by side")
        },
        Scenario {
            script: vec![step(
                |_| true,
                |view| {
                    let other = subject::manifest("other", &json!({}), true);
                    let user = view.server().actor("user");
                    drop(user.create("jobs.batch", NAMESPACE, &other));
                },
            )],
            ..plain("a job runs beside one that others serve")
        },
        Scenario {
            subject: &cron_job::SUBJECT,
            spec: json!({
                "schedule": "1-3 0 * * *",
                "jobTemplate": {"spec": {
                    "managedBy": "carillon.dev/job-controller", "completions": 2,
                }},
            }),
            flags: &["--controllers=broadcastjob,cronjob,job"],
            ends: Ends::After(SignedDuration::from_mins(5)),
            ..cron_job::scenario("a CronJob starts jobs that we serve")
        },
    ]
}
