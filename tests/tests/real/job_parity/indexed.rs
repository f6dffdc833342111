//! Indexed Jobs.

use carillon_testbed::Fate;
use serde_json::json;

use super::here::index_of;
use super::scenario::{Scenario, all_pods, ends, fails, indexed, ready, runs};
use crate::parity::stage::PodDeed;
use crate::parity::watched::Here;

/// Scenarios.
pub(crate) fn all() -> Vec<Scenario> {
    let own_variable = json!({"template": {"spec": {"containers": [
        {"name": "main", "image": "busybox:1.37",
            "env": [{"name": "JOB_COMPLETION_INDEX", "value": "mine"}]},
        {"name": "side", "image": "busybox:1.37", "env": [{"name": "A", "value": "b"}]},
    ]}}});
    vec![
        Scenario::of("indexed-three", &[indexed(3, 3)]),
        Scenario::of("indexed-two-at-a-time", &[indexed(5, 2)]),
        Scenario::of("indexed-one-by-one", &[indexed(3, 1)]),
        Scenario::of("indexed-many", &[indexed(12, 12)]),
        Scenario::of("indexed-completions-0", &[indexed(0, 0)]),
        Scenario::of("indexed-parallelism-0", &[indexed(2, 0)]).until(Here::is_served),
        Scenario::of("indexed-with-gaps", &[indexed(5, 5)])
            .fates(&[ends()])
            .index(1, &[runs("4500ms")])
            .index(3, &[runs("7500ms")]),
        Scenario::of("indexed-fails-once", &[indexed(3, 3)])
            .fates(&[ends()])
            .index(1, &[fails(2), ends()]),
        Scenario::of(
            "indexed-fails",
            &[indexed(3, 3), json!({"backoffLimit": 0})],
        )
        .fates(&[Fate::hangs()])
        .index(0, &[ends()])
        .index(1, &[runs("4500ms").with("exit-code", 2)]),
        Scenario::of("indexed-own-variable", &[indexed(2, 2), own_variable]),
        Scenario::of(
            "indexed-suspended",
            &[indexed(2, 2), json!({"suspend": true})],
        )
        .patch(|here| here.is("Suspended"), &json!({"suspend": false})),
        Scenario::of("indexed-pod-deleted", &[indexed(2, 2)])
            .fates(&[runs("3500ms")])
            .index(0, &[Fate::hangs(), ends()])
            .pod(ready, |pod| index_of(pod) == Some(0), PodDeed::Delete),
        Scenario::of("elastic-up", &[indexed(2, 2), all_pods(&runs("6500ms"))]).patch(
            |here| here.count("ready") == 2,
            &json!({"completions": 4, "parallelism": 4}),
        ),
        Scenario::of("elastic-down", &[indexed(4, 4), all_pods(&runs("6500ms"))]).patch(
            |here| here.count("ready") == 4,
            &json!({"completions": 2, "parallelism": 2}),
        ),
        Scenario::of("elastic-to-0", &[indexed(3, 3), all_pods(&Fate::hangs())]).patch(
            |here| here.count("ready") == 3,
            &json!({"completions": 0, "parallelism": 0}),
        ),
        // What an index beyond the new number has come to is forgotten, and done again.
        Scenario::of("elastic-down-and-up", &[indexed(3, 3)])
            .fates(&[ends()])
            .index(0, &[runs("20s")])
            .patch(
                |here| here.count("succeeded") == 2,
                &json!({"completions": 2, "parallelism": 2}),
            )
            .patch(
                |here| here.count("succeeded") == 1,
                &json!({"completions": 3, "parallelism": 3}),
            ),
        Scenario::of("elastic-down-to-what-is-done", &[indexed(3, 3)])
            .fates(&[ends()])
            .index(2, &[Fate::hangs()])
            .patch(
                |here| here.count("succeeded") == 2,
                &json!({"completions": 2, "parallelism": 2}),
            ),
        Scenario::of("elastic-down-after-a-failure", &[indexed(3, 3)])
            .fates(&[runs("6500ms")])
            .index(2, &[fails(1), Fate::hangs()])
            .patch(
                |here| here.count("failed") == 1,
                &json!({"completions": 2, "parallelism": 2}),
            ),
        // Parallelism alone is no change of completions.
        Scenario::of(
            "indexed-parallelism-lowered",
            &[indexed(4, 4), all_pods(&runs("5500ms"))],
        )
        .patch(|here| here.count("ready") == 4, &json!({"parallelism": 2})),
    ]
}
