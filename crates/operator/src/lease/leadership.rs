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
    /// Nanoseconds of [`BootTime`]; 0 while not leading or in doubt, `u64::MAX` without election.
    valid_until: AtomicU64,
    /// Nanoseconds of [`BootTime`] when a write was last given up without an answer; 0: never.
    unanswered_at: AtomicU64,
    phase: watch::Sender<Phase>,
    candidacy: watch::Sender<Candidacy>,
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

/// Whether a process would lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Candidacy {
    /// It could do nothing.
    No,
    /// It could do a part of the work: better than nobody.
    IfNobodyElse,
    /// It could do all.
    Yes,
}

impl Leadership {
    /// Leadership not gained yet: nothing may be sent.
    pub fn standby(clock: Clock) -> Self {
        Self(Arc::new(Shared {
            clock,
            valid_until: AtomicU64::new(0),
            unanswered_at: AtomicU64::new(0),
            phase: watch::Sender::new(Phase::Standby),
            candidacy: watch::Sender::new(Candidacy::No),
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

    /// The instant until which writes may be sent; `None` when not leading, or after a renewal that failed.
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

    /// Nothing is sent before the next renewal has succeeded: it may show that the API server was restored from a backup.
    pub(super) fn suspend(&self) {
        self.0.valid_until.store(0, Ordering::Release);
    }

    /// Whether a write may be sent at `now`.
    pub fn is_leader_at(&self, now: BootTime) -> bool {
        now.nanos() < self.0.valid_until.load(Ordering::Acquire)
    }

    /// Whether a write may be sent now.
    pub fn is_leader(&self) -> bool {
        self.is_leader_at(self.0.clock.boot())
    }

    /// Whether this process stands for election from now on.
    pub fn stand(&self, candidacy: Candidacy) {
        self.0.candidacy.send_replace(candidacy);
    }

    pub(super) fn candidacy(&self) -> Candidacy {
        *self.0.candidacy.borrow()
    }

    /// Waits until it would lead rather than with this candidacy.
    pub(super) async fn stands_more_than(&self, before: Candidacy) {
        let mut candidacy = self.0.candidacy.subscribe();
        // The sender lives as long as `self`.
        let _ = candidacy.wait_for(|candidacy| *candidacy > before).await;
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

    /// Nothing that is over begins again.
    pub(super) fn extend(&self, until: BootTime) {
        self.0.phase.send_if_modified(|phase| {
            if *phase == Phase::Over {
                return false;
            }
            self.0.valid_until.store(until.nanos(), Ordering::Release);
            let changed = *phase != Phase::Leading;
            *phase = Phase::Leading;
            changed
        });
    }

    /// From here on nothing is sent any more.
    pub fn end(&self) {
        self.0.phase.send_modify(|phase| {
            self.0.valid_until.store(0, Ordering::Release);
            *phase = Phase::Over;
        });
        self.stand(Candidacy::No);
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

    #[test]
    fn what_is_over_is_not_renewed() {
        let leadership = Leadership::always(Clock::system());
        leadership.end();
        leadership.extend(at(1_000_000_000));
        assert!(!leadership.is_leader());
        assert_eq!(leadership.phase(), Phase::Over);
    }
}
