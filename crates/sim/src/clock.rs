//! What time it is in the simulated cluster.

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Tokio's clock, with a date.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Timestamp,
    origin: Instant,
}

impl Clock {
    /// `start` is now.
    pub fn starting_at(start: Timestamp) -> Self {
        Self {
            start,
            origin: Instant::now(),
        }
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        let passed = SignedDuration::try_from(self.origin.elapsed()).unwrap_or(SignedDuration::MAX);
        self.start.saturating_add(passed).unwrap_or(Timestamp::MAX)
    }
}

/// As `metav1.Time` writes it: whole seconds.
pub(crate) fn seconds(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second()).map_or_else(|_| time.to_string(), |t| t.to_string())
}
