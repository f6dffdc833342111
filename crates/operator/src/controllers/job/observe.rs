//! What Jobs look like from outside: upstream's metrics, and the debug page.

use carillon_plan::job::action::{Action, Plan, Why};
use carillon_plan::job::indexes::Indexes;
use carillon_plan::job::{FailureAction, Job, MANAGED_BY, time_to_live};
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::JobStatus;

use crate::gate::Kind;
use crate::metrics::JobMetrics;
use crate::store::Store;

/// What a sync is for, in upstream's words.
pub(super) fn action(job: &Job, plan: &Plan) -> &'static str {
    let actions = || plan.steps.iter().flat_map(|step| &step.actions);
    let any = |is: fn(&Action) -> bool| actions().any(is);
    if any(|action| matches!(action, Action::CreatePod(_))) {
        "pods_created"
    } else if any(|action| matches!(action, Action::RemovePod { .. })) {
        "pods_deleted"
    } else if job.meta.deleting
        || ends(job)
        || any(|action| matches!(action, Action::StopPod { .. }))
    {
        "reconciling"
    } else {
        "tracking"
    }
}

/// How many pods there are to be no longer matters.
fn ends(job: &Job) -> bool {
    job.has("FailureTarget") || job.has("SuccessCriteriaMet")
}

/// Counts a sync.
pub(super) fn synced(
    metrics: &JobMetrics,
    job: &Job,
    action: &'static str,
    failed: bool,
    seconds: f64,
) {
    let result = if failed { "error" } else { "success" };
    let labels = [mode(job), result, action];
    let duration = &metrics.sync_duration;
    duration.with_label_values(&labels).observe(seconds);
    metrics.syncs.with_label_values(&labels).inc();
}

fn mode(job: &Job) -> &'static str {
    if job.spec.is_indexed() {
        "Indexed"
    } else {
        "NonIndexed"
    }
}

/// Counts that a Job has to wait for caches.
pub(super) fn waits(metrics: &JobMetrics, behind: &[Kind]) {
    for kind in behind {
        let labels = [kind.group_version().0, kind.plural()];
        metrics.stale_sync_skips.with_label_values(&labels).inc();
    }
}

/// Counts the creation of a pod.
pub fn created(metrics: &JobMetrics, why: Why, succeeded: bool) {
    let reason = match why {
        Why::New => "new",
        Why::TerminatingOrFailed => "recreate_terminating_or_failed",
        Why::Failed => "recreate_failed",
    };
    let status = if succeeded { "succeeded" } else { "failed" };
    let labels = [reason, status];
    metrics.pods_creation.with_label_values(&labels).inc();
}

/// Counts a pod that was let go, by the rule that has decided its failure.
pub fn released(metrics: &JobMetrics, handled: Option<FailureAction>) {
    let action = match handled {
        None => return,
        Some(FailureAction::FailJob) => "FailJob",
        Some(FailureAction::FailIndex) => "FailIndex",
        Some(FailureAction::Ignore) => "Ignore",
        Some(FailureAction::Count) => "Count",
    };
    metrics.failures_handled.with_label_values(&[action]).inc();
}

/// Counts a Job that was deleted because its time to live is over.
pub fn expired(metrics: &JobMetrics, job: &Job, now: Timestamp) {
    if let Some(over) = time_to_live(job) {
        let late = now.duration_since(over).as_secs_f64();
        metrics.deletion_duration.observe(late);
    }
}

/// Counts what a status says that was stored, beyond the one before it.
pub fn counted(metrics: &JobMetrics, job: &Job, status: &JobStatus) {
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
            metrics
                .finished_indexes
                .with_label_values(&labels)
                .inc_by(many);
        }
    }
    let failed = more(status.failed, old.failed);
    for (result, many) in [("succeeded", succeeded), ("failed", failed)] {
        let labels = [mode(job), result];
        metrics
            .pods_finished
            .with_label_values(&labels)
            .inc_by(many);
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
            metrics.finished.with_label_values(&labels).inc();
        }
    }
}

/// Counts what only the watches tell, just before it is read.
pub fn measure(store: &Store, metrics: &JobMetrics) {
    let tables = store.read();
    let tallied = tables.tallied();
    let events = [("add", tallied.ever_kept), ("delete", tallied.let_go())];
    for (event, so_far) in events {
        let counter = metrics.tracking_finalizer.with_label_values(&[event]);
        counter.inc_by(so_far.saturating_sub(counter.get()));
    }
    let others = tallied.managed_by.iter();
    for (name, so_far) in others.filter(|(name, _)| *name != MANAGED_BY) {
        let counter = metrics.by_external_controller.with_label_values(&[name]);
        counter.inc_by(so_far.saturating_sub(counter.get()));
    }
}

/// What `/debug/store` shows of Jobs.
pub fn debug(store: &Store) -> serde_json::Value {
    let tables = store.read();
    let jobs = tables.native_jobs().map(|job| {
        let owner = &job.meta.owner;
        let of_job = tables.job_pods(owner.uid);
        let pods = of_job.into_iter().flat_map(|of_job| &of_job.pods);
        let pods = pods.map(|(name, pod)| {
            serde_json::json!({
                "name": name,
                "phase": format!("{:?}", pod.phase),
                "tracked": pod.tracked,
                "deleting": pod.deleting,
                "index": pod.index,
            })
        });
        serde_json::json!({
            "namespace": owner.namespace,
            "name": owner.name,
            "uid": owner.uid.to_string(),
            "generation": job.meta.generation,
            "resourceVersion": job.meta.rv.to_string(),
            "managedBy": job.spec.managed_by,
            "finished": job.has_finished(),
            "pods": pods.collect::<Vec<_>>(),
        })
    });
    serde_json::json!(jobs.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;
    use carillon_plan::job::JobMeta;
    use serde_json::{Value, json};

    fn job(spec: &Value, status: &Value) -> Job {
        Job::read(JobMeta::default(), spec, status)
    }

    #[test]
    fn a_stored_status_is_counted_by_what_is_new_in_it() {
        let metrics = Metrics::new().unwrap();
        let metrics = &metrics.jobs;
        let plain = job(&json!({}), &json!({"succeeded": 2, "failed": 1}));
        let new = job(&json!({}), &json!({"succeeded": 5, "failed": 2})).status;
        counted(metrics, &plain, &new);
        let spec =
            json!({"completionMode": "Indexed", "completions": 9, "backoffLimitPerIndex": 1});
        let indexed = job(&spec, &json!({"completedIndexes": "0,1", "failed": 0}));
        let new = json!({"completedIndexes": "0-4", "failedIndexes": "7", "failed": 2,
            "conditions": [{"type": "Failed", "status": "True", "reason": "FailedIndexes"}]});
        counted(metrics, &indexed, &job(&spec, &new).status);
        let fewer = json!({"completedIndexes": "0", "failed": 0});
        counted(metrics, &indexed, &job(&spec, &fewer).status);
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
