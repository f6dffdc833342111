//! NonIndexed Jobs: how many pods, how many at a time.

use carillon_testbed::Fate;
use serde_json::{Value, json};

use super::scenario::{Scenario, all_pods, ends, fails, ready, runs};
use crate::parity::watched::Here;

fn sizes(completions: u32, parallelism: u32) -> Value {
    json!({"completions": completions, "parallelism": parallelism})
}

/// Any number of pods is a success once one has succeeded.
fn work_queue(parallelism: u32) -> Value {
    json!({"completions": null, "parallelism": parallelism})
}

/// Scenarios.
pub(crate) fn all() -> Vec<Scenario> {
    vec![
        Scenario::of("one", &[]),
        Scenario::of("three-two-at-a-time", &[sizes(3, 2)]),
        Scenario::of("three-one-by-one", &[sizes(3, 1)]),
        Scenario::of("more-places-than-completions", &[sizes(2, 5)]),
        Scenario::of("completions-0", &[sizes(0, 2)]),
        Scenario::of("parallelism-0", &[sizes(2, 0)]).until(Here::is_served),
        Scenario::of("parallelism-0-then-2", &[sizes(2, 0)])
            .patch(Here::is_served, &json!({"parallelism": 2})),
        Scenario::of(
            "parallelism-raised",
            &[sizes(3, 1), all_pods(&runs("5500ms"))],
        )
        .patch(ready, &json!({"parallelism": 3})),
        Scenario::of(
            "parallelism-lowered",
            &[sizes(3, 3), all_pods(&runs("6500ms"))],
        )
        .patch(|here| here.count("ready") == 3, &json!({"parallelism": 1})),
        Scenario::of(
            "parallelism-0-meanwhile",
            &[sizes(2, 2), all_pods(&runs("4500ms"))],
        )
        .patch(|here| here.count("ready") == 2, &json!({"parallelism": 0}))
        .patch(
            |here| here.count("active") == 0 && here.pods().is_empty(),
            &json!({"parallelism": 2}),
        ),
        Scenario::of("many", &[sizes(15, 15)]),
        Scenario::of("queue", &[work_queue(3)]),
        Scenario::of("queue-of-one", &[work_queue(1)]),
        Scenario::of("queue-ends-with-its-last-pod", &[work_queue(3)]).fates(&[
            ends(),
            runs("4500ms"),
            runs("7500ms"),
        ]),
        Scenario::of("queue-starts-nothing-after-a-success", &[work_queue(2)])
            .fates(&[ends(), runs("4500ms").with("exit-code", 1)]),
        Scenario::of("queue-fails-once", &[work_queue(2)]).fates(&[fails(1), runs("15s")]),
        Scenario::of("queue-fails", &[work_queue(2), json!({"backoffLimit": 0})])
            .fates(&[fails(1), Fate::hangs()]),
        Scenario::of("queue-lowered", &[work_queue(3), all_pods(&runs("6500ms"))])
            .patch(|here| here.count("ready") == 3, &json!({"parallelism": 1})),
        Scenario::of("queue-lowered-after-a-success", &[work_queue(3)])
            .fates(&[ends(), runs("9500ms")])
            .patch(
                |here| here.count("succeeded") == 1,
                &json!({"parallelism": 1}),
            ),
    ]
}
