//! Numbers for the names and uids that the planner deals with.

use std::collections::HashMap;
use std::sync::Arc;

use carillon_plan::Uid;
use carillon_plan::object_key::{BROADCAST_JOB, ObjectKey};
use jiff::{SignedDuration, Timestamp};

/// First second of every world.
const START: i64 = 1_800_000_000;

/// The time after so many hours.
pub(super) fn time(hours: u8) -> Timestamp {
    Timestamp::from_second(START).unwrap_or_default() + SignedDuration::from_hours(hours.into())
}

/// Seconds since the start.
pub(super) fn seconds(time: Timestamp) -> i32 {
    i32::try_from(time.as_second() - START).unwrap_or(i32::MAX)
}

/// The owner of everything.
pub(super) fn owner() -> Arc<ObjectKey> {
    ObjectKey::of(BROADCAST_JOB, "ops", "job", uid(1, 0, 0))
}

fn uid(kind: u8, number: u8, generation: u8) -> Uid {
    format!("{kind:08x}-0000-4000-8000-{number:06x}{generation:06x}")
        .parse()
        .unwrap_or(Uid::MAX)
}

/// Name of a node.
pub(super) fn node(number: u8) -> Arc<str> {
    format!("n{number}").into()
}

/// Number of the node of this name.
pub(super) fn node_number(name: &str) -> u8 {
    name.strip_prefix('n')
        .and_then(|digits| digits.parse().ok())
        .unwrap_or(u8::MAX)
}

/// Uid of the so-many-th node object of this name.
pub(super) fn node_uid(number: u8, generation: u8) -> Uid {
    uid(2, number, generation)
}

/// The generation that a node's uid tells.
pub(super) fn generation(node: u8, of: Uid) -> u8 {
    (0..u8::MAX)
        .find(|generation| node_uid(node, *generation) == of)
        .unwrap_or(u8::MAX)
}

/// Uid of the so-many-th pod of this name.
pub(super) fn pod_uid(name: u8, incarnation: u8) -> Uid {
    uid(3, name, incarnation)
}

/// Pod names by number, in the order they came up.
#[derive(Debug, Default)]
pub(super) struct PodNames {
    numbers: HashMap<Box<str>, u8>,
    names: Vec<Box<str>>,
}

impl PodNames {
    /// The names of the first attempts on each node come first, in any world of so many nodes.
    pub(super) fn of(nodes: u8) -> Self {
        let mut names = Self::default();
        let owner = owner();
        for number in 0..nodes {
            names.number(&carillon_plan::name::pod(
                &owner.name,
                owner.uid,
                &node(number),
                1,
            ));
        }
        names
    }

    pub(super) fn number(&mut self, name: &str) -> u8 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = self.names.len() as u8;
        self.names.push(name.into());
        self.numbers.insert(name.into(), number);
        number
    }

    pub(super) fn name(&self, number: u8) -> &str {
        &self.names[usize::from(number)]
    }

    /// Name number and incarnation of a pod's uid.
    pub(super) fn read_uid(&self, of: Uid) -> Option<(u8, u8)> {
        (0..self.names.len() as u8)
            .flat_map(|name| (0..4).map(move |incarnation| (name, incarnation)))
            .find(|(name, incarnation)| pod_uid(*name, *incarnation) == of)
    }
}
