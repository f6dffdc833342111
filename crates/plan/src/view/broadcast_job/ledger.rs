//! The records of a job, by node.

use std::collections::BTreeMap;

use crate::record::{Record, Slice};
use crate::uid::Uid;

/// A node by its name and, where it is known, its uid: a machine replaced under the same name is another one.
pub type Node<'n> = (&'n str, Option<Uid>);

/// Whether an attempt is one on this node.
pub fn is_of(record: &Record, (name, uid): Node<'_>) -> bool {
    *record.node == *name && uid.is_none_or(|uid| record.node_uid == uid)
}

/// All attempts of a job. A node is its name and uid together: a machine replaced under the same
/// name is another one.
#[derive(Clone, Debug, Default)]
pub struct Ledger<'a> {
    nodes: BTreeMap<(&'a str, Uid), Vec<&'a Record>>,
    log: Vec<&'a Record>,
}

impl<'a> Ledger<'a> {
    /// Sorts the records of the slices by node and attempt.
    pub fn read(slices: &'a [Slice]) -> Self {
        let mut nodes: BTreeMap<_, Vec<&Record>> = BTreeMap::new();
        let log: Vec<&Record> = slices.iter().flat_map(|slice| &slice.records).collect();
        for record in &log {
            let of_node = nodes.entry((&*record.node, record.node_uid)).or_default();
            of_node.push(record);
        }
        for of_node in nodes.values_mut() {
            of_node.sort_by_key(|record| record.attempt);
        }
        Self { nodes, log }
    }

    /// The last attempt on each node, by name.
    pub fn latest(&self) -> impl Iterator<Item = &'a Record> + '_ {
        self.nodes
            .values()
            .filter_map(|records| records.last().copied())
    }

    /// Every attempt on this very node, in their order.
    pub fn attempts_on<'s>(&'s self, name: &'s str, uid: Uid) -> &'s [&'a Record] {
        self.nodes.get(&(name, uid)).map_or(&[], Vec::as_slice)
    }

    /// Every attempt on the node of this name that was tried last.
    pub fn attempts_on_last<'s>(&'s self, name: &'s str) -> &'s [&'a Record] {
        let last = self.attempts(name).last().map(|record| record.node_uid);
        last.map_or(&[], |uid| self.attempts_on(name, uid))
    }

    /// Every attempt on a node; where its uid is not known, on the one of its name that was tried last.
    pub fn attempts_at<'s>(&'s self, (name, uid): Node<'s>) -> &'s [&'a Record] {
        match uid {
            Some(uid) => self.attempts_on(name, uid),
            None => self.attempts_on_last(name),
        }
    }

    /// Every node with a record, by name, with its attempts.
    pub fn nodes(&self) -> impl Iterator<Item = (&'a str, Uid, &[&'a Record])> + '_ {
        self.nodes
            .iter()
            .map(|((name, uid), records)| (*name, *uid, records.as_slice()))
    }

    /// Every attempt on nodes of this name, in their order.
    pub fn attempts(&self, name: &str) -> Vec<&'a Record> {
        let of_name = (name, Uid::MIN)..=(name, Uid::MAX);
        let mut found: Vec<_> = self.nodes.range(of_name).flat_map(|(_, r)| r).collect();
        found.sort_by_key(|record| record.attempt);
        found.into_iter().copied().collect()
    }

    /// Names of all nodes with a record, each once.
    pub fn names(&self) -> impl Iterator<Item = &'a str> + '_ {
        let mut last = None;
        self.nodes
            .keys()
            .map(|(name, _)| *name)
            .filter(move |name| last.replace(*name) != Some(*name))
    }

    /// Every attempt, in the order in which they were reserved.
    pub fn all(&self) -> impl Iterator<Item = &'a Record> + '_ {
        self.log.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::broadcast_job::samples::{record, uid};
    use carillon_api::NodeState;

    #[test]
    fn a_replaced_node_has_attempts_of_its_own_under_the_same_name() {
        let mut replaced = record("n1", 2, NodeState::Failed);
        replaced.node_uid = uid(9);
        let slices = [Slice {
            records: [replaced, record("n1", 1, NodeState::Succeeded)]
                .into_iter()
                .collect(),
            ..Slice::default()
        }];
        let ledger = Ledger::read(&slices);
        assert_eq!(ledger.latest().count(), 2);
        let last = ledger.attempts_on_last("n1");
        assert_eq!((last.len(), last[0].state), (1, NodeState::Failed));
        assert_eq!(ledger.attempts_on("n1", uid(1)).len(), 1);
        let attempts = ledger.attempts("n1");
        assert_eq!([attempts[0].attempt, attempts[1].attempt], [1, 2]);
        assert_eq!(ledger.names().collect::<Vec<_>>(), ["n1"]);
    }
}
