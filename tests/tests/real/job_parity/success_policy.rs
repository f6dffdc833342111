//! Rules about indexes that are enough.

use carillon_testbed::Fate;
use serde_json::{Value, json};

use super::scenario::{Scenario, ends, fails, indexed, runs, slow_to_stop};

fn rules(rules: &Value) -> Value {
    json!({"successPolicy": {"rules": rules}})
}

/// Scenarios.
pub(crate) fn all() -> Vec<Scenario> {
    let leader = rules(&json!([{"succeededIndexes": "0"}]));
    vec![
        Scenario::of("enough-by-index", &[indexed(3, 3), leader.clone()])
            .fates(&[Fate::hangs()])
            .index(0, &[ends()]),
        Scenario::of(
            "enough-by-count",
            &[indexed(4, 4), rules(&json!([{"succeededCount": 2}]))],
        )
        .fates(&[Fate::hangs()])
        .index(1, &[ends()])
        .index(3, &[runs("4500ms")]),
        Scenario::of(
            "enough-by-count-of-indexes",
            &[
                indexed(4, 4),
                rules(&json!([{"succeededIndexes": "1-2", "succeededCount": 1}])),
            ],
        )
        .fates(&[Fate::hangs()])
        .index(0, &[ends()])
        .index(2, &[runs("5500ms")]),
        Scenario::of(
            "enough-by-the-second-rule",
            &[
                indexed(3, 3),
                rules(&json!([{"succeededIndexes": "0"}, {"succeededIndexes": "1,2"}])),
            ],
        )
        .fates(&[ends()])
        .index(0, &[Fate::hangs()]),
        Scenario::of(
            "enough-and-wait-for-the-others",
            &[indexed(3, 3), leader.clone(), slow_to_stop("4s")],
        )
        .fates(&[Fate::hangs()])
        .index(0, &[ends()]),
        Scenario::of(
            "enough-while-others-never-start",
            &[indexed(3, 3), leader.clone()],
        )
        .fates(&[Fate::never_starts("ImagePullBackOff")])
        .index(0, &[ends()]),
        Scenario::of(
            "not-enough",
            &[indexed(2, 2), leader.clone(), json!({"backoffLimit": 0})],
        )
        .fates(&[ends()])
        .index(0, &[runs("4500ms").with("exit-code", 1)]),
        Scenario::of(
            "enough-after-a-failure",
            &[
                indexed(3, 3),
                leader.clone(),
                json!({"backoffLimitPerIndex": 0}),
            ],
        )
        .fates(&[Fate::hangs()])
        .index(0, &[runs("4500ms")])
        .index(1, &[fails(1)]),
        // All of them succeed at once: both would do.
        Scenario::of("enough-and-all", &[indexed(2, 2), leader.clone()]),
        Scenario::of("enough-of-one-by-one", &[indexed(3, 1), leader]),
    ]
}
