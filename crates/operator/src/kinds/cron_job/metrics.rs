//! The metrics of CronJobs of both APIs.

use prometheus::{Histogram, IntGauge, IntGaugeVec, Registry, exponential_buckets};

use crate::metrics::register::{counter, gauge, histogram, plain_histogram, single_gauge};
use crate::metrics::syncs;
use crate::metrics::syncs::Syncs;

/// Values of the label `state` of `carillon_cronjobs`.
pub(super) const CRON_JOB_STATES: [&str; 4] = ["waiting", "running", "suspended", "stalled"];

/// What is counted of CronJobs.
pub struct CronJobMetrics {
    /// Their syncs.
    pub syncs: Syncs,
    /// `cronjob_controller_job_creation_skew_duration_seconds`
    pub job_creation_skew: Histogram,
    /// `carillon_cronjobs{state}`
    pub cron_jobs: IntGaugeVec,
    /// `carillon_cronjob_missed_runs`
    pub missed_runs: IntGauge,
    /// `carillon_cronjob_next_run_timestamp_seconds`
    pub next_run: IntGauge,
}

impl CronJobMetrics {
    #[rustfmt::skip]
    pub(crate) fn new(r: &Registry) -> Result<Self, prometheus::Error> {
        Ok(Self {
            syncs: Syncs {
                duration: histogram(r, "carillon_cronjob_sync_duration_seconds", "Seconds to sync one CronJob, API calls included.", &["result"], syncs::buckets()?)?,
                total: counter(r, "carillon_cronjob_syncs_total", "CronJob syncs, by result.", &["result"])?,
            },
            job_creation_skew: plain_histogram(r, "cronjob_controller_job_creation_skew_duration_seconds", "Seconds from the time a run is scheduled for until its job was created.", exponential_buckets(1.0, 2.0, 10)?)?,
            cron_jobs: gauge(r, "carillon_cronjobs", "CronJobs that exist, by state.", &["state"])?,
            missed_runs: single_gauge(r, "carillon_cronjob_missed_runs", "Runs of all CronJobs of carillon.dev that were due and never started.")?,
            next_run: single_gauge(r, "carillon_cronjob_next_run_timestamp_seconds", "Unix time at which the next run of any CronJob of carillon.dev starts, with its share of jitterSeconds; 0 if none will.")?,
        })
    }

    pub(crate) fn create_series(&self) {
        self.syncs.create_series();
        for state in CRON_JOB_STATES {
            self.cron_jobs.with_label_values(&[state]);
        }
    }
}
