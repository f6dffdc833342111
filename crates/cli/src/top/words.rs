//! What is said beside the squares. Everything that others wrote is made harmless here.

use carillon_dashboard::page::Address;
use carillon_plan::printable::one_line;
use carillon_plan::view::broadcast_job::estimate::Estimate;
use carillon_plan::view::broadcast_job::pace::Pace;
use carillon_plan::view::squares::{Counts, Square};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::view::View;
use crate::render::{duration, eta};

/// Runs of a CronJob that are listed.
const RUNS: usize = 12;
const SEPARATOR: &str = "   ";

/// How many nodes stand where, of a page or of a row of the first one.
pub(super) fn counts(of: &Value) -> Option<Counts> {
    serde_json::from_value(of["counts"].clone()).ok()
}

fn text(value: &Value) -> String {
    one_line(value.as_str().unwrap_or_default()).into_owned()
}

/// `BroadcastJob ops/fix`.
pub(super) fn name(row: &Value) -> String {
    format!(
        "{} {}/{}",
        text(&row["kind"]),
        text(&row["namespace"]),
        text(&row["name"])
    )
}

/// Where an object stands.
pub(super) fn state(row: &Value) -> String {
    let far = counts(row).map(|counts| format!("{}/{} ", counts.done, counts.nodes));
    let far = far.unwrap_or_default();
    format!("{far}{}", text(&row["headline"]))
}

/// What is looked at, and where it stands.
pub(super) fn title(at: &Address, head: &Value, now: Timestamp) -> (String, String) {
    let Address::Object(at) = at else {
        let where_ = match head["namespace"].as_str() {
            Some(namespace) => format!("namespace {namespace}"),
            None => "all namespaces".to_owned(),
        };
        let rows = head["rows"].as_array().map_or(0, Vec::len);
        let state = if head["loading"] == true {
            "being read".to_owned()
        } else {
            format!("{rows} objects")
        };
        return (where_, state);
    };
    let name = format!("{} {}/{}", at.resource.kind, at.namespace, at.name);
    let state = match head["page"].as_str() {
        None | Some("loading") => "being read".to_owned(),
        Some("missing") => "is not there".to_owned(),
        _ => {
            let created: Option<Timestamp> =
                head["created"].as_str().and_then(|at| at.parse().ok());
            let age = created.map(|at| duration(now.duration_since(at).as_secs()));
            let age = age.map(|age| format!(" (created {age} ago)"));
            format!("{}{}", text(&head["headline"]), age.unwrap_or_default())
        }
    };
    (name, state)
}

/// How many nodes stand where, and when it may be done.
pub(super) fn summary(head: &Value) -> String {
    let Some(counts) = counts(head) else {
        return String::new();
    };
    let Counts {
        nodes,
        done,
        active,
        failed,
        waiting,
        left_out,
    } = counts;
    let mut said = format!(
        "{nodes} nodes: {done} done, {active} active, {failed} failed, {waiting} waiting, {left_out} left out"
    );
    if let Ok(estimate) = Estimate::deserialize(&head["progress"]) {
        said = format!("{said}{SEPARATOR}ETA {}", eta(Some(estimate), true));
    }
    said
}

/// What needs attention most: what cannot be read, who is slow, what failed, what is waited for.
pub(super) fn note(view: &View, now: Timestamp) -> String {
    let head = &view.page.head;
    let list = |field: &str| head[field].as_array().map_or(&[][..], Vec::as_slice);
    let mut said = Vec::new();
    said.extend(list("sources").iter().find_map(unread));
    said.extend(list("unreadable").first().map(text));
    said.extend(view.pace.as_ref().and_then(|pace| slow(pace, now)));
    if let Some(failure) = list("failures").first() {
        let nodes: Vec<String> = failure["nodes"]
            .as_array()
            .map_or(Vec::new(), |nodes| nodes.iter().map(text).collect());
        said.push(format!(
            "{}× {} ({})",
            failure["count"],
            text(&failure["sentence"]),
            nodes.join(", ")
        ));
    }
    let waiting = head["progress"]["waitingFor"].as_array();
    if let Some(first) = waiting.and_then(|all| all.first()) {
        said.push(format!(
            "waits for {} {}",
            first["count"],
            text(&first["reason"])
        ));
    }
    said.join(SEPARATOR)
}

/// What cannot be read, and why. What is being read will come by itself.
fn unread(source: &Value) -> Option<String> {
    let why = match source["state"].as_str()? {
        "notAllowed" => "you may not read them",
        "notServed" => "the API server does not know them",
        "lost" | "notYet" => "the API server does not answer",
        _ => return None,
    };
    Some(format!("{}: {why}", text(&source["what"])))
}

/// `slow: node-17 runs 3m, 6.1× the median`.
fn slow(pace: &Pace, now: Timestamp) -> Option<String> {
    let told: Vec<String> = pace
        .stragglers(now)
        .map(|(one, times)| {
            let runs = duration(now.duration_since(one.started).as_secs());
            format!(
                "{} runs {runs}, {times:.1}× the median",
                one_line(&one.node)
            )
        })
        .collect();
    (!told.is_empty()).then(|| format!("slow: {}", told.join("; ")))
}

/// One node.
pub(super) fn square(square: &Square) -> String {
    let look = &square.look;
    let parts = [&square.node, &look.place, &look.reason, &look.words];
    let parts = parts.into_iter().filter(|part| !part.is_empty());
    let parts: Vec<_> = parts.map(|part| one_line(part)).collect();
    parts.join("  ")
}

/// What is said of an object that has no squares.
pub(super) fn lines(head: &Value, now: Timestamp) -> String {
    let mut lines = Vec::new();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    if let Some(schedule) = head["schedule"].as_str() {
        lines.push(format!("schedule  {}", one_line(schedule)));
    }
    for run in list(&head["outlook"]["runs"]).iter().take(3) {
        let (local, yours) = (text(&run["local"]), text(&run["yours"]));
        lines.push(format!("next      {local}{SEPARATOR}{yours}"));
    }
    for run in list(&head["runs"]).iter().rev().take(RUNS) {
        let started: Option<Timestamp> = run["started"].as_str().and_then(|at| at.parse().ok());
        let age = started.map(|at| format!("{} ago", duration(now.duration_since(at).as_secs())));
        lines.push(format!(
            "run       {:<10} {:<12} {}",
            text(&run["outcome"]),
            age.unwrap_or_default(),
            text(&run["name"])
        ));
    }
    for condition in list(&head["conditions"]) {
        lines.push(format!(
            "{}={}  {}  {}",
            text(&condition["type"]),
            text(&condition["status"]),
            text(&condition["reason"]),
            text(&condition["message"])
        ));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use carillon_dashboard::page::{Address, Page};
    use serde_json::json;

    use super::*;

    #[test]
    fn what_cannot_be_read_is_noted_before_all_else() {
        let noted = |head: Value| {
            let mut view = View::new(Address::Overview);
            view.show(Page { head, fleet: None });
            note(&view, Timestamp::UNIX_EPOCH)
        };
        let failures = json!([{"count": 2, "sentence": "Failed: exit 1", "nodes": ["n1"]}]);
        assert_eq!(
            noted(json!({"failures": failures})),
            "2× Failed: exit 1 (n1)"
        );
        let all = noted(json!({
            "sources": [{"what": "nodes", "state": "notAllowed"}],
            "unreadable": ["NodeResultSlice fix-0: state: Teleported"],
            "failures": failures,
        }));
        let parts: Vec<&str> = all.split(SEPARATOR).collect();
        assert_eq!(
            parts,
            [
                "nodes: you may not read them",
                "NodeResultSlice fix-0: state: Teleported",
                "2× Failed: exit 1 (n1)"
            ]
        );
    }
}
