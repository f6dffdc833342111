//! Pods that succeed, fail and hang.

use carillon_sim::actors::{Fate, Work};
use serde_json::json;

use super::fixtures::{fails, plain};
use crate::scenario::{SECOND, Same, Scenario};

pub(super) fn all() -> Vec<Scenario> {
    vec![
        plain("every node succeeds"),
        Scenario {
            spec: json!({"parallelism": 2, "failurePolicy": {"type": "Continue"}}),
            fates: |node, _| fails(node, "node-2", 3),
            ..plain("a node fails and the others go on")
        },
        Scenario {
            spec: json!({"parallelism": 2, "failurePolicy": {"type": "FailFast"}}),
            fates: |node, _| fails(node, "node-2", 3),
            same: Same::Condition,
            ..plain("a node fails and the job with it")
        },
        Scenario {
            spec: json!({
                "parallelism": 2,
                "failurePolicy": {"type": "Continue", "restartLimit": 2},
                "template": {"spec": {"restartPolicy": "OnFailure"}},
            }),
            fates: |node, _| match node {
                "node-1" => fails(node, "node-1", 1),
                "node-3" => Fate {
                    works: vec![Work::Ends(SECOND, 1), Work::Ends(SECOND, 0)],
                    ..Fate::ends(SECOND, 0)
                },
                _ => Fate::ends(2 * SECOND, 0),
            },
            ..plain("a crash loop is stopped at its limit and one restart is not")
        },
        Scenario {
            spec: json!({"parallelism": 2, "failurePolicy": {"type": "Continue"}}),
            fates: |node, _| match node {
                "node-2" => Fate {
                    works: vec![Work::OverLimit(SECOND)],
                    ..Fate::ends(SECOND, 0)
                },
                _ => Fate::ends(2 * SECOND, 0),
            },
            ..plain("a pod is evicted for its own use of the disk")
        },
        Scenario {
            spec: json!({"parallelism": "50%"}),
            ..plain("parallelism is a percentage")
        },
    ]
}
