//! Pods that fail, and how often they may.

use carillon_testbed::Fate;
use serde_json::{Value, json};

use super::scenario::{Scenario, all_pods, ends, fails, ready, runs, slow_to_stop};

fn limit(limit: u32) -> Value {
    json!({"backoffLimit": limit})
}

fn on_failure() -> Value {
    json!({"template": {"spec": {"restartPolicy": "OnFailure"}}})
}

fn sizes(completions: u32, parallelism: u32) -> Value {
    json!({"completions": completions, "parallelism": parallelism})
}

/// Scenarios.
pub(crate) fn all() -> Vec<Scenario> {
    let crash_loops = all_pods(&Fate::crash_loops(3).with("run-time", "1500ms"));
    vec![
        Scenario::of("limit-0", &[limit(0), all_pods(&fails(1))]),
        Scenario::of("limit-1", &[limit(1), all_pods(&fails(1))]),
        Scenario::of("limit-2", &[limit(2), all_pods(&fails(1))]),
        Scenario::of("fails-once", &[]).fates(&[fails(1), ends()]),
        Scenario::of("fails-twice", &[]).fates(&[fails(1), fails(2), ends()]),
        Scenario::of("a-success-ends-the-back-off", &[sizes(2, 1)]).fates(&[
            fails(1),
            ends(),
            fails(1),
            ends(),
        ]),
        Scenario::of("fails-while-another-runs", &[sizes(2, 2)]).fates(&[
            fails(1),
            runs("14500ms"),
            ends(),
        ]),
        Scenario::of("fails-and-takes-the-others-along", &[sizes(3, 3), limit(0)])
            .fates(&[fails(1), Fate::hangs()]),
        Scenario::of(
            "fails-and-waits-for-the-others",
            &[sizes(3, 3), limit(0), slow_to_stop("4s")],
        )
        .fates(&[fails(1), Fate::hangs()]),
        Scenario::of("fails-after-successes", &[sizes(4, 2), limit(0)]).fates(&[
            ends(),
            ends(),
            runs("5500ms").with("exit-code", 9),
            Fate::hangs(),
        ]),
        Scenario::of("limit-lowered", &[sizes(2, 2), limit(4)])
            .fates(&[fails(1), Fate::hangs()])
            .patch(|here| here.count("failed") == 1, &limit(0)),
        Scenario::of("limit-raised", &[sizes(1, 1), limit(0)])
            .fates(&[runs("5500ms").with("exit-code", 1), ends()])
            .patch(ready, &limit(1)),
        Scenario::of(
            "both-fail-at-once",
            &[sizes(2, 2), limit(1), all_pods(&fails(1))],
        ),
        Scenario::of(
            "on-failure-limit-0",
            &[on_failure(), limit(0), crash_loops.clone()],
        ),
        Scenario::of(
            "on-failure-limit-2",
            &[on_failure(), limit(2), crash_loops.clone()],
        ),
        Scenario::of(
            "on-failure-restarted-once",
            &[
                on_failure(),
                limit(3),
                all_pods(&ends().with("restarts", 1).with("exit-code", 1)),
            ],
        ),
        // The restarts of all pods together count.
        Scenario::of(
            "on-failure-sum",
            &[on_failure(), limit(3), sizes(2, 2), crash_loops],
        ),
        Scenario::of("on-failure-succeeds", &[on_failure(), limit(0)]),
    ]
}
