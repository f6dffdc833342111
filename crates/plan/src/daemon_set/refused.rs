//! Nodes whose pod the API server has refused to create or to delete: others have their turn before them, so that one
//! bad node does not stop the rest.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

/// After so long without a refusal a node has its old place again.
const FORGOTTEN: SignedDuration = SignedDuration::from_mins(10);

/// Nodes, and when something was refused for them last.
pub type RefusedNodes = BTreeMap<Box<str>, Timestamp>;

/// Notes a refusal.
pub fn note(refused: &mut RefusedNodes, node: &str, now: Timestamp) {
    refused.insert(node.into(), now);
}

/// Forgets what was refused long ago.
pub fn forget(refused: &mut RefusedNodes, now: Timestamp) {
    refused.retain(|_, last| now.duration_since(*last) <= FORGOTTEN);
}
