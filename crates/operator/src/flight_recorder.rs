//! The last decisions about each object, and what they were made from.
//!
//! A plan depends on nothing but its snapshot and the time. So the versions of the objects that were
//! read, the time and the few answers kept in memory are enough to make it again; the digest tells
//! whether it is the same. Kept in memory only, in bounds, and read on the debug port.

mod decision;

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use carillon_plan::Uid;
use serde_json::{Value, json};

pub use self::decision::{Acts, Decision, Outcome, StepSummary, summary};

/// Decisions kept of one object.
const DECISIONS: usize = 16;
/// Objects kept; the one decided about longest ago goes first.
const OBJECTS: usize = 1024;

/// The ring of each object.
#[derive(Debug, Default)]
pub struct FlightRecorder(Mutex<Flights>);

#[derive(Debug, Default)]
struct Flights {
    sequence: u64,
    objects: HashMap<Uid, VecDeque<Kept>>,
}

/// A decision as it is kept: as text it takes a third of what its parts take each by itself.
#[derive(Debug)]
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
    pub fn record(&self, uid: Uid, mut decision: Decision) -> u64 {
        let mut flights = self.flights();
        flights.sequence += 1;
        decision.sequence = flights.sequence;
        let ring = flights.objects.entry(uid).or_default();
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
        flights.make_room();
        flights.sequence
    }

    /// Adds what became of a decision, if it is still there.
    pub fn add_outcome(&self, uid: Uid, sequence: u64, outcome: Outcome) {
        let mut flights = self.flights();
        let mut ring = flights.objects.get_mut(&uid).into_iter().flatten().rev();
        if let Some(decision) = ring.find(|decision| decision.sequence == sequence) {
            decision.outcome = Some(Box::new(outcome));
        }
    }

    /// The decisions about an object, oldest first.
    pub fn decisions(&self, uid: Uid) -> Vec<Decision> {
        let flights = self.flights();
        let ring = flights.objects.get(&uid);
        ring.map_or_else(Vec::new, |ring| ring.iter().map(Kept::decision).collect())
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
        let flights = self.flights();
        let mut rings: Vec<_> = flights
            .objects
            .values()
            .filter_map(|ring| Some((ring.back()?.decision(), ring)))
            .filter(|(last, _)| {
                is(uid, &last.uid) && is(namespace, &last.namespace) && is(name, &last.name)
            })
            .collect();
        rings.sort_by_key(|(last, _)| last.sequence);
        let full = uid.is_some() || name.is_some();
        let objects = rings.into_iter().map(|(last, ring)| {
            let all = || ring.iter().map(Kept::decision).collect::<Vec<_>>();
            let decisions = if full {
                json!(all())
            } else {
                json!(ring.len())
            };
            json!({
                "namespace": last.namespace, "name": last.name, "uid": last.uid,
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

impl Flights {
    fn make_room(&mut self) {
        while self.objects.len() > OBJECTS {
            let last = |ring: &VecDeque<Kept>| ring.back().map(|kept| kept.sequence);
            let oldest = self.objects.iter().min_by_key(|(_, ring)| last(ring));
            let Some(uid) = oldest.map(|(uid, _)| *uid) else {
                return;
            };
            self.objects.remove(&uid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uid(n: usize) -> Uid {
        format!("4e0c5d6a-0b1c-4d2e-8f3a-{n:012x}").parse().unwrap()
    }

    fn decision(n: usize, steps: usize) -> Decision {
        Decision {
            namespace: "ops".to_owned(),
            name: format!("job-{n}"),
            uid: uid(n).to_string(),
            steps: vec![StepSummary::default(); steps],
            ..Decision::default()
        }
    }

    #[test]
    fn an_object_keeps_its_last_decisions_and_idle_ones_count_as_one() {
        let recorder = FlightRecorder::default();
        for _ in 0..20 {
            recorder.record(uid(1), decision(1, 1));
        }
        for _ in 0..9 {
            recorder.record(uid(1), decision(1, 0));
        }
        let kept = recorder.decisions(uid(1));
        let found: Vec<_> = kept.iter().map(|d| (d.sequence, d.repeated)).collect();
        assert_eq!((found.len(), found[0], found[15]), (16, (6, 0), (29, 8)));
    }

    #[test]
    fn the_object_decided_about_longest_ago_makes_room() {
        let recorder = FlightRecorder::default();
        for n in 0..OBJECTS {
            recorder.record(uid(n), decision(n, 1));
        }
        recorder.record(uid(0), decision(0, 1));
        recorder.record(uid(OBJECTS), decision(OBJECTS, 1));
        assert_eq!(recorder.decisions(uid(0)).len(), 2);
        assert!(recorder.decisions(uid(1)).is_empty());
        assert_eq!(recorder.flights().objects.len(), OBJECTS);
    }

    #[test]
    fn an_outcome_is_added_to_its_decision_and_read_by_uid_or_by_name() {
        let recorder = FlightRecorder::default();
        let sequence = recorder.record(uid(1), decision(1, 1));
        recorder.record(uid(1), decision(1, 1));
        recorder.record(uid(2), decision(2, 1));
        let outcome = Outcome {
            writes: 7,
            ..Outcome::default()
        };
        recorder.add_outcome(uid(1), sequence, outcome);
        for query in [&format!("uid={}", uid(1)), "namespace=ops&name=job-1"] {
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
