//! What is on each node, and whether it should have a pod: found out once a plan.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::pod::Named;
use super::pod_name::is_slot;
use super::refused;
use super::should_run::{ShouldRun, should_run};
use super::snapshot::Snapshot;
use crate::node::NodeRow;

/// A node, or one that is gone and still has pods.
#[derive(Debug, Default)]
pub(crate) struct OnNode<'a> {
    /// The node. `None`: there is no such node.
    pub row: Option<&'a NodeRow>,
    /// Whether it should have a pod. `None`: there is no such node.
    pub should: Option<ShouldRun<'a>>,
    /// Why it uses up no budget of an update, if it does not: see [`excuse`](super::excuse).
    pub excuse: Option<&'static str>,
    /// Somebody else's pod has a name that one of its own needs.
    pub name_taken: bool,
    /// A pod of its own that has ended, has a name that the next one needs, and is kept by a finalizer.
    pub left_over: Option<&'a str>,
    /// When the API server refused last to create or to delete a pod of it, if it has done so for a while.
    pub refused: Option<Timestamp>,
    /// It has refused to delete one.
    pub deletion_refused: bool,
    /// Its pods, in the order in which they would be kept: bound ones, older ones, then by name (upstream:
    /// `podByCreationTimestampAndPhase`, which does not look at phases).
    pub pods: Vec<Named<'a>>,
}

impl OnNode<'_> {
    /// A pod should be there.
    pub(crate) fn runs(&self) -> bool {
        self.should.is_some_and(|should| should.runs())
    }
}

/// All nodes by name.
pub(crate) type OnNodes<'a> = BTreeMap<&'a str, OnNode<'a>>;

/// How many nodes should have a pod.
pub(crate) fn desired(on_nodes: &OnNodes<'_>) -> usize {
    on_nodes.values().filter(|node| node.runs()).count()
}

/// Pods that only a finalizer keeps are left out: they must not block what comes in their place.
pub(crate) fn on_nodes<'a>(snapshot: &Snapshot<'a>) -> OnNodes<'a> {
    let wish = &snapshot.set.spec.placement;
    let nodes = snapshot.nodes.iter().map(|(name, row)| {
        let on_node = OnNode {
            row: Some(row),
            should: Some(should_run(wish, name, row)),
            excuse: None,
            name_taken: false,
            left_over: None,
            refused: None,
            deletion_refused: false,
            pods: Vec::new(),
        };
        (&**name, on_node)
    });
    let mut nodes: OnNodes<'a> = nodes.collect();
    for (name, pod) in snapshot.pods {
        let Some(on) = pod.node.as_deref() else {
            continue;
        };
        if !pod.is_left_over() {
            nodes.entry(on).or_default().pods.push((&**name, pod));
        } else if let Some(node) = nodes
            .get_mut(on)
            .filter(|_| is_slot(snapshot.set, on, name))
        {
            node.left_over = Some(name);
        }
    }
    let lasts = refused::lasts(snapshot.refused_nodes);
    for (node, known) in snapshot.refused_nodes.iter().filter(|_| lasts) {
        if let Some(node) = nodes.get_mut(&**node) {
            node.refused = known.last();
            node.deletion_refused = known.deletion.is_some();
        }
    }
    let taken = snapshot.taken_pods.iter();
    for (_, taken) in taken.filter(|(name, _)| !snapshot.pods.contains_key(*name)) {
        if let Some(node) = nodes.get_mut(&*taken.node) {
            node.name_taken = true;
        }
    }
    for node in nodes.values_mut() {
        node.pods
            .sort_by_key(|(name, pod)| (!pod.bound, pod.created, *name));
    }
    nodes
}
