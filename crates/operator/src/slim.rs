//! What is read of the objects we watch: a few fields, in compact rows.
//!
//! Unknown fields (managedFields above all) are skipped while parsing and never allocated.
//! Nothing here fails on odd content; what cannot be used is left out.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use carillon_api::NodeState;
use carillon_api::names::{FINALIZER_RESULT_TRACKING, LABEL_SLICE_INDEX};
use carillon_plan::Uid;
use carillon_plan::broadcast_job::{Job, JobMeta};
use carillon_plan::node::{Effect, NodeRow, Taint};
use carillon_plan::pod::{Deletion, End, PodPhase, PodRow, printable};
use carillon_plan::pod_body::PodOwner;
use carillon_plan::quantity;
use carillon_plan::record::{Record, Slice};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

/// Metadata of any object, with those of its labels that are read.
#[derive(Debug, Default, Deserialize)]
#[serde(
    rename_all = "camelCase",
    default,
    bound = "L: Deserialize<'de> + Default"
)]
pub struct SlimMeta<L = Labels> {
    /// Name.
    pub name: String,
    /// Namespace, empty for cluster objects.
    pub namespace: String,
    /// Uid.
    pub uid: String,
    /// resourceVersion.
    pub resource_version: String,
    /// Generation.
    pub generation: i64,
    /// Set once the object is deleted.
    pub deletion_timestamp: Option<Timestamp>,
    /// Seconds the kubelet gives.
    pub deletion_grace_period_seconds: Option<i64>,
    /// Finalizers.
    pub finalizers: Option<Vec<String>>,
    /// Owners.
    pub owner_references: Option<Vec<OwnerReference>>,
    /// Labels.
    pub labels: Option<L>,
    /// Annotations.
    pub annotations: Option<Annotations>,
}

/// The labels we set.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Labels {
    /// Name of the BroadcastJob.
    #[serde(rename = "carillon.dev/broadcastjob-name")]
    pub job_name: String,
    /// Uid of the BroadcastJob.
    #[serde(rename = "carillon.dev/broadcastjob-uid")]
    pub job_uid: String,
    /// Place of a result slice in the order.
    #[serde(rename = "carillon.dev/slice-index")]
    pub slice_index: String,
}

/// All labels, as nodes need them.
type AllLabels = BTreeMap<String, String>;

/// The one annotation we read.
#[derive(Debug, Default, Deserialize)]
pub struct Annotations {
    /// `carillon.dev/resume`.
    #[serde(rename = "carillon.dev/resume", default)]
    pub resume: Option<String>,
}

/// An owner.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct OwnerReference {
    /// Kind of the owner.
    pub kind: String,
    /// Uid of the owner.
    pub uid: String,
    /// Whether it is the controller.
    pub controller: Option<bool>,
}

impl<L> SlimMeta<L> {
    /// Uid, if the object has a usable one.
    pub fn uid(&self) -> Option<Uid> {
        self.uid.parse().ok()
    }

    /// resourceVersion as a number; they are comparable within one kind (KEP-5504).
    pub fn rv(&self) -> u64 {
        self.resource_version.parse().unwrap_or(0)
    }

    /// The BroadcastJob that controls the object.
    pub fn broadcast_job(&self) -> Option<Uid> {
        self.owner_references
            .iter()
            .flatten()
            .find(|owner| owner.controller == Some(true) && owner.kind == "BroadcastJob")
            .and_then(|owner| owner.uid.parse().ok())
    }
}

/// Shares equal strings: node names, label keys and values, reasons.
#[derive(Debug, Default)]
pub struct Interner(HashSet<Arc<str>>);

impl Interner {
    /// The shared copy of `text`.
    pub fn share(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.0.get(text) {
            return known.clone();
        }
        let new: Arc<str> = text.into();
        self.0.insert(new.clone());
        new
    }

    /// Drops what nobody uses any more.
    pub fn sweep(&mut self) {
        self.0.retain(|text| Arc::strong_count(text) > 1);
    }
}

/// A pod.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct SlimPod {
    /// Metadata.
    pub metadata: SlimMeta,
    spec: PodSpec,
    status: PodStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodSpec {
    node_name: Option<String>,
    init_containers: Option<Vec<InitContainer>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct InitContainer {
    name: String,
    restart_policy: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodStatus {
    phase: String,
    reason: String,
    message: String,
    conditions: Option<Vec<PodCondition>>,
    init_container_statuses: Option<Vec<ContainerStatus>>,
    container_statuses: Option<Vec<ContainerStatus>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PodCondition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ContainerStatus {
    name: String,
    restart_count: u32,
    state: Option<ContainerState>,
    last_state: Option<ContainerState>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ContainerState {
    waiting: Option<Waiting>,
    running: Option<Running>,
    terminated: Option<Terminated>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Waiting {
    reason: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Running {
    started_at: Option<Timestamp>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Terminated {
    exit_code: i32,
    reason: String,
    message: String,
    started_at: Option<Timestamp>,
    finished_at: Option<Timestamp>,
}

/// Reasons with which the kubelet ends pods for the cluster's sake, besides the condition
/// DisruptionTarget of newer versions.
const KUBELET_DISRUPTIONS: [&str; 5] = [
    "Evicted",
    "Preempting",
    "NodeShutdown",
    "Terminated",
    "Shutdown",
];

impl SlimPod {
    /// Name and row.
    pub fn row(&self, strings: &mut Interner) -> Option<(Box<str>, PodRow)> {
        let status = &self.status;
        let sidecars: Vec<&str> = self
            .spec
            .init_containers
            .iter()
            .flatten()
            .filter(|container| container.restart_policy.as_deref() == Some("Always"))
            .map(|container| container.name.as_str())
            .collect();
        let counted = || {
            let init = status.init_container_statuses.iter().flatten();
            init.chain(status.container_statuses.iter().flatten())
                .filter(|container| !sidecars.contains(&container.name.as_str()))
        };
        let deletion = self.metadata.deletion_timestamp.map(|due| Deletion {
            due,
            grace_seconds: self.metadata.deletion_grace_period_seconds.unwrap_or(0),
        });
        let row = PodRow {
            uid: self.metadata.uid()?,
            rv: self.metadata.rv(),
            node: self
                .spec
                .node_name
                .as_deref()
                .filter(|name| !name.is_empty())
                .map(|name| strings.share(name)),
            phase: PodPhase::read(&status.phase),
            tracked: self
                .metadata
                .finalizers
                .iter()
                .flatten()
                .any(|finalizer| finalizer == FINALIZER_RESULT_TRACKING),
            disrupted: KUBELET_DISRUPTIONS.contains(&status.reason.as_str())
                || status
                    .conditions
                    .iter()
                    .flatten()
                    .any(|c| c.type_ == "DisruptionTarget" && c.status == "True"),
            deletion,
            interrupted: deletion.is_some() && !PodPhase::read(&status.phase).has_ended(),
            restarts: counted().map(|container| container.restart_count).sum(),
            waiting: counted()
                .find_map(|c| c.state.as_ref()?.waiting.as_ref()?.reason.as_deref())
                .map(|reason| strings.share(reason)),
            started: counted().filter_map(started).min(),
            end: end(status, counted()),
        };
        Some((self.metadata.name.as_str().into(), row))
    }
}

fn started(container: &ContainerStatus) -> Option<Timestamp> {
    let of = |state: &ContainerState| {
        let ended = state
            .terminated
            .as_ref()
            .and_then(|terminated| terminated.started_at);
        ended.or_else(|| state.running.as_ref()?.started_at)
    };
    container
        .last_state
        .as_ref()
        .and_then(of)
        .or_else(|| container.state.as_ref().and_then(of))
}

/// The last words: of the first container that failed, else of the last that ended.
fn end<'a>(
    status: &PodStatus,
    containers: impl Iterator<Item = &'a ContainerStatus>,
) -> Option<Box<End>> {
    let mut ends: Vec<&Terminated> = containers
        .filter_map(|container| {
            let now = container
                .state
                .as_ref()
                .and_then(|state| state.terminated.as_ref());
            now.or_else(|| container.last_state.as_ref()?.terminated.as_ref())
        })
        .collect();
    ends.sort_by_key(|end| end.finished_at);
    let finished = ends.last().and_then(|end| end.finished_at);
    let telling = ends
        .iter()
        .find(|end| end.exit_code != 0)
        .or_else(|| ends.last());
    if telling.is_none() && status.reason.is_empty() {
        return None;
    }
    let or = |first: &str, second: &str| -> Box<str> {
        printable(if first.is_empty() { second } else { first }).into()
    };
    Some(Box::new(End {
        exit_code: telling.map(|end| end.exit_code),
        reason: or(&status.reason, telling.map_or("", |end| &end.reason)),
        message: or(telling.map_or("", |end| &end.message), &status.message),
        finished,
    }))
}

/// A node.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct SlimNode {
    /// Metadata.
    pub metadata: SlimMeta<AllLabels>,
    spec: NodeSpec,
    status: NodeStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NodeSpec {
    unschedulable: bool,
    taints: Option<Vec<NodeTaint>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NodeTaint {
    key: String,
    value: String,
    effect: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NodeStatus {
    allocatable: Option<BTreeMap<String, String>>,
}

impl SlimNode {
    /// Name and row.
    pub fn row(&self, strings: &mut Interner) -> Option<(Arc<str>, NodeRow)> {
        let mut pair =
            |(key, value): (&String, &String)| (strings.share(key), strings.share(value));
        let labels = self
            .metadata
            .labels
            .iter()
            .flatten()
            .map(&mut pair)
            .collect();
        let taints = self
            .spec
            .taints
            .iter()
            .flatten()
            .filter_map(|taint| {
                Some(Taint {
                    key: strings.share(&taint.key),
                    value: strings.share(&taint.value),
                    effect: Effect::read(&taint.effect)?,
                })
            })
            .collect();
        let allocatable = self
            .status
            .allocatable
            .iter()
            .flatten()
            .filter_map(|(resource, amount)| {
                Some((strings.share(resource), quantity::parse(amount)?))
            })
            .collect();
        let row = NodeRow {
            uid: self.metadata.uid()?,
            deleting: self.metadata.deletion_timestamp.is_some(),
            unschedulable: self.spec.unschedulable,
            labels,
            taints,
            allocatable,
        };
        Some((strings.share(&self.metadata.name), row))
    }
}

/// A result slice.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct SlimSlice {
    /// Metadata.
    pub metadata: SlimMeta,
    sealed: bool,
    results: Vec<SlimResult>,
}

/// An entry as stored; every field may be missing or of a later version.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SlimResult {
    node: String,
    #[serde(rename = "nodeUID")]
    node_uid: String,
    attempt: u32,
    state: String,
    pod: String,
    #[serde(rename = "podUID")]
    pod_uid: String,
    reason: String,
    exit_code: Option<i32>,
    start_time: Option<Timestamp>,
    finish_time: Option<Timestamp>,
    message: String,
}

impl SlimSlice {
    /// The slice, or what about it cannot be read. A log that cannot be read whole must not be
    /// acted on: what it hides might be run again.
    pub fn row(&self, strings: &mut Interner) -> Result<Slice, String> {
        let labels = self.metadata.labels.as_ref();
        let index = labels
            .and_then(|labels| labels.slice_index.parse().ok())
            .ok_or_else(|| {
                format!(
                    "NodeResultSlice {}: label {LABEL_SLICE_INDEX} is missing or no number",
                    self.metadata.name
                )
            })?;
        let records: Option<Vec<Record>> = self
            .results
            .iter()
            .map(|result| result.record(strings))
            .collect();
        let records = records.ok_or_else(|| {
            format!(
                "NodeResultSlice {}: has a result this version cannot read",
                self.metadata.name
            )
        })?;
        let uid = self.metadata.uid().unwrap_or_default();
        Ok(Slice {
            index,
            uid,
            rv: self.metadata.rv(),
            sealed: self.sealed,
            records,
        })
    }
}

impl SlimResult {
    fn record(&self, strings: &mut Interner) -> Option<Record> {
        let state = match self.state.as_str() {
            "Started" => NodeState::Started,
            "Succeeded" => NodeState::Succeeded,
            "Failed" => NodeState::Failed,
            "Disrupted" => NodeState::Disrupted,
            "Unknown" => NodeState::Unknown,
            "Skipped" => NodeState::Skipped,
            _ => return None,
        };
        let pod_uid = match self.pod_uid.as_str() {
            "" => None,
            text => Some(text.parse().ok()?),
        };
        Some(Record {
            node: strings.share(&self.node),
            node_uid: self.node_uid.parse().ok()?,
            attempt: self.attempt,
            state,
            pod: self.pod.as_str().into(),
            pod_uid,
            reason: strings.share(&self.reason),
            exit_code: self.exit_code,
            started: self.start_time,
            finished: self.finish_time,
            message: self.message.as_str().into(),
        })
    }
}

/// A BroadcastJob: few, and read whole.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct SlimJob {
    /// Metadata.
    pub metadata: SlimMeta,
    spec: Value,
    status: Value,
}

impl SlimJob {
    /// The job as the planner reads it.
    pub fn job(&self) -> Option<Job> {
        let meta = &self.metadata;
        let owner = PodOwner {
            kind: "BroadcastJob",
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            uid: meta.uid()?,
        };
        let meta = JobMeta {
            owner,
            generation: meta.generation,
            rv: meta.rv(),
            deleting: meta.deletion_timestamp.is_some(),
            resume: meta
                .annotations
                .as_ref()
                .and_then(|annotations| annotations.resume.clone()),
        };
        Some(Job::read(meta, &self.spec, &self.status))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use carillon_api::names::{ANNOTATION_RESUME, LABEL_BROADCAST_JOB_UID};
    use serde_json::json;

    const UID: &str = "4e0c5d6a-0b1c-4d2e-8f3a-5b6c7d8e9f00";

    fn pod(value: Value) -> PodRow {
        let pod: SlimPod = serde_json::from_value(value).unwrap();
        pod.row(&mut Interner::default()).unwrap().1
    }

    #[test]
    fn a_pod_that_failed_keeps_the_words_of_the_container_that_failed() {
        let row = pod(json!({
            "metadata": {"name": "p", "uid": UID, "resourceVersion": "41",
                "managedFields": [{"fieldsV1": {"f:spec": {}}}],
                "finalizers": ["x/y", "carillon.dev/result-tracking"]},
            "spec": {"nodeName": "n1"},
            "status": {"phase": "Failed", "containerStatuses": [
                {"name": "a", "state": {"terminated": {"exitCode": 0, "reason": "Completed",
                    "startedAt": "2026-01-01T00:00:01Z", "finishedAt": "2026-01-01T00:00:09Z"}}},
                {"name": "b", "restartCount": 2, "state": {"terminated": {"exitCode": 3,
                    "reason": "Error", "message": "no space left\n",
                    "startedAt": "2026-01-01T00:00:02Z", "finishedAt": "2026-01-01T00:00:05Z"}}},
            ]},
        }));
        let end = row.end.as_deref().unwrap();
        assert_eq!((end.exit_code, &*end.message), (Some(3), "no space left"));
        assert_eq!(end.finished, Some("2026-01-01T00:00:09Z".parse().unwrap()));
        assert_eq!(row.started, Some("2026-01-01T00:00:01Z".parse().unwrap()));
        assert_eq!((row.rv, row.restarts, row.tracked), (41, 2, true));
        assert_eq!(row.node.as_deref(), Some("n1"));
    }

    #[test]
    fn restarts_of_sidecars_do_not_count() {
        let row = pod(json!({
            "metadata": {"name": "p", "uid": UID},
            "spec": {"initContainers": [{"name": "mesh", "restartPolicy": "Always"}, {"name": "i"}]},
            "status": {
                "initContainerStatuses": [
                    {"name": "mesh", "restartCount": 7}, {"name": "i", "restartCount": 1}],
                "containerStatuses": [{"name": "c", "restartCount": 2,
                    "state": {"waiting": {"reason": "CrashLoopBackOff"}}}],
            },
        }));
        assert_eq!(
            (row.restarts, row.waiting.as_deref()),
            (3, Some("CrashLoopBackOff"))
        );
    }

    #[test]
    fn evictions_are_disruptions_by_condition_or_reason() {
        for status in [
            json!({"phase": "Failed", "reason": "Evicted", "message": "disk pressure"}),
            json!({"phase": "Failed", "conditions": [{"type": "DisruptionTarget", "status": "True"}]}),
        ] {
            assert!(
                pod(json!({"metadata": {"name": "p", "uid": UID}, "status": status})).disrupted
            );
        }
    }

    #[test]
    fn a_slice_with_a_result_of_a_later_version_is_not_acted_on() {
        let mut entry =
            json!({"node": "n", "nodeUID": UID, "attempt": 1, "state": "Started", "pod": "p"});
        let slice = |entry: &Value| -> Result<Slice, String> {
            let slice: SlimSlice = serde_json::from_value(json!({
                "metadata": {"name": "s", "labels": {LABEL_SLICE_INDEX: "3"}},
                "results": [entry],
            }))
            .unwrap();
            slice.row(&mut Interner::default())
        };
        assert_eq!(slice(&entry).unwrap().index, 3);
        entry["state"] = json!("Teleported");
        assert!(slice(&entry).unwrap_err().contains("cannot read"));
    }

    #[test]
    fn the_keys_read_are_those_the_api_names() {
        let meta: SlimMeta = serde_json::from_value(json!({
            "annotations": {ANNOTATION_RESUME: "7", "a": "b"},
            "labels": {LABEL_BROADCAST_JOB_UID: "u", LABEL_SLICE_INDEX: "4"},
        }))
        .unwrap();
        assert_eq!(meta.annotations.unwrap().resume.as_deref(), Some("7"));
        let labels = meta.labels.unwrap();
        assert_eq!((&*labels.job_uid, &*labels.slice_index), ("u", "4"));
    }
}
