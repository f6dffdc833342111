//! The clock: everything the program decides about time asks here, or tokio's timers.
//!
//! A simulated cluster runs on tokio's paused clock; [`Clock::simulated`] makes the time of day and
//! the boot time follow it, and can let one process' clock be wrong.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// An instant of the monotonic clock that also runs while the machine sleeps (CLOCK_BOOTTIME):
/// a lease runs out no matter why we did not renew it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BootTime(Duration);

impl BootTime {
    /// Later than any other.
    pub const END: Self = Self(Duration::MAX);

    /// This instant `later`.
    #[must_use]
    pub fn after(self, later: Duration) -> Self {
        Self(self.0.saturating_add(later))
    }

    /// Time from `earlier` to this instant; zero when `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    pub(crate) fn nanos(self) -> u64 {
        u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX)
    }

    pub(crate) fn from_nanos(nanos: u64) -> Self {
        Self(Duration::from_nanos(nanos))
    }
}

/// A clock; clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct Clock(Option<Arc<Simulated>>);

#[derive(Debug)]
struct Simulated {
    start: Timestamp,
    origin: Instant,
    /// Milliseconds by which the time of day is wrong.
    skew: AtomicI64,
}

impl Clock {
    /// The machine's clock.
    pub fn system() -> Self {
        Self(None)
    }

    /// A clock that shows `start` now and goes on with tokio's.
    pub fn simulated(start: Timestamp) -> Self {
        Self(Some(Arc::new(Simulated {
            start,
            origin: Instant::now(),
            skew: AtomicI64::new(0),
        })))
    }

    /// Lets a simulated clock show a time of day that is wrong by `skew`. Boot time stays right.
    pub fn set_skew(&self, skew: SignedDuration) {
        if let Some(simulated) = &self.0 {
            let millis = i64::try_from(skew.as_millis()).unwrap_or_default();
            simulated.skew.store(millis, Ordering::Release);
        }
    }

    /// The time of day.
    pub fn now(&self) -> Timestamp {
        let Some(simulated) = &self.0 else {
            return Timestamp::now();
        };
        let skew = SignedDuration::from_millis(simulated.skew.load(Ordering::Acquire));
        let elapsed = SignedDuration::try_from(simulated.origin.elapsed()).unwrap_or_default();
        let shown = simulated.start.checked_add(elapsed + skew);
        shown.unwrap_or(simulated.start)
    }

    /// The time since the machine was started.
    pub fn boot(&self) -> BootTime {
        let Some(simulated) = &self.0 else {
            let t = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
            return BootTime(Duration::new(
                t.tv_sec.unsigned_abs(),
                t.tv_nsec.unsigned_abs() as u32,
            ));
        };
        // A machine runs for a while before we do.
        BootTime(Duration::from_mins(1) + simulated.origin.elapsed())
    }
}

/// Now, by the clock that tokio's timers run on.
pub fn instant() -> std::time::Instant {
    Instant::now().into_std()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_simulated_clock_goes_with_the_timers_and_may_be_wrong() {
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let clock = Clock::simulated(start);
        let booted = clock.boot();
        tokio::time::sleep(Duration::from_secs(90)).await;
        assert_eq!(clock.now(), start + SignedDuration::from_secs(90));
        clock.set_skew(SignedDuration::from_hours(-1));
        assert_eq!(clock.now(), start + SignedDuration::from_secs(90 - 3600));
        assert_eq!(clock.boot().since(booted), Duration::from_secs(90));
    }
}
