//! Jobs whose completions have indexes.

use serde_json::json;

use super::fixtures::{after, hangs, plain};
use crate::scenario::{Scenario, step};

pub(super) fn all() -> Vec<Scenario> {
    vec![
        Scenario {
            spec: json!({"completionMode": "Indexed", "completions": 5, "parallelism": 2}),
            ..plain("each index succeeds")
        },
        Scenario {
            spec: json!({"completionMode": "Indexed", "completions": 3, "parallelism": 3}),
            fates: |place, nth| after(2, i32::from(place == "index-1" && nth == 0)),
            ..plain("an index fails and runs again")
        },
        Scenario {
            spec: json!({"completionMode": "Indexed", "completions": 6, "parallelism": 6}),
            fates: |place, nth| after(2, i32::from(place == "index-2" && nth == 0)),
            flags: &["--job-max-uncounted-pods=2"],
            ..plain("six indexes that end together are counted by twos")
        },
        Scenario {
            spec: json!({"completionMode": "Indexed", "completions": 2, "parallelism": 2}),
            fates: |place, _| after(if place == "index-0" { 90 } else { 2 }, 0),
            script: vec![step(
                |view| view.count("succeeded") == 1,
                |view| view.edit_job(json!({"completions": 4, "parallelism": 4})),
            )],
            ..plain("an elastic job grows")
        },
        Scenario {
            spec: json!({"completionMode": "Indexed", "completions": 4, "parallelism": 4}),
            fates: |place, _| match place {
                "index-0" => after(90, 0),
                "index-1" => after(2, 0),
                _ => hangs(),
            },
            script: vec![step(
                |view| view.count("succeeded") == 1,
                |view| view.edit_job(json!({"completions": 2, "parallelism": 2})),
            )],
            ..plain("an elastic job shrinks")
        },
        Scenario {
            spec: json!({"completionMode": "Indexed", "completions": 4, "parallelism": 4}),
            fates: |place, _| after(if place == "index-0" { 150 } else { 2 }, 0),
            script: vec![
                step(
                    |view| view.count("succeeded") == 3,
                    |view| view.edit_job(json!({"completions": 2, "parallelism": 2})),
                ),
                step(
                    |view| view.count("succeeded") == 1,
                    |view| view.edit_job(json!({"completions": 4, "parallelism": 4})),
                ),
            ],
            ..plain("an elastic job shrinks and grows again")
        },
    ]
}
