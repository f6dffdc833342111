//! The answer of the election, for everybody who may send writes.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::sync::watch;

use crate::clock::{BootTime, Clock};

/// How long a request may still be applied that nobody waits for: the API server's `--request-timeout`, if
/// nobody has changed it.
const APPLIED_WITHIN: Duration = Duration::from_mins(1);

/// Whether this process leads, and until when it may send writes. Clones share the answer.
#[derive(Clone)]
pub struct Leadership(Arc<Shared>);

struct Shared {
    /// Nanoseconds of [`BootTime`]; 0 while not leading, `u64::MAX` without election.
    valid_until: AtomicU64,
    /// Nanoseconds of [`BootTime`] when a write was last given up without an answer; 0: never.
    unanswered_at: AtomicU64,
    phase: watch::Sender<Phase>,
    /// Whether this process would have its work done by itself.
    stands: watch::Sender<bool>,
    clock: Clock,
}

/// Where this process is in the election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Another process leads, or none yet.
    Standby,
    /// This process leads.
    Leading,
    /// It led or stood by, and never will again: lost, released or stopped.
    Over,
}

impl Leadership {
    /// Leadership not gained yet: nothing may be sent.
    pub fn standby(clock: Clock) -> Self {
        Self(Arc::new(Shared {
            clock,
            valid_until: AtomicU64::new(0),
            unanswered_at: AtomicU64::new(0),
            phase: watch::Sender::new(Phase::Standby),
            stands: watch::Sender::new(false),
        }))
    }

    /// Leadership without election (`--leader-elect=false`): valid for ever.
    pub fn always(clock: Clock) -> Self {
        let leadership = Self::standby(clock);
        leadership.extend(BootTime::END);
        leadership
    }

    /// The clock leadership is measured by.
    pub fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// The instant until which writes may be sent; `None` when not leading.
    ///
    /// It is the time the last successful renewal was *sent* plus the renew deadline. Others take
    /// over at the earliest one lease duration after that, so what was sent at the last moment
    /// still has `lease duration − renew deadline` to arrive.
    pub fn valid_until(&self) -> Option<BootTime> {
        match self.0.valid_until.load(Ordering::Acquire) {
            0 => None,
            nanos => Some(BootTime::from_nanos(nanos)),
        }
    }

    /// Whether a write may be sent at `now`.
    pub fn is_leader_at(&self, now: BootTime) -> bool {
        now.nanos() < self.0.valid_until.load(Ordering::Acquire)
    }

    /// Whether a write may be sent now.
    pub fn is_leader(&self) -> bool {
        self.is_leader_at(self.0.clock.boot())
    }

    /// From now on this process stands for election, since it could lead; or no longer.
    pub fn stand(&self, stands: bool) {
        self.0.stands.send_replace(stands);
    }

    pub(super) fn is_standing(&self) -> bool {
        *self.0.stands.borrow()
    }

    /// Waits until it does.
    pub(super) async fn stands(&self) {
        let mut stands = self.0.stands.subscribe();
        // The sender lives as long as `self`.
        let _ = stands.wait_for(|stands| *stands).await;
    }

    /// Where this process is in the election.
    pub fn phase(&self) -> Phase {
        *self.0.phase.borrow()
    }

    /// Waits until this process leads; false when it never will.
    pub async fn wait_leader(&self) -> bool {
        let mut phase = self.0.phase.subscribe();
        phase
            .wait_for(|phase| *phase != Phase::Standby)
            .await
            .is_ok_and(|phase| *phase == Phase::Leading)
    }

    /// Waits until leadership is lost, released or stopped; for ever without election.
    pub async fn over(&self) {
        let mut phase = self.0.phase.subscribe();
        // The sender lives as long as `self`: an error cannot happen, and would mean over.
        let _ = phase.wait_for(|phase| *phase == Phase::Over).await;
    }

    /// A write has been sent, and nobody waits for its answer any longer.
    pub fn unanswered(&self) {
        let now = self.0.clock.boot().nanos();
        self.0.unanswered_at.fetch_max(now, Ordering::AcqRel);
    }

    /// Whether another process may lead at once. Not while something may still be applied that was sent: a new
    /// leader takes what it lists first for all that was done before.
    pub fn may_be_given_back(&self) -> bool {
        match self.0.unanswered_at.load(Ordering::Acquire) {
            0 => true,
            at => self.0.clock.boot().since(BootTime::from_nanos(at)) >= APPLIED_WITHIN,
        }
    }

    pub(super) fn extend(&self, until: BootTime) {
        self.0.valid_until.store(until.nanos(), Ordering::Release);
        self.0.phase.send_if_modified(|phase| {
            let changed = *phase != Phase::Leading;
            *phase = Phase::Leading;
            changed
        });
    }

    /// From here on nothing is sent any more.
    pub(super) fn end(&self) {
        self.0.valid_until.store(0, Ordering::Release);
        self.0.phase.send_replace(Phase::Over);
    }
}

impl fmt::Debug for Leadership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Leadership({:?})", self.phase())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> BootTime {
        BootTime::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn without_election_writes_are_always_valid() {
        let always = Leadership::always(Clock::system());
        assert!(always.is_leader());
        assert!(always.is_leader_at(at(1_000_000_000)));
        assert_eq!(always.phase(), Phase::Leading);
    }
}
