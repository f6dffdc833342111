//! What Jobs look like from outside: what a sync was for, what the watches have told, and the debug
//! page.

use carillon_plan::job::Job;
use carillon_plan::job::action::{Action, Plan};

use super::metrics::JobMetrics;
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

/// Counts what only the watches tell, just before it is read.
pub(super) fn measure(store: &Store, metrics: &JobMetrics) {
    let tables = store.read();
    let counts = tables.jobs.counts();
    let events = [("add", counts.ever_kept), ("delete", counts.released())];
    for (event, so_far) in events {
        let counter = metrics.tracking_finalizer.with_label_values(&[event]);
        counter.inc_by(so_far.saturating_sub(counter.get()));
    }
    for (name, so_far) in &counts.managed_by {
        let counter = metrics.by_external_controller.with_label_values(&[name]);
        counter.inc_by(so_far.saturating_sub(counter.get()));
    }
}

/// What `/debug/store` shows of Jobs.
pub(super) fn debug(store: &Store) -> serde_json::Value {
    let jobs: Vec<_> = store.read().jobs.iter().cloned().collect();
    // Borrowed anew for each, so that planning goes on between them.
    let jobs = jobs.iter().map(|job| {
        let tables = store.read();
        let owner = &job.meta.owner;
        let pods = tables.jobs.pods(owner).into_iter().flatten();
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
            // Of one that somebody else serves that is not known.
            "finished": tables.jobs.is_ours(job).then(|| job.has_finished()),
            "pods": pods.collect::<Vec<_>>(),
        })
    });
    serde_json::json!(jobs.collect::<Vec<_>>())
}
