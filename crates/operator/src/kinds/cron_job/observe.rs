//! What the caches look like from outside: gauges and the debug page.

use std::collections::HashMap;

use carillon_api::condition::types::STALLED;
use carillon_plan::condition;
use carillon_plan::cron_job::CronJob;

use super::metrics::{CRON_JOB_STATES, CronJobMetrics};
use crate::store::Store;

/// Sets the gauges that are counted when somebody looks.
pub(super) fn measure(store: &Store, metrics: &CronJobMetrics) {
    let tables = store.read();
    let mut states: HashMap<&str, i64> = CRON_JOB_STATES.map(|state| (state, 0)).into();
    let mut missed = 0;
    let mut next = None;
    for cron in tables.cron_jobs.iter() {
        *states.entry(state(cron)).or_default() += 1;
        missed += cron.status.missed_runs;
        next = [next, next_start(cron)].into_iter().flatten().min();
    }
    for (state, count) in states {
        metrics.cron_jobs.with_label_values(&[state]).set(count);
    }
    metrics.missed_runs.set(missed);
    metrics.next_run.set(next.unwrap_or_default());
}

/// When the next run starts, in Unix seconds. Native ones do not store it.
fn next_start(cron: &CronJob) -> Option<i64> {
    let due = cron.status.next_schedule_time.as_ref()?;
    Some(due.0.as_second() + cron.offset.as_secs())
}

fn state(cron: &CronJob) -> &'static str {
    if cron.suspended {
        "suspended"
    } else if cron.timetable.is_err() || condition::is_true(&cron.status.conditions, STALLED) {
        "stalled"
    } else if cron.status.active.is_empty() {
        "waiting"
    } else {
        "running"
    }
}

/// What `/debug/store` shows of CronJobs.
pub(super) fn debug(store: &Store) -> serde_json::Value {
    let cron_jobs: Vec<_> = store.read().cron_jobs.iter().cloned().collect();
    // Borrowed anew for each, so that planning goes on between them.
    let cron_jobs = cron_jobs.iter().map(|cron| {
        let tables = store.read();
        let owner = &cron.meta.owner;
        let children = tables.cron_jobs.children(owner).into_iter().flatten();
        let children = children.map(|((kind, name), child)| {
            serde_json::json!({
                "kind": kind.kind(),
                "name": name,
                "held": child.held,
                "ended": child.ended.map(carillon_plan::cron_job::Ended::condition),
            })
        });
        serde_json::json!({
            "apiVersion": owner.api_version,
            "namespace": owner.namespace,
            "name": owner.name,
            "uid": owner.uid.to_string(),
            "generation": cron.meta.generation,
            "resourceVersion": cron.meta.rv.to_string(),
            "state": state(cron),
            "children": children.collect::<Vec<_>>(),
        })
    });
    serde_json::json!(cron_jobs.collect::<Vec<_>>())
}
