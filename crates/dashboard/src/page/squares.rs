//! The squares of a page, in groups.

use std::collections::BTreeMap;

use carillon_plan::node::Nodes;
use carillon_plan::selector::label;
use carillon_plan::view::broadcast_job::outcomes::SAMPLE;
use carillon_plan::view::groups::Group;
use carillon_plan::view::squares::{Counts, Labels, Square};
use serde::Serialize;
use serde_json::{Value, json};

/// Values that a label may have to group nodes by it.
pub const MOST_GROUPS: usize = 64;
/// What stands in place of a label that a node has not.
const NO_LABEL: &str = "(none)";

/// Squares in the order in which they are drawn.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Fleet {
    /// Names of the groups, each with how many of the squares it has.
    pub groups: Vec<(String, usize)>,
    /// All squares, group by group.
    pub squares: Vec<Square>,
}

impl Fleet {
    /// Groups squares by a label of their nodes; an empty key makes one group.
    pub fn grouped(squares: Vec<Square>, nodes: &Nodes, key: &str) -> Self {
        if key.is_empty() {
            return Self::alone(squares);
        }
        let mut groups: BTreeMap<String, Vec<Square>> = BTreeMap::new();
        for square in squares {
            let row = nodes.get(&*square.node);
            let value = row.and_then(|row| label(&row.labels, key));
            let value = value.unwrap_or(NO_LABEL);
            groups.entry(value.to_owned()).or_default().push(square);
        }
        Self {
            groups: groups
                .iter()
                .map(|(name, all)| (name.clone(), all.len()))
                .collect(),
            squares: groups.into_values().flatten().collect(),
        }
    }

    /// Only the squares of nodes whose labels are as wanted: `zone=a`, `zone!=a`, `gpu`, `!gpu`, several with commas.
    #[must_use]
    pub fn only(self, nodes: &Nodes, wanted: &str) -> Self {
        let terms: Vec<&str> = wanted.split(',').map(str::trim).collect();
        if terms.iter().all(|term| term.is_empty()) {
            return self;
        }
        let is_wanted = |square: &Square| {
            let row = nodes.get(&*square.node);
            let label = |key: &str| row.and_then(|row| label(&row.labels, key));
            terms.iter().all(|term| holds(term, label))
        };
        let mut all = self.squares.into_iter();
        let mut fleet = Self::default();
        for (name, size) in self.groups {
            let before = fleet.squares.len();
            fleet
                .squares
                .extend(all.by_ref().take(size).filter(is_wanted));
            let left = fleet.squares.len() - before;
            if left > 0 {
                fleet.groups.push((name, left));
            }
        }
        fleet
    }

    /// Tells in the head of a page what a person reads beside the squares.
    pub(super) fn tell<P: Serialize>(
        &self,
        groups: Vec<Group<P>>,
        labels: &Labels<'_>,
        head: &mut Value,
    ) {
        let groups = groups.into_iter().map(|mut group| {
            group.nodes.truncate(SAMPLE);
            json!(group)
        });
        head["counts"] = json!(self.counts());
        head["groups"] = groups.collect();
        head["groupings"] = json!(labels.grouping(MOST_GROUPS));
    }

    /// One group without a name.
    pub fn alone(squares: Vec<Square>) -> Self {
        Self {
            groups: vec![(String::new(), squares.len())],
            squares,
        }
    }

    /// How many squares have each colour.
    pub fn counts(&self) -> Counts {
        Counts::of(self.squares.iter().map(|square| square.look.class))
    }
}

/// A term of a label selector, as kubectl takes it.
fn holds<'a>(term: &str, label: impl Fn(&str) -> Option<&'a str>) -> bool {
    if let Some((key, value)) = term.split_once("!=") {
        return label(key.trim()) != Some(value.trim());
    }
    if let Some((key, value)) = term.split_once('=') {
        let value = value.strip_prefix('=').unwrap_or(value);
        return label(key.trim()) == Some(value.trim());
    }
    match term.strip_prefix('!') {
        Some(key) => label(key.trim()).is_none(),
        None => term.is_empty() || label(term).is_some(),
    }
}

#[cfg(test)]
mod tests {
    use carillon_plan::node::NodeRow;
    use carillon_plan::view::squares::{Class, Look};

    use super::*;

    fn square(node: &str) -> Square {
        let look = Look {
            class: Class::Done,
            place: String::new(),
            reason: String::new(),
            words: String::new(),
        };
        Square {
            node: node.to_owned(),
            look,
        }
    }

    #[test]
    fn a_label_selector_leaves_the_squares_of_the_nodes_that_it_selects_in_their_groups() {
        let row = |labels: &[(&str, &str)]| NodeRow {
            labels: labels
                .iter()
                .map(|(key, value)| ((*key).into(), (*value).into()))
                .collect(),
            ..NodeRow::default()
        };
        let nodes: Nodes = [
            ("n0".into(), row(&[("gpu", ""), ("zone", "a")])),
            ("n1".into(), row(&[("zone", "a")])),
            ("n2".into(), row(&[("gpu", ""), ("zone", "b")])),
        ]
        .into_iter()
        .collect();
        // A node that is gone has no labels.
        let all = ["n0", "n1", "n2", "gone"];
        let left = |wanted: &str| {
            let squares = all.map(square).to_vec();
            let fleet = Fleet::grouped(squares, &nodes, "zone").only(&nodes, wanted);
            let names = fleet.squares.iter().map(|square| &*square.node);
            let groups = fleet
                .groups
                .iter()
                .map(|(name, size)| format!("{name}:{size}"));
            (
                names.collect::<Vec<_>>().join(" "),
                groups.collect::<Vec<_>>().join(" "),
            )
        };
        let told = |names: &str, groups: &str| (names.to_owned(), groups.to_owned());
        for (wanted, names, groups) in [
            ("", "gone n0 n1 n2", "(none):1 a:2 b:1"),
            ("zone=a", "n0 n1", "a:2"),
            ("zone == a , gpu", "n0", "a:1"),
            ("zone!=a", "gone n2", "(none):1 b:1"),
            ("!gpu", "gone n1", "(none):1 a:1"),
            ("rack", "", ""),
        ] {
            assert_eq!(left(wanted), told(names, groups), "{wanted:?}");
        }
    }
}
