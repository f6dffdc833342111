//! What whoever asks may know of a DaemonSet, as what a plan is made from.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::read::{SetPods, SetRevisions, StoredSet};
use crate::daemon_set::backoff::FailedNodes;
use crate::daemon_set::history::current;
use crate::daemon_set::on_nodes::OnNodes;
use crate::daemon_set::refused::RefusedNodes;
use crate::daemon_set::taken::TakenNames;
use crate::daemon_set::{DaemonPods, Revisions, Snapshot, survey};
use crate::node::Nodes;

/// A DaemonSet with what is around it.
#[derive(Debug)]
pub struct Known {
    /// The DaemonSet.
    pub stored: StoredSet,
    /// Its pods. `None`: whoever asks may not list them.
    pub pods: Option<SetPods>,
    /// Its revisions. `None`: whoever asks may not list them.
    pub revisions: Option<SetRevisions>,
    /// All nodes.
    pub nodes: Nodes,
    nothing: Nothing,
}

/// What is not looked at: the operator's own memory, and what belongs to nobody.
#[derive(Debug, Default)]
struct Nothing {
    pods: DaemonPods,
    revisions: Revisions,
    failed: FailedNodes,
    taken: BTreeSet<String>,
    taken_pods: TakenNames,
    refused_nodes: RefusedNodes,
}

/// The revision of the template.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct CurrentRevision {
    /// The hash that its pods carry.
    pub hash: String,
    /// Since when it is stored, if that is known.
    pub since: Option<Timestamp>,
}

impl Known {
    /// See the fields.
    pub fn new(
        stored: StoredSet,
        pods: Option<SetPods>,
        revisions: Option<SetRevisions>,
        nodes: Nodes,
    ) -> Self {
        Self {
            stored,
            pods,
            revisions,
            nodes,
            nothing: Nothing::default(),
        }
    }

    /// Counts the pods that are going to be adopted as its own; how many there are.
    pub(super) fn adopt(&mut self) -> usize {
        let Some(pods) = &mut self.pods else {
            return 0;
        };
        let adopted = std::mem::take(&mut pods.free);
        let count = adopted.len();
        pods.owned.extend(adopted);
        count
    }

    pub(in crate::view) fn snapshot(&self) -> Snapshot<'_> {
        let (nothing, pods) = (&self.nothing, self.pods.as_ref());
        let revisions = self.revisions.as_ref();
        Snapshot {
            set: &self.stored.set,
            pods: pods.map_or(&nothing.pods, |pods| &pods.owned),
            free: &nothing.pods,
            revisions: revisions.map_or(&nothing.revisions, |revisions| &revisions.rows),
            free_revisions: &nothing.revisions,
            nodes: &self.nodes,
            failed: &nothing.failed,
            taken: &nothing.taken,
            taken_pods: &nothing.taken_pods,
            refused_nodes: &nothing.refused_nodes,
            refusal: None,
            told_at: None,
            max_pod_changes: usize::MAX,
        }
    }

    /// The current revision. Where revisions cannot be read, the status knows the hash.
    pub(super) fn current(&self) -> CurrentRevision {
        let set = &self.stored.set;
        let told = set.status.update_revision.clone();
        let is_of_now = set.status.observed_generation == Some(set.meta.generation);
        if self.revisions.is_none()
            && let Some(hash) = told.filter(|_| is_of_now)
        {
            return CurrentRevision { hash, since: None };
        }
        let current = current(&self.snapshot());
        CurrentRevision {
            hash: current.hash,
            since: current.since,
        }
    }

    /// What is on each node.
    pub(super) fn survey(&self, current: &CurrentRevision) -> OnNodes<'_> {
        survey(&self.snapshot(), (&current.hash, current.since))
    }

    /// The number of the revision with this hash.
    pub(super) fn number(&self, hash: &str) -> Option<i64> {
        let mut stored = self.revisions.iter().flat_map(|all| &all.stored);
        stored.find(|one| one.hash == hash).map(|one| one.number)
    }
}
