//! What a plan for a DaemonSet is made from.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::backoff::FailedNodes;
use super::pod::DaemonPods;
use super::refused::RefusedNodes;
use super::revision::Revisions;
use super::spec::DaemonSet;
use super::taken::TakenNames;
use crate::condition::Refusal;
use crate::node::Nodes;

/// Everything a plan is made from.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'a> {
    /// The DaemonSet.
    pub set: &'a DaemonSet,
    /// The pods it controls.
    pub pods: &'a DaemonPods,
    /// The pods of its namespace that nothing controls.
    pub free: &'a DaemonPods,
    /// The revisions it controls.
    pub revisions: &'a Revisions,
    /// The revisions of its namespace that nothing controls.
    pub free_revisions: &'a Revisions,
    /// All nodes.
    pub nodes: &'a Nodes,
    /// What is remembered of failed pods.
    pub failed: &'a FailedNodes,
    /// Names that would be those of its next revision, and that other objects have.
    pub taken: &'a BTreeSet<String>,
    /// Names of its pods that other pods have.
    pub taken_pods: &'a TakenNames,
    /// Nodes for which something was refused.
    pub refused_nodes: &'a RefusedNodes,
    /// What is refused again and again.
    pub refusal: Option<&'a Refusal>,
    /// When a status was last told that others will follow.
    pub told_at: Option<Timestamp>,
    /// Most pods that are created, and most that are deleted, in one plan.
    pub max_pod_changes: usize,
}
