//! The scenarios.

mod crons;
mod edits;
mod jobs;
mod policies;
pub(crate) mod retries;
mod taken;

use carillon_sim::actors::{Fate, KUBELET_STOPPED, Work};
use carillon_sim::{Delete, Propagation};
use jiff::SignedDuration;
use serde_json::json;

use super::{Ends, Same, Scenario, Step, View};

const SECOND: SignedDuration = SignedDuration::from_secs(1);

/// Every scenario.
pub fn all() -> Vec<Scenario> {
    [
        running(),
        users(),
        pods(),
        nodes(),
        ends(),
        edits::all(),
        policies::all(),
        retries::all(),
        taken::all(),
        crons::all(),
        jobs::all(),
    ]
    .concat()
}

/// Scenarios that are only what they say while the operator runs.
pub fn undisturbed() -> Vec<Scenario> {
    taken::undisturbed()
}

fn plain(name: &'static str) -> Scenario {
    Scenario::of_broadcast_job(name)
}

fn step(when: fn(&View<'_>) -> bool, act: fn(&View<'_>)) -> Step {
    Step {
        when,
        after: SignedDuration::ZERO,
        act,
    }
}

/// `node` fails with `code`, the others succeed.
fn fails(node: &str, on: &str, code: i32) -> Fate {
    Fate::ends(2 * SECOND, if node == on { code } else { 0 })
}

/// The first pod on node-2 hangs.
fn hangs_first(node: &str, nth: usize) -> Fate {
    Fate {
        works: vec![if node == "node-2" && nth == 0 {
            Work::Hangs
        } else {
            Work::Ends(2 * SECOND, 0)
        }],
        ..Fate::ends(SECOND, 0)
    }
}

fn running() -> Vec<Scenario> {
    vec![
        plain("every node succeeds"),
        Scenario {
            spec: json!({"parallelism": 2, "failurePolicy": {"type": "Continue"}}),
            fates: |node, _| fails(node, "node-2", 3),
            ..plain("a node fails and the others go on")
        },
        Scenario {
            spec: json!({"parallelism": 2, "failurePolicy": {"type": "FailFast"}}),
            fates: |node, _| fails(node, "node-2", 3),
            same: Same::Condition,
            ..plain("a node fails and the job with it")
        },
        Scenario {
            spec: json!({
                "parallelism": 2,
                "failurePolicy": {"type": "Continue", "restartLimit": 2},
                "template": {"spec": {"restartPolicy": "OnFailure"}},
            }),
            fates: |node, _| match node {
                "node-1" => fails(node, "node-1", 1),
                "node-3" => Fate {
                    works: vec![Work::Ends(SECOND, 1), Work::Ends(SECOND, 0)],
                    ..Fate::ends(SECOND, 0)
                },
                _ => Fate::ends(2 * SECOND, 0),
            },
            ..plain("a crash loop is stopped at its limit and one restart is not")
        },
        Scenario {
            spec: json!({"parallelism": "50%"}),
            ..plain("parallelism is a percentage")
        },
    ]
}

fn users() -> Vec<Scenario> {
    vec![
        Scenario {
            spec: json!({"parallelism": 2, "failurePolicy": {"type": "Pause"}}),
            fates: |node, _| fails(node, "node-2", 3),
            script: vec![step(
                |view| view.is("Paused") && view.count("active") == 0,
                |view| view.resume("1"),
            )],
            ..plain("a failure pauses the job and its user resumes it")
        },
        Scenario {
            script: vec![
                step(
                    |view| view.count("succeeded") >= 1,
                    |view| view.patch_job(&json!({"spec": {"paused": true}})),
                ),
                Step {
                    when: |view| view.is("Paused"),
                    after: 30 * SECOND,
                    act: |view| view.patch_job(&json!({"spec": {"paused": false}})),
                },
            ],
            ..plain("its user pauses and resumes the job")
        },
        Scenario {
            script: vec![
                step(
                    |view| view.count("succeeded") >= 1,
                    |view| view.patch_job(&json!({"spec": {"parallelism": 4}})),
                ),
                step(
                    |view| view.count("succeeded") >= 3,
                    |view| view.patch_job(&json!({"spec": {"parallelism": 1}})),
                ),
            ],
            ..plain("parallelism is raised and lowered")
        },
    ]
}

fn pods() -> Vec<Scenario> {
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

fn nodes() -> Vec<Scenario> {
    let cordon = |view: &View<'_>| {
        view.patch_node("node-5", &json!({"spec": {"unschedulable": true}}));
    };
    vec![
        Scenario {
            script: vec![step(|view| view.count("active") > 0, cordon)],
            ..plain("a node is cordoned before its turn")
        },
        Scenario {
            script: vec![step(
                |view| view.pod_on("node-5", "Running").is_some(),
                cordon,
            )],
            ..plain("a node is cordoned while its pod runs")
        },
        Scenario {
            script: vec![
                step(
                    |view| view.pod_on("node-1", "Succeeded").is_some(),
                    |view| view.patch_node("node-1", &json!({"spec": {"unschedulable": true}})),
                ),
                step(
                    |view| view.count("succeeded") >= 4,
                    |view| view.patch_node("node-1", &json!({"spec": {"unschedulable": null}})),
                ),
            ],
            ..plain("a node is cordoned after its pod succeeded and uncordoned later")
        },
        Scenario {
            script: vec![step(
                |view| view.pod_on("node-1", "Running").is_some(),
                |view| view.delete_node("node-1"),
            )],
            ..plain("a node goes away while its pod runs")
        },
        Scenario {
            script: vec![step(
                |view| view.pod_on("node-1", "Succeeded").is_some(),
                |view| {
                    view.delete_node("node-1");
                    view.add_node("node-1");
                },
            )],
            ..plain("a node that was served is replaced under its name")
        },
        Scenario {
            script: vec![step(
                |view| view.count("succeeded") >= 2,
                |view| view.add_node("node-7"),
            )],
            ..plain("a node joins while the job runs")
        },
        Scenario {
            fates: hangs_first,
            script: vec![
                step(
                    |view| view.pod_on("node-2", "Running").is_some(),
                    |view| view.patch_node("node-2", &stopped("true")),
                ),
                Step {
                    when: |view| view.count("succeeded") == 5,
                    after: SignedDuration::from_mins(30),
                    act: |view| view.patch_node("node-2", &stopped("false")),
                },
            ],
            ..plain("a node is silent while its pod runs and comes back")
        },
        Scenario {
            spec: json!({"parallelism": 2, "completionPolicy": {"type": "Never"}}),
            script: vec![step(
                |view| view.count("succeeded") == 6,
                |view| view.add_node("node-7"),
            )],
            ends: Ends::Served(7),
            ..plain("a job that never ends serves a node that joins later")
        },
    ]
}

fn stopped(yes: &str) -> serde_json::Value {
    json!({"metadata": {"annotations": {KUBELET_STOPPED: yes}}})
}

fn ends() -> Vec<Scenario> {
    vec![
        Scenario {
            spec: json!({
                "parallelism": 2,
                "completionPolicy": {"type": "Always", "activeDeadlineSeconds": 60},
            }),
            fates: |node, _| Fate {
                works: vec![if node == "node-3" {
                    Work::Hangs
                } else {
                    Work::Ends(SECOND, 0)
                }],
                ..Fate::ends(SECOND, 0)
            },
            same: Same::Condition,
            ..plain("the deadline passes while a pod hangs")
        },
        Scenario {
            spec: json!({
                "parallelism": 3,
                "completionPolicy": {"type": "Always", "ttlSecondsAfterFinished": 20},
            }),
            ends: Ends::Gone,
            ..plain("the time to live removes the job and all of it")
        },
        Scenario {
            script: vec![step(
                |view| view.count("succeeded") >= 1,
                |view| view.delete_job(&Delete::with(Propagation::Background)),
            )],
            ends: Ends::Gone,
            ..plain("the job is deleted while it runs")
        },
        Scenario {
            script: vec![step(
                |view| view.count("succeeded") >= 1,
                |view| view.delete_job(&Delete::with(Propagation::Foreground)),
            )],
            ends: Ends::Gone,
            ..plain("the job is deleted in the foreground while it runs")
        },
        Scenario {
            script: vec![
                step(
                    |view| view.count("succeeded") >= 1,
                    |view| view.delete_job(&Delete::with(Propagation::Background)),
                ),
                step(
                    |view| view.job().is_none(),
                    |view| {
                        let job = super::job(&json!({"parallelism": 2}));
                        let actor = view.server().actor("user");
                        drop(actor.create("broadcastjobs.carillon.dev", super::NAMESPACE, &job));
                    },
                ),
            ],
            ..plain("the job is deleted and created again under its name")
        },
        Scenario {
            nodes: 0,
            script: vec![Step {
                when: |view| view.job().is_some_and(|job| job["status"].is_object()),
                after: 30 * SECOND,
                act: |view| view.add_node("node-0"),
            }],
            ..plain("the first node comes after the job")
        },
        Scenario {
            script: vec![step(
                |view| view.is("Complete"),
                |view| {
                    view.add_node("node-7");
                    view.patch_job(&json!({"spec": {"parallelism": 3}}));
                },
            )],
            ..plain("a node joins and the job is edited after it has ended")
        },
        Scenario {
            spec: json!({
                "completionPolicy": {"type": "Always", "activeDeadlineSeconds": 60},
            }),
            ..plain("every node succeeds long before the deadline")
        },
    ]
}
