//! Jobs and pods as the watches deliver them, and answers of the API server.

use http::Method;
use serde_json::{Value, json};

use super::{Answers, JOB, PODS, job, refusal};

pub(crate) const JOB_PATH: &str = "/apis/batch/v1/namespaces/ops/jobs/sum";
pub(crate) const STATUS_PATH: &str = "/apis/batch/v1/namespaces/ops/jobs/sum/status";

/// The Job at this version, with these fields of its spec.
pub(crate) fn job_of(rv: u64, spec: &Value, status: &Value) -> Value {
    let mut job = job(None, status);
    job["metadata"]["resourceVersion"] = json!(rv.to_string());
    for (key, value) in spec.as_object().unwrap() {
        job["spec"][key] = value.clone();
    }
    job
}

pub(crate) fn pod_uid(n: u8) -> String {
    format!("4e0c5d6a-0b1c-4d2e-8f3a-0000000000{n:02x}")
}

/// Pod `sum-<n>` of the Job at this version, with our finalizer.
pub(crate) fn pod_of(n: u8, rv: u64, phase: &str) -> Value {
    json!({
        "metadata": {"name": format!("sum-{n}"), "namespace": "ops", "uid": pod_uid(n),
            "resourceVersion": rv.to_string(), "labels": {"app": "sum"},
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "finalizers": ["batch.kubernetes.io/job-tracking"],
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "sum",
                "uid": JOB, "controller": true}]},
        "status": {"phase": phase},
    })
}

/// Whoever asks for the Job is told of this one.
pub(crate) fn stored(job: &Value) -> Answers {
    vec![(Method::GET, JOB_PATH, "", 200, job.clone())]
}

/// No request of this method and path is allowed.
pub(crate) fn forbidden(
    method: Method,
    path: &'static str,
) -> (Method, &'static str, &'static str, u16, Value) {
    let full = refusal(403, "Forbidden", "exceeded quota: q");
    (method, path, "", 403, full)
}

/// As `forbidden`, of all creations of pods.
pub(crate) fn no_creations() -> (Method, &'static str, &'static str, u16, Value) {
    forbidden(Method::POST, PODS)
}
