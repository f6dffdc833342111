//! A grid with a square for each node, as pages and terminals draw it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::node::Nodes;

/// The colour of a square. Every node has exactly one, so that the counts sum to all nodes.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Class {
    /// What was wanted is there.
    Done,
    /// Something runs there, or is about to.
    Active,
    /// It failed, and nothing is going to change that by itself.
    Failed,
    /// Its turn will come.
    Waiting,
    /// Nothing is going to happen there.
    LeftOut,
}

impl Class {
    /// All of them, in the order in which a bar shows them.
    pub const ALL: [Self; 5] = [
        Self::Done,
        Self::Active,
        Self::Failed,
        Self::Waiting,
        Self::LeftOut,
    ];
}

/// How a square looks and what it says: the same for many nodes.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Look {
    /// Its colour.
    pub class: Class,
    /// Where the node stands, as `explain` says it.
    pub place: String,
    /// Why, in one word; may be empty.
    pub reason: String,
    /// What came out or what decides, in words; may be empty.
    pub words: String,
}

/// One node.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Square {
    /// Name of the node.
    pub node: String,
    /// What is shown of it.
    pub look: Look,
}

/// How many squares have each colour.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// All nodes: the sum of those that follow.
    pub nodes: usize,
    /// See [`Class::Done`].
    pub done: usize,
    /// See [`Class::Active`].
    pub active: usize,
    /// See [`Class::Failed`].
    pub failed: usize,
    /// See [`Class::Waiting`].
    pub waiting: usize,
    /// See [`Class::LeftOut`].
    pub left_out: usize,
}

impl Counts {
    /// Counts squares.
    pub fn of(classes: impl IntoIterator<Item = Class>) -> Self {
        let mut counts = Self::default();
        for class in classes {
            counts.nodes += 1;
            *counts.of_class_mut(class) += 1;
        }
        counts
    }

    /// The number of squares of a colour.
    pub fn of_class(&self, class: Class) -> usize {
        match class {
            Class::Done => self.done,
            Class::Active => self.active,
            Class::Failed => self.failed,
            Class::Waiting => self.waiting,
            Class::LeftOut => self.left_out,
        }
    }

    fn of_class_mut(&mut self, class: Class) -> &mut usize {
        match class {
            Class::Done => &mut self.done,
            Class::Active => &mut self.active,
            Class::Failed => &mut self.failed,
            Class::Waiting => &mut self.waiting,
            Class::LeftOut => &mut self.left_out,
        }
    }
}

/// A label that tells some nodes from the others.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SharedLabel {
    /// Key of the label.
    pub key: String,
    /// Its value.
    pub value: String,
    /// How many nodes of the cluster have it, those that were asked about among them.
    pub nodes: usize,
}

/// How many nodes have each label.
#[derive(Debug)]
pub struct Labels<'n> {
    nodes: &'n Nodes,
    /// By key and value.
    counts: BTreeMap<&'n str, BTreeMap<&'n str, usize>>,
}

impl<'n> Labels<'n> {
    /// Counts those of the cluster.
    pub fn of(nodes: &'n Nodes) -> Self {
        let mut counts: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
        for (key, value) in nodes.values().flat_map(|row| row.labels.iter()) {
            *counts.entry(key).or_default().entry(value).or_default() += 1;
        }
        Self { nodes, counts }
    }

    /// Labels that all of some nodes have, and at most half of the nodes of the cluster; the rarest first. Of a
    /// single node nothing is said: all its labels would do.
    pub fn shared_by<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Vec<SharedLabel> {
        let mut count = 0_usize;
        let mut having: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for row in names.into_iter().filter_map(|name| self.nodes.get(name)) {
            count += 1;
            for (key, value) in row.labels.iter() {
                *having.entry((key, value)).or_default() += 1;
            }
        }
        if count < 2 {
            return Vec::new();
        }
        let shared = having.into_iter().filter(|(_, having)| *having == count);
        let told = shared.map(|((key, value), _)| SharedLabel {
            key: key.to_owned(),
            value: value.to_owned(),
            nodes: self.counts[key][value],
        });
        let mut told: Vec<SharedLabel> = told
            .filter(|label| label.nodes * 2 <= self.nodes.len())
            .collect();
        told.sort_by_key(|label| label.nodes);
        told
    }

    /// Keys by which nodes can be grouped: at least two nodes have the same value, and no more than `most` values
    /// are there.
    pub fn grouping(&self, most: usize) -> Vec<&'n str> {
        let groups = self.counts.iter().filter(|(_, values)| {
            values.len() <= most && values.values().any(|having| *having > 1)
        });
        groups.map(|(key, _)| *key).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::NodeRow;

    fn nodes(labels: &[&[(&str, &str)]]) -> Nodes {
        let rows = labels.iter().enumerate().map(|(n, labels)| {
            let labels = labels
                .iter()
                .map(|(key, value)| ((*key).into(), (*value).into()));
            let row = NodeRow {
                labels: labels.collect(),
                ..NodeRow::default()
            };
            (format!("n{n}").into(), row)
        });
        rows.collect()
    }

    #[test]
    fn failures_are_told_by_the_label_that_only_they_have() {
        let nodes = nodes(&[
            &[("kernel", "5.15"), ("os", "linux"), ("zone", "a")],
            &[("kernel", "5.15"), ("os", "linux"), ("zone", "b")],
            &[("kernel", "6.1"), ("os", "linux"), ("zone", "a")],
            &[("kernel", "6.1"), ("os", "linux"), ("zone", "b")],
        ]);
        let told = |of: &[&str]| -> Vec<String> {
            let shared = Labels::of(&nodes).shared_by(of.iter().copied());
            let words = shared
                .iter()
                .map(|one| format!("{}={} on {}", one.key, one.value, one.nodes));
            words.collect()
        };
        assert_eq!(told(&["n0", "n1"]), ["kernel=5.15 on 2"]);
        // What every node has explains nothing, and one node has too much that would.
        assert_eq!(told(&["n0", "n3"]), [""; 0]);
        assert_eq!(told(&["n0"]), [""; 0]);
        assert_eq!(told(&["gone", "n0"]), [""; 0]);
    }

    #[test]
    fn nodes_are_grouped_by_labels_that_have_few_values() {
        let nodes = nodes(&[
            &[("host", "h0"), ("zone", "a"), ("rack", "1")],
            &[("host", "h1"), ("zone", "a"), ("rack", "2")],
            &[("host", "h2"), ("zone", "b"), ("rack", "2")],
        ]);
        assert_eq!(Labels::of(&nodes).grouping(2), ["rack", "zone"]);
        assert_eq!(Labels::of(&nodes).grouping(1), [""; 0]);
    }

    #[test]
    fn the_counts_of_all_colours_sum_to_the_nodes() {
        let classes = [Class::Done, Class::Done, Class::LeftOut, Class::Failed];
        let counts = Counts::of(classes);
        assert_eq!((counts.nodes, counts.done, counts.left_out), (4, 2, 1));
        let sum: usize = Class::ALL.iter().map(|class| counts.of_class(*class)).sum();
        assert_eq!(sum, counts.nodes);
    }
}
