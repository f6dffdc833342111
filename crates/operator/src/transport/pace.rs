//! How late what comes is read.

use std::time::Duration;

/// How soon a watch is read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Pace {
    /// At once, and all others with it: users wait for what they change. Many at a time are gathered.
    Prompt,
    /// Up to 50 ms late, several changes at a time.
    Gathered,
}

/// How late a change may be read.
pub(crate) const WATCH_PAUSE: Duration = Duration::from_millis(50);

/// How long changes are gathered from when the first of them was read, so that none of them waits for
/// longer than `period`, however late it was read.
pub(crate) const fn gathering(period: Duration) -> Duration {
    period.saturating_sub(WATCH_PAUSE)
}
