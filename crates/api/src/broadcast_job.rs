//! BroadcastJob: one pod on every node that fits, run to completion.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `spec.parallelism` when it is absent: no limit.
pub const UNLIMITED_PARALLELISM: i32 = i32::MAX;

/// What should run, on how many nodes at a time, and when the job ends.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize, kube::CustomResource)]
#[kube(
    group = "carillon.dev",
    version = "v1alpha1",
    kind = "BroadcastJob",
    namespaced,
    shortname = "bcj",
    category = "carillon",
    status = "BroadcastJobStatus"
)]
#[serde(rename_all = "camelCase")]
pub struct BroadcastJobSpec {
    /// Most pods that may run at the same time: a number, or a percentage of the desired nodes,
    /// rounded up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallelism: Option<IntOrString>,
    /// The pod to run on each node, kept as written.
    pub template: serde_json::Value,
    /// When the job ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_policy: Option<CompletionPolicy>,
    /// True: start no further pod; running ones are left alone.
    #[serde(default)]
    pub paused: bool,
    /// What a failed pod means for the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_policy: Option<FailurePolicy>,
}

/// When the job ends.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CompletionPolicy {
    /// Always: the job ends when every eligible node is done. Never: it stays open and serves
    /// nodes that join later.
    #[serde(rename = "type", default)]
    pub type_: CompletionPolicyType,
    /// Seconds after `status.startTime` at which an unfinished job fails. Type Always only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_deadline_seconds: Option<i64>,
    /// Seconds after `status.completionTime` at which the job is deleted. Type Always only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds_after_finished: Option<i32>,
}

/// See [`CompletionPolicy::type_`].
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum CompletionPolicyType {
    /// The job ends when every eligible node is done.
    #[default]
    Always,
    /// The job stays open and serves nodes that join later.
    Never,
}

/// What a failed pod means for the job.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FailurePolicy {
    /// FailFast: the job fails. Continue: the other nodes go on. Pause: no further pod is started
    /// until somebody resumes the job.
    #[serde(rename = "type", default)]
    pub type_: FailurePolicyType,
    /// Container restarts a pod may have, all containers added up, before it counts as failed.
    /// restartPolicy OnFailure only.
    #[serde(default)]
    pub restart_limit: i32,
}

/// See [`FailurePolicy::type_`].
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum FailurePolicyType {
    /// The first failed pod fails the job.
    #[default]
    FailFast,
    /// Failed pods are counted, the job goes on.
    Continue,
    /// The first failed pod stops the starting of further ones until somebody resumes the job.
    Pause,
}

/// What the job has done so far. Its size does not grow with the cluster; the per-node results are
/// in the job's NodeResultSlices.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BroadcastJobStatus {
    /// `metadata.generation` this status was computed for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Complete, Failed, FailureTarget, Paused, Reconciling, Stalled.
    #[serde(default)]
    pub conditions: Vec<Condition>,
    /// OpenKruise's one-word summary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// When the job was first acted on. The deadline counts from here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// When the job became Complete or Failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// Nodes that were or will be served: eligible now, or already started.
    #[serde(default)]
    pub desired: i32,
    /// Pods that exist and have not ended.
    #[serde(default)]
    pub active: i32,
    /// Nodes whose pod succeeded.
    #[serde(default)]
    pub succeeded: i32,
    /// Nodes whose pod failed.
    #[serde(default)]
    pub failed: i32,
    /// Attempts interrupted by the cluster or a person; they are tried again and not failures.
    #[serde(default)]
    pub disrupted: i32,
    /// `succeeded + failed` of `desired`, e.g. `812/1000`, for kubectl's table.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub done: String,
    /// Nodes left out, by reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<Refused>,
    /// Seconds the job was paused so far; they do not count towards the deadline.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub paused_seconds: i64,
    /// Failed nodes that a resume has accepted: only a further one pauses the job again.
    #[serde(default, skip_serializing_if = "is_zero_i32")]
    pub acknowledged_failures: i32,
    /// Last value of the annotation `carillon.dev/resume` that was acted on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumed_by: Option<String>,
}

/// Nodes left out for one reason.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Refused {
    /// Name of the check's verdict, e.g. `NodeTaintNotTolerated`.
    pub reason: String,
    /// How many nodes.
    pub count: i32,
    /// Up to three of them, by name.
    #[serde(default)]
    pub sample: Vec<String>,
}

/// OpenKruise's one-word summary, derived from the conditions.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Working.
    Running,
    /// Starting no further pod.
    Paused,
    /// Ended: every node has an outcome.
    Completed,
    /// Ended early.
    Failed,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's signature
fn is_zero(value: &i64) -> bool {
    *value == 0
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's signature
fn is_zero_i32(value: &i32) -> bool {
    *value == 0
}
