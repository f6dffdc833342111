//! Deadlines, times to live, and deletion.

use carillon_sim::{Delete, Propagation};
use jiff::SignedDuration;
use serde_json::json;

use super::fixtures::{after, hangs, later, plain, stubborn};
use crate::kinds::job::subject;
use crate::scenario::{Ends, JOB, NAMESPACE, Same, Scenario, step};
use crate::span::Span;

pub(super) fn all() -> Vec<Scenario> {
    [by_time(), deleted()].concat()
}

fn by_time() -> Vec<Scenario> {
    vec![
        Scenario {
            spec: json!({"completions": 3, "parallelism": 2, "activeDeadlineSeconds": 60}),
            fates: |_, nth| {
                if nth == 0 {
                    stubborn(hangs())
                } else {
                    after(2, 0)
                }
            },
            same: Same::Condition,
            ..plain("the deadline of a job passes while a pod hangs")
        },
        Scenario {
            spec: json!({"completions": 2, "parallelism": 2, "ttlSecondsAfterFinished": 20}),
            ends: Ends::Gone,
            ..plain("the time to live removes a job and its pods")
        },
        Scenario {
            spec: json!({"completions": 1, "ttlSecondsAfterFinished": 20, "backoffLimit": 0}),
            fates: |_, _| after(2, 1),
            script: vec![later(
                |view| view.is("Failed"),
                5,
                |view| view.edit_job(json!({"ttlSecondsAfterFinished": 60})),
            )],
            ends: Ends::Gone,
            ..plain("a failed job is given more time to live")
        },
    ]
}

fn deleted() -> Vec<Scenario> {
    vec![
        Scenario {
            script: vec![step(
                |view| view.count("succeeded") >= 1,
                |view| view.delete_job(&Delete::with(Propagation::Background)),
            )],
            ends: Ends::Gone,
            ..plain("a job of batch is deleted while it runs")
        },
        Scenario {
            fates: |_, nth| {
                if nth > 1 {
                    stubborn(hangs())
                } else {
                    after(2, 0)
                }
            },
            script: vec![step(
                |view| view.count("succeeded") >= 1 && view.pod_in("Running").is_some(),
                |view| view.delete_job(&Delete::with(Propagation::Foreground)),
            )],
            ends: Ends::Gone,
            ..plain("a job of batch is deleted in the foreground while it runs")
        },
        Scenario {
            // Of a Job that names us kube-controller-manager releases the pods once it is gone.
            subject: &subject::NATIVE,
            fates: |_, _| after(2, 1),
            script: vec![step(
                |view| view.pod_in("Failed").is_some(),
                |view| view.delete_job(&Delete::with(Propagation::Background)),
            )],
            down: vec![Span { from: 2, to: 60 }],
            ends: Ends::Gone,
            ..plain("native: a job of batch is deleted while the operator is down")
        },
        Scenario {
            // Two lost replies in a row delay the count by a minute. The later pods must still run then.
            fates: |_, nth| after(if nth > 1 { 240 } else { 2 }, 0),
            script: vec![step(
                |view| view.count("succeeded") >= 1 && view.pod_in("Running").is_some(),
                |view| view.delete_job(&Delete::with(Propagation::Orphan)),
            )],
            ends: Ends::After(SignedDuration::from_mins(5)),
            ..plain("a job of batch is deleted and its pods are left to nobody")
        },
        Scenario {
            script: vec![
                step(
                    |view| view.count("succeeded") >= 1,
                    |view| view.delete_job(&Delete::with(Propagation::Background)),
                ),
                step(
                    |view| view.job().is_none(),
                    |view| {
                        let spec = json!({"completions": 3, "parallelism": 2});
                        let job = subject::manifest(JOB, &spec, false);
                        let user = view.server().actor("user");
                        drop(user.create("jobs.batch", NAMESPACE, &job));
                    },
                ),
            ],
            ..plain("a job of batch is deleted and created again under its name")
        },
    ]
}
