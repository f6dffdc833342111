//! Cases in which a bug shows.

use crate::blow::{Blow, Point};
use crate::case::Case;
use crate::crash_anywhere::SEED;
use crate::disturbance::{AtWrite, Disturbance, Silence, Then};
use crate::span::Span;

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

/// The leader is stopped at the n-th write, another one takes over, and then it goes on.
pub(super) fn stopped(scenario: &str, write: usize) -> Case {
    let alone = at(scenario, write, Blow::Stop).disturbance;
    let disturbance = Disturbance {
        processes: 2,
        ..alone
    };
    under(scenario, disturbance)
}

/// A kill at the n-th write, and the process that did not lead takes over. Its watch of pods has hung so far.
pub(super) fn not_told(scenario: &str, standby: &str, write: usize) -> Case {
    let silence = |agent: &str| Silence {
        resource: "pods".to_owned(),
        agent: Some(agent.to_owned()),
        during: Span { from: 0, to: 40 },
    };
    let disturbance = Disturbance {
        at: vec![AtWrite {
            write,
            blow: Blow::Kill(Point::ReplyLost),
        }],
        then: Then::TakeOver,
        silent: vec![silence(standby)],
        ..Disturbance::none(2)
    };
    under(scenario, disturbance)
}

pub(super) fn under(scenario: &str, disturbance: Disturbance) -> Case {
    Case {
        scenario: scenario.to_owned(),
        seed: SEED,
        disturbance,
    }
}
