//! What is on each node, looked at once: squares, explanations and previews are made of it.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::Serialize;

use super::known::{CurrentRevision, Known};
use crate::daemon_set::DaemonSet;
use crate::daemon_set::on_nodes::{OnNode, OnNodes, desired};
use crate::daemon_set::progress::{PARTITION, POD_NAME_TAKEN, Stands, kept_by_partition, stands};
use crate::daemon_set::should_run::ShouldRun;

/// Where a node stands, in the order in which tables show it.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub enum Place {
    /// It has an available pod of the current template.
    Updated,
    /// It should have an available pod and has none, or none of the current template yet.
    Waiting,
    /// It keeps an old pod that is available, until its turn comes.
    InTurn,
    /// It keeps an old pod, as a field of the spec says.
    Kept,
    /// It was sick before the update reached it: the update does not wait for it.
    Excused,
    /// It should get no pod. One that is there stays.
    Stays,
    /// It should have no pod.
    Refused,
    /// The Node object is gone, and a pod is still there.
    Gone,
    /// Whoever asks may not list pods.
    Unknown,
}

/// A DaemonSet looked at once. With many nodes that takes long, so all that is said of a moment is said of one look.
#[derive(Debug)]
pub struct Look<'a> {
    pub(super) known: &'a Known,
    pub(super) set: &'a DaemonSet,
    pub(super) current: CurrentRevision,
    pub(super) nodes: OnNodes<'a>,
    /// Nodes whose turn would come, and that the partition keeps. Nodes are updated by name, so they are the last ones.
    by_partition: BTreeSet<&'a str>,
    pub(super) now: Timestamp,
}

impl<'a> Look<'a> {
    /// Looks at it.
    pub fn at(known: &'a Known, now: Timestamp) -> Self {
        let current = known.current();
        let nodes = known.survey(&current);
        let mut look = Self {
            known,
            set: &known.stored.set,
            current,
            nodes,
            by_partition: BTreeSet::new(),
            now,
        };
        let stands = |node: &OnNode<'_>| node.runs().then(|| look.stands(node));
        let in_turn = look.nodes.iter();
        let in_turn: Vec<&str> = in_turn
            .filter(|(_, node)| stands(node) == Some(Stands::InTurn))
            .map(|(name, _)| *name)
            .collect();
        let kept = look.nodes.values();
        let kept = kept.filter(|node| matches!(stands(node), Some(Stands::Kept(_))));
        let counts = (in_turn.len(), kept.count());
        let last = kept_by_partition(look.set, desired(&look.nodes), counts);
        look.by_partition = in_turn.into_iter().rev().take(last).collect();
        look
    }

    fn stands(&self, node: &OnNode<'_>) -> Stands {
        stands(self.set, node, (&self.current.hash, self.now))
    }

    /// Where a node stands, and why.
    pub(super) fn place(&self, name: &str, node: &OnNode<'_>) -> (Place, &'static str) {
        let there = !node.pods.is_empty();
        match node.should {
            None => (Place::Gone, "NodeGone"),
            Some(ShouldRun::OnlyIfThere(refusal)) if there => (Place::Stays, refusal.reason()),
            Some(ShouldRun::No(refusal) | ShouldRun::OnlyIfThere(refusal)) => {
                (Place::Refused, refusal.reason())
            }
            Some(ShouldRun::Yes) if self.known.pods.is_none() => (Place::Unknown, ""),
            Some(ShouldRun::Yes) => match self.stands(node) {
                Stands::Updated => (Place::Updated, ""),
                Stands::InTurn if self.by_partition.contains(name) => (Place::Kept, PARTITION),
                Stands::InTurn if self.set.spec.paused => (Place::InTurn, "Paused"),
                Stands::InTurn => (Place::InTurn, ""),
                Stands::Kept(field) => (Place::Kept, field),
                Stands::Excused(why) => (Place::Excused, why),
                Stands::Stuck(why) | Stands::Holding(why) => (Place::Waiting, self.told(name, why)),
            },
        }
    }

    /// Why a node waits, as the status says it where only the controller can know.
    fn told(&self, name: &str, why: &'static str) -> &'static str {
        let status = &self.set.status;
        let mut told = status.waiting_for.iter();
        let is_taken = told.any(|told| {
            told.reason == POD_NAME_TAKEN && told.sample.iter().any(|node| node == name)
        });
        // With a surge a node with its old pod may need a second name.
        let needs_a_name = why == "PodMissing" || self.set.spec.update.may_surge();
        if is_taken && needs_a_name {
            POD_NAME_TAKEN
        } else {
            why
        }
    }

    /// What decides that a node should have no pod.
    pub(super) fn refusal(node: &OnNode<'_>) -> String {
        match node.should {
            Some(ShouldRun::No(refusal) | ShouldRun::OnlyIfThere(refusal)) => refusal.to_string(),
            _ => String::new(),
        }
    }
}
