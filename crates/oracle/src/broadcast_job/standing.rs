//! Where a node stands, by its records and the policies of its job.

use std::collections::BTreeMap;

use serde_json::Value;

use super::world::{Job, World};
use crate::object::{Node, Record, number, text};

/// Where a node stands after what was tried on it.
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
    /// It was to be tried again and its node object is gone: not to be served any more.
    Gone,
}

/// What was tried on a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tried<'h> {
    /// The last attempt.
    pub(crate) latest: Record<'h>,
    /// The last attempt in which something may have run.
    pub(crate) ran: Option<Record<'h>>,
    /// Failed attempts.
    pub(crate) failures: i64,
}

impl<'h> Tried<'h> {
    /// By one attempt.
    pub(crate) fn by(record: Record<'h>) -> Self {
        Self {
            latest: record,
            ran: may_have_run(record).then_some(record),
            failures: i64::from(record.state() == "Failed"),
        }
    }

    /// And by another one.
    pub(crate) fn and(self, other: Self) -> Self {
        let later = |one: Record<'h>, other: Record<'h>| {
            if one.attempt() <= other.attempt() {
                other
            } else {
                one
            }
        };
        Self {
            latest: later(self.latest, other.latest),
            ran: match (self.ran, other.ran) {
                (Some(one), Some(other)) => Some(later(one, other)),
                (one, other) => one.or(other),
            },
            failures: self.failures + other.failures,
        }
    }

    /// The attempt that decides where the node stands.
    pub(crate) fn decides(&self) -> Record<'h> {
        self.ran.unwrap_or(self.latest)
    }
}

/// What was tried, by node.
pub(crate) fn tried<'h>(job: &Job<'h>) -> BTreeMap<Node<'h>, Tried<'h>> {
    let mut nodes: BTreeMap<Node<'h>, Tried<'h>> = BTreeMap::new();
    for record in job.records.values().copied() {
        let tried = Tried::by(record);
        let known = nodes.entry((record.node(), record.node_uid()));
        known
            .and_modify(|known| *known = known.and(tried))
            .or_insert(tried);
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

/// Whether something may have run in an attempt that is over.
pub(crate) fn may_have_run(record: Record<'_>) -> bool {
    match record.state() {
        "Started" | "Skipped" => false,
        "Disrupted" => !matches!(record.reason(), "Withdrawn" | "RejectedByKubelet"),
        _ => true,
    }
}

/// Where a node stands. `there`: its node object exists.
pub(crate) fn standing(job: &Value, tried: &Tried<'_>, there: bool) -> Standing {
    let (spec, latest) = (&job["spec"], tried.latest);
    let once = text(spec, &["executionPolicy"]) == "AtMostOnce";
    let again = if there {
        Standing::Again
    } else {
        Standing::Gone
    };
    if latest.state() == "Started" {
        return Standing::UnderWay;
    }
    let Some(ran) = tried.ran else {
        return match latest.state() {
            "Skipped" => Standing::Skipped,
            _ => again,
        };
    };
    // What was asked for and came to nothing is made up for.
    let begun = ran.attempt() < latest.attempt() && latest.is_requested();
    let asked = begun || is_asked_again(job, ran.pod());
    let failed = if asked && there {
        Standing::Again
    } else {
        Standing::Failed
    };
    match ran.state() {
        "Succeeded" => Standing::Succeeded,
        "Failed" => {
            let left = tried.failures <= number(spec, &["backoffLimitPerNode"]);
            if asked || !left || is_decided(ran) {
                failed
            } else {
                again
            }
        }
        _ if once => failed,
        _ => again,
    }
}

/// Where the nodes of a job stand now.
pub(crate) fn standings<'h>(
    world: &World<'h>,
    job: &Job<'h>,
) -> Vec<(Node<'h>, Tried<'h>, Standing)> {
    let nodes = tried(job).into_iter();
    nodes
        .map(|(node, tried)| {
            let standing = standing(job.last, &tried, world.has_node(node));
            (node, tried, standing)
        })
        .collect()
}

/// How many of these nodes have failed and are accepted so by a resume.
pub(crate) fn accepted(standings: &[(Node<'_>, Tried<'_>, Standing)]) -> usize {
    let failed = |(_, tried, standing): &&(Node<'_>, Tried<'_>, Standing)| {
        *standing == Standing::Failed && tried.decides().is_accepted()
    };
    standings.iter().filter(failed).count()
}
