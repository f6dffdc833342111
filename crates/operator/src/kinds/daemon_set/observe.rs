//! What the caches look like from outside: gauges and the debug page.

use std::collections::HashMap;

use carillon_api::condition::types::STALLED;
use carillon_plan::condition;
use carillon_plan::daemon_set::DaemonSet;

use super::metrics::{DaemonSetMetrics, STATES};
use crate::store::Store;

/// Sets the gauges that are counted when somebody looks.
pub(super) fn measure(store: &Store, metrics: &DaemonSetMetrics) {
    let tables = store.read();
    let mut states: HashMap<&str, i64> = STATES.map(|state| (state, 0)).into();
    for set in tables.daemon_sets.iter() {
        *states.entry(state(set)).or_default() += 1;
    }
    for (state, count) in states {
        metrics.daemon_sets.with_label_values(&[state]).set(count);
    }
}

fn state(set: &DaemonSet) -> &'static str {
    let status = &set.status;
    let all = status.desired_number_scheduled;
    let done = status.updated_number_scheduled.unwrap_or(0) >= all
        && status.number_available.unwrap_or(0) >= all;
    if condition::is_true(&status.conditions, STALLED) {
        "stalled"
    } else if done {
        "complete"
    } else if set.spec.paused {
        "paused"
    } else {
        "updating"
    }
}

/// What `/debug/store` shows of DaemonSets.
pub(super) fn debug(store: &Store) -> serde_json::Value {
    let sets: Vec<_> = store.read().daemon_sets.iter().cloned().collect();
    // Borrowed anew for each, so that planning goes on between them.
    let sets = sets.iter().map(|set| {
        let tables = store.read();
        let owner = &set.meta.owner;
        let pods = tables.daemon_sets.pods(owner).into_iter().flatten();
        let pods = pods.map(|(name, pod)| {
            serde_json::json!({
                "name": name,
                "node": pod.node.as_deref(),
                "phase": format!("{:?}", pod.phase),
                "ready": pod.ready,
                "deletion": pod.deletion,
                "revision": pod.revision(),
            })
        });
        let revisions = tables.daemon_sets.revisions(owner).into_iter().flatten();
        let revisions = revisions
            .map(|(name, revision)| serde_json::json!({"name": name, "revision": revision.number}));
        serde_json::json!({
            "apiVersion": owner.api_version,
            "namespace": owner.namespace,
            "name": owner.name,
            "uid": owner.uid.to_string(),
            "generation": set.meta.generation,
            "resourceVersion": set.meta.rv.to_string(),
            "state": state(set),
            "pods": pods.collect::<Vec<_>>(),
            "revisions": revisions.collect::<Vec<_>>(),
        })
    });
    serde_json::json!(sets.collect::<Vec<_>>())
}
