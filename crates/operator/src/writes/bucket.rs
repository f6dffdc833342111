//! The client-side rate limit.

use std::time::Duration;

use crate::args::ApiRate;

/// A token bucket: `burst` at once, `qps` a second.
#[derive(Debug)]
pub(super) struct Bucket {
    rate: ApiRate,
    /// Below zero while callers wait for tokens they were promised.
    tokens: f64,
    at: tokio::time::Instant,
}

impl Bucket {
    pub(super) fn full(rate: ApiRate, now: tokio::time::Instant) -> Self {
        Self {
            rate,
            tokens: f64::from(rate.burst),
            at: now,
        }
    }

    /// Takes a token and returns how long to wait for it. In order: who asks later waits longer.
    pub(super) fn take(&mut self, now: tokio::time::Instant) -> Duration {
        let earned = now.saturating_duration_since(self.at).as_secs_f64() * self.rate.qps;
        self.tokens = (self.tokens + earned).min(f64::from(self.rate.burst)) - 1.0;
        self.at = now;
        Duration::try_from_secs_f64(-self.tokens / self.rate.qps).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bucket_lets_a_burst_through_and_then_the_rate() {
        let now = tokio::time::Instant::now();
        let rate = ApiRate {
            qps: 10.0,
            burst: 2,
        };
        let mut bucket = Bucket::full(rate, now);
        let waits: Vec<_> = (0..4).map(|_| bucket.take(now).as_millis()).collect();
        assert_eq!(waits, [0, 0, 100, 200]);
        let later = now + Duration::from_mins(1);
        let waits: Vec<_> = (0..3).map(|_| bucket.take(later).as_millis()).collect();
        assert_eq!(waits, [0, 0, 100], "a pause earns no more than the burst");
    }
}
