//! Nodes that stand at the same place for the same reason.

use std::collections::BTreeMap;

use serde::Serialize;

/// Nodes at the same place for the same reason.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Group<P> {
    /// Where they stand.
    pub place: P,
    /// Why, in one word; may be empty.
    pub reason: String,
    /// How many nodes.
    pub count: usize,
    /// What decides for the first of them, in words; may be empty.
    pub example: String,
    /// The nodes, by name.
    pub nodes: Vec<String>,
}

/// All groups, in the order of places and reasons.
#[derive(Debug)]
pub(super) struct Groups<P>(BTreeMap<(P, String), Group<P>>);

impl<P> Default for Groups<P> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<P: Copy + Ord> Groups<P> {
    /// Adds a node; `example` is asked for the first one of a group.
    pub(super) fn add(
        &mut self,
        (place, reason): (P, String),
        name: &str,
        example: impl FnOnce() -> String,
    ) {
        let key = (place, reason);
        let group = self.0.entry(key).or_insert_with_key(|(_, reason)| Group {
            place,
            reason: reason.clone(),
            count: 0,
            example: example(),
            nodes: Vec::new(),
        });
        group.count += 1;
        group.nodes.push(name.to_owned());
    }

    /// The groups.
    pub(super) fn told(self) -> Vec<Group<P>> {
        self.0.into_values().collect()
    }
}
