//! Nodes whose pod the API server has refused to create or to delete: others have their turn before them, so that one
//! bad node does not stop the rest.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// After so long without a refusal a node has its old place again. Long enough for all nodes to have been tried
/// meanwhile: a plan tries only some of those that are refused, and plans come ever later.
const FORGOTTEN: SignedDuration = SignedDuration::from_hours(12);

/// So long nodes keep their turns: two who lead at once, of whom one was refused by chance, take the same nodes.
const LASTS: SignedDuration = SignedDuration::from_secs(30);

/// What was refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum What {
    /// The creation of a pod.
    Creation,
    /// The deletion of one.
    Deletion,
}

/// When what was refused for a node last, and has not gone through since.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct RefusedNode {
    /// When anything was refused first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// The creation of a pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation: Option<Timestamp>,
    /// The deletion of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion: Option<Timestamp>,
}

/// All of them.
pub type RefusedNodes = BTreeMap<Box<str>, RefusedNode>;

impl RefusedNode {
    /// When anything was refused last.
    pub fn last(&self) -> Option<Timestamp> {
        self.creation.max(self.deletion)
    }

    fn of(&mut self, what: What) -> &mut Option<Timestamp> {
        match what {
            What::Creation => &mut self.creation,
            What::Deletion => &mut self.deletion,
        }
    }
}

/// Whether something has been refused for a while: others have their turn first.
pub fn lasts(refused: &RefusedNodes) -> bool {
    let since = refused.values().filter_map(|node| node.since).min();
    let last = refused.values().filter_map(RefusedNode::last).max();
    let lasts = |(since, last): (Timestamp, Timestamp)| last.duration_since(since) >= LASTS;
    since.zip(last).is_some_and(lasts)
}

/// Notes a refusal.
pub fn note(refused: &mut RefusedNodes, (node, what): (&str, What), now: Timestamp) {
    let known = refused.entry(node.into()).or_default();
    known.since.get_or_insert(now);
    *known.of(what) = Some(now);
}

/// Notes that it went through.
pub fn went_through(refused: &mut RefusedNodes, (node, what): (&str, What)) {
    if let Some(known) = refused.get_mut(node) {
        *known.of(what) = None;
        if known.last().is_none() {
            refused.remove(node);
        }
    }
}

/// Forgets what was refused long ago, nodes that are gone, and deletions where no pod is left. `there`: whether there
/// is such a node, and whether it has a pod.
pub fn forget(refused: &mut RefusedNodes, now: Timestamp, there: impl Fn(&str) -> (bool, bool)) {
    let recent = |last: &Timestamp| now.duration_since(*last) <= FORGOTTEN;
    refused.retain(|node, known| {
        let (exists, has_pod) = there(node);
        known.creation = known.creation.filter(recent);
        known.deletion = known.deletion.filter(recent).filter(|_| has_pod);
        exists && known.last().is_some()
    });
}
