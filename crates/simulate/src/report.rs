//! What came of a simulation.

use std::collections::BTreeMap;

use carillon_plan::node::Nodes;
use carillon_plan::view::broadcast_job::estimate::Estimate;
use serde::Serialize;

/// What came of it. Times are seconds since the object was created.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Kind of the object.
    pub kind: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Nodes of the cluster.
    pub nodes: usize,
    /// How it ended.
    pub end: End,
    /// How long the simulation took on this machine.
    pub real_seconds: f64,
    /// How it went, at most a sample a second.
    pub timeline: Vec<Sample>,
    /// Most pods that had not ended at one time.
    pub most_pods: usize,
    /// Pods that were created.
    pub created_pods: usize,
    /// What was sent to the API server.
    pub requests: Requests,
    /// When other values of `spec.failurePolicy.maxFailedNodes` would have been exceeded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub at_limit: Vec<AtLimit>,
    /// What became of each node that was served, in the order of their start. Of BroadcastJobs only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub served: Vec<Node>,
    /// Names of the nodes that no pod was for in the end. Of BroadcastJobs only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// The nodes themselves.
    #[serde(skip)]
    pub fleet: Nodes,
}

/// How it ended.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct End {
    /// Whether it did what it was for.
    pub good: bool,
    /// Whether it came to an end at all: a job that is paused, or waits for what nobody does, does not.
    pub ended: bool,
    /// In words, as `get` shows it.
    pub headline: String,
    /// When.
    pub after_seconds: i64,
}

/// Where it stood at a time.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Sample {
    /// When.
    pub seconds: i64,
    /// What is done: nodes, or completions of a Job.
    pub done: i64,
    /// Pods under way.
    pub active: i64,
    /// What failed.
    pub failed: i64,
    /// What has not begun.
    pub waiting: i64,
    /// Nodes left out.
    pub refused: i64,
    /// What was foretold then of the time until the end.
    #[serde(flatten)]
    pub eta: Option<Estimate>,
}

/// What was sent to the API server.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Requests {
    /// All that change something.
    pub writes: usize,
    /// Writes in the busiest second.
    pub most_writes_per_second: usize,
    /// All, by verb.
    pub by_verb: BTreeMap<String, usize>,
}

/// When a limit of failed nodes is exceeded.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AtLimit {
    /// `maxFailedNodes`.
    pub max_failed_nodes: usize,
    /// When one more has failed.
    pub seconds: i64,
    /// Pods that were created by then. They run to their end also if the job pauses.
    pub created_pods: usize,
}

/// What became of a node.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    /// Its name.
    pub name: String,
    /// When its first container started.
    pub start_seconds: Option<i64>,
    /// When its last attempt ended.
    pub end_seconds: Option<i64>,
    /// Attempts.
    pub attempts: u32,
    /// State of the last one.
    pub state: String,
    /// When each began and ended.
    #[serde(skip)]
    pub ran: Vec<(i64, i64)>,
}
