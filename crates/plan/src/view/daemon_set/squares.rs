//! The squares of a DaemonSet: one for each node that `explain` counts.

use super::look::{Look as At, Place};
use crate::view::squares::{Class, Look, Square};

/// One square for each node.
pub fn squares(at: &At<'_>) -> Vec<Square> {
    let squares = at.nodes.iter().map(|(name, node)| {
        let (place, reason) = at.place(name, node);
        let look = Look {
            class: class(place),
            place: format!("{place:?}"),
            reason: reason.to_owned(),
            words: At::refusal(node),
        };
        Square {
            node: (*name).to_owned(),
            look,
        }
    });
    squares.collect()
}

/// The colour of a place. What is old waits for its turn, what is unavailable is being worked on.
pub fn class(place: Place) -> Class {
    match place {
        Place::Updated => Class::Done,
        Place::Waiting => Class::Active,
        Place::Excused => Class::Failed,
        Place::InTurn | Place::Kept => Class::Waiting,
        Place::Stays | Place::Refused | Place::Gone | Place::Unknown => Class::LeftOut,
    }
}
