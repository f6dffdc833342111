//! The squares of a job: one for each node that `explain` counts.

use super::explain::{each_node, refused};
use super::family::Relative;
use super::outcomes::sentence;
use super::place::{Found, Place, decisive};
use crate::broadcast_job::BroadcastJob;
use crate::node::Nodes;
use crate::view::squares::{Class, Look, Square};

/// One square for each node, for a job of a family.
pub fn squares(family: &[Relative], job: &BroadcastJob, nodes: &Nodes) -> Vec<Square> {
    let mut squares = Vec::with_capacity(nodes.len());
    each_node(family, job, nodes, |node| {
        let Found { place, reason, .. } = node.found;
        let words = match (place, node.row, decisive(node.attempts)) {
            (Place::Refused, Some(row), _) => refused(job, node.name, row),
            (Place::Failed | Place::Retrying | Place::Interrupted, _, Some(record)) => sentence(
                record.state,
                &record.reason,
                record.exit_code,
                &record.message,
            ),
            _ => String::new(),
        };
        squares.push(Square {
            node: node.name.to_owned(),
            look: Look {
                class: class(place),
                place: format!("{place:?}"),
                reason,
                words,
            },
        });
    });
    squares
}

/// The colour of a place.
pub fn class(place: Place) -> Class {
    match place {
        Place::Succeeded => Class::Done,
        Place::Failed => Class::Failed,
        Place::Running | Place::Starting => Class::Active,
        Place::Waiting | Place::Retrying | Place::Interrupted => Class::Waiting,
        Place::NotStarted | Place::Gone | Place::Refused => Class::LeftOut,
    }
}

#[cfg(test)]
mod tests {
    use carillon_api::NodeState;
    use serde_json::json;

    use super::*;
    use crate::node::NodeRow;
    use crate::view::broadcast_job::samples::{job, record, slice, uid};

    #[test]
    fn a_square_says_what_came_out_on_its_node_or_why_it_is_left_out() {
        let stored = job(&json!({}), &json!({"desired": 2}));
        let mut failed = record("n1", 1, NodeState::Failed);
        failed.message = "no space left".into();
        let row = |n: u32| NodeRow {
            uid: uid(n),
            unschedulable: n == 2,
            ..NodeRow::default()
        };
        let nodes: Nodes = [
            ("n1".into(), row(1)),
            ("n2".into(), row(2)),
            ("n3".into(), row(3)),
        ]
        .into_iter()
        .collect();
        let family = [Relative::new(stored, slice(vec![failed]).to_vec())];
        let told: Vec<String> = squares(&family, &family[0].stored.job, &nodes)
            .iter()
            .map(|square| {
                let Look {
                    class,
                    place,
                    reason,
                    words,
                } = &square.look;
                format!("{} {class:?} {place} {reason} {words}", square.node)
            })
            .collect();
        assert_eq!(
            told[0],
            "n1 Failed Failed NonZeroExitCode Failed: exit 3, \"no space left\""
        );
        assert!(
            told[1].starts_with("n2 LeftOut Refused NodeUnschedulable "),
            "{}",
            told[1]
        );
        assert_eq!(told[2], "n3 Waiting Waiting  ");
    }
}
