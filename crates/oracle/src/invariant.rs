//! The invariants by name.

use crate::history::History;
use crate::judge::{Assumptions, Report, Verdict};
use crate::{counting, once, parallelism, terminal};

/// What must hold.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Invariant {
    /// One pod per node.
    S1,
    /// Run once.
    S2,
    /// Parallelism.
    S3,
    /// Counted exactly once.
    S4,
    /// Terminal is absorbing.
    S6,
}

impl Invariant {
    /// Those that one history alone can break, in order.
    pub const ALL: [Self; 5] = [Self::S1, Self::S2, Self::S3, Self::S4, Self::S6];

    /// Its name in reports.
    pub fn id(self) -> &'static str {
        match self {
            Self::S1 => "S1",
            Self::S2 => "S2",
            Self::S3 => "S3",
            Self::S4 => "S4",
            Self::S6 => "S6",
        }
    }

    /// What it says, for people.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::S1 => "a job has at most one pod on a node that has not ended",
            Self::S2 => {
                "a node whose pod succeeded gets no further one, and an attempt has one pod"
            }
            Self::S3 => "no more pods run or are promised than parallelism allows",
            Self::S4 => "each outcome is counted exactly once, and stays as it was recorded",
            Self::S6 => "a job that has ended stays as it ended and starts nothing",
        }
    }
}

/// Judges one invariant.
pub fn check(invariant: Invariant, history: &History, assumptions: &Assumptions) -> Verdict {
    let judge = match invariant {
        Invariant::S1 => once::one_pod_per_node,
        Invariant::S2 => once::run_once,
        Invariant::S3 => parallelism::parallelism_is_kept,
        Invariant::S4 => counting::counted_exactly_once,
        Invariant::S6 => terminal::terminal_is_absorbing,
    };
    judge(history, assumptions)
}

/// Judges all of them.
pub fn check_all(history: &History, assumptions: &Assumptions) -> Report {
    Report {
        unattributed: history
            .steps
            .iter()
            .filter(|step| step.by.is_none())
            .count() as u64,
        verdicts: Invariant::ALL
            .into_iter()
            .map(|invariant| (invariant, check(invariant, history, assumptions)))
            .collect(),
    }
}
