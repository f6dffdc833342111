//! A stored Job as the planner reads it: total, whatever was stored.

use k8s_openapi::api::batch::v1::{
    JobCondition, JobStatus, PodFailurePolicyRule, SuccessPolicyRule,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Deserialize;
use serde_json::Value;

use super::conditions;
use crate::meta::Meta;
use crate::written::Written;

/// `spec.managedBy` of Jobs that are ours.
pub const MANAGED_BY: &str = "carillon.dev/job-controller";
/// `spec.managedBy` of Jobs that are kube-controller-manager's, as an empty one is.
const MANAGED_BY_KUBERNETES: &str = "kubernetes.io/job-controller";

/// Whether a Job with this `spec.managedBy` is ours. `native`: those that name nobody are, too.
pub fn is_ours(managed_by: Option<&str>, native: bool) -> bool {
    match managed_by {
        Some(MANAGED_BY) => true,
        None | Some(MANAGED_BY_KUBERNETES) => native,
        Some(_) => false,
    }
}

/// How completions are told apart.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum CompletionMode {
    /// They are not.
    #[default]
    NonIndexed,
    /// Each has an index.
    Indexed,
    /// A mode of a later Kubernetes: the Job is left alone.
    Unknown(String),
}

/// A Job of batch/v1.
#[derive(Clone, Debug)]
pub struct Job {
    /// Namespace, name, uid and so on.
    pub meta: Meta,
    /// What is wanted.
    pub spec: Spec,
    /// `spec.template`, as written.
    pub template: Written,
    /// The stored status.
    pub status: JobStatus,
}

/// The fields of a Job's spec that decide something. Defaults are the API server's.
#[derive(Clone, Debug, Default)]
pub struct Spec {
    /// Pods at a time.
    pub parallelism: i32,
    /// Pods that have to succeed; `None`: a work queue.
    pub completions: Option<i32>,
    /// How completions are told apart.
    pub mode: CompletionMode,
    /// Failures that are allowed.
    pub backoff_limit: i32,
    /// Failures that are allowed to each index.
    pub backoff_limit_per_index: Option<i32>,
    /// Failed indexes that are allowed.
    pub max_failed_indexes: Option<i32>,
    /// Seconds since `status.startTime`.
    pub active_deadline_seconds: Option<i64>,
    /// Seconds after its end until the Job is deleted.
    pub ttl_seconds_after_finished: Option<i32>,
    /// No pod is to run.
    pub suspend: bool,
    /// What failures mean; `None`: there is no policy.
    pub failure_rules: Option<Vec<PodFailurePolicyRule>>,
    /// When the Job has succeeded early; `None`: there is no policy.
    pub success_rules: Option<Vec<SuccessPolicyRule>>,
    /// `podReplacementPolicy: Failed`, or a pod failure policy, which implies it: a pod is replaced
    /// when it has ended, not when it is told to.
    pub replaces_only_failed: bool,
    /// `restartPolicy: OnFailure` of the template: containers restart in their pod.
    pub restarts_on_failure: bool,
    /// Which pods are this Job's; `None`: it does not say.
    pub selector: Option<LabelSelector>,
    /// Who is to serve it.
    pub managed_by: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Fields {
    parallelism: Option<i32>,
    completions: Option<i32>,
    completion_mode: Option<String>,
    backoff_limit: Option<i32>,
    backoff_limit_per_index: Option<i32>,
    max_failed_indexes: Option<i32>,
    active_deadline_seconds: Option<i64>,
    ttl_seconds_after_finished: Option<i32>,
    suspend: Option<bool>,
    pod_failure_policy: Option<Rules<PodFailurePolicyRule>>,
    success_policy: Option<Rules<SuccessPolicyRule>>,
    pod_replacement_policy: Option<String>,
    selector: Option<LabelSelector>,
    managed_by: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Template {
    template: Written,
}

/// The part of a template that a Job's spec is read from.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Restarts {
    spec: RestartPolicy,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RestartPolicy {
    restart_policy: Option<String>,
}

#[derive(Deserialize)]
struct Rules<R> {
    rules: Vec<R>,
}

impl Spec {
    /// Reads `spec`; what cannot be read is as if it were not there.
    pub fn read(spec: &Value) -> Self {
        let spec: &Written = &spec.into();
        let Template { template } = spec.read();
        Self::of(spec.read(), &template)
    }

    fn of(written: Fields, template: &Written) -> Self {
        let per_index = written.backoff_limit_per_index;
        let default_limit = if per_index.is_some() { i32::MAX } else { 6 };
        let Restarts { spec: policy } = template.read();
        let failure_rules = written.pod_failure_policy.map(|policy| policy.rules);
        let replaces_only_failed = written.pod_replacement_policy.as_deref() == Some("Failed");
        Self {
            parallelism: written.parallelism.unwrap_or(1),
            completions: written.completions,
            mode: match written.completion_mode.as_deref() {
                None | Some("NonIndexed") => CompletionMode::NonIndexed,
                Some("Indexed") => CompletionMode::Indexed,
                Some(other) => CompletionMode::Unknown(other.to_owned()),
            },
            backoff_limit: written.backoff_limit.unwrap_or(default_limit),
            backoff_limit_per_index: per_index,
            max_failed_indexes: written.max_failed_indexes,
            active_deadline_seconds: written.active_deadline_seconds,
            ttl_seconds_after_finished: written.ttl_seconds_after_finished,
            suspend: written.suspend.unwrap_or(false),
            replaces_only_failed: replaces_only_failed || failure_rules.is_some(),
            failure_rules,
            success_rules: written.success_policy.map(|policy| policy.rules),
            restarts_on_failure: policy.restart_policy.as_deref() == Some("OnFailure"),
            selector: written.selector,
            managed_by: written.managed_by,
        }
    }

    /// Whether each completion has an index.
    pub fn is_indexed(&self) -> bool {
        self.mode == CompletionMode::Indexed
    }
}

impl Job {
    /// Reads a stored object; what cannot be read is as if it were not there.
    pub fn read(meta: Meta, spec: &Value, status: &Value) -> Self {
        Self::read_written(meta, &spec.into(), &status.into())
    }

    /// The same, without making values of a template that may be large.
    pub fn read_written(meta: Meta, spec: &Written, status: &Written) -> Self {
        let Template { template } = spec.read();
        Self {
            meta,
            spec: Spec::of(spec.read(), &template),
            template,
            status: status.read(),
        }
    }

    /// The condition of this type, if it is True.
    pub fn condition(&self, type_: &str) -> Option<&JobCondition> {
        conditions::find(&self.status, type_)
    }

    /// Whether a condition of this type is True.
    pub fn has(&self, type_: &str) -> bool {
        self.condition(type_).is_some()
    }

    /// The condition that says that it has ended.
    pub fn ended(&self) -> Option<&JobCondition> {
        self.condition("Complete")
            .or_else(|| self.condition("Failed"))
    }

    /// Whether it has ended, as its status says.
    pub fn has_finished(&self) -> bool {
        self.ended().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_ours_that_names_us_or_that_names_nobody_where_native_ones_are() {
        for (managed_by, alone, native) in [
            (Some(MANAGED_BY), true, true),
            (None, false, true),
            (Some("kubernetes.io/job-controller"), false, true),
            (Some("example.com/other"), false, false),
        ] {
            let found = [false, true].map(|native| is_ours(managed_by, native));
            assert_eq!(found, [alone, native], "{managed_by:?}");
        }
    }
}
