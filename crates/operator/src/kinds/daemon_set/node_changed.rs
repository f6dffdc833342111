//! For which DaemonSets the change of a node makes a difference.

use carillon_plan::daemon_set::DaemonSet;
use carillon_plan::daemon_set::should_run::should_run;
use carillon_plan::node::NodeRow;

use super::tables::CONTROLLER;
use crate::store::{Tables, Wake};

/// Wakes those that get a pod there, or no longer, or for which the node is excused by now.
pub(super) fn node_changed(
    tables: &Tables,
    name: &str,
    old: Option<&NodeRow>,
    new: Option<&NodeRow>,
    wakes: &mut Vec<Wake>,
) {
    let replaced = old.map(|node| node.uid) != new.map(|node| node.uid);
    let health = |node: Option<&NodeRow>| {
        node.map(|node| (node.not_ready_since, node.unschedulable, node.deleting))
    };
    let sick = health(old) != health(new);
    for set in tables.daemon_sets.iter() {
        let should = |node: Option<&NodeRow>| {
            let should = node.map(|node| should_run(&set.spec.placement, name, node));
            // The status of ours says why a node gets none.
            let why = should.and_then(|should| should.reason());
            let why = why.filter(|_| !set.native);
            should.map(|should| (should.runs(), should.stays(), why))
        };
        let makes_a_difference = replaced
            || should(old) != should(new)
            || sick && !set.native
            || is_selected(set, old) != is_selected(set, new);
        if makes_a_difference {
            wakes.push(Wake::soon(CONTROLLER, set.meta.owner.clone()));
        }
    }
}

/// Whether updates of a DaemonSet are about a node, as far as its labels say.
fn is_selected(set: &DaemonSet, node: Option<&NodeRow>) -> bool {
    let selector = set.spec.node_selector.as_ref();
    selector.zip(node).is_none_or(|(selector, node)| {
        carillon_plan::selector::selects_by(selector, |key| node.label(key))
    })
}
