//! L7 and L8: where a cluster ends does not depend on the way.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::world::State;
use crate::invariant::Invariant;
use crate::object::{self, JOBS, PODS, Record, SLICES, list};
use crate::verdict::{Checked, Verdict, Violation};

/// Fields that no two runs have in common: identities, versions and times.
const INCIDENTAL: [&str; 18] = [
    "acknowledgedFailedNodes",
    "completionTime",
    "creationTimestamp",
    "deletionTimestamp",
    "generation",
    "lastTransitionTime",
    "managedFields",
    "nodeUID",
    "observedGeneration",
    "pausedSeconds",
    "podName",
    "podUID",
    "resourceVersion",
    "lastHandledResume",
    "startTime",
    "startedAt",
    "finishedAt",
    "uid",
];

/// L7, L8: two states are the same. For path independence (L7) they are the ends of a chain of edits
/// and of a fresh job with the last spec; for a rollback (L8) the state before a bad value and the
/// one after it was taken back.
///
/// Compared are the jobs by name, each with its spec, its status, its records (by node and attempt,
/// in whichever slice they are) and its pods (by node and attempt: their names follow from the uid of
/// the job). Not compared are identities, versions, times, conditions that are not True, and the
/// traces of a pause.
pub fn same_end(invariant: Invariant, one: &State, other: &State) -> Verdict {
    let (one, other) = (essence(one), essence(other));
    let mut checked = Checked::default();
    let keys: BTreeSet<_> = one.keys().chain(other.keys()).collect();
    for key in keys {
        let (here, there) = (one.get(key), other.get(key));
        checked.require(here == there, || Violation {
            invariant,
            rev: 0,
            at: Timestamp::UNIX_EPOCH,
            what: format!("{} is not the same in both ends", key.join(" ")),
            key: None,
            before: here.cloned().map(Into::into),
            after: there.cloned().map(Into::into),
            by: None,
        })?;
    }
    Ok(checked)
}

/// What is compared, under names that two runs have in common.
fn essence(state: &State) -> BTreeMap<Vec<String>, Value> {
    let mut jobs = BTreeMap::new();
    let mut attempts = BTreeMap::new();
    let mut essence = BTreeMap::new();
    for (key, object) in state.iter().filter(|(key, _)| &*key.resource == JOBS) {
        let name = format!("{}/{}", key.namespace, key.name);
        jobs.insert(object::uid(object).to_owned(), name.clone());
        let content = json!({"spec": object["spec"], "status": object["status"]});
        essence.insert(vec!["job".to_owned(), name], lasting(&content));
    }
    let owner = |object: &Value| {
        let uid = object::log_of(object).unwrap_or_default();
        jobs.get(uid).map_or("?", String::as_str).to_owned()
    };
    for slice in state
        .iter()
        .filter(|(key, _)| &*key.resource == SLICES)
        .map(|(_, s)| s)
    {
        for record in list(slice, &["results"]).iter().map(Record) {
            let of = vec![
                owner(slice),
                record.node().to_owned(),
                record.attempt().to_string(),
            ];
            attempts.insert(record.pod().to_owned(), of.clone());
            let key = [vec!["record".to_owned()], of].concat();
            essence.insert(key, lasting(record.0));
        }
    }
    for (key, pod) in state.iter().filter(|(key, _)| &*key.resource == PODS) {
        if object::job_of(pod).is_none() {
            continue;
        }
        let stray = || {
            vec![
                owner(pod),
                object::node_of(pod).to_owned(),
                "without record".to_owned(),
            ]
        };
        let of = attempts.get(&*key.name).cloned().unwrap_or_else(stray);
        let content = json!({"phase": object::phase(pod), "tracked": object::is_tracked(pod),
            "deleting": object::is_deleting(pod), "containers": pod["spec"]["containers"]});
        essence.insert([vec!["pod".to_owned()], of].concat(), lasting(&content));
    }
    essence
}

fn lasting(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields
                .iter()
                .filter(|(key, _)| !INCIDENTAL.contains(&key.as_str()));
            Value::Object(
                kept.map(|(k, v)| (k.clone(), lasting(v)))
                    .collect::<Map<_, _>>(),
            )
        }
        Value::Array(items) => {
            let is_condition =
                |item: &&Value| item.get("type").is_some() && item.get("status").is_some();
            let kept = items
                .iter()
                .filter(|item| !is_condition(item) || item["status"] == "True");
            Value::Array(kept.map(lasting).collect())
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invariant::Invariant::{L7, L8};
    use crate::scene::{Scene, pod_name};

    fn end(scene: &Scene) -> State {
        scene.history().end()
    }

    #[test]
    fn times_and_identities_make_no_difference() {
        let later = Scene::new()
            .later(1000)
            .node_with_uid("n2", "x")
            .node_with_uid("n1", "y")
            .job(json!({"parallelism": 2}))
            .edit("kubectl", (JOBS, "fix"), |job| {
                job["spec"]["parallelism"] = json!(1);
                job["metadata"]["generation"] = json!(2);
            })
            .condition("Paused", "False", "Resumed")
            .succeed("n2", 1)
            .succeed("n1", 1)
            .seal()
            .end("Complete", "AllNodesSucceeded", 2, 0);
        let same =
            same_end(L7, &end(&Scene::good()), &end(&later)).unwrap_or_else(|v| panic!("{v}"));
        assert_eq!(same.evaluations, 5, "a job, two records, two pods");
    }

    #[test]
    fn what_is_left_behind_is_found() {
        let good = end(&Scene::good());
        let name = pod_name("n1", 1);
        for (other, what) in [
            (
                Scene::good().condition("Stalled", "True", "X"),
                "job ops/fix",
            ),
            (
                Scene::good().record("n1", 1, |r| r["reason"] = json!("X")),
                "record ops/fix n1 1",
            ),
            (
                Scene::good().remove("kubectl", (PODS, &name)),
                "pod ops/fix n1 1",
            ),
            (
                Scene::good().node("n3").create("n3", 1),
                "pod ops/fix n3 without record",
            ),
        ] {
            let violation = same_end(L8, &good, &end(&other)).unwrap_err();
            assert!(violation.what.starts_with(what), "{violation}");
        }
    }

    #[test]
    fn a_state_is_the_one_after_its_revision() {
        let history = Scene::good().history();
        let before = history.state_at(history.steps.last().unwrap().rev - 2);
        assert!(same_end(L8, &before, &history.end()).is_err());
        assert!(same_end(L8, &history.end(), &history.state_at(u64::MAX)).is_ok());
    }
}
