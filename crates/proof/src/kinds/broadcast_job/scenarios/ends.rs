//! How a job comes to its end, or is deleted.

use carillon_sim::actors::{Fate, Work};
use carillon_sim::{Delete, Propagation};
use serde_json::json;

use super::fixtures::plain;
use crate::kinds::broadcast_job::subject::manifest;
use crate::scenario::{Ends, NAMESPACE, SECOND, Same, Scenario, Step, step};

pub(super) fn all() -> Vec<Scenario> {
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
                        let job = manifest(&json!({"parallelism": 2}));
                        let actor = view.server().actor("user");
                        drop(actor.create("broadcastjobs.carillon.dev", NAMESPACE, &job));
                    },
                ),
            ],
            ..plain("the job is deleted and created again under its name")
        },
        Scenario {
            nodes: 0,
            script: vec![Step {
                when: |view| {
                    view.job()
                        .is_some_and(|job| job["status"]["observedGeneration"] == 1)
                },
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
