//! Names of pods that others have. The name is what keeps a node from getting two pods: whoever has it, no pod of
//! another name comes in its place, but in the other slot of a DaemonSet that surges.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::backoff::NodeBackoff;

/// So often at least it is tried whether a name is free again: no event says so.
const MOST: SignedDuration = SignedDuration::from_mins(1);

/// A name that somebody else's pod has.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct TakenName {
    /// The node whose pod was to get it.
    pub node: Box<str>,
    /// When that was tried, and how long it is not tried again.
    pub tried: NodeBackoff,
}

/// All of them.
pub type TakenNames = BTreeMap<Box<str>, TakenName>;

/// Notes that the name of a pod for this node was refused.
pub fn note(taken: &mut TakenNames, (name, node): (&str, &str), generation: i64, now: Timestamp) {
    let known = taken.get(name).map(|known| &known.tried);
    let tried = NodeBackoff::after(known, generation, now, MOST);
    let node = node.into();
    taken.insert(name.into(), TakenName { node, tried });
}

/// Forgets what was tried long ago, or for another generation.
pub fn forget(taken: &mut TakenNames, generation: i64, now: Timestamp) {
    taken.retain(|_, known| !known.tried.is_forgotten(generation, now));
}

/// When the next of them is tried again.
pub(super) fn next(taken: &TakenNames, generation: i64, now: Timestamp) -> Option<Timestamp> {
    let waiting = taken
        .values()
        .filter(|known| known.tried.holds(generation, now));
    waiting.map(|known| known.tried.until()).min()
}
