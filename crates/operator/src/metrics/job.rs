//! The metrics of Jobs, by upstream's names (`pkg/controller/job/metrics`,
//! `pkg/controller/ttlafterfinished/metrics`).

use prometheus::{Histogram, HistogramVec, IntCounterVec, Registry, exponential_buckets};

use super::{counter, histogram, plain_histogram};

/// What is counted of Jobs of batch/v1.
pub struct JobMetrics {
    /// `job_controller_job_sync_duration_seconds{completion_mode,result,action}`
    pub sync_duration: HistogramVec,
    /// `job_controller_job_syncs_total{completion_mode,result,action}`
    pub syncs: IntCounterVec,
    /// `job_controller_jobs_finished_total{completion_mode,result,reason}`
    pub finished: IntCounterVec,
    /// `job_controller_jobs_by_external_controller_total{controller_name}`
    pub by_external_controller: IntCounterVec,
    /// `job_controller_job_pods_finished_total{completion_mode,result}`
    pub pods_finished: IntCounterVec,
    /// `job_controller_job_finished_indexes_total{status,backoffLimit}`
    pub finished_indexes: IntCounterVec,
    /// `job_controller_job_pods_creation_total{reason,status}`
    pub pods_creation: IntCounterVec,
    /// `job_controller_pod_failures_handled_by_failure_policy_total{action}`
    pub failures_handled: IntCounterVec,
    /// `job_controller_terminated_pods_tracking_finalizer_total{event}`
    pub tracking_finalizer: IntCounterVec,
    /// `job_controller_stale_sync_skips_total{group,resource}`
    pub stale_sync_skips: IntCounterVec,
    /// `ttl_after_finished_controller_job_deletion_duration_seconds`
    pub deletion_duration: Histogram,
}

/// Why Jobs end.
const REASONS: &[(&str, &[&str])] = &[
    ("succeeded", &["CompletionsReached", "SuccessPolicy"]),
    (
        "failed",
        &[
            "BackoffLimitExceeded",
            "DeadlineExceeded",
            "FailedIndexes",
            "MaxFailedIndexesExceeded",
            "PodFailurePolicy",
        ],
    ),
];

impl JobMetrics {
    #[rustfmt::skip]
    pub(super) fn new(r: &Registry) -> Result<Self, prometheus::Error> {
        let sync = ["completion_mode", "result", "action"];
        Ok(Self {
            sync_duration: histogram(r, "job_controller_job_sync_duration_seconds", "Seconds to sync one Job, API calls included.", &sync, exponential_buckets(0.004, 2.0, 15)?)?,
            syncs: counter(r, "job_controller_job_syncs_total", "Job syncs, by mode, result and what they were for.", &sync)?,
            finished: counter(r, "job_controller_jobs_finished_total", "Jobs that have ended, by mode, result and reason.", &["completion_mode", "result", "reason"])?,
            by_external_controller: counter(r, "job_controller_jobs_by_external_controller_total", "Jobs seen whose spec.managedBy names another controller.", &["controller_name"])?,
            pods_finished: counter(r, "job_controller_job_pods_finished_total", "Pods counted as ended, by mode and result; of an Indexed Job that succeeds, indexes.", &["completion_mode", "result"])?,
            finished_indexes: counter(r, "job_controller_job_finished_indexes_total", "Indexes that have ended, by result and whether their Job limits failures per index.", &["status", "backoffLimit"])?,
            pods_creation: counter(r, "job_controller_job_pods_creation_total", "Pod creations sent, by why and by result.", &["reason", "status"])?,
            failures_handled: counter(r, "job_controller_pod_failures_handled_by_failure_policy_total", "Failed pods that a rule of their Job's pod failure policy has decided, by its action.", &["action"])?,
            tracking_finalizer: counter(r, "job_controller_terminated_pods_tracking_finalizer_total", "Pods that have ended with the tracking finalizer (add), and those that have lost it (delete).", &["event"])?,
            stale_sync_skips: counter(r, "job_controller_stale_sync_skips_total", "Times a Job had to wait because the cache of a resource had not seen the controller's own write.", &["group", "resource"])?,
            deletion_duration: plain_histogram(r, "ttl_after_finished_controller_job_deletion_duration_seconds", "Seconds from the end of a Job's time to live until it was deleted.", exponential_buckets(0.1, 2.0, 14)?)?,
        })
    }

    pub(super) fn create_series(&self) {
        for mode in ["NonIndexed", "Indexed"] {
            for result in ["success", "error"] {
                for action in ["reconciling", "tracking", "pods_created", "pods_deleted"] {
                    let labels = [mode, result, action];
                    self.sync_duration.with_label_values(&labels);
                    self.syncs.with_label_values(&labels);
                }
            }
            for (result, reasons) in REASONS {
                self.pods_finished.with_label_values(&[mode, result]);
                for reason in *reasons {
                    self.finished.with_label_values(&[mode, result, reason]);
                }
            }
        }
        for status in ["succeeded", "failed"] {
            for limit in ["perIndex", "global"] {
                self.finished_indexes.with_label_values(&[status, limit]);
            }
            for reason in ["new", "recreate_terminating_or_failed", "recreate_failed"] {
                self.pods_creation.with_label_values(&[reason, status]);
            }
        }
        for action in ["FailJob", "FailIndex", "Ignore", "Count"] {
            self.failures_handled.with_label_values(&[action]);
        }
        for (group, resource) in [("batch", "jobs"), ("", "pods")] {
            self.stale_sync_skips.with_label_values(&[group, resource]);
        }
        for event in ["add", "delete"] {
            self.tracking_finalizer.with_label_values(&[event]);
        }
    }
}
