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

/// What is remembered of failed pods on a node.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct NodeBackoff {
    /// The generation of the DaemonSet whose pods have failed: another one begins anew.
    pub generation: i64,
    /// How long the next replacement waits.
    pub wait: SignedDuration,
    /// When the last failed pod was replaced.
    pub since: Timestamp,
}

/// Nodes on which pods have failed.
pub type FailedNodes = BTreeMap<Box<str>, NodeBackoff>;

impl NodeBackoff {
    /// When a failed pod may be replaced.
    pub fn until(&self) -> Timestamp {
        let until = self.since.checked_add(self.wait);
        until.unwrap_or(Timestamp::MAX)
    }

    fn is_forgotten(&self, generation: i64, now: Timestamp) -> bool {
        self.generation != generation || now.duration_since(self.since) > FORGOTTEN
    }
}

/// What holds a failed pod back at `now`, if anything does.
pub(super) fn held(
    failed: &FailedNodes,
    node: &str,
    generation: i64,
    now: Timestamp,
) -> Option<NodeBackoff> {
    let known = failed.get(node)?;
    let holds = !known.is_forgotten(generation, now) && now < known.until();
    holds.then_some(*known)
}

/// Forgets nodes that begin anew.
pub fn forget(failed: &mut FailedNodes, generation: i64, now: Timestamp) {
    failed.retain(|_, known| !known.is_forgotten(generation, now));
}

/// What is remembered once a failed pod was replaced.
pub fn replaced(failed: &FailedNodes, node: &str, generation: i64, now: Timestamp) -> NodeBackoff {
    let known = failed.get(node);
    let known = known.filter(|known| !known.is_forgotten(generation, now));
    let wait = known.map_or(BASE, |known| (known.wait * 2).min(MAX));
    NodeBackoff {
        generation,
        wait,
        since: now,
    }
}
