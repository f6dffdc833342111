//! What becomes of children: kept, removed by limit or time, deleted by users.

use carillon_sim::{Delete, Propagation};
use serde_json::json;

use super::fixtures::{after, jobs_that, minutes, plain};
use crate::scenario::children::{is_held, is_running};
use crate::scenario::{SECOND, Same, Scenario, Step, View, step};

pub(super) fn all() -> Vec<Scenario> {
    [limits(), deleted()].concat()
}

fn limits() -> Vec<Scenario> {
    vec![
        Scenario {
            spec: json!({
                "schedule": "1-3 0 * * *",
                "successfulJobsHistoryLimit": 0, "failedJobsHistoryLimit": 0,
            }),
            ..plain("no job that has succeeded is kept")
        },
        Scenario {
            spec: json!({
                "schedule": "1-3 0 * * *", "jobTemplate": jobs_that("2s fail"),
                "successfulJobsHistoryLimit": 0, "failedJobsHistoryLimit": 0,
            }),
            ..plain("no job that has failed is kept")
        },
        Scenario {
            spec: json!({"schedule": "1-4 0 * * *", "successfulJobsHistoryLimit": 1}),
            ends: minutes(5),
            ..plain("the newest job is kept")
        },
        Scenario {
            spec: json!({
                "schedule": "1-3 0 * * *", "successfulJobsHistoryLimit": 0,
                "jobTemplate": {
                    "metadata": jobs_that("0s")["metadata"],
                    "spec": {"ttlSecondsAfterFinished": 0},
                },
            }),
            ..plain("jobs end at once and live no longer")
        },
        Scenario {
            spec: json!({
                "schedule": "1,3 0 * * *",
                "broadcastJobTemplate": {"spec": {
                    "completionPolicy": {"type": "Always", "ttlSecondsAfterFinished": 0},
                }},
            }),
            ends: minutes(5),
            ..plain("BroadcastJobs live no longer than their pods")
        },
    ]
}

fn deleted() -> Vec<Scenario> {
    vec![
        Scenario {
            spec: json!({"schedule": "1-3 0 * * *", "jobTemplate": jobs_that("40s")}),
            script: vec![Step {
                when: |view| view.newest_child().is_some_and(|child| is_running(&child)),
                after: 10 * SECOND,
                act: delete_newest,
            }],
            ..plain("a user deletes a job while it runs")
        },
        Scenario {
            script: vec![step(
                |view| view.newest_child().is_some_and(|child| is_held(&child)),
                delete_newest,
            )],
            ..plain("a user deletes a job before it is recorded")
        },
        Scenario {
            spec: json!({
                "schedule": "1-3 0 * * *", "concurrencyPolicy": "Forbid",
                "jobTemplate": jobs_that("100s"),
            }),
            script: vec![
                step(
                    |view| view.newest_child().is_some_and(|child| is_held(&child)),
                    delete_newest,
                ),
                Step {
                    when: |view| view.newest_child().is_some_and(|child| is_running(&child)),
                    after: 30 * SECOND,
                    act: delete_newest,
                },
            ],
            ends: minutes(7),
            // Which one the second of them is.
            same: Same::Condition,
            ..plain("with Forbid a user deletes jobs before others may start")
        },
        Scenario {
            spec: json!({
                "schedule": "1-2 0 * * *",
                "broadcastJobTemplate": {"spec": {"parallelism": 1}},
            }),
            script: vec![step(
                |view| view.newest_child().is_some_and(|child| is_held(&child)),
                delete_newest,
            )],
            ..plain("a user deletes a BroadcastJob before it is recorded")
        },
        Scenario {
            // That of the second tick.
            script: vec![after(30, |view| {
                let job = json!({
                    "metadata": {"name": "cron-29453762"},
                    "spec": {"template": {"spec": {
                        "restartPolicy": "Never",
                        "containers": [{"name": "main", "image": "example.com/other:1"}],
                    }}},
                });
                let namespace = crate::scenario::NAMESPACE;
                drop(view.server().actor("user").create("jobs", namespace, &job));
            })],
            ..plain("somebody else has taken the name of a job")
        },
    ]
}

fn delete_newest(view: &View<'_>) {
    if let Some(child) = view.newest_child() {
        view.delete_child(&child, &Delete::with(Propagation::Background));
    }
}
