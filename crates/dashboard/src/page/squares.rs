//! The squares of a page, in groups.

use std::collections::BTreeMap;

use carillon_plan::node::Nodes;
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
            let mut labels = row.into_iter().flat_map(|row| row.labels.iter());
            let value = labels.find(|(found, _)| **found == *key);
            let value = value.map_or(NO_LABEL, |(_, value)| value);
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
