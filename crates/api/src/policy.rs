//! The policies of a BroadcastJob: how often a node is tried, and what counts as a failure.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Seconds for which a node must be gone or not ready before its pod counts as lost, when
/// `spec.nodeLostTimeoutSeconds` is absent.
pub const DEFAULT_NODE_LOST_TIMEOUT_SECONDS: i64 = 300;

/// Seconds that a deleted pod may take beyond its grace period, when `spec.podTerminationTimeoutSeconds` is absent.
pub const DEFAULT_POD_TERMINATION_TIMEOUT_SECONDS: i64 = 300;

/// Node names that `spec.nodeNames` holds at most.
pub const MAX_NODE_NAMES: usize = 10_000;

/// How often the pod of a node may run.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum ExecutionPolicy {
    /// A node whose pod was interrupted (drain, eviction, deletion, lost node) is tried again.
    #[default]
    AtLeastOnce,
    /// A node whose pod may have run is never tried again; if it was interrupted, it has failed.
    AtMostOnce,
}

/// What becomes of a job for which there is no eligible node.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum NoEligibleNodesPolicy {
    /// The job waits for one.
    #[default]
    Wait,
    /// The job is Complete, reason NoEligibleNodes.
    Complete,
    /// The job is Failed, reason NoEligibleNodes.
    Fail,
}

/// What the failure of a pod means, by exit code or pod condition. The first rule that matches
/// decides; without one, a pod that failed by its own doing is a failed attempt, and one that was
/// interrupted (drain, eviction, preemption, deletion) is none. Needs restartPolicy Never.
#[derive(Clone, Debug, Default, Deserialize, Eq, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodFailurePolicy {
    /// Rules in the order in which they are tried, 20 at most.
    #[schemars(length(max = 20))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub rules: Vec<PodFailurePolicyRule>,
}

/// One rule: an action, and either exit codes or pod conditions.
#[derive(Clone, Debug, Deserialize, Eq, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.onExitCodes) != has(self.onPodConditions)")
        .message("must have exactly one of onExitCodes and onPodConditions: write one rule for each")
)]
pub struct PodFailurePolicyRule {
    /// Ignore: the attempt is not counted, and the node is tried again. Count: as without a rule;
    /// later rules are not tried. FailNode: the node has failed, without further tries. FailJob:
    /// the job fails.
    pub action: PodFailurePolicyAction,
    /// Matches by the exit code of a container. Only pods that ended by their own doing are
    /// judged: the exit code of a pod that was told to stop is that of the kill.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "OnExitCodes")]
    pub on_exit_codes: Option<OnExitCodes>,
    /// Matches if the failed pod has one of these conditions, e.g. DisruptionTarget. 20 at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<OnPodCondition>", length(min = 1, max = 20))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub on_pod_conditions: Option<Vec<OnPodCondition>>,
}

/// What a rule of the pod failure policy does.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum PodFailurePolicyAction {
    /// The attempt is not counted, and the node is tried again.
    Ignore,
    /// As without a rule.
    Count,
    /// The node has failed, without further tries.
    FailNode,
    /// The job fails.
    FailJob,
}

impl PodFailurePolicyAction {
    /// The word in the manifest.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ignore => "Ignore",
            Self::Count => "Count",
            Self::FailNode => "FailNode",
            Self::FailJob => "FailJob",
        }
    }
}

/// Exit codes of containers and init containers; sidecars and exit code 0 are left out.
#[derive(Clone, Debug, Deserialize, Eq, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.operator != 'In' || !(0 in self.values)")
        .message("must not hold 0 with operator In, a container that exits with 0 has not failed: remove the 0")
        .field_path(".values")
)]
pub struct OnExitCodes {
    /// Only this container or init container. Default: any of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 63))]
    pub container_name: Option<String>,
    /// In: a container failed with one of the values. NotIn: with another one.
    pub operator: ExitCodeOperator,
    /// Exit codes in ascending order, each once, 1 to 255 of them.
    #[schemars(length(min = 1, max = 255))]
    #[x_kube(
        merge_strategy = ListMerge::Set,
        validation = Rule::new("self.isSorted()")
            .message("must be in ascending order, e.g. [1, 42]: sort them")
    )]
    pub values: Vec<i32>,
}

/// How exit codes are compared.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum ExitCodeOperator {
    /// One of the values.
    In,
    /// None of the values.
    NotIn,
}

/// A condition of a failed pod.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OnPodCondition {
    /// Type of the condition, e.g. DisruptionTarget.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 316))]
    pub type_: String,
    /// Status it must have: True, False or Unknown.
    #[serde(default)]
    pub status: ConditionStatus,
}

/// Status of a pod condition.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum ConditionStatus {
    /// It holds.
    #[default]
    True,
    /// It does not.
    False,
    /// Nobody knows.
    Unknown,
}

impl ConditionStatus {
    /// The API's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}
