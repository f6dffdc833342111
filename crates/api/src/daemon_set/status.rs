//! What became of a DaemonSet.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::broadcast_job::Refused;

/// What became of a DaemonSet. The numbers are those of an apps/v1 DaemonSet; the rest is ours. Its size does not
/// grow with the cluster.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DaemonSetStatus {
    /// `metadata.generation` this status was computed for.
    #[serde(
        default,
        deserialize_with = "crate::observed_generation::read",
        skip_serializing_if = "Option::is_none"
    )]
    pub observed_generation: Option<i64>,
    /// Nodes that should have a pod.
    #[serde(default, deserialize_with = "crate::null::as_default")]
    pub desired_number_scheduled: i32,
    /// Nodes that should have a pod and have one.
    #[serde(default, deserialize_with = "crate::null::as_default")]
    pub current_number_scheduled: i32,
    /// Nodes that have a pod and should have none.
    #[serde(default, deserialize_with = "crate::null::as_default")]
    pub number_misscheduled: i32,
    /// Nodes whose pod is ready.
    #[serde(default, deserialize_with = "crate::null::as_default")]
    pub number_ready: i32,
    /// Nodes whose pod is of the current template. Absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_number_scheduled: Option<i32>,
    /// Nodes whose pod has been ready for minReadySeconds. Absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number_available: Option<i32>,
    /// Nodes that should have an available pod and have none. Absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number_unavailable: Option<i32>,
    /// How often the name of a revision was taken by another object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
    /// Hash of the current template: pods made from it carry it as the label `controller-revision-hash`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_revision: Option<String>,
    /// Ready: every node that should have a pod has an available one of the current template. Progressing: an update
    /// goes on, or has come to its end. Available: no more nodes are without an available pod than the budget allows.
    /// Stalled: it needs a person.
    #[serde(
        default,
        deserialize_with = "crate::null::as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// When a node last got a pod of the current template, or such a pod became available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_progress_time: Option<Time>,
    /// Nodes that should have no pod, by reason.
    #[serde(
        default,
        deserialize_with = "crate::null::as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub refused: Vec<Refused>,
    /// Nodes that hold the update up, by reason.
    #[serde(
        default,
        deserialize_with = "crate::null::as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub waiting_for: Vec<Refused>,
    /// Nodes that were sick before the update reached them, by reason. They use up no budget.
    #[serde(
        default,
        deserialize_with = "crate::null::as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub excused: Vec<Refused>,
    /// Nodes with a pod of the current template, of those that should have one (`812/1000`), for kubectl's table.
    #[serde(
        default,
        deserialize_with = "crate::null::as_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub updated: String,
    /// Complete, Updating, Paused, OldPodsKept, or what nodes wait for, for kubectl's table.
    #[serde(
        default,
        deserialize_with = "crate::null::as_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub summary: String,
}
