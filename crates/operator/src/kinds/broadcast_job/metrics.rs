//! The metrics of BroadcastJobs.

use prometheus::{IntCounterVec, IntGaugeVec, Registry};

use crate::metrics::register::{counter, gauge, histogram};
use crate::metrics::syncs;
use crate::metrics::syncs::Syncs;

/// Values of the label `state` of `carillon_broadcastjob_nodes`.
pub(super) const NODE_STATES: [&str; 6] = [
    "eligible",
    "refused",
    "active",
    "succeeded",
    "failed",
    "waiting",
];

/// Values of the label `phase` of `carillon_broadcastjob_jobs`.
pub(super) const JOB_PHASES: [&str; 5] = ["running", "paused", "completed", "failed", "stalled"];

/// What is counted of BroadcastJobs.
pub struct BroadcastJobMetrics {
    /// Their syncs.
    pub syncs: Syncs,
    /// `carillon_broadcastjob_nodes{state}`
    pub nodes: IntGaugeVec,
    /// `carillon_broadcastjob_refused_nodes{reason}`
    pub refused_nodes: IntGaugeVec,
    /// `carillon_broadcastjob_jobs{phase}`
    pub jobs: IntGaugeVec,
    /// `carillon_broadcastjob_pod_creation_total{result}`
    pub pod_creation: IntCounterVec,
}

impl BroadcastJobMetrics {
    #[rustfmt::skip]
    pub(crate) fn new(r: &Registry) -> Result<Self, prometheus::Error> {
        Ok(Self {
            syncs: Syncs {
                duration: histogram(r, "carillon_broadcastjob_sync_duration_seconds", "Seconds to sync one BroadcastJob, API calls included.", &["result"], syncs::buckets()?)?,
                total: counter(r, "carillon_broadcastjob_syncs_total", "BroadcastJob syncs, by result.", &["result"])?,
            },
            nodes: gauge(r, "carillon_broadcastjob_nodes", "Nodes of all unfinished BroadcastJobs, by state; a node counts once per job.", &["state"])?,
            refused_nodes: gauge(r, "carillon_broadcastjob_refused_nodes", "Nodes that unfinished BroadcastJobs leave out, by the check that refused them.", &["reason"])?,
            jobs: gauge(r, "carillon_broadcastjob_jobs", "BroadcastJobs that exist, by phase.", &["phase"])?,
            pod_creation: counter(r, "carillon_broadcastjob_pod_creation_total", "Pod creations sent for BroadcastJobs, by result.", &["result"])?,
        })
    }

    pub(crate) fn create_series(&self) {
        self.syncs.create_series();
        for result in ["succeeded", "failed"] {
            self.pod_creation.with_label_values(&[result]);
        }
        for state in NODE_STATES {
            self.nodes.with_label_values(&[state]);
        }
        for phase in JOB_PHASES {
            self.jobs.with_label_values(&[phase]);
        }
    }
}
