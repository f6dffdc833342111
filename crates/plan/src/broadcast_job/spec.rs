//! A stored BroadcastJob as the planner reads it: total, whatever was stored.

use std::collections::BTreeSet;
use std::fmt::Display;
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
        let mut read = Reader::of(spec);
        read.check_name(&meta.owner.name);
        read.check_template();
        let parallelism = read.value("parallelism", Parallelism::read, Parallelism::Count(1));
        let never_ends = read.word(
            "completionPolicy.type",
            &[("Always", false), ("Never", true)],
        );
        let failure = read.word("failurePolicy.type", &FAILURE_POLICIES);
        let deadline_seconds = read.count("completionPolicy.activeDeadlineSeconds");
        let ttl_seconds = read.count("completionPolicy.ttlSecondsAfterFinished");
        let restart_limit = read.restart_limit();
        let policies = Policies::read(&mut read, meta.retry.as_deref(), restart_limit.is_some());
        let mut placement = Placement::read(read.field("template.spec").unwrap_or(&Value::Null));
        placement.only = read.node_names();
        let retry_of = First::read(spec, &mut read.problems);
        let status = read_status(status, &mut read.problems);
        Self {
            owner: meta.owner,
            generation: meta.generation,
            rv: meta.rv,
            deleting: meta.deleting,
            resume: meta.resume,
            placement,
            template: read.field("template").unwrap_or(&Value::Null).into(),
            parallelism: parallelism.unwrap_or(Parallelism::Count(i32::MAX as u32)),
            paused: read.field("paused").and_then(Value::as_bool) == Some(true),
            never_ends,
            deadline_seconds: deadline_seconds.filter(|_| !never_ends),
            ttl_seconds: ttl_seconds.filter(|_| !never_ends),
            failure,
            policies,
            restart_limit,
            retry_of,
            problems: read.problems,
            status,
        }
    }
}

const FAILURE_POLICIES: [(&str, FailurePolicyType); 3] = [
    ("FailFast", FailurePolicyType::FailFast),
    ("Continue", FailurePolicyType::Continue),
    ("Pause", FailurePolicyType::Pause),
];

/// A spec, and what of it cannot be used.
pub(super) struct Reader<'a> {
    spec: &'a Value,
    problems: Vec<String>,
}

impl<'a> Reader<'a> {
    fn of(spec: &'a Value) -> Self {
        Self {
            spec,
            problems: Vec::new(),
        }
    }

    /// The field at a path such as `failurePolicy.type`, unless it is null.
    fn field(&self, path: &str) -> Option<&'a Value> {
        let mut keys = path.split('.');
        let found = keys.try_fold(self.spec, |of, key| of.get(key))?;
        Some(found).filter(|found| !found.is_null())
    }

    /// Notes what is wrong with a field, and what to write.
    pub(super) fn problem(&mut self, path: &str, what: impl Display) {
        self.problems.push(format!("spec.{path}: {what}"));
    }

    /// A field, if it is there; `instead` of one that `read` refuses.
    pub(super) fn value<T>(
        &mut self,
        path: &str,
        read: impl FnOnce(&Value) -> Result<T, String>,
        instead: T,
    ) -> Option<T> {
        Some(read(self.field(path)?).unwrap_or_else(|problem| {
            self.problem(path, problem);
            instead
        }))
    }

    /// One of a few words; the first is the default.
    pub(super) fn word<T: Copy>(&mut self, path: &str, choices: &[(&str, T)]) -> T {
        let (_, default) = choices[0];
        let read = |found: &Value| {
            let mut all = choices.iter();
            let chosen = all.find(|(word, _)| found.as_str() == Some(word));
            chosen.map(|(_, value)| *value).ok_or_else(|| {
                let words: Vec<_> = choices.iter().map(|(word, _)| *word).collect();
                format!("found {found}; write one of {}", words.join(", "))
            })
        };
        self.value(path, read, default).unwrap_or(default)
    }

    /// A number from 0 up.
    pub(super) fn count(&mut self, path: &str) -> Option<i64> {
        let read = |value: &Value| {
            let found = value.as_i64().filter(|n| *n >= 0).map(Some);
            found.ok_or_else(|| format!("must be a number from 0 up, found {value}"))
        };
        self.value(path, read, None).flatten()
    }

    fn check_name(&mut self, name: &str) {
        let length = name.len();
        if length > MAX_NAME {
            self.problems.push(format!(
                "metadata.name: has {length} characters; pods carry it as a label of at most {MAX_NAME}, create the job again under a shorter name"
            ));
        }
    }

    fn check_template(&mut self) {
        let path = "template.spec.containers";
        let containers = self.field(path).and_then(Value::as_array);
        if containers.is_none_or(Vec::is_empty) {
            self.problem(path, "missing; write the containers to run");
        }
        let path = "template.spec.nodeName";
        let node = self.field(path).and_then(Value::as_str);
        if let Some(node) = node.filter(|node| !node.is_empty()) {
            self.problem(
                path,
                format_args!(
                    "found {node:?}; one pod runs on every node, use nodeSelector to choose some"
                ),
            );
        }
    }

    /// Restarts that a pod may have, with restartPolicy OnFailure.
    fn restart_limit(&mut self) -> Option<u32> {
        let limit = self.count("failurePolicy.restartLimit").unwrap_or(0);
        let path = "template.spec.restartPolicy";
        match self.field(path).and_then(Value::as_str).unwrap_or_default() {
            "Never" => None,
            "OnFailure" => Some(u32::try_from(limit).unwrap_or(u32::MAX)),
            found => {
                self.problem(
                    path,
                    format_args!("found {found:?}; write OnFailure or Never"),
                );
                None
            }
        }
    }

    /// An empty list, or one that cannot be read, stands for no node: rather none than all.
    fn node_names(&mut self) -> Option<BTreeSet<Box<str>>> {
        let read = |stored: &Value| {
            let names = stored.as_array().and_then(|names| {
                let names = names.iter().map(|name| Some(name.as_str()?.into()));
                names.collect::<Option<BTreeSet<Box<str>>>>()
            });
            let names = names.filter(|names| !names.is_empty());
            names.ok_or_else(|| {
                "must be a list of node names; create the job again with one, or without the field for all nodes".to_owned()
            })
        };
        self.value("nodeNames", read, BTreeSet::new())
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
