//! The clock a lease is measured by.

use std::time::Duration;

/// An instant of the monotonic clock that also runs while the machine sleeps (CLOCK_BOOTTIME):
/// a lease runs out no matter why we did not renew it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BootTime(pub(super) Duration);

impl BootTime {
    /// Now.
    pub fn now() -> Self {
        let t = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        Self(Duration::new(
            t.tv_sec.unsigned_abs(),
            t.tv_nsec.unsigned_abs() as u32,
        ))
    }

    /// This instant `later`.
    #[must_use]
    pub fn after(self, later: Duration) -> Self {
        Self(self.0.saturating_add(later))
    }

    /// Time from `earlier` to this instant; zero when `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    pub(super) fn nanos(self) -> u64 {
        u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX)
    }
}
