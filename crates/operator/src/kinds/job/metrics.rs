//! The metrics of Jobs, by upstream's names (`pkg/controller/job/metrics`,
//! `pkg/controller/ttlafterfinished/metrics`).

use carillon_plan::job::action::Why;
use carillon_plan::job::indexes::Indexes;
use carillon_plan::job::{FailureAction, Job, time_to_live};
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::JobStatus;
use prometheus::{Histogram, HistogramVec, IntCounterVec, Registry, exponential_buckets};

use crate::gate::Kind;
use crate::metrics::register::{counter, histogram, plain_histogram};

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
    pub(crate) fn new(r: &Registry) -> Result<Self, prometheus::Error> {
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

    pub(crate) fn create_series(&self) {
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
            for why in [Why::New, Why::TerminatingOrFailed, Why::Failed] {
                self.pods_creation
                    .with_label_values(&[creation_reason(why), status]);
            }
        }
        for action in [
            FailureAction::FailJob,
            FailureAction::FailIndex,
            FailureAction::Ignore,
            FailureAction::Count,
        ] {
            self.failures_handled
                .with_label_values(&[failure_action(action)]);
        }
        for kind in [Kind::NativeJob, Kind::Pod] {
            self.stale_sync_skips
                .with_label_values(&group_and_resource(kind));
        }
        for event in ["add", "delete"] {
            self.tracking_finalizer.with_label_values(&[event]);
        }
    }

    /// Counts a sync.
    pub fn synced(&self, job: &Job, action: &'static str, failed: bool, seconds: f64) {
        let result = if failed { "error" } else { "success" };
        let labels = [mode(job), result, action];
        let duration = &self.sync_duration;
        duration.with_label_values(&labels).observe(seconds);
        self.syncs.with_label_values(&labels).inc();
    }

    /// Counts that a Job has to wait for caches.
    pub fn waits(&self, behind: &[Kind]) {
        for kind in behind {
            let labels = group_and_resource(*kind);
            self.stale_sync_skips.with_label_values(&labels).inc();
        }
    }

    /// Counts the creation of a pod.
    pub fn created(&self, why: Why, succeeded: bool) {
        let status = if succeeded { "succeeded" } else { "failed" };
        let labels = [creation_reason(why), status];
        self.pods_creation.with_label_values(&labels).inc();
    }

    /// Counts a pod that was released, by the rule that has decided its failure.
    pub fn released(&self, handled: Option<FailureAction>) {
        if let Some(action) = handled {
            let labels = [failure_action(action)];
            self.failures_handled.with_label_values(&labels).inc();
        }
    }

    /// Counts a Job that was deleted because its time to live is over.
    pub fn expired(&self, job: &Job, now: Timestamp) {
        if let Some(over) = time_to_live(job) {
            let late = now.duration_since(over).as_secs_f64();
            self.deletion_duration.observe(late);
        }
    }

    /// Counts what a status says that was stored, beyond the one before it.
    pub fn counted(&self, job: &Job, status: &JobStatus) {
        let more = |new: Option<i32>, old: Option<i32>| {
            let more = i64::from(new.unwrap_or(0)) - i64::from(old.unwrap_or(0));
            u64::try_from(more).unwrap_or(0)
        };
        let (old, spec) = (&job.status, &job.spec);
        let mut succeeded = more(status.succeeded, old.succeeded);
        if spec.is_indexed() {
            let completions = spec.completions.unwrap_or(0).try_into().unwrap_or(0);
            let new_indexes = |new: &Option<String>, old: &Option<String>| {
                let len = |text: &Option<String>| {
                    let text = text.as_deref().unwrap_or_default();
                    Indexes::read(text, completions).len()
                };
                u64::from(len(new).saturating_sub(len(old)))
            };
            // Completions that were taken back are none that were not there.
            succeeded = new_indexes(&status.completed_indexes, &old.completed_indexes);
            let failed = new_indexes(&status.failed_indexes, &old.failed_indexes);
            let limit = if spec.backoff_limit_per_index.is_some() {
                "perIndex"
            } else {
                "global"
            };
            for (result, many) in [("succeeded", succeeded), ("failed", failed)] {
                let labels = [result, limit];
                self.finished_indexes
                    .with_label_values(&labels)
                    .inc_by(many);
            }
        }
        let failed = more(status.failed, old.failed);
        for (result, many) in [("succeeded", succeeded), ("failed", failed)] {
            let labels = [mode(job), result];
            self.pods_finished.with_label_values(&labels).inc_by(many);
        }
        let conditions = status.conditions.iter().flatten();
        let ended = |type_: &str| match type_ {
            "Complete" => Some("succeeded"),
            "Failed" => Some("failed"),
            _ => None,
        };
        for condition in conditions.filter(|known| known.status == "True") {
            if let Some(result) = ended(&condition.type_) {
                let reason = condition.reason.as_deref().unwrap_or_default();
                let labels = [mode(job), result, reason];
                self.finished.with_label_values(&labels).inc();
            }
        }
    }
}

fn creation_reason(why: Why) -> &'static str {
    match why {
        Why::New => "new",
        Why::TerminatingOrFailed => "recreate_terminating_or_failed",
        Why::Failed => "recreate_failed",
    }
}

fn failure_action(action: FailureAction) -> &'static str {
    match action {
        FailureAction::FailJob => "FailJob",
        FailureAction::FailIndex => "FailIndex",
        FailureAction::Ignore => "Ignore",
        FailureAction::Count => "Count",
    }
}

fn group_and_resource(kind: Kind) -> [&'static str; 2] {
    [kind.group_version().0, kind.plural()]
}

fn mode(job: &Job) -> &'static str {
    if job.spec.is_indexed() {
        "Indexed"
    } else {
        "NonIndexed"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;
    use carillon_plan::meta::Meta;
    use carillon_plan::object_key::JOB;
    use carillon_plan::{ObjectKey, Uid};
    use serde_json::{Value, json};

    fn job(spec: &Value, status: &Value) -> Job {
        let meta = Meta::new(
            ObjectKey::of(JOB, "ops", "sum", Uid::MAX),
            Timestamp::UNIX_EPOCH,
        );
        Job::read(meta, spec, status)
    }

    #[test]
    fn a_stored_status_is_counted_by_what_is_new_in_it() {
        let metrics = Metrics::new().unwrap();
        let metrics = &metrics.jobs;
        let plain = job(&json!({}), &json!({"succeeded": 2, "failed": 1}));
        let new = job(&json!({}), &json!({"succeeded": 5, "failed": 2})).status;
        metrics.counted(&plain, &new);
        let spec =
            json!({"completionMode": "Indexed", "completions": 9, "backoffLimitPerIndex": 1});
        let indexed = job(&spec, &json!({"completedIndexes": "0,1", "failed": 0}));
        let new = json!({"completedIndexes": "0-4", "failedIndexes": "7", "failed": 2,
            "conditions": [{"type": "Failed", "status": "True", "reason": "FailedIndexes"}]});
        metrics.counted(&indexed, &job(&spec, &new).status);
        let fewer = json!({"completedIndexes": "0", "failed": 0});
        metrics.counted(&indexed, &job(&spec, &fewer).status);
        let pods = |labels: [&str; 2]| metrics.pods_finished.with_label_values(&labels).get();
        assert_eq!(pods(["NonIndexed", "succeeded"]), 3);
        assert_eq!(pods(["NonIndexed", "failed"]), 1);
        assert_eq!(pods(["Indexed", "succeeded"]), 3);
        assert_eq!(pods(["Indexed", "failed"]), 2);
        let ends = |result| {
            let labels = [result, "perIndex"];
            metrics.finished_indexes.with_label_values(&labels).get()
        };
        assert_eq!([ends("succeeded"), ends("failed")], [3, 1]);
        let ended = ["Indexed", "failed", "FailedIndexes"];
        assert_eq!(metrics.finished.with_label_values(&ended).get(), 1);
    }
}
