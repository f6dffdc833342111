//! What a run is made of.

use serde_json::json;

use super::scenario::{Scenario, cron, runs};
use crate::parity::all_of;

/// Scenarios.
pub(crate) fn all() -> Vec<Scenario> {
    let spec = |spec: &serde_json::Value| json!({"jobTemplate": {"spec": spec}});
    let marked = json!({"jobTemplate": {"metadata": {
        "name": "ignored",
        "labels": {"app": "report", "empty": ""},
        "annotations": {"note": "kept", "batch.kubernetes.io/cronjob-scheduled-timestamp": "overwritten"},
    }}});
    let mut labelled = cron(&json!({}));
    labelled["metadata"]["labels"] = json!({"not": "copied"});
    labelled["metadata"]["annotations"] =
        json!({"not": "copied", "carillon.dev/run-now": "ignored"});
    let name = "a-name-of-fifty-two-characters-the-longest-there-can";
    assert_eq!(name.len(), 52);
    vec![
        Scenario::of("marked-template", &marked),
        Scenario::new("marked-itself").with("apis/batch/v1/cronjobs", labelled),
        Scenario::of(
            "three-pods",
            &spec(&json!({"parallelism": 2, "completions": 3})),
        ),
        Scenario::of("suspended-template", &spec(&json!({"suspend": true}))),
        Scenario::of(
            "time-to-live",
            &spec(&json!({"ttlSecondsAfterFinished": 3})),
        ),
        Scenario::of(
            "deadline-of-its-own",
            &all_of(&[runs("10m"), spec(&json!({"activeDeadlineSeconds": 5}))]),
        ),
        Scenario::of("changed-meanwhile", &json!({})).patch(
            76,
            &json!({"jobTemplate": {"metadata": {"labels": {"version": "2"}}}}),
        ),
        Scenario::new("longest-name").with_cron(name, &json!({})),
        Scenario::new("name-with-dots").with_cron("a.b.c", &json!({})),
        // The runs of one could be taken for those of the other.
        Scenario::new("two-of-them")
            .with_cron("c", &runs("10m"))
            .with_cron("c-1", &json!({"concurrencyPolicy": "Forbid"})),
        // Only Jobs are held to the rules for labels.
        Scenario::of(
            "refused-template",
            &json!({"jobTemplate": {"metadata": {"labels": {"not a label": "x"}}}}),
        ),
    ]
}
