//! What a plan for a DaemonSet is made from.

use super::backoff::FailedNodes;
use super::pod::DaemonPods;
use super::spec::DaemonSet;
use crate::node::Nodes;

/// Everything a plan is made from.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'a> {
    /// The DaemonSet.
    pub set: &'a DaemonSet,
    /// The pods it controls.
    pub pods: &'a DaemonPods,
    /// All nodes.
    pub nodes: &'a Nodes,
    /// What is remembered of failed pods.
    pub failed: &'a FailedNodes,
}
