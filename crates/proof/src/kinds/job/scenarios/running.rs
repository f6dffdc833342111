//! Jobs without indexes in which nothing fails.

use serde_json::json;

use super::fixtures::{after, later, plain};
use crate::kinds::job::subject;
use crate::scenario::{Same, Scenario};

pub(super) fn all() -> Vec<Scenario> {
    vec![
        plain("a job runs four pods, two at a time"),
        Scenario {
            subject: &subject::NATIVE,
            ..plain("native: a job runs four pods, two at a time")
        },
        Scenario {
            spec: json!({}),
            ..plain("a job of one pod")
        },
        Scenario {
            spec: json!({"parallelism": 3}),
            fates: |_, nth| after(if nth == 0 { 2 } else { 5 }, 0),
            // After the first success none is started, however late it was noticed.
            same: Same::Condition,
            ..plain("a work queue is done when its pods are, after a success")
        },
        Scenario {
            spec: json!({"parallelism": 3}),
            fates: |_, nth| after(2 + nth as i32, i32::from(nth == 1)),
            same: Same::Condition,
            ..plain("a work queue is done although a pod fails after a success")
        },
        Scenario {
            spec: json!({"completions": 0, "parallelism": 2}),
            ..plain("a job without completions is complete at once")
        },
        Scenario {
            spec: json!({"completions": 2, "parallelism": 0}),
            script: vec![later(
                |view| {
                    view.job()
                        .is_some_and(|job| job["status"]["startTime"].is_string())
                },
                30,
                |view| view.edit_job(json!({"parallelism": 2})),
            )],
            ..plain("a job of parallelism 0 waits until that is raised")
        },
        Scenario {
            spec: json!({"completions": 6, "parallelism": 6}),
            flags: &["--job-max-uncounted-pods=2"],
            ..plain("six pods that end together are counted by twos")
        },
        Scenario {
            spec: json!({"completions": 5, "parallelism": 5}),
            flags: &["--max-pod-changes-per-sync=2"],
            ..plain("five pods are created by twos")
        },
    ]
}
