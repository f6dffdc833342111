//! Runs that take longer than the time between two ticks.

use carillon_sim::actors::{Fate, Work};
use serde_json::json;

use super::fixtures::{jobs_that, minutes, plain};
use crate::scenario::{SECOND, Scenario};

pub(super) fn all() -> Vec<Scenario> {
    vec![
        plain("each tick starts a job"),
        Scenario {
            spec: json!({"schedule": "1-3 0 * * *", "jobTemplate": jobs_that("100s")}),
            ends: minutes(6),
            ..plain("runs are longer than the interval and run beside each other")
        },
        Scenario {
            spec: json!({
                "schedule": "1-3 0 * * *", "concurrencyPolicy": "Forbid",
                "jobTemplate": jobs_that("70s"),
            }),
            ends: minutes(7),
            ..plain("with Forbid each run waits for the one before")
        },
        Scenario {
            spec: json!({
                "schedule": "1-3 0 * * *", "concurrencyPolicy": "Forbid",
                "jobTemplate": jobs_that("150s fail"),
            }),
            ends: minutes(8),
            ..plain("with Forbid only the last of the runs that had to wait is started")
        },
        Scenario {
            spec: json!({
                "schedule": "1-3 0 * * *", "concurrencyPolicy": "Replace",
                "jobTemplate": jobs_that("100s"),
            }),
            ends: minutes(6),
            ..plain("with Replace each run stops the one before")
        },
        Scenario {
            spec: json!({
                "schedule": "1,3 0 * * *",
                "broadcastJobTemplate": {"spec": {"parallelism": 2}},
            }),
            ends: minutes(5),
            ..plain("each tick starts a BroadcastJob")
        },
        Scenario {
            spec: json!({
                "schedule": "1-2 0 * * *", "concurrencyPolicy": "Replace",
                "broadcastJobTemplate": {"spec": {"parallelism": 1}},
            }),
            fates: hangs_first,
            ends: minutes(5),
            ..plain("with Replace a BroadcastJob that hangs is stopped for the next")
        },
    ]
}

/// The first pod on node-0 hangs for two minutes. Whose pod that is, is not sure where requests are refused.
fn hangs_first(node: &str, nth: usize) -> Fate {
    let work = if node == "node-0" && nth == 0 {
        Work::Ends(120 * SECOND, 0)
    } else {
        Work::Ends(2 * SECOND, 0)
    };
    Fate {
        works: vec![work],
        ..Fate::ends(SECOND, 0)
    }
}
