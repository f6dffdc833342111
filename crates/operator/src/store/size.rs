//! What the cache holds, in rows and bytes.

use std::sync::Arc;

use carillon_plan::node::NodeRow;

use super::tables::Tables;
use crate::gate::Kind;

/// Rows and estimated bytes held, by kind.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sizes([(usize, usize); Kind::ALL.len()]);

impl Sizes {
    /// Those of what all kinds share: nodes, and texts that pods have in common.
    pub fn of_shared(tables: &Tables) -> Self {
        let mut sizes = Self::default();
        let node_bytes = |(name, node): (&Arc<str>, &NodeRow)| {
            // A B-tree keeps about a third free.
            (size_of_val(name) + size_of_val(node)) * 3 / 2 + text(name)
        };
        sizes.add(Kind::Node, tables.nodes.iter().map(node_bytes));
        let strings = &tables.strings;
        sizes.of(Kind::Node).1 += strings.bytes_of_sets();
        sizes.of(Kind::Pod).1 += strings.bytes_of_failures() + strings.bytes_of_pod_labels();
        sizes
    }

    /// Adds rows of a kind, each with its bytes.
    pub fn add(&mut self, kind: Kind, rows: impl Iterator<Item = usize>) {
        let known = self.of(kind);
        for bytes in rows {
            known.0 += 1;
            known.1 += bytes;
        }
    }

    /// Rows and bytes of a kind, to change them.
    pub fn of(&mut self, kind: Kind) -> &mut (usize, usize) {
        &mut self.0[kind as usize]
    }

    /// Kind, rows and bytes of each.
    pub fn iter(&self) -> impl Iterator<Item = (Kind, usize, usize)> {
        let kinds = Kind::ALL.into_iter().zip(self.0);
        kinds.map(|(kind, (rows, bytes))| (kind, rows, bytes))
    }
}

/// A text of its own on the heap.
pub fn text(text: &str) -> usize {
    text.len() + 16
}

/// In a hash table, which keeps an eighth free and a byte of tag per entry.
pub fn entry(bytes: usize) -> usize {
    (bytes + 1) * 8 / 7
}
