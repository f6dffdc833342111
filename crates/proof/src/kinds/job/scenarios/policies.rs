//! What a failure means, what is enough, and when a pod is replaced.

use carillon_sim::actors::{Fate, Work};
use serde_json::{Value, json};

use super::fixtures::{after, hangs, plain, stubborn};
use crate::scenario::{SECOND, Same, Scenario, step};

pub(super) fn all() -> Vec<Scenario> {
    [failures(), successes(), replacements()].concat()
}

fn on_exit(action: &str) -> Value {
    let codes = json!({"operator": "In", "values": [3]});
    json!({"rules": [{"action": action, "onExitCodes": codes}]})
}

fn failures() -> Vec<Scenario> {
    vec![
        Scenario {
            spec: json!({
                "completions": 4, "parallelism": 1, "podFailurePolicy": on_exit("FailJob"),
            }),
            fates: |_, nth| after(2, if nth == 1 { 3 } else { 0 }),
            ..plain("an exit code fails the job")
        },
        Scenario {
            spec: json!({
                "completionMode": "Indexed", "completions": 3, "parallelism": 3,
                "backoffLimitPerIndex": 3, "podFailurePolicy": on_exit("FailIndex"),
            }),
            fates: |place, nth| match place {
                "index-1" => after(2, 3),
                "index-2" => after(2, i32::from(nth == 0)),
                _ => after(2, 0),
            },
            ..plain("an exit code fails its index")
        },
        Scenario {
            spec: json!({
                "completions": 2, "parallelism": 2, "backoffLimit": 0,
                "podFailurePolicy": {"rules": [
                    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]},
            }),
            fates: |_, nth| Fate {
                works: vec![if nth == 0 {
                    Work::Evicted(2 * SECOND)
                } else {
                    Work::Ends(2 * SECOND, 0)
                }],
                ..after(2, 0)
            },
            ..plain("an eviction is ignored and the pod replaced")
        },
        Scenario {
            spec: json!({
                "completionMode": "Indexed", "completions": 2, "parallelism": 2,
                "backoffLimitPerIndex": 0,
                "podFailurePolicy": {"rules": [
                    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]},
            }),
            fates: |place, nth| Fate {
                works: vec![if place == "index-1" && nth == 0 {
                    Work::Evicted(2 * SECOND)
                } else {
                    Work::Ends(2 * SECOND, 0)
                }],
                ..after(2, 0)
            },
            ..plain("an eviction is ignored and its index runs again")
        },
        Scenario {
            spec: json!({
                "completions": 2, "parallelism": 1, "backoffLimit": 1,
                "podFailurePolicy": on_exit("Count"),
            }),
            fates: |_, nth| after(2, if nth == 0 { 3 } else { 0 }),
            ..plain("a failure counts by a rule")
        },
    ]
}

fn successes() -> Vec<Scenario> {
    vec![
        Scenario {
            spec: json!({
                "completionMode": "Indexed", "completions": 4, "parallelism": 4,
                "successPolicy": {"rules": [{"succeededCount": 2}]},
            }),
            fates: |place, _| match place {
                "index-0" | "index-1" => after(2, 0),
                _ => hangs(),
            },
            // A pod that was told to stop before the end was stored counts as failed.
            same: Same::Condition,
            ..plain("two of four indexes are enough")
        },
        Scenario {
            spec: json!({
                "completionMode": "Indexed", "completions": 3, "parallelism": 3,
                "successPolicy": {"rules": [{"succeededIndexes": "0"}]},
            }),
            fates: |place, _| {
                if place == "index-0" {
                    after(2, 0)
                } else {
                    stubborn(hangs())
                }
            },
            same: Same::Condition,
            ..plain("the first index is enough and the others take their time to stop")
        },
    ]
}

fn replacements() -> Vec<Scenario> {
    let deleted = || {
        vec![step(
            |view| view.pod_in("Running").is_some(),
            |view| {
                if let Some(pod) = view.pod_in("Running") {
                    view.delete_pod(&pod);
                }
            },
        )]
    };
    vec![
        Scenario {
            spec: json!({"completions": 2, "parallelism": 1}),
            fates: |_, nth| stubborn(if nth == 0 { hangs() } else { after(2, 0) }),
            script: deleted(),
            ..plain("a pod that is told to stop is replaced at once")
        },
        Scenario {
            spec: json!({
                "completionMode": "Indexed", "completions": 2, "parallelism": 1,
                "podReplacementPolicy": "Failed",
            }),
            fates: |place, nth| {
                let first = place == "index-0" && nth == 0;
                stubborn(if first { hangs() } else { after(2, 0) })
            },
            script: deleted(),
            ..plain("a pod that is told to stop is replaced when it has ended")
        },
    ]
}
