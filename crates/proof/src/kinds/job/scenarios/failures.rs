//! Pods that fail, and how often they may.

use carillon_sim::actors::{Fate, Work};
use serde_json::json;

use super::fixtures::{after, hangs, plain};
use crate::scenario::{SECOND, Same, Scenario};

pub(super) fn all() -> Vec<Scenario> {
    vec![
        Scenario {
            spec: json!({"completions": 2, "parallelism": 1}),
            fates: |_, nth| after(2, i32::from(nth < 2)),
            ..plain("a pod fails twice and is replaced after a wait")
        },
        Scenario {
            spec: json!({"completions": 3, "parallelism": 1, "backoffLimit": 1}),
            fates: |_, nth| after(2, i32::from(nth > 0)),
            ..plain("a job fails beyond its back-off limit")
        },
        Scenario {
            spec: json!({"completions": 3, "parallelism": 3, "backoffLimit": 0}),
            fates: |_, nth| if nth == 0 { after(3, 1) } else { hangs() },
            // Who comes back after the failure creates no more.
            same: Same::Condition,
            ..plain("pods that run beside the last failure are stopped and counted")
        },
        Scenario {
            spec: json!({
                "completions": 2, "parallelism": 1, "backoffLimit": 2,
                "template": {"spec": {"restartPolicy": "OnFailure"}},
            }),
            fates: |_, _| after(1, 1),
            same: Same::Condition,
            ..plain("restarts count against the back-off limit")
        },
        Scenario {
            spec: json!({
                "completions": 2, "parallelism": 1,
                "template": {"spec": {"restartPolicy": "OnFailure"}},
            }),
            fates: |_, nth| Fate {
                works: vec![
                    Work::Ends(SECOND, i32::from(nth == 0)),
                    Work::Ends(SECOND, 0),
                ],
                ..after(1, 0)
            },
            ..plain("a container restarts once and then succeeds")
        },
        Scenario {
            spec: json!({
                "completionMode": "Indexed", "completions": 4, "parallelism": 2,
                "backoffLimitPerIndex": 1,
            }),
            fates: |place, nth| {
                let fails = place == "index-1" || place == "index-2" && nth == 0;
                after(2, i32::from(fails))
            },
            ..plain("each index has failures of its own")
        },
        Scenario {
            spec: json!({
                "completionMode": "Indexed", "completions": 4, "parallelism": 1,
                "backoffLimitPerIndex": 0, "maxFailedIndexes": 1,
            }),
            fates: |place, _| after(2, i32::from(place != "index-0")),
            ..plain("too many indexes fail")
        },
    ]
}
