//! A stored BroadcastJob as the planner reads it: total, whatever was stored.

use carillon_api::condition::types;
use carillon_api::{BroadcastJobStatus, FailurePolicyType};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::policies::Policies;
use super::reader::Reader;
use super::retry_of::First;
use crate::condition;
use crate::meta::Meta;
use crate::parallelism::Parallelism;
use crate::placement::Placement;
use crate::written::Written;

/// A BroadcastJob.
#[derive(Clone, Debug)]
pub struct BroadcastJob {
    /// Its metadata.
    pub meta: Meta,
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
    /// Restarts a pod may have; `None` without a limit, and for restartPolicy Never, where there are none.
    pub restart_limit: Option<u32>,
    /// The job that it retries.
    pub retry_of: Option<First>,
    /// What this version cannot act on. Such a job starts nothing.
    pub problems: Vec<String>,
    /// The stored status.
    pub status: BroadcastJobStatus,
}

/// What its annotations ask for.
#[derive(Clone, Debug, Default)]
pub struct Requests {
    /// Value of the annotation `carillon.dev/resume`.
    pub resume: Option<String>,
    /// Value of the annotation `carillon.dev/retry`.
    pub retry: Option<String>,
}

impl BroadcastJob {
    /// Whether somebody asks for a resume that was not acted on yet. An annotation that was taken off asks for nothing.
    pub fn asks_to_resume(&self) -> bool {
        self.resume.is_some() && self.resume != self.status.last_handled_resume
    }

    /// Whether nodes still matter to it.
    pub fn is_unfinished(&self) -> bool {
        let ended = |type_| condition::is_true(&self.status.conditions, type_);
        !(self.meta.deleting || ended(types::COMPLETE) || ended(types::FAILED))
    }

    /// Reads a stored object. What cannot be used becomes a problem, with field, value and remedy.
    pub fn read(meta: Meta, requests: Requests, spec: &Value, status: &Value) -> Self {
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
        let (restarts, restart_limit) = read.restarts();
        let policies = Policies::read(&mut read, requests.retry.as_deref(), restarts);
        let mut placement = Placement::read(read.field("template.spec").unwrap_or(&Value::Null));
        placement.only = read.node_names();
        let retry_of = First::read(spec, &mut read.problems);
        let status = read_status(status, &mut read.problems);
        Self {
            meta,
            resume: requests.resume,
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
        acknowledged_failed_nodes: part(status, "acknowledgedFailedNodes"),
        last_handled_resume: part(status, "lastHandledResume"),
        retries: part(status, "retries"),
        ..BroadcastJobStatus::default()
    })
}
