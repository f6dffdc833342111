//! The metrics of DaemonSets of both APIs.

use prometheus::{IntCounterVec, IntGauge, IntGaugeVec, Registry};

use crate::gate::Kind;
use crate::metrics::register::{counter, gauge, histogram, single_gauge};
use crate::metrics::syncs;
use crate::metrics::syncs::Syncs;

/// Values of the label `state` of `carillon_daemonsets`.
pub(super) const STATES: [&str; 4] = ["complete", "updating", "paused", "stalled"];

/// What is counted of DaemonSets.
pub struct DaemonSetMetrics {
    /// Their syncs.
    pub syncs: Syncs,
    /// `carillon_daemonsets{state}`
    pub daemon_sets: IntGaugeVec,
    /// `carillon_daemonsets_unavailable`
    pub unavailable: IntGauge,
    /// `daemonset_controller_stale_sync_skips_total{group,resource}`
    pub stale_sync_skips: IntCounterVec,
}

impl DaemonSetMetrics {
    #[rustfmt::skip]
    pub(crate) fn new(r: &Registry) -> Result<Self, prometheus::Error> {
        Ok(Self {
            syncs: Syncs {
                duration: histogram(r, "carillon_daemonset_sync_duration_seconds", "Seconds to sync one DaemonSet, API calls included.", &["result"], syncs::buckets()?)?,
                total: counter(r, "carillon_daemonset_syncs_total", "DaemonSet syncs, by result.", &["result"])?,
            },
            daemon_sets: gauge(r, "carillon_daemonsets", "DaemonSets that are served, by state.", &["state"])?,
            unavailable: single_gauge(r, "carillon_daemonsets_unavailable", "DaemonSets of carillon.dev whose condition Available has been False for 15 minutes.")?,
            stale_sync_skips: counter(r, "daemonset_controller_stale_sync_skips_total", "Times a DaemonSet had to wait because the cache of a resource had not seen the controller's own write.", &["group", "resource"])?,
        })
    }

    pub(crate) fn create_series(&self) {
        self.syncs.create_series();
        for state in STATES {
            self.daemon_sets.with_label_values(&[state]);
        }
        self.waits(&[Kind::Pod, Kind::NativeDaemonSet], 0);
    }

    /// Counts so many waits for these kinds.
    pub(super) fn waits(&self, kinds: &[Kind], times: u64) {
        for kind in kinds {
            let labels = [kind.group_version().0, kind.plural()];
            self.stale_sync_skips
                .with_label_values(&labels)
                .inc_by(times);
        }
    }
}
