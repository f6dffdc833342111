//! NodeResultSlice: what happened on each node, kept apart from the pods so that it outlives them.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Entries one slice holds at most.
pub const MAX_RESULTS_PER_SLICE: usize = 250;
/// Bytes of `NodeResult.message` at most.
pub const MAX_MESSAGE_BYTES: usize = 512;

/// One attempt on one node.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeResult {
    /// Name of the node.
    pub node_name: String,
    /// Uid of the node object the attempt was made on. A replaced node has another uid and is
    /// served again.
    #[serde(rename = "nodeUID")]
    pub node_uid: String,
    /// 1 for the first try on a node of this name, counted up by each further one.
    pub attempt: i32,
    /// What became of the attempt: Started, Succeeded, Failed, Disrupted, Unknown, Skipped. Later versions may add
    /// words; a job with a word that this version does not know is left alone.
    #[schemars(with = "String")]
    pub state: NodeState,
    /// Name of the attempt's pod.
    pub pod_name: String,
    /// Uid of the pod, once it was seen. Empty: the pod is about to be created.
    #[serde(rename = "podUID", default, skip_serializing_if = "String::is_empty")]
    pub pod_uid: String,
    /// Why, for every state but Succeeded. Of an attempt that is Started: why it is about to be given up.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Exit code of the first container that failed, or 0 of a pod that succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// When the pod's first container started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// When the pod's last container ended. Of an attempt that is Started and has no pod: since when it
    /// is to be withdrawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// Since when the node object of a pod that runs is gone, as first noticed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_gone_time: Option<Time>,
    /// The last words of the container, 512 bytes at most.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// True: somebody has asked for this attempt, by the annotation `carillon.dev/retry`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub requested: bool,
    /// True, of an attempt that has failed: a resume has accepted it, so that it pauses the job no more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub accepted: bool,
    /// Fields of a later version, which are written back as they were read.
    #[serde(flatten)]
    #[schemars(skip)]
    pub rest: Rest,
}

/// Fields that this version does not know.
pub type Rest = BTreeMap<String, Value>;

/// State of an attempt. Started is the only one that can change.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    Deserialize,
    Eq,
    Hash,
    JsonSchema,
    Ord,
    PartialEq,
    PartialOrd,
    Serialize,
)]
pub enum NodeState {
    /// Reserved (no pod uid yet) or running.
    #[default]
    Started,
    /// Every container ended with exit code 0.
    Succeeded,
    /// The pod failed by its own doing, or was stopped by the job's policy.
    Failed,
    /// Interrupted by the cluster or a person; with executionPolicy AtLeastOnce the node is tried again.
    Disrupted,
    /// The pod is gone and its outcome was never seen.
    Unknown,
    /// Nothing was run.
    Skipped,
}

/// The results of a bounded number of nodes of one BroadcastJob, which owns it.
#[derive(Clone, Debug, Deserialize, KubeSchema, Serialize, kube::CustomResource)]
#[kube(
    group = "carillon.dev",
    version = "v1alpha1",
    kind = "NodeResultSlice",
    doc = "NodeResultSlice holds the results of a bounded number of nodes of one BroadcastJob, \
           which owns it. Carillon writes it; results stay when pods and nodes go.",
    namespaced,
    shortname = "nrs",
    category = "carillon",
    no_spec,
    printcolumn(
        name = "Job",
        type_ = "string",
        json_path = r".metadata.labels['carillon\.dev/broadcastjob-name']",
        description = "The BroadcastJob"
    ),
    printcolumn(
        name = "Sealed",
        type_ = "boolean",
        json_path = ".sealed",
        description = "True: no further result is added"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    // The fence that keeps a paused former leader from adding nodes to a job that has ended.
    validation = Rule::new("!oldSelf.sealed || self.results.size() <= oldSelf.results.size()")
        .message("must not grow once sealed is true: the job has ended or is about to")
        .field_path(".results")
        .reason(Reason::FieldValueForbidden)
)]
#[serde(rename_all = "camelCase")]
pub struct NodeResultSliceSpec {
    /// Set before the job ends: no further result is added to any slice of the job.
    #[serde(default)]
    #[x_kube(
        validation = Rule::new("self || !oldSelf")
            .message("must not go back to false: create a new BroadcastJob to run again")
    )]
    pub sealed: bool,
    /// Results in the order the attempts were reserved.
    #[serde(default)]
    #[schemars(length(max = MAX_RESULTS_PER_SLICE))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub results: Vec<NodeResult>,
}
