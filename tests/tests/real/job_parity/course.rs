//! The states that a Job's status goes through.
//!
//! Two controllers that do the same gather events into different syncs: one writes 0, 1, 2 where
//! the other writes 0, 2. So a state between its neighbours is left out: what remains is where a
//! number begins, turns and ends.

use std::collections::BTreeSet;

use serde_json::Value;

/// Something that has states between others.
trait Between: PartialEq + Sized {
    fn is_between(&self, before: &Self, after: &Self) -> bool;
}

impl Between for Option<i64> {
    fn is_between(&self, before: &Self, after: &Self) -> bool {
        (before <= self && self <= after) || (before >= self && self >= after)
    }
}

/// Indexes. `None`: there is no such field.
#[derive(PartialEq)]
struct Indexes(Option<BTreeSet<u32>>);

impl Indexes {
    fn of(value: &Value) -> Self {
        let numbers = |part: &str| -> Option<Vec<u32>> {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            Some((first.parse().ok()?..=last.parse().ok()?).collect())
        };
        let text = value.as_str();
        Self(text.map(|text| text.split(',').filter_map(numbers).flatten().collect()))
    }
}

impl Between for Indexes {
    fn is_between(&self, before: &Self, after: &Self) -> bool {
        match (&before.0, &self.0, &after.0) {
            (None, Some(now), Some(after)) => now.is_subset(after),
            (Some(before), Some(now), Some(after)) => {
                (before.is_subset(now) && now.is_subset(after))
                    || (after.is_subset(now) && now.is_subset(before))
            }
            _ => false,
        }
    }
}

/// Leaves out what is between its neighbours, and repetitions.
fn turns<T: Between>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut turns: Vec<T> = Vec::new();
    for state in all {
        if turns.last() == Some(&state) {
            continue;
        }
        if let [.., before, last] = &turns[..]
            && last.is_between(before, &state)
        {
            turns.pop();
        }
        if turns.last() != Some(&state) {
            turns.push(state);
        }
    }
    turns
}

/// What is shown of the history of a Job.
pub(crate) fn facts(jobs: &[&Value]) -> Vec<String> {
    let mut facts = Vec::new();
    let states = || jobs.iter().map(|job| &job["status"]);
    for field in ["active", "terminating", "succeeded", "failed"] {
        let turns = turns(states().map(|status| status[field].as_i64()));
        let shown: Vec<String> = turns
            .iter()
            .map(|count| count.map_or("-".to_owned(), |count| count.to_string()))
            .collect();
        facts.push(format!("course of {field}: {}", shown.join(" ")));
    }
    // Between a sync and the next a pod may become ready and end: where it matters, a scenario waits
    // for it.
    let is_first_0 = states().find_map(|status| status["ready"].as_i64()) == Some(0);
    facts.push(format!("course of ready: begins with 0 = {is_first_0}"));
    for field in ["completedIndexes", "failedIndexes"] {
        let turns = turns(states().map(|status| Indexes::of(&status[field])));
        let shown: Vec<String> = turns
            .iter()
            .map(|indexes| format!("{:?}", indexes.0))
            .collect();
        facts.push(format!("course of {field}: {}", shown.join(" ")));
    }
    let mut start_times: Vec<&str> = Vec::new();
    let starts = states().map(|status| match status["startTime"].as_str() {
        None => "none".to_owned(),
        Some(time) => {
            let known = start_times.iter().position(|known| *known == time);
            let at = known.unwrap_or_else(|| {
                start_times.push(time);
                start_times.len() - 1
            });
            format!("#{at}")
        }
    });
    facts.push(format!("course of startTime: {}", each_once(starts)));
    facts.push(format!(
        "course of conditions: {}",
        each_once(states().map(conditions))
    ));
    facts.push(format!(
        "course of spec: {}",
        each_once(
            jobs.iter()
                .map(|job| job["metadata"]["generation"].to_string())
        )
    ));
    let mut known = Vec::new();
    for status in states() {
        let conditions = conditions(status);
        if known.last() != Some(&conditions) {
            if !known.is_empty() {
                facts.push(format!("with {conditions}: {}", numbers(status)));
            }
            known.push(conditions);
        }
    }
    for list in ["succeeded", "failed"] {
        let counted: BTreeSet<&str> = states()
            .filter_map(|status| status["uncountedTerminatedPods"][list].as_array())
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        facts.push(format!("ever uncounted as {list}: {}", counted.len()));
    }
    facts
}

/// The numbers that come with each new list of conditions. How many of the pods that have ended are
/// not counted yet is a matter of pace.
fn numbers(status: &Value) -> String {
    let fixed = ["active", "terminating"].map(|field| format!("{field} {}", status[field]));
    let uncounted = &status["uncountedTerminatedPods"];
    let ended = ["succeeded", "failed"].map(|field| {
        let listed = uncounted[field].as_array().map_or(0, Vec::len);
        let counted = status[field].as_u64().unwrap_or_default();
        format!("{field} {}", counted as usize + listed)
    });
    format!("{}, {}", fixed.join(", "), ended.join(", "))
}

/// The conditions with their reasons.
fn conditions(status: &Value) -> String {
    let conditions = status["conditions"].as_array();
    let shown = conditions.into_iter().flatten().map(|condition| {
        let text = |field: &str| condition[field].as_str().unwrap_or_default();
        format!("{}={} {}", text("type"), text("status"), text("reason"))
    });
    format!("[{}]", shown.collect::<Vec<_>>().join(", "))
}

fn each_once(all: impl Iterator<Item = String>) -> String {
    let mut all: Vec<String> = all.collect();
    all.dedup();
    all.join(" > ")
}

#[test]
fn what_is_between_its_neighbours_is_left_out() {
    let shown = |all: &[i64]| {
        turns(all.iter().copied().map(Some))
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
    };
    assert_eq!(shown(&[0, 1, 2, 2, 1, 1, 3]), [0, 2, 1, 3]);
    assert_eq!(shown(&[0, 2, 1, 3]), [0, 2, 1, 3]);
}
