//! What users change about a CronJob.

use serde_json::json;

use super::fixtures::{after, jobs_that, minutes, plain};
use crate::scenario::{Same, Scenario};

pub(super) fn all() -> Vec<Scenario> {
    vec![
        Scenario {
            script: vec![after(90, |view| {
                view.edit_cron(json!({"schedule": "2,4 0 * * *"}));
            })],
            ends: minutes(5),
            ..plain("the schedule is edited between two ticks")
        },
        Scenario {
            spec: json!({"schedule": "4 0 * * *", "missedRunPolicy": "All"}),
            script: vec![after(210, |view| {
                view.edit_cron(json!({"schedule": "1-5 0 * * *"}));
            })],
            ends: minutes(6),
            ..plain("the schedule is edited and has no past")
        },
        Scenario {
            spec: json!({
                "schedule": "1-4 0 * * *", "concurrencyPolicy": "Replace",
                "jobTemplate": jobs_that("100s"),
            }),
            script: vec![after(130, |view| {
                let template = jobs_that("5s");
                view.edit_cron(json!({"schedule": "2,4 0 * * *", "jobTemplate": template}));
            })],
            ends: minutes(6),
            ..plain("schedule and template are edited while a run is to be replaced")
        },
        Scenario {
            spec: json!({
                "schedule": "1-2 0 * * *", "concurrencyPolicy": "Forbid",
                "jobTemplate": jobs_that("100s"),
            }),
            script: vec![after(140, |view| {
                view.edit_cron(json!({"schedule": "4 0 * * *", "concurrencyPolicy": "Allow"}));
            })],
            ends: minutes(6),
            same: Same::Condition,
            ..plain("schedule and policy are edited while a run waits")
        },
        Scenario {
            script: vec![
                after(90, |view| view.edit_cron(json!({"suspend": true}))),
                after(60, |view| view.edit_cron(json!({"suspend": false}))),
            ],
            ..plain("it is suspended over a tick which is then made up for")
        },
        Scenario {
            spec: json!({"schedule": "1-3,6 0 * * *", "missedRunPolicy": "Skip"}),
            script: vec![
                after(90, |view| view.edit_cron(json!({"suspend": true}))),
                after(180, |view| view.edit_cron(json!({"suspend": false}))),
            ],
            ends: minutes(7),
            ..plain("it is suspended over ticks which are then left out")
        },
        Scenario {
            spec: json!({"schedule": "1-3 0 * * *", "jobTemplate": jobs_that("50s")}),
            script: vec![
                after(70, |view| view.edit_cron(json!({"suspend": true}))),
                after(15, |view| {
                    let template = jobs_that("5s");
                    view.edit_cron(json!({"jobTemplate": template, "suspend": false}));
                }),
            ],
            ..plain("it is suspended, changed and resumed while a run goes on")
        },
    ]
}
