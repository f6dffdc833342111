//! Requests, and what is left of a plan of them.

use carillon_api::BroadcastJobStatus;
use carillon_api::condition::types;
use carillon_plan::condition;

use super::store::Nodes;

/// Prefix of the names of nodes long gone.
pub(super) const FILLER: &str = "filler-";

/// One request.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Request {
    /// The version a slice is written from is the number of its content.
    Slice {
        index: u8,
        from: Option<u32>,
        to: u32,
        /// The nodes a seal was decided from.
        seals: Option<Nodes>,
    },
    /// Refused unless a slice has this content.
    Confirm {
        index: u8,
        from: u32,
    },
    /// Refused unless a pod is in this version, by incarnation; `None`: unless there is none.
    ConfirmPod {
        pod: u8,
        seen: Option<(u8, u64)>,
    },
    Create {
        pod: u8,
        node: u8,
    },
    Delete {
        pod: u8,
        incarnation: u8,
        version: u64,
    },
    Release {
        pod: u8,
        incarnation: u8,
    },
    /// With equal `from` and `to` it changes only words and counts.
    Status {
        from: u8,
        to: u8,
        succeeded: u16,
        failed: u16,
    },
}

/// What is left of a plan: a step, and then the rest of it.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct Rest {
    pub(super) requests: Vec<Request>,
    /// A failure in this step ends the plan.
    pub(super) stop: bool,
    /// There was one.
    pub(super) failed: bool,
    pub(super) next: u32,
}

/// The parts of a status that decide anything.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent conditions of one object"
)]
pub(super) struct Verdict {
    pub(super) started: bool,
    pub(super) failing: bool,
    pub(super) complete: bool,
    pub(super) failed: bool,
}

impl Verdict {
    pub(super) fn read(number: u8) -> Self {
        let bit = |at: u8| number >> at & 1 == 1;
        Self {
            started: bit(0),
            failing: bit(1),
            complete: bit(2),
            failed: bit(3),
        }
    }

    pub(super) fn number(self) -> u8 {
        u8::from(self.started)
            | u8::from(self.failing) << 1
            | u8::from(self.complete) << 2
            | u8::from(self.failed) << 3
    }

    pub(super) fn of(status: &BroadcastJobStatus) -> Self {
        let is = |type_| condition::is_true(&status.conditions, type_);
        Self {
            started: status.start_time.is_some(),
            failing: is(types::FAILURE_TARGET),
            complete: is(types::COMPLETE),
            failed: is(types::FAILED),
        }
    }

    pub(super) fn ended(self) -> bool {
        self.complete || self.failed
    }
}
