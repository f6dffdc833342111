//! Reading Jobs of batch/v1 and their pods.

use serde_json::Value;

use crate::object::{self, at, controller, list, number, text};
use crate::verdict::Assumptions;

/// Resource of Jobs.
pub(crate) const JOBS: &str = "jobs.batch";
/// The finalizer that keeps a pod until it is counted.
pub(crate) const TRACKING: &str = "batch.kubernetes.io/job-tracking";
/// Annotation and label of a pod that has an index.
pub(crate) const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// `spec.managedBy` of Jobs that are ours.
const MANAGED_BY: &str = "carillon.dev/job-controller";
const MANAGED_BY_KUBERNETES: &str = "kubernetes.io/job-controller";

/// Whether the Job is the operator's to serve.
pub(crate) fn is_managed(assumptions: &Assumptions, job: &Value) -> bool {
    match text(job, &["spec", "managedBy"]) {
        MANAGED_BY => true,
        "" | MANAGED_BY_KUBERNETES => assumptions.native.contains(&JOBS),
        _ => false,
    }
}

/// Uid of the Job of batch/v1 that controls a pod.
pub(crate) fn job_of(pod: &Value) -> Option<&str> {
    let owner = controller(pod)?;
    let of_batch = text(owner, &["apiVersion"]) == "batch/v1" && text(owner, &["kind"]) == "Job";
    of_batch.then(|| text(owner, &["uid"]))
}

/// Whether a Job selects a pod by its labels.
pub(crate) fn selects(job: &Value, pod: &Value) -> bool {
    let wanted = job["spec"]["selector"]["matchLabels"].as_object();
    let labels = &pod["metadata"]["labels"];
    wanted.is_none_or(|wanted| wanted.iter().all(|(key, value)| labels[key] == *value))
}

/// Whether a pod may not be counted yet.
pub(crate) fn is_tracked(pod: &Value) -> bool {
    let finalizers = list(pod, &["metadata", "finalizers"]);
    finalizers.iter().any(|finalizer| finalizer == TRACKING)
}

/// The index of a pod, as its annotation says.
pub(crate) fn index_of(pod: &Value) -> Option<i64> {
    let written = at(pod, &["metadata", "annotations", INDEX])?.as_str()?;
    written.parse().ok().filter(|index| *index >= 0)
}

/// Whether a pod runs, or will: it has not ended, and nobody has told it to.
pub(crate) fn is_live(pod: &Value) -> bool {
    !object::has_ended(pod) && !object::is_deleting(pod)
}

/// Whether completions have indexes.
pub(crate) fn is_indexed(job: &Value) -> bool {
    text(job, &["spec", "completionMode"]) == "Indexed"
}

/// Whether a pod is replaced only when it has ended, and not when it is told to.
pub(crate) fn replaces_only_failed(spec: &Value) -> bool {
    text(spec, &["podReplacementPolicy"]) == "Failed" || spec["podFailurePolicy"].is_object()
}

/// `spec.completions`; `None`: a work queue.
pub(crate) fn completions(spec: &Value) -> Option<i64> {
    spec["completions"].as_i64()
}

/// A count of the status.
pub(crate) fn count(job: &Value, field: &str) -> i64 {
    number(job, &["status", field])
}

/// Uids that the status keeps, of pods that have succeeded or failed.
pub(crate) fn uncounted<'v>(job: &'v Value, of: &str) -> impl Iterator<Item = &'v str> {
    let uids = list(job, &["status", "uncountedTerminatedPods", of]).iter();
    uids.filter_map(Value::as_str)
}

/// Whether the Job has begun to end.
pub(crate) fn is_ending(job: &Value) -> bool {
    ["FailureTarget", "SuccessCriteriaMet"]
        .iter()
        .any(|type_| object::is_true(job, type_))
}
