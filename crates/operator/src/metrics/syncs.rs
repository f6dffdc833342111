//! What is counted of the syncs of a kind, by `result`.

use prometheus::{HistogramVec, IntCounterVec, exponential_buckets};

/// 1 ms × 2ⁿ, up to 32 s: a sync is bounded by its API calls, not by us.
pub(crate) fn buckets() -> Result<Vec<f64>, prometheus::Error> {
    exponential_buckets(0.001, 2.0, 16)
}

/// Seconds and number of the syncs of a kind, by `result`.
#[derive(Debug)]
pub struct Syncs {
    /// `carillon_<kind>_sync_duration_seconds{result}`
    pub duration: HistogramVec,
    /// `carillon_<kind>_syncs_total{result}`
    pub total: IntCounterVec,
}

impl Syncs {
    /// A rate over a series that does not exist yet is no answer at all.
    pub(crate) fn create_series(&self) {
        for result in ["success", "error"] {
            self.duration.with_label_values(&[result]);
            self.total.with_label_values(&[result]);
        }
    }

    /// Counts one.
    pub(crate) fn count(&self, result: &str, seconds: f64) {
        self.duration.with_label_values(&[result]).observe(seconds);
        self.total.with_label_values(&[result]).inc();
    }
}
