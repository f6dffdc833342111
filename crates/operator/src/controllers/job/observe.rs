//! What Jobs look like from outside: upstream's metrics of syncs, and the debug page.

use carillon_plan::job::Job;
use carillon_plan::job::action::{Action, Plan};

use crate::metrics::Metrics;
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
    metrics: &Metrics,
    job: &Job,
    action: &'static str,
    failed: bool,
    seconds: f64,
) {
    let mode = if job.spec.is_indexed() {
        "Indexed"
    } else {
        "NonIndexed"
    };
    let labels = [mode, if failed { "error" } else { "success" }, action];
    let duration = &metrics.job_sync_duration;
    duration.with_label_values(&labels).observe(seconds);
    metrics.job_syncs.with_label_values(&labels).inc();
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
