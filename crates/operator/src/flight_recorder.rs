//! The last decisions about each object, and what they were made from.
//!
//! A plan depends on nothing but its snapshot and the time. So the versions of the objects that were
//! read, the time and the few answers kept in memory are enough to make it again; the digest tells
//! whether it is the same. Kept in memory only, in bounds, and read on the debug port.

mod decision;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use carillon_plan::ObjectKey;
use carillon_plan::object_key::ApiKind;
use serde_json::{Value, json};

pub use self::decision::{Acts, Decision, Outcome, StepSummary, summary};

/// Decisions kept of one object.
const DECISIONS: usize = 16;
/// Objects kept; the one decided about longest ago goes first.
const OBJECTS: usize = 1024;
/// Bytes kept of all objects together: names and messages of others are in there.
const BYTES: usize = 32 << 20;

/// The ring of each object.
#[derive(Debug, Default)]
pub struct FlightRecorder(Mutex<Flights>);

#[derive(Debug, Default)]
struct Flights {
    sequence: u64,
    objects: HashMap<Arc<ObjectKey>, VecDeque<Kept>>,
    /// Of the texts in it.
    bytes: usize,
}

/// A decision as it is kept: as text it takes a third of what its parts take each by itself.
#[derive(Clone, Debug)]
struct Kept {
    sequence: u64,
    repeated: u64,
    is_idle: bool,
    text: Box<str>,
    outcome: Option<Box<Outcome>>,
}

impl Kept {
    fn new(decision: &Decision) -> Self {
        let text = serde_json::to_string(decision).unwrap_or_default();
        Self {
            sequence: decision.sequence,
            repeated: decision.repeated,
            is_idle: decision.is_idle(),
            text: text.into(),
            outcome: None,
        }
    }

    fn decision(&self) -> Decision {
        let mut decision: Decision = serde_json::from_str(&self.text).unwrap_or_default();
        decision.outcome = self.outcome.as_deref().cloned();
        decision
    }
}

impl FlightRecorder {
    /// Keeps a decision. Its number, under which the outcome is added later.
    pub fn record(&self, key: &Arc<ObjectKey>, mut decision: Decision) -> u64 {
        let mut flights = self.flights();
        let flights = &mut *flights;
        flights.sequence += 1;
        decision.sequence = flights.sequence;
        let ring = flights.objects.entry(key.clone()).or_default();
        let before = bytes(ring);
        // An object that is looked at again and again without need must not push out the decision
        // that led there.
        if let Some(last) = ring.back().filter(|last| last.is_idle)
            && decision.is_idle()
        {
            decision.repeated = last.repeated + 1;
            ring.pop_back();
        }
        if ring.len() == DECISIONS {
            ring.pop_front();
        }
        ring.push_back(Kept::new(&decision));
        flights.bytes = flights.bytes + bytes(ring) - before;
        flights.make_room();
        flights.sequence
    }

    /// Adds what became of a decision, if it is still there.
    pub fn add_outcome(&self, key: &ObjectKey, sequence: u64, outcome: Outcome) {
        let mut flights = self.flights();
        let mut ring = flights.objects.get_mut(key).into_iter().flatten().rev();
        if let Some(decision) = ring.find(|decision| decision.sequence == sequence) {
            decision.outcome = Some(Box::new(outcome));
        }
    }

    /// The decisions about an object, oldest first.
    pub fn decisions(&self, key: &ObjectKey) -> Vec<Decision> {
        let ring = self.flights().objects.get(key).cloned();
        let ring = ring.unwrap_or_default();
        ring.iter().map(Kept::decision).collect()
    }

    /// The last decision about each object, and how many are kept. Only copied under the lock, for who
    /// plans waits for it.
    fn last_of_each(&self) -> Vec<(Arc<ObjectKey>, Decision, usize)> {
        let last = |(key, ring): (&Arc<ObjectKey>, &VecDeque<Kept>)| {
            let last = ring.back()?.clone();
            Some((key.clone(), last, ring.len()))
        };
        let kept: Vec<_> = self.flights().objects.iter().filter_map(last).collect();
        let read =
            |(key, last, length): (Arc<ObjectKey>, Kept, usize)| (key, last.decision(), length);
        kept.into_iter().map(read).collect()
    }

    /// The decisions about all objects of a kind, one object after the other.
    pub fn of_kind(&self, kind: ApiKind) -> Vec<Decision> {
        let flights = self.flights();
        let rings = flights.objects.iter();
        let rings = rings.filter(|(key, _)| (key.api_version, key.kind) == kind);
        let rings: BTreeMap<_, _> = rings.collect();
        let all = rings.into_values().flatten();
        all.map(Kept::decision).collect()
    }

    /// What `/debug/flights` shows: with `uid=` or `namespace=` and `name=` in the query, the
    /// decisions about these objects; without, which objects there are.
    pub fn page(&self, query: &str) -> Value {
        let wanted = |field: &str| {
            query.split('&').find_map(|pair| {
                let (key, value) = pair.split_once('=')?;
                (key == field).then_some(value)
            })
        };
        let (uid, namespace, name) = (wanted("uid"), wanted("namespace"), wanted("name"));
        let is = |wanted: Option<&str>, found: &str| wanted.is_none_or(|wanted| wanted == found);
        let mut rings: Vec<_> = self.last_of_each();
        rings.retain(|(_, last, _)| {
            is(uid, &last.uid) && is(namespace, &last.namespace) && is(name, &last.name)
        });
        rings.sort_by_key(|(_, last, _)| last.sequence);
        let full = uid.is_some() || name.is_some();
        let objects = rings.into_iter().map(|(of, last, length)| {
            let decisions = if full {
                json!(self.decisions(&of))
            } else {
                json!(length)
            };
            json!({
                "kind": last.kind, "namespace": last.namespace, "name": last.name, "uid": last.uid,
                "decisions": decisions,
            })
        });
        json!({"objects": objects.collect::<Vec<_>>()})
    }

    fn flights(&self) -> MutexGuard<'_, Flights> {
        // A record that is half made is better than none.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn bytes(ring: &VecDeque<Kept>) -> usize {
    ring.iter().map(|kept| kept.text.len()).sum()
}

impl Flights {
    fn make_room(&mut self) {
        while self.objects.len() > OBJECTS || self.bytes > BYTES {
            let last = |ring: &VecDeque<Kept>| ring.back().map(|kept| kept.sequence);
            let oldest = self.objects.iter().min_by_key(|(_, ring)| last(ring));
            let Some(key) = oldest.map(|(key, _)| key.clone()) else {
                return;
            };
            let ring = self.objects.remove(&key);
            self.bytes -= ring.as_ref().map_or(0, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use carillon_plan::object_key::JOB;

    fn key(n: usize) -> Arc<ObjectKey> {
        let uid = format!("4e0c5d6a-0b1c-4d2e-8f3a-{n:012x}");
        ObjectKey::of(JOB, "ops", format!("job-{n}"), uid.parse().unwrap())
    }

    fn decision(n: usize, steps: usize) -> Decision {
        Decision {
            namespace: "ops".to_owned(),
            name: format!("job-{n}"),
            uid: key(n).uid.to_string(),
            steps: vec![StepSummary::default(); steps],
            ..Decision::default()
        }
    }

    #[test]
    fn an_object_keeps_its_last_decisions_and_idle_ones_count_as_one() {
        let recorder = FlightRecorder::default();
        for _ in 0..20 {
            recorder.record(&key(1), decision(1, 1));
        }
        for _ in 0..9 {
            recorder.record(&key(1), decision(1, 0));
        }
        let kept = recorder.decisions(&key(1));
        let found: Vec<_> = kept.iter().map(|d| (d.sequence, d.repeated)).collect();
        assert_eq!((found.len(), found[0], found[15]), (16, (6, 0), (29, 8)));
    }

    #[test]
    fn the_object_decided_about_longest_ago_makes_room() {
        let recorder = FlightRecorder::default();
        for n in 0..OBJECTS {
            recorder.record(&key(n), decision(n, 1));
        }
        recorder.record(&key(0), decision(0, 1));
        recorder.record(&key(OBJECTS), decision(OBJECTS, 1));
        assert_eq!(recorder.decisions(&key(0)).len(), 2);
        assert!(recorder.decisions(&key(1)).is_empty());
        assert_eq!(recorder.flights().objects.len(), OBJECTS);
    }

    #[test]
    fn the_decisions_of_all_objects_together_are_bounded_by_bytes() {
        let recorder = FlightRecorder::default();
        let large = |n| Decision {
            refused: Some("x".repeat(BYTES / 64)),
            ..decision(n, 1)
        };
        for n in 0..100 {
            recorder.record(&key(n), large(n));
        }
        let bytes = recorder.flights().bytes;
        assert!(bytes <= BYTES && bytes > BYTES / 2, "{bytes}");
        assert!(recorder.decisions(&key(0)).is_empty());
        assert_eq!(recorder.decisions(&key(99)).len(), 1);
    }

    #[test]
    fn an_outcome_is_added_to_its_decision_and_read_by_uid_or_by_name() {
        let recorder = FlightRecorder::default();
        let sequence = recorder.record(&key(1), decision(1, 1));
        recorder.record(&key(1), decision(1, 1));
        recorder.record(&key(2), decision(2, 1));
        let outcome = Outcome {
            writes: 7,
            ..Outcome::default()
        };
        recorder.add_outcome(&key(1), sequence, outcome);
        for query in [&format!("uid={}", key(1).uid), "namespace=ops&name=job-1"] {
            let page = recorder.page(query);
            assert_eq!(page["objects"].as_array().map(Vec::len), Some(1));
            let decisions = &page["objects"][0]["decisions"];
            assert_eq!(decisions[0]["outcome"]["writes"], 7, "{query}");
            assert!(decisions[1].get("outcome").is_none());
        }
        assert_eq!(recorder.page("")["objects"][1]["decisions"], 1);
        assert_eq!(recorder.page("name=other")["objects"], json!([]));
    }
}
