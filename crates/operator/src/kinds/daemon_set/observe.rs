//! What the caches look like from outside: gauges and the debug page.

use std::collections::HashMap;

use carillon_api::condition::types::{AVAILABLE, READY, STALLED};
use carillon_plan::condition;
use carillon_plan::daemon_set::DaemonSet;
use carillon_plan::daemon_set::spec::Update;
use jiff::{SignedDuration, Timestamp};

use super::metrics::{DaemonSetMetrics, STATES};
use crate::store::Store;

/// After so long a DaemonSet that lacks pods needs a person. An update that goes well may make it lack some for a while:
/// those of many DaemonSets in turn are nothing to be told of.
const UNAVAILABLE_FOR: SignedDuration = SignedDuration::from_mins(15);

/// Sets the gauges that are counted when somebody looks.
pub(super) fn measure(store: &Store, metrics: &DaemonSetMetrics, now: Timestamp) {
    let tables = store.read();
    let mut states: HashMap<&str, i64> = STATES.map(|state| (state, 0)).into();
    let mut unavailable = 0;
    for set in tables.daemon_sets.iter() {
        *states.entry(state(set)).or_default() += 1;
        unavailable += i64::from(is_unavailable(set, now));
    }
    metrics.unavailable.set(unavailable);
    for (state, count) in states {
        metrics.daemon_sets.with_label_values(&[state]).set(count);
    }
}

/// Old pods that are kept on purpose are no update. Of apps/v1 only the numbers say anything.
fn state(set: &DaemonSet) -> &'static str {
    let status = &set.status;
    let all = status.desired_number_scheduled;
    let updated = status.updated_number_scheduled.unwrap_or(0) >= all;
    let settled = (updated || set.spec.update == Update::OnDelete)
        && status.number_available.unwrap_or(0) >= all;
    let done = settled || condition::is_true(&status.conditions, READY);
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

/// More of its nodes are without an available pod than `maxUnavailable`, and have been for long. One of apps/v1 has no
/// conditions.
fn is_unavailable(set: &DaemonSet, now: Timestamp) -> bool {
    let available = condition::find(&set.status.conditions, AVAILABLE);
    let lacks = available.filter(|available| available.status == "False");
    !set.meta.deleting
        && lacks.is_some_and(|lacks| {
            now.duration_since(lacks.last_transition_time.0) >= UNAVAILABLE_FOR
        })
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

#[cfg(test)]
mod tests {
    use carillon_plan::meta::Meta;
    use carillon_plan::object_key::{ApiKind, DAEMON_SET, NATIVE_DAEMON_SET, ObjectKey};
    use serde_json::{Value, json};

    use super::*;

    fn set(kind: ApiKind, spec: &Value, status: &Value) -> DaemonSet {
        let uid = "4e0c5d6a-0b1c-4d2e-8f3a-000000000001".parse().unwrap();
        let meta = Meta::new(
            ObjectKey::of(kind, "ops", "agent", uid),
            Timestamp::UNIX_EPOCH,
        );
        DaemonSet::read(meta, None, spec, status)
    }

    fn condition(type_: &str, status: &str) -> Value {
        json!({"type": type_, "status": status, "reason": "R", "message": "",
               "lastTransitionTime": "2026-01-01T00:00:00Z"})
    }

    #[test]
    fn a_set_is_unavailable_if_its_condition_says_so_whatever_its_state() {
        for (conditions, expected) in [
            (json!([]), false),
            (json!([condition("Available", "True")]), false),
            (json!([condition("Available", "Unknown")]), false),
            (
                json!([condition("Ready", "False"), condition("Available", "False")]),
                true,
            ),
            (
                json!([
                    condition("Available", "False"),
                    condition("Stalled", "True")
                ]),
                true,
            ),
        ] {
            let status = json!({"desiredNumberScheduled": 3, "conditions": conditions});
            let set = set(DAEMON_SET, &json!({}), &status);
            let now = "2026-01-01T00:15:00Z".parse().unwrap();
            assert_eq!(is_unavailable(&set, now), expected, "{status}");
        }
    }

    /// Sets that are updated in turn are not taken for one that lacks pods all the time.
    #[test]
    fn a_set_is_unavailable_after_15_minutes_and_until_it_is_deleted() {
        let status = json!({"conditions": [condition("Available", "False")]});
        let mut set = set(DAEMON_SET, &json!({}), &status);
        let at = |time: &str| format!("2026-01-01T{time}Z").parse().unwrap();
        assert!(!is_unavailable(&set, at("00:14:59")));
        assert!(is_unavailable(&set, at("00:15:00")));
        set.meta.deleting = true;
        assert!(!is_unavailable(&set, at("00:15:00")));
    }

    #[test]
    fn a_set_that_keeps_old_pods_on_purpose_is_complete() {
        let numbers = |updated: i32, available: i32| json!({"desiredNumberScheduled": 3, "updatedNumberScheduled": updated, "numberAvailable": available});
        let with = |mut status: Value, conditions: Value| {
            status["conditions"] = conditions;
            status
        };
        let on_delete = json!({"updateStrategy": {"type": "OnDelete"}});
        let paused = json!({"updateStrategy": {"rollingUpdate": {"paused": true}}});
        let ready = json!([condition("Ready", "True")]);
        let stalled = json!([condition("Stalled", "True"), condition("Ready", "False")]);
        for (kind, spec, status, expected) in [
            (DAEMON_SET, json!({}), numbers(3, 3), "complete"),
            (DAEMON_SET, json!({}), numbers(1, 3), "updating"),
            (
                DAEMON_SET,
                json!({}),
                with(numbers(1, 3), ready),
                "complete",
            ),
            (
                DAEMON_SET,
                json!({}),
                with(numbers(1, 3), stalled),
                "stalled",
            ),
            (DAEMON_SET, paused, numbers(1, 3), "paused"),
            (NATIVE_DAEMON_SET, json!({}), numbers(1, 3), "updating"),
            (
                NATIVE_DAEMON_SET,
                on_delete.clone(),
                numbers(1, 3),
                "complete",
            ),
            (NATIVE_DAEMON_SET, on_delete, numbers(1, 2), "updating"),
        ] {
            let set = set(kind, &spec, &status);
            assert_eq!(state(&set), expected, "{kind:?} {spec} {status}");
        }
    }
}
