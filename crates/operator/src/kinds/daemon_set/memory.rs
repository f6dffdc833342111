//! What is kept between plans, how a snapshot is made with it, and how it is written down.

use std::collections::BTreeSet;

use carillon_plan::condition::Refusal;
use carillon_plan::daemon_set::backoff::{FailedNodes, forget};
use carillon_plan::daemon_set::refused::{self, RefusedNodes};
use carillon_plan::daemon_set::taken::{self, TakenNames};
use carillon_plan::daemon_set::{DaemonPods, DaemonSet, Revisions, Snapshot};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::store::Tables;

/// Names of revisions that others have are remembered up to so many: each makes the next name another one.
const TAKEN: usize = 16;

/// What a restart loses: a node on which pods fail begins anew, as with upstream.
#[derive(Debug, Default, PartialEq)]
pub struct Memory {
    /// Nodes on which pods have failed.
    pub(super) failed: FailedNodes,
    /// Names of revisions that others have.
    pub(super) taken: BTreeSet<String>,
    /// Names of pods that others have.
    pub(super) taken_pods: TakenNames,
    /// Nodes for which something was refused.
    pub(super) refused_nodes: RefusedNodes,
    /// What is refused again and again.
    pub(super) refusal: Option<Refusal>,
}

/// The snapshot of a DaemonSet, from the caches and what is remembered.
pub(super) fn snapshot<T>(
    tables: &Tables,
    set: &DaemonSet,
    memory: &Memory,
    max_pod_changes: usize,
    look: impl FnOnce(&Snapshot<'_>) -> T,
) -> T {
    let (no_pods, no_revisions) = (DaemonPods::new(), Revisions::new());
    let (owner, sets) = (&set.meta.owner, &tables.daemon_sets);
    let namespace = &owner.namespace;
    look(&Snapshot {
        set,
        pods: sets.pods(owner).unwrap_or(&no_pods),
        free: sets.orphan_pods(namespace).unwrap_or(&no_pods),
        revisions: sets.revisions(owner).unwrap_or(&no_revisions),
        free_revisions: sets.orphan_revisions(namespace).unwrap_or(&no_revisions),
        nodes: tables.nodes(),
        failed: &memory.failed,
        taken: &memory.taken,
        taken_pods: &memory.taken_pods,
        refused_nodes: &memory.refused_nodes,
        refusal: memory.refusal.as_ref(),
        max_pod_changes,
    })
}

impl Memory {
    /// Forgets what no longer matters.
    pub(super) fn follow(&mut self, set: &DaemonSet, refusal: Option<Refusal>, now: Timestamp) {
        forget(&mut self.failed, set.meta.generation, now);
        refused::forget(&mut self.refused_nodes, now);
        taken::forget(&mut self.taken_pods, set.meta.generation, now);
        if self.taken.len() > TAKEN {
            self.taken.clear();
        }
        self.refusal = refusal;
    }

    /// What goes into the flight recorder besides the versions of the objects.
    pub(super) fn inputs(&self, max_pod_changes: usize) -> Inputs {
        Inputs {
            failed: self.failed.clone(),
            taken: self.taken.clone(),
            taken_pods: self.taken_pods.clone(),
            refused_nodes: self.refused_nodes.clone(),
            refusal: self.refusal.as_ref().map(|refusal| refusal.0.clone()),
            max_pod_changes,
        }
    }
}

/// What a plan is made from besides the objects, as the flight recorder keeps it.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct Inputs {
    #[serde(skip_serializing_if = "FailedNodes::is_empty")]
    failed: FailedNodes,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    taken: BTreeSet<String>,
    #[serde(skip_serializing_if = "TakenNames::is_empty")]
    taken_pods: TakenNames,
    #[serde(skip_serializing_if = "RefusedNodes::is_empty")]
    refused_nodes: RefusedNodes,
    #[serde(skip_serializing_if = "Option::is_none")]
    refusal: Option<String>,
    max_pod_changes: usize,
}

impl Inputs {
    /// The memory and the limit that were written down.
    pub(super) fn recorded(self) -> (Memory, usize) {
        let memory = Memory {
            failed: self.failed,
            taken: self.taken,
            taken_pods: self.taken_pods,
            refused_nodes: self.refused_nodes,
            refusal: self.refusal.map(Refusal),
        };
        (memory, self.max_pod_changes)
    }
}
