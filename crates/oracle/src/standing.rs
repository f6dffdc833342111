//! Where a node stands, by its records and the policies of its job.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::object::{self, Record, number, text};
use crate::world::{Job, World};

/// Where a node stands after its last attempt.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Standing {
    /// An attempt is under way.
    UnderWay,
    /// Done.
    Succeeded,
    /// Done: it is not tried again.
    Failed,
    /// The job began to fail before anything ran.
    Skipped,
    /// To be tried again.
    Again,
    /// It was interrupted and its node object is gone: not to be served any more.
    Gone,
}

/// What was tried on a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tried<'h> {
    /// The last attempt.
    pub(crate) latest: Record<'h>,
    /// Failed attempts.
    pub(crate) failures: i64,
}

/// Name and uid of a node.
pub(crate) type Node<'h> = (&'h str, &'h str);

/// What was tried, by node.
pub(crate) fn tried<'h>(job: &Job<'h>) -> BTreeMap<Node<'h>, Tried<'h>> {
    let mut nodes: BTreeMap<Node<'h>, Tried<'h>> = BTreeMap::new();
    for record in job.records.values().copied() {
        let failed = i64::from(record.state() == "Failed");
        let known = nodes
            .entry((record.node(), record.node_uid()))
            .or_insert(Tried {
                latest: record,
                failures: 0,
            });
        known.failures += failed;
        if known.latest.attempt() <= record.attempt() {
            known.latest = record;
        }
    }
    nodes
}

/// Whether the annotation `carillon.dev/retry` of the job asks for one more attempt after that of this pod.
pub(crate) fn is_asked_again(job: &Value, pod: &str) -> bool {
    let asked = text(job, &["metadata", "annotations", "carillon.dev/retry"]);
    asked.split(',').any(|entry| entry.trim() == pod)
}

/// Whether a failure is final whatever `backoffLimitPerNode` says: a rule has decided so.
pub(crate) fn is_decided(record: Record<'_>) -> bool {
    matches!(
        record.reason(),
        "NodeFailedByPodFailurePolicy" | "JobFailedByPodFailurePolicy"
    )
}

/// Whether something may have run in an attempt that was interrupted.
pub(crate) fn may_have_run(record: Record<'_>) -> bool {
    record.reason() != "Withdrawn"
}

/// Where a node stands. `there`: its node object exists.
pub(crate) fn standing(job: &Value, tried: &Tried<'_>, there: bool) -> Standing {
    let (spec, latest) = (&job["spec"], tried.latest);
    let once = text(spec, &["execution"]) == "AtMostOnce";
    let asked = there && is_asked_again(job, latest.pod());
    let failed = if asked {
        Standing::Again
    } else {
        Standing::Failed
    };
    match latest.state() {
        "Started" => Standing::UnderWay,
        "Succeeded" => Standing::Succeeded,
        "Skipped" => Standing::Skipped,
        "Failed" => {
            let left = tried.failures <= number(spec, &["backoffLimitPerNode"]);
            if left && there && !is_decided(latest) {
                Standing::Again
            } else {
                failed
            }
        }
        _ if once && may_have_run(latest) => failed,
        _ if there => Standing::Again,
        _ => Standing::Gone,
    }
}

/// Where the nodes of a job stand now.
pub(crate) fn standings<'h>(
    world: &World<'h>,
    job: &Job<'h>,
) -> Vec<(Node<'h>, Tried<'h>, Standing)> {
    let there = |node: Node<'_>| world.node(node.0).is_some_and(|n| object::uid(n) == node.1);
    let nodes = tried(job).into_iter();
    nodes
        .map(|(node, tried)| (node, tried, standing(job.last, &tried, there(node))))
        .collect()
}
