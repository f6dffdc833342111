//! BroadcastJob: one pod on every node that fits, run to completion.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::policy::{
    DEFAULT_NODE_LOST_TIMEOUT_SECONDS, DEFAULT_POD_TERMINATION_TIMEOUT_SECONDS, ExecutionPolicy,
    NoEligibleNodesPolicy, PodFailurePolicy,
};

/// What should run, on how many nodes at a time, and when the job ends.
#[derive(Clone, Debug, Deserialize, KubeSchema, Serialize, kube::CustomResource)]
#[kube(
    group = "carillon.dev",
    version = "v1alpha1",
    kind = "BroadcastJob",
    doc = "BroadcastJob runs one pod on every node that fits, to completion.",
    namespaced,
    shortname = "cbj",
    category = "carillon",
    status = "BroadcastJobStatus",
    selectable = ".status.phase",
    printcolumn(
        name = "Status",
        type_ = "string",
        json_path = ".status.summary",
        description = "running, paused, completed, failed, or why the job is stalled"
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
        description = "Nodes that failed and are not tried again"
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
    .optional_old_self(true),
    validation = Rule::new(
        "!has(self.spec) || !has(self.spec.retryOf) || self.spec.retryOf.name != self.metadata.name"
    )
    .message(
        "must name another job: write name and uid of the BroadcastJob whose nodes are to be tried \
         again"
    )
    .field_path(".spec.retryOf.name")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new(
        "!has(self.failurePolicy) || !has(self.failurePolicy.restartLimit) || \
         !has(self.template.spec.restartPolicy) || self.template.spec.restartPolicy != 'Never'"
    )
    .message(
        "needs restartPolicy OnFailure, with Never no container restarts: \
         remove it or set spec.template.spec.restartPolicy: OnFailure"
    )
    .field_path(".failurePolicy.restartLimit"),
    validation = Rule::new(
        "self.executionPolicy != 'AtMostOnce' || !has(self.backoffLimitPerNode) || \
         self.backoffLimitPerNode == 0"
    )
    .message(
        "must be 0 with executionPolicy AtMostOnce, which tries no node twice: remove it or set \
         spec.executionPolicy: AtLeastOnce"
    )
    .field_path(".backoffLimitPerNode")
    .reason(Reason::FieldValueForbidden),
    validation = Rule::new(
        "self.executionPolicy != 'AtMostOnce' || !has(self.template.spec.restartPolicy) || \
         self.template.spec.restartPolicy != 'OnFailure'"
    )
    .message(
        "must not be AtMostOnce with restartPolicy OnFailure, the kubelet would run the container \
         again: set spec.template.spec.restartPolicy: Never"
    )
    .field_path(".executionPolicy"),
    validation = Rule::new(
        "self.executionPolicy != 'AtMostOnce' || !has(self.podFailurePolicy) || \
         !self.podFailurePolicy.rules.exists(rule, rule.action == 'Ignore')"
    )
    .message(
        "must not have the action Ignore with executionPolicy AtMostOnce, which tries no node twice: \
         use another action or set spec.executionPolicy: AtLeastOnce"
    )
    .field_path(".podFailurePolicy"),
    validation = Rule::new("self.executionPolicy == oldSelf.executionPolicy")
        .message("is immutable: create a new BroadcastJob with the other value")
        .field_path(".executionPolicy"),
    validation = Rule::new(
        "!has(self.podFailurePolicy) || !has(self.template.spec.restartPolicy) || \
         self.template.spec.restartPolicy == 'Never'"
    )
    .message(
        "needs restartPolicy Never, with OnFailure the kubelet restarts what failed: remove it or \
         set spec.template.spec.restartPolicy: Never"
    )
    .field_path(".podFailurePolicy"),
    validation = Rule::new(
        "!has(self.podFailurePolicy) || self.podFailurePolicy.rules.all(rule, \
         !has(rule.onExitCodes) || !has(rule.onExitCodes.containerName) || \
         self.template.spec.containers.exists(c, c.name == rule.onExitCodes.containerName) || \
         has(self.template.spec.initContainers) && self.template.spec.initContainers.exists(c, \
         c.name == rule.onExitCodes.containerName))"
    )
    .message(
        "names a container that the template does not have: write the name of one of \
         spec.template.spec.containers or initContainers, or leave containerName out"
    )
    .field_path(".podFailurePolicy"),
    validation = Rule::new(
        "self.noEligibleNodesPolicy == 'Wait' || !has(self.completionPolicy) || \
         self.completionPolicy.type != 'Never'"
    )
    .message(
        "must be Wait with completionPolicy type Never, such a job waits for nodes: remove it or \
         set spec.completionPolicy.type: Always"
    )
    .field_path(".noEligibleNodesPolicy")
    .reason(Reason::FieldValueForbidden),
    validation = Rule::new(
        "has(self.nodeNames) == has(oldSelf.nodeNames) && \
         (!has(self.nodeNames) || self.nodeNames == oldSelf.nodeNames)"
    )
    .message("is immutable: create a new BroadcastJob for the other nodes")
    .field_path(".nodeNames"),
    validation = Rule::new(
        "has(self.retryOf) == has(oldSelf.retryOf) && \
         (!has(self.retryOf) || self.retryOf == oldSelf.retryOf)"
    )
    .message("is immutable: create a new BroadcastJob to retry another one")
    .field_path(".retryOf"),
    validation = Rule::new(
        "!has(self.retryOf) || !has(self.completionPolicy) || \
         self.completionPolicy.type != 'Never'"
    )
    .message(
        "must not be set with completionPolicy type Never, a retry has to end before the next one \
         begins: remove it or set spec.completionPolicy.type: Always"
    )
    .field_path(".retryOf")
    .reason(Reason::FieldValueForbidden)
)]
pub struct BroadcastJobSpec {
    /// Most pods that may run at the same time: a number from 1, or a percentage of the desired
    /// nodes from 1% to 100%, rounded up. May be changed at any time; pods that run already are
    /// never stopped by it. Default: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "IntOrString", extend("nullable" = true))]
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
    /// AtLeastOnce: a node whose pod was interrupted (drain, eviction, deletion, lost node) is
    /// tried again. AtMostOnce: a node whose pod may have run is never tried again; if it was
    /// interrupted, it has failed. Immutable.
    #[serde(default)]
    pub execution_policy: ExecutionPolicy,
    /// Failed attempts a node may have before it counts as failed: a number from 0. The first retry
    /// comes 10 s after the failure, each further one after twice the wait, 10 minutes at most.
    #[serde(default)]
    #[x_kube(
        validation = Rule::new("self >= 0")
            .message("must be 0 or more; 0 means that the first failure of a node counts")
    )]
    pub backoff_limit_per_node: i32,
    /// What the failure of a pod means, by exit code or pod condition. restartPolicy Never only.
    /// Default: no rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "PodFailurePolicy")]
    pub pod_failure_policy: Option<PodFailurePolicy>,
    /// Seconds from a pod's creation within which a container of it must have started, 1 or more.
    /// A pod that is later (image cannot be pulled, no room on the node) is deleted, and the attempt
    /// has failed with the reason why it did not start. Default: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(
        validation = Rule::new("self >= 1")
            .message("must be 1 or more seconds; for no limit leave the field out")
    )]
    pub pod_start_deadline_seconds: Option<i64>,
    /// Seconds, 10 or more, for which a node must be gone or not ready before its pod counts as lost
    /// and another one may be started in its place of parallelism.
    #[serde(default = "default_node_lost_timeout_seconds")]
    #[x_kube(
        validation = Rule::new("self >= 10")
            .message("must be 10 or more seconds; the default is 300")
    )]
    pub node_lost_timeout_seconds: i64,
    /// Seconds, 10 or more, that a deleted pod may take beyond its grace period before it is given up: the
    /// attempt is Unknown then, since its node may still run it.
    #[serde(default = "default_pod_termination_timeout_seconds")]
    #[x_kube(
        validation = Rule::new("self >= 10")
            .message("must be 10 or more seconds; the default is 300")
    )]
    pub pod_termination_timeout_seconds: i64,
    /// What becomes of the job if no node is eligible and none was ever started. Wait: it waits for
    /// one. Complete: it is Complete at once. Fail: it is Failed at once. completionPolicy type
    /// Always only.
    #[serde(default)]
    pub no_eligible_nodes_policy: NoEligibleNodesPolicy,
    /// Only these nodes, by name, 1 to 10000 of them; they must also pass the checks of
    /// the template. Immutable. Default: all nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        with = "Vec<String>",
        length(min = 1, max = crate::policy::MAX_NODE_NAMES),
        inner(length(min = 1, max = 253))
    )]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub node_names: Option<Vec<String>>,
    /// The BroadcastJob whose nodes this one tries again. All retries of one job are a family: one of
    /// them has its turn at a time, and a node that succeeded in any of them is not run again. Immutable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "RetryOf")]
    pub retry_of: Option<RetryOf>,
}

/// Retries that one job can have.
pub const MAX_RETRIES: usize = 100;

/// The job that a retry belongs to.
#[derive(Clone, Debug, Default, Deserialize, Eq, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RetryOf {
    /// Name of the first job of the family, in the same namespace. Not of a retry.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// Uid of that job. A later job of the same name is another one.
    #[schemars(length(min = 36, max = 36))]
    pub uid: String,
    /// How many of the retries in the `status.retries` of that job whoever made this one knew: 0 to
    /// 100. A node that a later one has tried is not tried again by this one, so that a request that
    /// is made twice is carried out once.
    #[serde(default)]
    #[x_kube(
        validation = Rule::new("self >= 0 && self <= 100")
            .message("must be a number from 0 to 100: the length of status.retries of that job")
    )]
    pub known_retries: i32,
}

/// A retry of a job, as the job's status lists it.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Retry {
    /// Name of the BroadcastJob.
    pub name: String,
    /// Uid of the BroadcastJob.
    pub uid: String,
}

fn default_node_lost_timeout_seconds() -> i64 {
    DEFAULT_NODE_LOST_TIMEOUT_SECONDS
}

fn default_pod_termination_timeout_seconds() -> i64 {
    DEFAULT_POD_TERMINATION_TIMEOUT_SECONDS
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
#[x_kube(
    validation = Rule::new(
        "!has(self.type) || self.type != 'Continue' || !has(self.maxFailedNodes) || self.maxFailedNodes == 0"
    )
    .message(
        "must not be set with type Continue, which puts up with every failure: remove it, or set \
         spec.failurePolicy.type: FailFast or Pause"
    )
    .field_path(".maxFailedNodes")
    .reason(Reason::FieldValueForbidden)
)]
pub struct FailurePolicy {
    /// What happens when more nodes have failed than maxFailedNodes allows. FailFast: the job fails.
    /// Continue: the other nodes go on. Pause: no further pod is started until somebody resumes the
    /// job.
    #[serde(rename = "type", default)]
    pub type_: FailurePolicyType,
    /// Failed nodes that FailFast and Pause put up with: a number from 0, or a percentage of the
    /// desired nodes from 0% to 100%, rounded down. May be changed at any time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        with = "IntOrString",
        extend("default" = 0, "nullable" = false)
    )]
    #[x_kube(
        validation = Rule::new(
            "type(self) == int ? self >= 0 && self <= 2147483647 \
             : self.matches('^(0|[1-9][0-9]?|100)%$')"
        )
        .message(
            "must be a number from 0 to 2147483647 or a percentage from 0% to 100%, e.g. 3 or \"10%\""
        )
    )]
    pub max_failed_nodes: Option<IntOrString>,
    /// Container restarts a pod may have, all containers added up, before it is stopped and has failed: a number
    /// from 0, which means that the first restart fails it. restartPolicy OnFailure only. Default: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(
        validation = Rule::new("self >= 0")
            .message("must be 0 or more; for no limit leave the field out")
    )]
    pub restart_limit: Option<i32>,
}

/// What a failed pod means for the job.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum FailurePolicyType {
    /// More failed nodes than maxFailedNodes fail the job.
    #[default]
    FailFast,
    /// Failed nodes are counted, the job goes on.
    Continue,
    /// More failed nodes than maxFailedNodes stop the starting of further pods until somebody resumes
    /// the job.
    Pause,
}

/// What the job has done so far. Its size does not grow with the cluster; the per-node results are
/// in the job's NodeResultSlices.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BroadcastJobStatus {
    /// `metadata.generation` this status was computed for.
    #[serde(
        default,
        deserialize_with = "crate::observed_generation::read",
        skip_serializing_if = "Option::is_none"
    )]
    pub observed_generation: Option<i64>,
    /// Complete, Failed: the job has ended. FailureTarget: it is going to fail, and its pods are being stopped.
    /// Paused: no further pod is started. Reconciling: work remains. Stalled: it needs a person. ExpiryWaits: its time
    /// to live is over, and it stays since another job needs its results. RequestIgnored: an annotation that asks for
    /// something cannot be read.
    #[serde(default)]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// The conditions in a word: running, paused, completed, failed. Later versions may add words.
    #[serde(
        default,
        deserialize_with = "crate::open_word::known",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "String")]
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
    /// Nodes that failed and are not tried again.
    #[serde(default)]
    pub failed: i32,
    /// Attempts interrupted by the cluster or a person. With executionPolicy AtLeastOnce they are tried
    /// again and are no failures.
    #[serde(default)]
    pub disrupted: i32,
    /// Nodes whose last attempt failed and that wait for their next one.
    #[serde(default, skip_serializing_if = "is_zero_i32")]
    pub retrying: i32,
    /// Active pods whose node has been gone or not ready for nodeLostTimeoutSeconds. Their outcome
    /// is still awaited, but they no longer count towards parallelism.
    #[serde(default, skip_serializing_if = "is_zero_i32")]
    pub lost: i32,
    /// `succeeded + failed` of `desired`, e.g. `812/1000`, for kubectl's table.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub done: String,
    /// Phase, or why the job is stalled (`Stalled: InvalidSpec`), for kubectl's table.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub summary: String,
    /// Nodes left out, by reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub refused: Vec<Refused>,
    /// Seconds the job was paused so far; they do not count towards the deadline.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub paused_seconds: i64,
    /// Failed nodes that a resume has accepted: only a further one pauses the job again.
    #[serde(default, skip_serializing_if = "is_zero_i32")]
    pub acknowledged_failed_nodes: i32,
    /// Last value of the annotation `carillon.dev/resume` that was acted on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_handled_resume: Option<String>,
    /// The jobs that have tried nodes of this one again, in the order in which they had their turn. A
    /// name is only ever added, and only when all before it have ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_RETRIES))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub retries: Vec<Retry>,
}

/// Nodes left out for one reason.
#[derive(Clone, Debug, Default, Deserialize, Eq, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Refused {
    /// Why, in a word, e.g. `NodeTaintNotTolerated`.
    pub reason: String,
    /// How many nodes for that reason.
    pub count: i32,
    /// Names of up to three of these nodes.
    #[serde(default)]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
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
