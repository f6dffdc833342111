//! Ticks that come while nobody can run them.

use serde_json::{Value, json};

use super::fixtures::{jobs_that, minutes, plain};
use crate::scenario::Scenario;
use crate::span::Span;

pub(super) fn all() -> Vec<Scenario> {
    vec![
        down(
            "the operator is down over two ticks and the last of them is run",
            json!({"missedRunPolicy": "Latest"}),
        ),
        down(
            "the operator is down over two ticks and neither is run",
            json!({"missedRunPolicy": "Skip"}),
        ),
        down(
            "the operator is down over two ticks and both are run",
            json!({"missedRunPolicy": "All"}),
        ),
        down(
            "the operator is down over two ticks and both are run one after the other",
            json!({
                "missedRunPolicy": "All", "concurrencyPolicy": "Forbid",
                "jobTemplate": jobs_that("20s"),
            }),
        ),
        Scenario {
            spec: json!({"schedule": "1-3 0 * * *", "startingDeadlineSeconds": 28}),
            down: vec![Span { from: 100, to: 150 }],
            ..plain("the operator is down until the deadline of a tick has passed")
        },
        Scenario {
            spec: json!({
                "schedule": "1-3 0 * * *", "startingDeadlineSeconds": 30,
                "concurrencyPolicy": "Forbid", "jobTemplate": jobs_that("110s"),
            }),
            ends: minutes(6),
            ..plain("with Forbid a run has to wait until its deadline has passed")
        },
    ]
}

/// The operator is down over the ticks after two and three minutes; a further one comes later.
#[allow(clippy::needless_pass_by_value)] // reads better with json!
fn down(name: &'static str, fields: Value) -> Scenario {
    let mut spec = json!({"schedule": "1-3,6 0 * * *"});
    for (field, value) in fields.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    Scenario {
        spec,
        down: vec![Span { from: 100, to: 270 }],
        ends: minutes(7),
        ..plain(name)
    }
}
