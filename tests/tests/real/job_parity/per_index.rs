//! Limits of each index.

use carillon_testbed::Fate;
use serde_json::{Value, json};

use super::scenario::{Scenario, all_pods, ends, fails, indexed, runs};

fn each(limit: u32) -> Value {
    json!({"backoffLimitPerIndex": limit})
}

fn at_most(failed: u32) -> Value {
    json!({"maxFailedIndexes": failed})
}

/// Scenarios.
pub(crate) fn all() -> Vec<Scenario> {
    vec![
        Scenario::of("each-2", &[indexed(2, 2), each(2)])
            .fates(&[ends()])
            .index(1, &[fails(1)]),
        Scenario::of("each-0", &[indexed(3, 3), each(0)])
            .fates(&[ends()])
            .index(1, &[fails(1)]),
        Scenario::of("each-1", &[indexed(3, 3), each(1)])
            .fates(&[ends()])
            .index(1, &[fails(1)]),
        Scenario::of("each-1-fails-once", &[indexed(3, 3), each(1)])
            .fates(&[ends()])
            .index(1, &[fails(1), ends()]),
        Scenario::of("each-0-all-succeed", &[indexed(3, 3), each(0)]),
        Scenario::of(
            "each-0-all-fail",
            &[indexed(3, 3), each(0), all_pods(&fails(1))],
        ),
        Scenario::of("each-0-one-by-one", &[indexed(3, 1), each(0)])
            .fates(&[fails(1)])
            .index(1, &[ends()]),
        Scenario::of("each-1-one-by-one", &[indexed(2, 1), each(1)])
            .fates(&[ends()])
            .index(0, &[fails(1), ends()]),
        Scenario::of("no-index-may-fail", &[indexed(3, 3), each(0), at_most(0)])
            .fates(&[Fate::hangs()])
            .index(0, &[ends()])
            .index(1, &[runs("4500ms").with("exit-code", 1)]),
        Scenario::of("one-index-may-fail", &[indexed(4, 4), each(0), at_most(1)])
            .fates(&[Fate::hangs()])
            .index(0, &[fails(1)])
            .index(1, &[runs("4500ms").with("exit-code", 1)]),
        Scenario::of(
            "one-index-may-fail-and-does",
            &[indexed(3, 3), each(0), at_most(1)],
        )
        .fates(&[ends()])
        .index(2, &[fails(1)]),
        Scenario::of(
            "each-1-and-limit-0",
            &[indexed(2, 2), each(1), json!({"backoffLimit": 0})],
        )
        .fates(&[Fate::hangs()])
        .index(0, &[fails(1)]),
        Scenario::of(
            "fewer-indexes-may-fail",
            &[indexed(3, 3), each(0), at_most(2)],
        )
        .fates(&[Fate::hangs()])
        .index(0, &[fails(1)])
        .patch(|here| here.count("failed") == 1, &at_most(0)),
        Scenario::of("elastic-with-a-failed-index", &[indexed(3, 3), each(0)])
            .fates(&[runs("7500ms")])
            .index(2, &[fails(1)])
            .patch(
                |here| here.count("failed") == 1,
                &json!({"completions": 2, "parallelism": 2}),
            ),
        Scenario::of(
            "each-1-back-off-of-one-keeps-no-other",
            &[indexed(3, 2), each(1)],
        )
        .fates(&[ends()])
        .index(0, &[fails(1), ends()])
        .index(1, &[runs("4500ms")]),
    ]
}
