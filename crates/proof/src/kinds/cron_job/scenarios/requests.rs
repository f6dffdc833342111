//! Runs on request.

use serde_json::json;

use super::fixtures::{after, jobs_that, minutes, plain};
use crate::scenario::{SECOND, Same, Scenario, Step};

/// As it comes along when a CronJob is copied, made anew or restored.
const OF_ANOTHER: &str = "4e0c5d6a-0b1c-4d2e-8f3a-5b6c7d8e9f99/a";

pub(super) fn all() -> Vec<Scenario> {
    vec![
        Scenario {
            script: vec![after(30, |view| view.ask("a"))],
            ..plain("its user asks for a run")
        },
        Scenario {
            spec: json!({
                "schedule": "1-3 0 * * *", "concurrencyPolicy": "Forbid",
                "jobTemplate": jobs_that("40s"), "successfulJobsHistoryLimit": 10,
            }),
            script: vec![after(70, |view| view.ask("a"))],
            ends: minutes(7),
            ..plain("its user asks for a run while another must not be disturbed")
        },
        Scenario {
            spec: json!({
                "schedule": "1-3 0 * * *", "concurrencyPolicy": "Replace",
                "jobTemplate": jobs_that("40s"),
            }),
            script: vec![after(70, |view| view.ask("a"))],
            ends: minutes(5),
            // Which run is in the way of which.
            same: Same::Condition,
            ..plain("its user asks for a run in the place of another")
        },
        Scenario {
            spec: json!({"schedule": "1-3 0 * * *", "suspend": true}),
            script: vec![after(30, |view| view.ask("a"))],
            ..plain("its user asks for a run of a suspended one")
        },
        Scenario {
            spec: json!({"schedule": "2 0 * * *"}),
            script: vec![
                after(30, |view| view.ask("a")),
                Step {
                    after: SECOND / 10,
                    ..after(0, |view| view.ask("b"))
                },
            ],
            // Whether the first was seen before the second came.
            same: Same::Condition,
            ..plain("its user asks for two runs at once")
        },
        Scenario {
            spec: json!({"schedule": "3 0 * * *", "successfulJobsHistoryLimit": 0}),
            script: vec![
                after(30, |view| view.ask("a")),
                after(40, |view| view.ask("b")),
                after(40, |view| view.ask("a")),
            ],
            ..plain("its user asks again for a run that there was")
        },
        Scenario {
            spec: json!({"schedule": "3 0 * * *", "suspend": true}),
            script: vec![
                after(30, |view| view.write_request(OF_ANOTHER)),
                after(30, |view| view.write_request("today")),
            ],
            ..plain("it carries requests to another one, and what nobody can read")
        },
    ]
}
