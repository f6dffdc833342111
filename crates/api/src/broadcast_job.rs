//! BroadcastJob: one pod on every node that fits, run to completion.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// `spec.parallelism` when it is absent: no limit.
pub const UNLIMITED_PARALLELISM: i32 = i32::MAX;

/// What should run, on how many nodes at a time, and when the job ends.
#[derive(Clone, Debug, Deserialize, KubeSchema, Serialize, kube::CustomResource)]
#[kube(
    group = "carillon.dev",
    version = "v1alpha1",
    kind = "BroadcastJob",
    doc = "BroadcastJob runs one pod on every node that fits, to completion.",
    namespaced,
    shortname = "bcj",
    category = "carillon",
    status = "BroadcastJobStatus",
    selectable = ".status.phase",
    printcolumn(
        name = "Status",
        type_ = "string",
        json_path = ".status.phase",
        description = "running, paused, completed or failed"
    ),
    printcolumn(
        name = "Done",
        type_ = "string",
        json_path = ".status.done",
        description = "Nodes with an outcome, of those desired"
    ),
    printcolumn(
        name = "Active",
        type_ = "integer",
        json_path = ".status.active",
        description = "Pods that have not ended"
    ),
    printcolumn(
        name = "Succeeded",
        type_ = "integer",
        json_path = ".status.succeeded",
        description = "Nodes whose pod succeeded"
    ),
    printcolumn(
        name = "Failed",
        type_ = "integer",
        json_path = ".status.failed",
        description = "Nodes whose pod failed"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Desired",
        type_ = "integer",
        json_path = ".status.desired",
        description = "Nodes that were or will be served",
        priority = 1
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = r#".status.conditions[?(@.status=="True")].reason"#,
        description = "Reason of the first condition that is true",
        priority = 1
    ),
    printcolumn(
        name = "Left-Out",
        type_ = "string",
        json_path = ".status.refused[0].reason",
        description = "First of the reasons for which nodes are left out",
        priority = 1
    ),
    printcolumn(
        name = "Parallelism",
        type_ = "string",
        json_path = ".spec.parallelism",
        description = "Most pods at a time",
        priority = 1
    ),
    printcolumn(
        name = "Completion",
        type_ = "string",
        json_path = ".spec.completionPolicy.type",
        description = "Always: the job ends. Never: it serves later nodes too",
        priority = 1
    ),
    printcolumn(
        name = "On-Failure",
        type_ = "string",
        json_path = ".spec.failurePolicy.type",
        description = "What a failed pod means for the job",
        priority = 1
    ),
    printcolumn(
        name = "Image",
        type_ = "string",
        json_path = ".spec.template.spec.containers[0].image",
        description = "Image of the first container",
        priority = 1
    ),
    // Pods and result slices carry the name as a label value. Only judged on creation: a name
    // cannot be repaired, and an old object must stay deletable.
    validation = Rule::new(
        "oldSelf.hasValue() || (self.metadata.name.size() <= 63 && \
         self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'))"
    )
    .message(
        "metadata.name must have at most 63 characters, only a-z, 0-9 and -, because the pods \
         carry it as a label: choose a shorter name without dots"
    )
    .optional_old_self(true)
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new(
        "!has(self.failurePolicy.restartLimit) || self.failurePolicy.restartLimit == 0 || \
         !has(self.template.spec.restartPolicy) || self.template.spec.restartPolicy != 'Never'"
    )
    .message(
        "needs restartPolicy OnFailure, with Never no container restarts: \
         remove it or set spec.template.spec.restartPolicy: OnFailure"
    )
    .field_path(".failurePolicy.restartLimit")
)]
pub struct BroadcastJobSpec {
    /// Most pods that may run at the same time: a number from 1, or a percentage of the desired
    /// nodes from 1% to 100%, rounded up. May be changed at any time; pods that run already are
    /// never stopped by it. Default: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        with = "IntOrString",
        extend("default" = UNLIMITED_PARALLELISM, "nullable" = false)
    )]
    #[x_kube(
        validation = Rule::new(
            "type(self) == int ? self >= 1 && self <= 2147483647 \
             : self.matches('^([1-9][0-9]?|100)%$')"
        )
        .message(
            "must be a number from 1 to 2147483647 or a percentage from 1% to 100%, e.g. 10 or \
             \"25%\"; to start no pods set spec.paused: true"
        )
    )]
    pub parallelism: Option<IntOrString>,
    /// The pod to run on each node, as in a Job: restartPolicy is OnFailure or Never, and nodes are
    /// chosen with nodeSelector, affinity and tolerations. Immutable.
    #[schemars(schema_with = "crate::pod_template::schema")]
    pub template: serde_json::Value,
    /// When the job ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "CompletionPolicy", extend("default" = json!({})))]
    pub completion_policy: Option<CompletionPolicy>,
    /// True: no further pod is started; those that run are left alone.
    #[serde(default)]
    pub paused: bool,
    /// What a failed pod means for the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "FailurePolicy", extend("default" = json!({})))]
    pub failure_policy: Option<FailurePolicy>,
}

/// When the job ends.
#[derive(Clone, Debug, Default, Deserialize, Eq, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.type != 'Never' || !has(self.activeDeadlineSeconds)")
        .message(
            "must not be set with type Never, such a job does not end: remove it or set \
             spec.completionPolicy.type: Always"
        )
        .field_path(".activeDeadlineSeconds")
        .reason(Reason::FieldValueForbidden),
    validation = Rule::new("self.type != 'Never' || !has(self.ttlSecondsAfterFinished)")
        .message(
            "must not be set with type Never, such a job does not finish: remove it or set \
             spec.completionPolicy.type: Always"
        )
        .field_path(".ttlSecondsAfterFinished")
        .reason(Reason::FieldValueForbidden)
)]
pub struct CompletionPolicy {
    /// Always: the job ends when every eligible node is done. Never: it stays open and serves
    /// nodes that join later. Immutable.
    #[serde(rename = "type", default)]
    #[x_kube(
        validation = Rule::new("self == oldSelf")
            .message("is immutable: create a new BroadcastJob with the other type")
    )]
    pub type_: CompletionPolicyType,
    /// Seconds after `status.startTime` at which an unfinished job fails; time spent paused is not
    /// counted. Type Always only. Default: no deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(
        validation = Rule::new("self >= 0")
            .message("must be 0 or more seconds; for no deadline leave the field out")
    )]
    pub active_deadline_seconds: Option<i64>,
    /// Seconds after `status.completionTime` at which the job is deleted, together with its pods
    /// and results. Type Always only. Default: it is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(
        validation = Rule::new("self >= 0")
            .message("must be 0 or more seconds; to keep the job leave the field out")
    )]
    pub ttl_seconds_after_finished: Option<i32>,
}

/// When the job ends.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum CompletionPolicyType {
    /// The job ends when every eligible node is done.
    #[default]
    Always,
    /// The job stays open and serves nodes that join later.
    Never,
}

/// What a failed pod means for the job.
#[derive(Clone, Debug, Default, Deserialize, Eq, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FailurePolicy {
    /// FailFast: the job fails. Continue: the other nodes go on. Pause: no further pod is started
    /// until somebody resumes the job.
    #[serde(rename = "type", default)]
    pub type_: FailurePolicyType,
    /// Container restarts a pod may have, all containers added up, before it counts as failed.
    /// restartPolicy OnFailure only.
    #[serde(default)]
    #[x_kube(
        validation = Rule::new("self >= 0")
            .message("must be 0 or more; 0 means that the first restart fails the pod")
    )]
    pub restart_limit: i32,
}

/// What a failed pod means for the job.
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
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BroadcastJobStatus {
    /// `metadata.generation` this status was computed for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Complete, Failed, FailureTarget, Paused, Reconciling, Stalled.
    #[serde(default)]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
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
