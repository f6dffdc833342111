//! Jobs that are suspended and resumed.

use serde_json::json;

use super::fixtures::{after, hangs, later, plain, stubborn};
use crate::scenario::{Same, Scenario, View, step};

pub(super) fn all() -> Vec<Scenario> {
    vec![
        Scenario {
            spec: json!({"completions": 3, "parallelism": 2}),
            fates: |_, nth| if nth < 2 { hangs() } else { after(2, 0) },
            script: vec![
                step(two_run, |view| view.edit_job(json!({"suspend": true}))),
                later(
                    |view| view.is("Suspended") && view.pods().is_empty(),
                    20,
                    |view| view.edit_job(json!({"suspend": false})),
                ),
            ],
            // Which pods hang depends on how many there were before.
            same: Same::Condition,
            ..plain("a job is suspended while it runs and goes on")
        },
        Scenario {
            spec: json!({"completions": 2, "parallelism": 2, "suspend": true}),
            script: vec![later(
                |view| view.is("Suspended"),
                5,
                |view| {
                    let spec = json!({"nodeSelector": {"kubernetes.io/hostname": "node-1"}});
                    let template = json!({"metadata": {"annotations": {"a": "b"}}, "spec": spec});
                    view.edit_job(json!({"suspend": false, "template": template}));
                },
            )],
            ..plain("a job is suspended from the start and resumed elsewhere")
        },
        Scenario {
            spec: json!({
                "completionMode": "Indexed", "completions": 2, "parallelism": 2,
                "podReplacementPolicy": "Failed",
            }),
            fates: |_, nth| stubborn(if nth == 0 { hangs() } else { after(2, 0) }),
            script: vec![
                step(two_run, |view| view.edit_job(json!({"suspend": true}))),
                step(
                    |view| view.is("Suspended") && view.count("active") == 0,
                    |view| {
                        let limits = json!({"limits": {"cpu": "2"}});
                        let main = json!({
                            "name": "main", "image": "example.com/work:1", "resources": limits,
                        });
                        let template = json!({"spec": {"containers": [main]}});
                        view.edit_job(json!({"suspend": false, "template": template}));
                    },
                ),
            ],
            ..plain("a job goes on with other resources once its pods have ended")
        },
        Scenario {
            spec: json!({"completions": 2, "parallelism": 1, "activeDeadlineSeconds": 450}),
            fates: |_, nth| if nth == 0 { hangs() } else { after(100, 0) },
            script: vec![
                step(
                    |view| view.pod_in("Running").is_some(),
                    |view| view.edit_job(json!({"suspend": true})),
                ),
                later(
                    |view| view.is("Suspended"),
                    300,
                    |view| view.edit_job(json!({"suspend": false})),
                ),
            ],
            same: Same::Condition,
            ..plain("the time of a deadline counts from when a job goes on")
        },
        Scenario {
            spec: json!({"completions": 0, "suspend": true}),
            ..plain("a suspended job without work is complete")
        },
    ]
}

/// Two pods run, and the status says so.
fn two_run(view: &View<'_>) -> bool {
    let pods = view.pods();
    let running = pods
        .iter()
        .filter(|pod| pod["status"]["phase"] == "Running");
    running.count() == 2 && view.count("active") == 2
}
