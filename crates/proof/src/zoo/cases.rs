//! Cases in which a bug shows.

use crate::blow::{Blow, Point};
use crate::case::Case;
use crate::crash_anywhere::SEED;
use crate::disturbance::{AtWrite, Disturbance};

/// Nothing goes wrong but the mutant.
pub(super) fn calm(scenario: &str) -> Case {
    under(scenario, Disturbance::none(1))
}

/// Something happens at the n-th write.
pub(super) fn at(scenario: &str, write: usize, blow: Blow) -> Case {
    under(
        scenario,
        Disturbance {
            at: vec![AtWrite { write, blow }],
            ..Disturbance::none(1)
        },
    )
}

/// A kill at the n-th write, and a restart that acts on an earlier revision.
pub(super) fn stale(scenario: &str, write: usize, revision: u64) -> Case {
    under(
        scenario,
        Disturbance {
            at: vec![AtWrite {
                write,
                blow: Blow::Kill(Point::ReplyLost),
            }],
            restart_at_revision: Some(revision),
            without_lease: true,
            ..Disturbance::none(1)
        },
    )
}

pub(super) fn under(scenario: &str, disturbance: Disturbance) -> Case {
    Case {
        scenario: scenario.to_owned(),
        seed: SEED,
        disturbance,
    }
}
