//! A stored BroadcastJob as the planner reads it: total, whatever was stored.

use std::collections::BTreeSet;
use std::sync::Arc;

use carillon_api::{BroadcastJobStatus, FailurePolicyType};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Policies;
use super::family::First;
use crate::object_key::ObjectKey;
use crate::parallelism::Parallelism;
use crate::placement::Placement;
use crate::written::Written;

/// Label values hold this many characters.
const MAX_NAME: usize = 63;

/// A BroadcastJob.
#[derive(Clone, Debug)]
pub struct Job {
    /// Namespace, name, uid.
    pub owner: Arc<ObjectKey>,
    /// `metadata.generation`.
    pub generation: i64,
    /// resourceVersion it was read at.
    pub rv: u64,
    /// Somebody has deleted it.
    pub deleting: bool,
    /// Value of the annotation `carillon.dev/resume`.
    pub resume: Option<String>,
    /// The pod template as written.
    pub template: Written,
    /// What the template asks of a node.
    pub placement: Placement,
    /// Most pods at a time.
    pub parallelism: Parallelism,
    /// `spec.paused`.
    pub paused: bool,
    /// completionPolicy Never.
    pub never_ends: bool,
    /// `activeDeadlineSeconds`.
    pub deadline_seconds: Option<i64>,
    /// `ttlSecondsAfterFinished`.
    pub ttl_seconds: Option<i64>,
    /// What a failed pod means.
    pub failure: FailurePolicyType,
    /// How often a node is tried, and what counts as a failure.
    pub policies: Policies,
    /// Restarts a pod may have; `None` for restartPolicy Never, where there are none.
    pub restart_limit: Option<u32>,
    /// The job that it retries.
    pub retry_of: Option<First>,
    /// What this version cannot act on. Such a job starts nothing.
    pub problems: Vec<String>,
    /// The stored status.
    pub status: BroadcastJobStatus,
}

/// The parts of the metadata a job is read from.
#[derive(Clone, Debug)]
pub struct JobMeta {
    /// Namespace, name, uid.
    pub owner: Arc<ObjectKey>,
    /// `metadata.generation`.
    pub generation: i64,
    /// resourceVersion.
    pub rv: u64,
    /// Has a deletionTimestamp.
    pub deleting: bool,
    /// Value of the annotation `carillon.dev/resume`.
    pub resume: Option<String>,
    /// Value of the annotation `carillon.dev/retry`.
    pub retry: Option<String>,
}

impl Job {
    /// Reads a stored object. What cannot be used becomes a problem, with field, value and remedy.
    pub fn read(meta: JobMeta, spec: &Value, status: &Value) -> Self {
        let mut problems = Vec::new();
        let length = meta.owner.name.len();
        if length > MAX_NAME {
            problems.push(format!(
                "metadata.name: has {length} characters; pods carry it as a label of at most {MAX_NAME}, create the job again under a shorter name"
            ));
        }
        let template = spec.get("template").unwrap_or(&Value::Null);
        let pod_spec = template.get("spec").unwrap_or(&Value::Null);
        let containers = pod_spec.get("containers").and_then(Value::as_array);
        if containers.is_none_or(Vec::is_empty) {
            problems.push(
                "spec.template.spec.containers: missing; write the containers to run".to_owned(),
            );
        }
        if let Some(node) = pod_spec
            .get("nodeName")
            .and_then(Value::as_str)
            .filter(|n| !n.is_empty())
        {
            problems.push(format!(
                "spec.template.spec.nodeName: found {node:?}; one pod runs on every node, use nodeSelector to choose some"
            ));
        }
        let parallelism = read_parallelism(spec, &mut problems);
        let completion = spec.get("completionPolicy").unwrap_or(&Value::Null);
        let failure = spec.get("failurePolicy").unwrap_or(&Value::Null);
        let never_ends = word(
            completion,
            "type",
            "spec.completionPolicy.type",
            false,
            &[("Always", false), ("Never", true)],
            &mut problems,
        );
        let failure_type = word(
            failure,
            "type",
            "spec.failurePolicy.type",
            FailurePolicyType::FailFast,
            &[
                ("FailFast", FailurePolicyType::FailFast),
                ("Continue", FailurePolicyType::Continue),
                ("Pause", FailurePolicyType::Pause),
            ],
            &mut problems,
        );
        let seconds = |field: &str, problems: &mut Vec<String>| {
            count(completion, "spec.completionPolicy", field, problems).filter(|_| !never_ends)
        };
        let deadline_seconds = seconds("activeDeadlineSeconds", &mut problems);
        let ttl_seconds = seconds("ttlSecondsAfterFinished", &mut problems);
        let restart_limit = count(failure, "spec.failurePolicy", "restartLimit", &mut problems);
        let restart_limit = match pod_spec.get("restartPolicy").and_then(Value::as_str) {
            Some("Never") => None,
            Some("OnFailure") => {
                Some(restart_limit.map_or(0, |n| u32::try_from(n).unwrap_or(u32::MAX)))
            }
            found => {
                problems.push(format!(
                    "spec.template.spec.restartPolicy: found {:?}; write OnFailure or Never",
                    found.unwrap_or("")
                ));
                None
            }
        };
        let policies = Policies::read(
            spec,
            meta.retry.as_deref(),
            restart_limit.is_some(),
            &mut problems,
        );
        let mut placement = Placement::read(pod_spec);
        placement.only = read_node_names(spec, &mut problems);
        let retry_of = First::read(spec, &mut problems);
        let stored = read_status(status, &mut problems);
        Self {
            owner: meta.owner,
            generation: meta.generation,
            rv: meta.rv,
            deleting: meta.deleting,
            resume: meta.resume,
            placement,
            template: template.into(),
            parallelism,
            paused: spec.get("paused").and_then(Value::as_bool).unwrap_or(false),
            never_ends,
            deadline_seconds,
            ttl_seconds,
            failure: failure_type,
            policies,
            restart_limit,
            retry_of,
            problems,
            status: stored,
        }
    }
}

fn read_parallelism(spec: &Value, problems: &mut Vec<String>) -> Parallelism {
    match spec.get("parallelism") {
        None | Some(Value::Null) => Parallelism::Count(i32::MAX as u32),
        Some(value) => Parallelism::read(value).unwrap_or_else(|problem| {
            problems.push(format!("spec.parallelism: {problem}"));
            Parallelism::Count(1)
        }),
    }
}

/// An empty list, or one that cannot be read, stands for no node: rather none than all.
fn read_node_names(spec: &Value, problems: &mut Vec<String>) -> Option<BTreeSet<Box<str>>> {
    let stored = match spec.get("nodeNames") {
        None | Some(Value::Null) => return None,
        Some(stored) => stored,
    };
    let names: Option<BTreeSet<Box<str>>> = stored.as_array().and_then(|names| {
        let names = names.iter();
        names.map(|name| Some(name.as_str()?.into())).collect()
    });
    if names.as_ref().is_none_or(BTreeSet::is_empty) {
        problems.push(
            "spec.nodeNames: must be a list of node names; create the job again with one, or without the field for all nodes"
                .to_owned(),
        );
    }
    Some(names.unwrap_or_default())
}

/// One of a few words; absent means the default.
pub(super) fn word<T: Copy>(
    parent: &Value,
    key: &str,
    field: &str,
    default: T,
    choices: &[(&str, T)],
    problems: &mut Vec<String>,
) -> T {
    let found = match parent.get(key) {
        None | Some(Value::Null) => return default,
        Some(found) => found,
    };
    if let Some((_, value)) = choices
        .iter()
        .find(|(name, _)| found.as_str() == Some(name))
    {
        return *value;
    }
    let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
    problems.push(format!(
        "{field}: found {found}; write one of {}",
        names.join(", ")
    ));
    default
}

/// A number from 0 up.
pub(super) fn count(
    parent: &Value,
    path: &str,
    field: &str,
    problems: &mut Vec<String>,
) -> Option<i64> {
    match parent.get(field) {
        None | Some(Value::Null) => None,
        Some(value) => {
            let found = value.as_i64().filter(|n| *n >= 0);
            if found.is_none() {
                problems.push(format!(
                    "{path}.{field}: must be a number from 0 up, found {value}"
                ));
            }
            found
        }
    }
}

/// Status is ours, but may have been stored under another schema: what does not decode is left
/// out by itself, so that an end that was stored stays an end.
///
/// A list of retries that cannot be read whole is a problem: it says whose turn it is.
fn read_status(status: &Value, problems: &mut Vec<String>) -> BroadcastJobStatus {
    let stored = read_parts(status);
    let listed = status.get("retries").and_then(Value::as_array);
    if listed.map_or(0, Vec::len) != stored.retries.len() {
        problems.push(
            "status.retries: has an entry this version cannot read; go back to the version that wrote it"
                .to_owned(),
        );
    }
    stored
}

fn read_parts(status: &Value) -> BroadcastJobStatus {
    fn part<T: DeserializeOwned + Default>(status: &Value, field: &str) -> T {
        status
            .get(field)
            .and_then(|value| serde_json::from_value(value.clone()).ok())
            .unwrap_or_default()
    }
    if status.is_null() {
        return BroadcastJobStatus::default();
    }
    serde_json::from_value(status.clone()).unwrap_or_else(|_| BroadcastJobStatus {
        conditions: part::<Vec<Value>>(status, "conditions")
            .into_iter()
            .filter_map(|condition| serde_json::from_value(condition).ok())
            .collect(),
        start_time: part(status, "startTime"),
        completion_time: part(status, "completionTime"),
        paused_seconds: part(status, "pausedSeconds"),
        acknowledged_failures: part(status, "acknowledgedFailures"),
        resumed_by: part(status, "resumedBy"),
        retries: part(status, "retries"),
        ..BroadcastJobStatus::default()
    })
}
