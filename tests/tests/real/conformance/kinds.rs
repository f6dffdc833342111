//! The kinds that are tried, and what is done with their objects.

mod batch;

use fastrand::Rng;
use serde_json::{Value, json};

use super::requests::pick;

/// A kind that is tried.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    Pod,
    BroadcastJob,
    NodeResultSlice,
    Lease,
    Job,
    CronJob,
}

pub(super) const KINDS: [Kind; 6] = [
    Kind::Pod,
    Kind::BroadcastJob,
    Kind::NodeResultSlice,
    Kind::Lease,
    Kind::Job,
    Kind::CronJob,
];

impl Kind {
    pub(super) fn collection(self) -> &'static str {
        match self {
            Self::Pod => "/api/v1/namespaces/conformance/pods",
            Self::BroadcastJob => {
                "/apis/carillon.dev/v1alpha1/namespaces/conformance/broadcastjobs"
            }
            Self::NodeResultSlice => {
                "/apis/carillon.dev/v1alpha1/namespaces/conformance/noderesultslices"
            }
            Self::Lease => "/apis/coordination.k8s.io/v1/namespaces/conformance/leases",
            Self::Job => "/apis/batch/v1/namespaces/conformance/jobs",
            Self::CronJob => "/apis/batch/v1/namespaces/conformance/cronjobs",
        }
    }

    /// Whether a strategic merge is understood.
    pub(super) fn is_built_in(self) -> bool {
        !matches!(self, Self::BroadcastJob | Self::NodeResultSlice)
    }

    pub(super) fn object(self, rng: &mut Rng) -> Value {
        match self {
            Self::Pod => json!({
                "apiVersion": "v1", "kind": "Pod",
                "spec": {
                    "schedulerName": "nobody",
                    "restartPolicy": pick(&["Never", "OnFailure", "Always"], rng),
                    "terminationGracePeriodSeconds": pick(&[0, 5, 30], rng),
                    "containers": [{"name": "main", "image": "none"}],
                },
            }),
            Self::BroadcastJob => json!({
                "apiVersion": "carillon.dev/v1alpha1", "kind": "BroadcastJob",
                "spec": {"template": {"spec": {
                    "restartPolicy": "OnFailure",
                    "containers": [{"name": "main", "image": "none"}],
                }}},
            }),
            Self::NodeResultSlice => json!({
                "apiVersion": "carillon.dev/v1alpha1", "kind": "NodeResultSlice",
                "sealed": rng.u8(0..4) == 0,
                "results": results(rng),
            }),
            Self::Lease => json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15},
            }),
            Self::Job => json!({"apiVersion": "batch/v1", "kind": "Job", "spec": batch::job(rng)}),
            Self::CronJob => json!({
                "apiVersion": "batch/v1", "kind": "CronJob", "spec": batch::cron_job(rng),
            }),
        }
    }

    /// A change that may be allowed, ignored or refused.
    pub(super) fn change(self, rng: &mut Rng) -> Value {
        let spec = match self {
            Self::Pod => vec![
                json!({"activeDeadlineSeconds": rng.u8(1..4)}),
                json!({"restartPolicy": "Never"}),
                json!({"nodeName": "moon"}),
                json!({"containers": [{"name": "main", "image": pick(&["none", "other"], rng)}]}),
            ],
            Self::BroadcastJob => vec![
                json!({"paused": rng.bool()}),
                json!({"parallelism": pick(&[json!(3), json!("50%"), json!(0), json!(true), Value::Null], rng)}),
                json!({"completionPolicy": pick(&[
                    json!({"type": "Never"}), json!({"ttlSecondsAfterFinished": 5}), Value::Null,
                    json!({"ttlSecondsAfterFinished": -1}), json!({"type": "Maybe"}),
                ], rng)}),
                json!({"failurePolicy": pick(&[
                    json!({"restartLimit": 2}), json!({"type": "Continue", "odd": 1}), json!([]),
                ], rng)}),
                json!({"template": {"spec": {"containers": [{"name": "main", "image": "other"}]}}}),
                json!({"odd": 1}),
            ],
            Self::NodeResultSlice => {
                return pick(
                    &[
                        json!({"sealed": true}),
                        json!({"sealed": false}),
                        json!({"sealed": Value::Null}),
                        json!({"results": results(rng)}),
                        json!({"results": results(rng), "sealed": true}),
                        json!({"odd": 1}),
                        json!({"results": "many"}),
                    ],
                    rng,
                );
            }
            Self::Lease => vec![
                json!({"holderIdentity": pick(&["a", "b"], rng)}),
                json!({"leaseDurationSeconds": pick(&[15, 20, 0], rng)}),
                json!({"leaseTransitions": pick(&[1, -1], rng)}),
                json!({"holderIdentity": Value::Null}),
            ],
            Self::Job => batch::job_changes(rng),
            Self::CronJob => batch::cron_job_changes(rng),
        };
        json!({"spec": pick(&spec, rng)})
    }

    pub(super) fn status(self, rng: &mut Rng) -> Value {
        match self {
            Self::Pod => pick(
                &[
                    json!({"phase": "Running"}),
                    json!({"phase": "Succeeded"}),
                    json!({"reason": "Because", "message": "of it"}),
                    json!({"conditions": [
                        {"type": "Ready", "status": pick(&["True", "False"], rng), "lastTransitionTime": "2026-01-01T00:00:00Z"},
                    ]}),
                    json!({"conditions": [
                        {"type": "DisruptionTarget", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
                    ]}),
                ],
                rng,
            ),
            Self::Job => batch::job_status(rng),
            Self::CronJob => batch::cron_job_status(rng),
            _ => pick(
                &[
                    json!({"active": rng.u8(0..3), "desired": 3}),
                    json!({"phase": pick(&["running", "completed", "unheard"], rng)}),
                    json!({"active": "three"}),
                    json!({"done": "1/2", "odd": true}),
                    json!({"done": Value::Null}),
                    json!({"conditions": [{
                        "type": "Complete", "status": "True", "reason": "R", "message": "",
                        "lastTransitionTime": "2026-01-01T00:00:00Z",
                    }]}),
                    json!({"conditions": [{"type": "Complete", "status": "True"}]}),
                ],
                rng,
            ),
        }
    }

    /// A status that is another one at each step.
    pub(super) fn changed_status(self, step: usize) -> Value {
        match self {
            Self::Pod => json!({"message": step.to_string()}),
            Self::Job => json!({"active": step}),
            Self::CronJob => json!({"lastScheduleTime": format!("2026-01-01T00:00:{step:02}Z")}),
            _ => json!({"lastHandledResume": step.to_string()}),
        }
    }
}

fn results(rng: &mut Rng) -> Value {
    let size = match rng.u8(0..20) {
        0 => pick(&[250, 251], rng),
        _ => rng.u8(0..4),
    };
    (0..size)
        .map(|n| {
            let mut result = json!({
                "nodeName": format!("n{n}"), "nodeUID": "u", "attempt": 1, "podName": "p", "state": "Started",
            });
            if rng.u16(0..500) == 0 {
                result["state"] = json!("Finished");
            }
            if rng.u16(0..500) == 0 {
                result["completionTime"] = Value::Null;
            }
            result
        })
        .collect()
}
