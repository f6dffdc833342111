//! The page of a native Job.

use std::collections::BTreeSet;

use carillon_plan::view::job::{headline, index_squares};
use carillon_plan::view::squares::Counts;
use serde_json::{Value, json};

use super::around::head;
use super::{Fleet, ObjectAddress, Page, Sources, missing};
use crate::cluster::{Cluster, JOBS};

pub(super) fn page(cluster: &Cluster, at: &ObjectAddress) -> Page {
    let mut sources = Sources::default();
    let jobs = cluster.all(JOBS);
    sources.add(JOBS.name(), jobs.reading());
    let Some(object) = jobs.get(&at.namespace, &at.name) else {
        return missing(at, &sources);
    };
    let active = active_indexes(cluster, at, &object, &mut sources);
    if sources.loading() {
        return missing(at, &sources);
    }
    let squares = index_squares(&object, |index| active.contains(&index));
    let fleet = squares.map(Fleet::alone);
    let counts = fleet
        .as_ref()
        .map_or_else(|| by_status(&object), Fleet::counts);
    let mut page = head(cluster, at, &object, &mut sources);
    page["page"] = "job".into();
    page["headline"] = headline(&object).0.into();
    page["counts"] = json!(counts);
    page["facts"] = facts(&object);
    page["verbs"] = json!([]);
    page["sources"] = sources.told();
    Page { head: page, fleet }
}

/// Indexes that have a pod which has not ended.
fn active_indexes(
    cluster: &Cluster,
    at: &ObjectAddress,
    object: &Value,
    sources: &mut Sources,
) -> BTreeSet<u32> {
    let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
    let table = cluster.open_indexes(&at.namespace, uid);
    sources.add("pods", table.reading());
    let indexes = table.map(|_, index| *index);
    indexes.into_iter().flatten().collect()
}

/// What the status counts. How many there will be is only known where `completions` says so.
pub(super) fn by_status(object: &Value) -> Counts {
    let (spec, status) = (&object["spec"], &object["status"]);
    let count = |field: &str| status[field].as_u64().unwrap_or(0) as usize;
    let (done, active) = (count("succeeded"), count("active"));
    let wanted = spec["completions"]
        .as_u64()
        .or_else(|| spec["parallelism"].as_u64());
    let wanted = (wanted.unwrap_or(1) as usize).max(done + active);
    let ended = headline(object).1;
    let left = wanted - done - active;
    Counts {
        nodes: wanted,
        done,
        active,
        failed: 0,
        waiting: if ended { 0 } else { left },
        left_out: if ended { left } else { 0 },
    }
}

fn facts(object: &Value) -> Value {
    let (spec, status) = (&object["spec"], &object["status"]);
    let text = |value: &Value| match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    json!([
        ["Completions", text(&spec["completions"])],
        ["Parallelism", text(&spec["parallelism"])],
        ["Completion mode", text(&spec["completionMode"])],
        ["Pods that failed", text(&status["failed"])],
        ["Backoff limit", text(&spec["backoffLimit"])],
    ])
}
