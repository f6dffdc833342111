//! CronJobs of batch/v1 that are served in the place of kube-controller-manager.

use carillon_sim::{Delete, Propagation};
use serde_json::json;

use super::fixtures::{after, jobs_that, minutes};
use crate::kinds::cron_job::subject;
use crate::scenario::children::is_held;
use crate::scenario::{Scenario, step};
use crate::span::Span;

pub(super) fn all() -> Vec<Scenario> {
    vec![
        plain("native: each tick starts a job"),
        Scenario {
            spec: json!({
                "schedule": "1-3 0 * * *", "concurrencyPolicy": "Forbid",
                "jobTemplate": jobs_that("70s"),
            }),
            ends: minutes(7),
            ..plain("native: with Forbid each run waits for the one before")
        },
        Scenario {
            spec: json!({
                "schedule": "1-3 0 * * *", "concurrencyPolicy": "Replace",
                "jobTemplate": jobs_that("100s"),
            }),
            ends: minutes(6),
            ..plain("native: with Replace each run stops the one before")
        },
        Scenario {
            spec: json!({
                "schedule": "1-3 0 * * *",
                "successfulJobsHistoryLimit": 0, "failedJobsHistoryLimit": 0,
            }),
            ..plain("native: no job that has succeeded is kept")
        },
        Scenario {
            spec: json!({
                "schedule": "1-3 0 * * *", "jobTemplate": {
                    "metadata": jobs_that("0s")["metadata"],
                    "spec": {"ttlSecondsAfterFinished": 0},
                },
            }),
            ..plain("native: jobs end at once and live no longer")
        },
        Scenario {
            script: vec![step(
                |view| view.newest_child().is_some_and(|child| is_held(&child)),
                |view| {
                    if let Some(child) = view.newest_child() {
                        view.delete_child(&child, &Delete::with(Propagation::Background));
                    }
                },
            )],
            ..plain("native: a user deletes a job before it is recorded")
        },
        Scenario {
            spec: json!({"schedule": "1-3,6 0 * * *"}),
            down: vec![Span { from: 100, to: 270 }],
            ends: minutes(7),
            ..plain("native: the operator is down over two ticks and the last of them is run")
        },
        Scenario {
            script: vec![
                after(90, |view| view.edit_cron(json!({"suspend": true}))),
                after(60, |view| view.edit_cron(json!({"suspend": false}))),
            ],
            ..plain("native: it is suspended over a tick which is then made up for")
        },
    ]
}

fn plain(name: &'static str) -> Scenario {
    Scenario {
        subject: &subject::NATIVE,
        ..subject::scenario(name)
    }
}
