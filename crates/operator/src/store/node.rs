//! Nodes, and the jobs for which a change of one makes a difference.

use std::collections::HashSet;
use std::sync::Arc;

use carillon_plan::Uid;
use carillon_plan::eligibility;
use carillon_plan::node::NodeRow;

use super::{Row, Tables, Wake, is_open};
use crate::gate::Kind;
use crate::slim::SlimNode;

impl Row for SlimNode {
    const KIND: Kind = Kind::Node;

    fn uid(&self) -> Option<Uid> {
        self.metadata.uid()
    }

    fn enter(self, tables: &mut Tables, wakes: &mut Vec<Wake>) {
        let Some((name, row)) = self.row(&mut tables.strings) else {
            return;
        };
        let old = tables.nodes.get(&name);
        if old == Some(&row) {
            return;
        }
        wake_affected(tables, &name, old, Some(&row), wakes);
        tables.nodes.insert(name, row);
    }

    fn leave(self, tables: &mut Tables, wakes: &mut Vec<Wake>) {
        let name = &*self.metadata.name;
        let same = tables
            .nodes
            .get(name)
            .is_some_and(|row| Some(row.uid) == self.metadata.uid());
        if !same {
            return;
        }
        if let Some(old) = tables.nodes.remove(name) {
            wake_affected(tables, name, Some(&old), None, wakes);
        }
    }

    fn sweep(tables: &mut Tables, _: Option<&str>, listed: &HashSet<Uid>, wakes: &mut Vec<Wake>) {
        let gone: Vec<Arc<str>> = tables
            .nodes
            .iter()
            .filter(|(_, row)| !listed.contains(&row.uid))
            .map(|(name, _)| name.clone())
            .collect();
        for name in gone {
            if let Some(old) = tables.nodes.remove(&name) {
                wake_affected(tables, &name, Some(&old), None, wakes);
            }
        }
    }
}

/// Wakes the open jobs for which the change of a node makes a difference.
fn wake_affected(
    tables: &Tables,
    name: &str,
    old: Option<&NodeRow>,
    new: Option<&NodeRow>,
    wakes: &mut Vec<Wake>,
) {
    let replaced = old.map(|node| node.uid) != new.map(|node| node.uid);
    for job in tables.jobs.values().filter(|job| is_open(job)) {
        let reason = |node: Option<&NodeRow>| {
            node.map(|node| eligibility::refusal(&job.placement, name, node).map(|r| r.reason()))
        };
        if replaced || reason(old) != reason(new) {
            wakes.push(Wake::Soon(job.owner.uid));
        }
    }
}
