//! What the API has shown of a scenario, as facts that two Jobs can share.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{course, pods};
use crate::parity::plain::{leaves, plain, without_chance};
use crate::parity::watched::Here;

/// Before the message of an event that stands for many.
const COMBINED: &str = "(combined from similar events): ";

/// All facts.
pub(crate) fn facts(here: &Here, namespace: &str) -> BTreeSet<String> {
    let mut facts = BTreeSet::new();
    let jobs: Vec<&Value> = here.seen("jobs").map(|seen| &seen.object).collect();
    if let Some(last) = jobs.last() {
        let last = leaves(&job(last), namespace);
        facts.extend(
            last.iter()
                .map(|(path, value)| format!("job {path} = {value}")),
        );
    }
    facts.insert(format!("job gone = {}", here.is_gone()));
    facts.extend(times(&jobs));
    facts.extend(course::facts(&jobs));
    facts.extend(pods::facts(here, namespace));
    facts.extend(events(here, namespace));
    facts
}

fn job(job: &Value) -> Value {
    let mut job = without_chance(job);
    if let Some(spec) = job["spec"].as_object_mut() {
        spec.remove("managedBy");
    }
    let conditions = job["status"]["conditions"].take();
    let conditions: BTreeMap<String, Value> = conditions
        .as_array()
        .into_iter()
        .flatten()
        .map(|condition| {
            let kind = condition["type"].as_str().unwrap_or_default();
            (kind.to_owned(), condition.clone())
        })
        .collect();
    job["status"]["conditions"] = json!(conditions);
    job
}

/// How times relate to each other.
fn times(jobs: &[&Value]) -> Vec<String> {
    let Some(status) = jobs.last().map(|job| &job["status"]) else {
        return Vec::new();
    };
    let mut facts = Vec::new();
    let mut latest = "";
    let mut in_order = true;
    for condition in status["conditions"].as_array().into_iter().flatten() {
        let kind = condition["type"].as_str().unwrap_or_default();
        let at = condition["lastTransitionTime"].as_str().unwrap_or_default();
        let is_probed = condition["lastProbeTime"] == condition["lastTransitionTime"];
        facts.push(format!("{kind}: probed when it changed = {is_probed}"));
        in_order &= kind == "Suspended" || latest <= at;
        latest = if kind == "Suspended" { latest } else { at };
        if kind == "Complete" {
            let is_close = is_close(&status["completionTime"], &condition["lastTransitionTime"]);
            facts.push(format!("completionTime is that of Complete = {is_close}"));
        }
        if kind == "Suspended" && condition["status"] == "False" {
            let is_close = is_close(&status["startTime"], &condition["lastTransitionTime"]);
            facts.push(format!("startTime is that of the resumption = {is_close}"));
        }
    }
    facts.push(format!(
        "conditions in the order of their times = {in_order}"
    ));
    facts
}

/// The clock is read for each of two times, and may turn a second in between.
fn is_close(one: &Value, other: &Value) -> bool {
    let second = |time: &Value| {
        let time: Option<Timestamp> = time.as_str()?.parse().ok();
        time.map(Timestamp::as_second)
    };
    let both = second(one).zip(second(other));
    both.is_some_and(|(one, other)| (one - other).abs() <= 1)
}

/// Events about the Job, each once: how often one is told, and from which number on many are
/// combined, is a matter of pace.
fn events(here: &Here, namespace: &str) -> BTreeSet<String> {
    let about_it = here
        .seen("events")
        .filter(|seen| seen.object["involvedObject"]["kind"] == "Job");
    about_it
        .map(|seen| {
            let text = |field: &str| seen.object[field].as_str().unwrap_or_default();
            let message = text("message");
            let message = message.strip_prefix(COMBINED).unwrap_or(message);
            format!(
                "event {} {}: {}",
                text("type"),
                text("reason"),
                plain(message, namespace)
            )
        })
        .collect()
}
