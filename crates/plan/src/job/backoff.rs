//! How long a Job waits before it replaces pods that failed (upstream: `backoff_utils.go`).

use jiff::Timestamp;

/// Failures in a row, and when the last of them was.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct BackoffRecord {
    /// Failures after the last success.
    pub failures: u32,
    /// When the last of them ended.
    pub last: Option<Timestamp>,
}
