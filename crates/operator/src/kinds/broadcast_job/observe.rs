//! What BroadcastJobs look like from outside: gauges and the debug page.

use std::collections::HashMap;

use carillon_plan::broadcast_job::{BroadcastJob, state};

use super::metrics::{BroadcastJobMetrics, JOB_PHASES, NODE_STATES};
use crate::store::{Store, Tables};

/// Sets the gauges that are counted when somebody looks.
pub(super) fn measure(store: &Store, metrics: &BroadcastJobMetrics) {
    let tables = store.read();
    let mut nodes: HashMap<&str, i64> = NODE_STATES.map(|state| (state, 0)).into();
    let mut phases: HashMap<&str, i64> = JOB_PHASES.map(|phase| (phase, 0)).into();
    let mut refused: HashMap<String, i64> = HashMap::new();
    for job in tables.broadcast_jobs.iter() {
        *phases.entry(state(&job.status)).or_default() += 1;
        if !job.is_unfinished() {
            continue;
        }
        let status = &job.status;
        for entry in &status.refused {
            *refused.entry(entry.reason.clone()).or_default() += i64::from(entry.count);
        }
        let left_out: i32 = status.refused.iter().map(|refused| refused.count).sum();
        let waiting = status.desired - status.active - status.succeeded - status.failed;
        for (state, count) in [
            ("eligible", status.desired),
            ("refused", left_out),
            ("active", status.active),
            ("succeeded", status.succeeded),
            ("failed", status.failed),
            ("waiting", waiting.max(0)),
        ] {
            *nodes.entry(state).or_default() += i64::from(count);
        }
    }
    drop(tables);
    for (state, count) in nodes {
        metrics.nodes.with_label_values(&[state]).set(count);
    }
    for (phase, count) in phases {
        metrics.jobs.with_label_values(&[phase]).set(count);
    }
    metrics.refused_nodes.reset();
    for (reason, count) in refused {
        metrics
            .refused_nodes
            .with_label_values(&[&reason])
            .set(count);
    }
}

/// What `/debug/store` shows of BroadcastJobs.
pub(super) fn debug(store: &Store) -> serde_json::Value {
    let jobs: Vec<_> = store.read().broadcast_jobs.iter().cloned().collect();
    // Borrowed anew for each, so that planning goes on between them.
    let jobs = jobs.iter().map(|job| show(&store.read(), job));
    serde_json::json!(jobs.collect::<Vec<_>>())
}

fn show(tables: &Tables, job: &BroadcastJob) -> serde_json::Value {
    let key = &job.meta.owner;
    let slices = tables
        .broadcast_jobs
        .ledger(key)
        .map_or(&[][..], |ledger| &ledger.slices);
    serde_json::json!({
        "namespace": key.namespace,
        "name": key.name,
        "uid": key.uid.to_string(),
        "generation": job.meta.generation,
        "resourceVersion": job.meta.rv.to_string(),
        "phase": state(&job.status),
        "pods": tables.broadcast_jobs.pods(key).map_or(0, |pods| pods.len()),
        "slices": slices.iter().map(|slice| serde_json::json!({
            "index": slice.index,
            "resourceVersion": slice.rv.to_string(),
            "sealed": slice.sealed,
            "results": slice.records.len(),
        })).collect::<Vec<_>>(),
    })
}
