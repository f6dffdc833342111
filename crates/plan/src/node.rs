//! What the planner knows of a node.

use std::collections::BTreeMap;
use std::collections::btree_map::Range;
use std::iter::Peekable;
use std::ops::Bound;
use std::sync::Arc;

use jiff::Timestamp;

use crate::quantity::Milli;
use crate::uid::Uid;

/// The label that each node has for itself.
pub const HOSTNAME: &str = "kubernetes.io/hostname";

/// All nodes by name. The order is the order in which nodes are served.
pub type Nodes = BTreeMap<Arc<str>, NodeRow>;

/// Labels, sorted by key.
pub type Labels = Arc<[(Arc<str>, Arc<str>)]>;

/// Amounts of resources, sorted by name.
pub type Amounts = Arc<[(Arc<str>, Milli)]>;

/// One node, reduced to what a decision can depend on.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct NodeRow {
    /// Uid of the node object; a replaced machine of the same name has another.
    pub uid: Uid,
    /// resourceVersion of this row; nothing depends on it.
    pub rv: u64,
    /// The node object is being deleted.
    pub deleting: bool,
    /// `spec.unschedulable`: cordoned.
    pub unschedulable: bool,
    /// The label `kubernetes.io/hostname`, where it is not among the others: it alone is another one on
    /// each node of a pool, and so these can be shared.
    pub hostname: Option<Arc<str>>,
    /// All labels but that. These sets, those of taints and of allocatable resources, are shared between
    /// nodes that have the same.
    pub labels: Labels,
    /// `spec.taints`.
    pub taints: Arc<[Taint]>,
    /// Since when the condition Ready is not True, if it is not.
    pub not_ready_since: Option<Timestamp>,
    /// `status.allocatable`.
    pub allocatable: Amounts,
}

/// Finds nodes of which most are asked for in the order of their names, as records of nodes are:
/// then a step to the next one takes the place of a search.
#[derive(Clone, Debug)]
pub struct NodeCursor<'a> {
    nodes: &'a Nodes,
    rest: Peekable<Range<'a, Arc<str>, NodeRow>>,
}

impl<'a> NodeCursor<'a> {
    /// Stands before the first node.
    pub fn new(nodes: &'a Nodes) -> Self {
        let rest = nodes.range::<str, _>(..).peekable();
        Self { nodes, rest }
    }

    /// The node of this name.
    pub fn find(&mut self, name: &str) -> Option<&'a NodeRow> {
        if let Some(node) = self.step(name) {
            return Some(node);
        }
        let from = (Bound::Included(name), Bound::Unbounded);
        self.rest = self.nodes.range::<str, _>(from).peekable();
        self.step(name)
    }

    /// The next node, if this is its name.
    fn step(&mut self, name: &str) -> Option<&'a NodeRow> {
        let (_, node) = self.rest.next_if(|(next, _)| ***next == *name)?;
        Some(node)
    }
}

impl NodeRow {
    /// Value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        if let (HOSTNAME, Some(hostname)) = (key, &self.hostname) {
            return Some(hostname);
        }
        let at = self.labels.binary_search_by(|(k, _)| (**k).cmp(key)).ok()?;
        self.labels.get(at).map(|(_, value)| &**value)
    }

    /// Allocatable amount of a resource; a resource the node does not offer is 0.
    pub fn allocatable(&self, resource: &str) -> Milli {
        self.allocatable
            .binary_search_by(|(k, _)| (**k).cmp(resource))
            .ok()
            .and_then(|at| self.allocatable.get(at))
            .map_or(0, |(_, amount)| *amount)
    }
}

/// One taint.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Taint {
    /// Taint key.
    pub key: Arc<str>,
    /// Taint value, may be empty.
    pub value: Arc<str>,
    /// What the taint does to pods that do not tolerate it.
    pub effect: Effect,
}

/// Effect of a taint.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Effect {
    /// No new pods.
    NoSchedule,
    /// Rather no new pods; never a reason to refuse a node.
    PreferNoSchedule,
    /// No new pods, and running ones are evicted.
    NoExecute,
}

impl Effect {
    /// Reads the API's word. `None` for one this version does not know; such a taint is ignored,
    /// as the scheduler does.
    pub fn read(text: &str) -> Option<Self> {
        match text {
            "NoSchedule" => Some(Self::NoSchedule),
            "PreferNoSchedule" => Some(Self::PreferNoSchedule),
            "NoExecute" => Some(Self::NoExecute),
            _ => None,
        }
    }

    /// The API's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoSchedule => "NoSchedule",
            Self::PreferNoSchedule => "PreferNoSchedule",
            Self::NoExecute => "NoExecute",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_finds_what_a_search_finds_in_any_order() {
        let nodes: Nodes = ["a", "b", "d", "e"]
            .map(|name| (name.into(), NodeRow::default()))
            .into();
        let mut cursor = NodeCursor::new(&nodes);
        for name in ["a", "b", "c", "d", "d", "e", "f", "a", "", "e", "b", "d"] {
            let (found, expected) = (cursor.find(name), nodes.get(name));
            let address = |row: Option<&NodeRow>| row.map(std::ptr::from_ref);
            assert_eq!(address(found), address(expected), "{name}");
        }
    }
}
