//! Users who pause, resume and edit a job.

use serde_json::json;

use super::fixtures::{fails, plain};
use crate::scenario::{SECOND, Scenario, Step, step};

pub(super) fn all() -> Vec<Scenario> {
    vec![
        Scenario {
            spec: json!({"parallelism": 2, "failurePolicy": {"type": "Pause"}}),
            fates: |node, _| fails(node, "node-2", 3),
            script: vec![step(
                |view| view.is("Paused") && view.count("active") == 0,
                |view| view.resume("1"),
            )],
            ..plain("a failure pauses the job and its user resumes it")
        },
        Scenario {
            script: vec![
                step(
                    |view| view.count("succeeded") >= 1,
                    |view| view.patch_job(&json!({"spec": {"paused": true}})),
                ),
                Step {
                    when: |view| view.is("Paused"),
                    after: 30 * SECOND,
                    act: |view| view.patch_job(&json!({"spec": {"paused": false}})),
                },
            ],
            ..plain("its user pauses and resumes the job")
        },
        Scenario {
            script: vec![
                step(
                    |view| view.count("succeeded") >= 1,
                    |view| view.patch_job(&json!({"spec": {"parallelism": 4}})),
                ),
                step(
                    |view| view.count("succeeded") >= 3,
                    |view| view.patch_job(&json!({"spec": {"parallelism": 1}})),
                ),
            ],
            ..plain("parallelism is raised and lowered")
        },
    ]
}
