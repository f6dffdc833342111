//! How long a node waits before a failed pod on it is replaced (upstream: `failedPodsBackoff`).

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// The first wait.
pub const BASE: SignedDuration = SignedDuration::from_secs(1);
/// The longest wait; it doubles up to that.
pub const MAX: SignedDuration = SignedDuration::from_mins(15);
/// After so long without a failure a node begins anew.
const FORGOTTEN: SignedDuration = SignedDuration::from_mins(30);

/// When something was tried in vain, and how long the next time has to wait.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct NodeBackoff {
    /// The generation of the DaemonSet: another one begins anew.
    pub generation: i64,
    /// How long the next time has to wait.
    pub wait: SignedDuration,
    /// When it was tried last.
    pub since: Timestamp,
}

/// A node on which a pod has failed.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct FailedNode {
    /// The name of the pod that failed last.
    pub pod: Box<str>,
    /// When it was replaced, and how long the next one waits that fails.
    pub replaced: NodeBackoff,
}

/// Nodes on which pods have failed.
pub type FailedNodes = BTreeMap<Box<str>, FailedNode>;

impl NodeBackoff {
    /// When it may be tried again.
    pub fn until(&self) -> Timestamp {
        let until = self.since.checked_add(self.wait);
        until.unwrap_or(Timestamp::MAX)
    }

    pub(super) fn is_forgotten(&self, generation: i64, now: Timestamp) -> bool {
        self.generation != generation || now.duration_since(self.since) > FORGOTTEN
    }

    /// Whether it says to wait at `now`.
    pub(super) fn holds(&self, generation: i64, now: Timestamp) -> bool {
        !self.is_forgotten(generation, now) && now < self.until()
    }

    /// What follows `known` when it was tried once more, in vain: twice the wait, up to `most`.
    pub(super) fn after(
        known: Option<&Self>,
        generation: i64,
        now: Timestamp,
        most: SignedDuration,
    ) -> Self {
        let known = known.filter(|known| !known.is_forgotten(generation, now));
        let wait = known.map_or(BASE, |known| (known.wait * 2).min(most));
        Self {
            generation,
            wait,
            since: now,
        }
    }
}

/// What holds a failed pod back at `now`, if anything does.
pub(super) fn held(
    failed: &FailedNodes,
    node: &str,
    generation: i64,
    now: Timestamp,
) -> Option<NodeBackoff> {
    let known = failed.get(node)?.replaced;
    known.holds(generation, now).then_some(known)
}

/// When a failed pod is replaced at the latest, by what everybody sees: the wait of its node began before it was
/// created.
pub(crate) fn over_at(created: Timestamp) -> Timestamp {
    created.checked_add(MAX).unwrap_or(Timestamp::MAX)
}

/// Forgets nodes that begin anew.
pub fn forget(failed: &mut FailedNodes, generation: i64, now: Timestamp) {
    failed.retain(|_, known| !known.replaced.is_forgotten(generation, now));
}

/// Notes that a failed pod of this node is replaced.
pub fn note(failed: &mut FailedNodes, (pod, node): (&str, &str), generation: i64, now: Timestamp) {
    let known = failed.get(node).map(|known| &known.replaced);
    let replaced = NodeBackoff::after(known, generation, now, MAX);
    let pod = pod.into();
    failed.insert(node.into(), FailedNode { pod, replaced });
}
