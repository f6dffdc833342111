//! Decisions made again: from what a flight recorder holds, and the objects as they were.

use std::collections::BTreeSet;
use std::sync::Arc;

use carillon_operator::controllers::{Irreproducible, broadcast_job};
use carillon_operator::flight_recorder::{Decision, FlightRecorder};
use carillon_operator::gate::Kind;
use carillon_oracle::determinism::Decision as Replayed;
use carillon_oracle::{History, Key};
use serde_json::Value;

/// Longer histories are left alone: each decision looks at the whole of one.
const LONGEST: usize = 3000;

/// Every decision that was recorded and can be made again.
pub fn all(history: &History, flights: &[Arc<FlightRecorder>]) -> Vec<Replayed> {
    if history.steps.len() > LONGEST {
        return Vec::new();
    }
    let uids: BTreeSet<&str> = history
        .steps
        .iter()
        .filter(|step| *step.key.resource == *"broadcastjobs.carillon.dev")
        .filter_map(|step| step.new.as_ref()?["metadata"]["uid"].as_str())
        .collect();
    let uids: Vec<_> = uids.iter().filter_map(|uid| uid.parse().ok()).collect();
    let of = |flights: &FlightRecorder| -> Vec<Decision> {
        let decisions = uids.iter().map(|uid| flights.decisions(*uid));
        decisions.flatten().collect()
    };
    let decisions = flights.iter().flat_map(|flights| of(flights));
    decisions
        .filter_map(|decision| again(history, &decision))
        .collect()
}

/// `None` when the record says itself that it is not enough.
fn again(history: &History, decision: &Decision) -> Option<Replayed> {
    let job = Key {
        resource: "broadcastjobs.carillon.dev".into(),
        namespace: decision.namespace.as_str().into(),
        name: decision.name.as_str().into(),
    };
    let objects = Kind::ALL.into_iter().flat_map(|kind| {
        let seen = decision.seen.get(kind.word()).copied().unwrap_or(0);
        let ours = objects(history, kind, seen, &decision.uid);
        ours.into_iter().map(move |object| (kind, object))
    });
    let replayed = match broadcast_job::replay(objects, decision) {
        Ok(digest) => digest,
        Err(Irreproducible::Incomplete(_)) => return None,
        Err(error) => format!("cannot be made again: {error}"),
    };
    Some(Replayed {
        at: decision.now,
        job,
        recorded: decision.digest.clone(),
        replayed,
    })
}

/// The objects of a kind that concern the job, as they were at a revision.
fn objects(history: &History, kind: Kind, revision: u64, uid: &str) -> Vec<Value> {
    let label = |object: &Value| {
        let labels = &object["metadata"]["labels"];
        labels["carillon.dev/broadcastjob-uid"] == uid || object["metadata"]["uid"] == uid
    };
    let of_kind = |key: &Key| key.resource.split('.').next() == Some(kind.word());
    let state = history.state_at(revision);
    let objects = state.iter().filter(|(key, _)| of_kind(key));
    objects
        .map(|(_, object)| object)
        .filter(|object| kind == Kind::Node || label(object))
        .map(|object| (**object).clone())
        .collect()
}
