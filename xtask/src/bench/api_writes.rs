//! What was written during a run, from the API server's audit log.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Seek, SeekFrom};

use anyhow::{Context, Result};
use carillon_testbed::{AuditEvent, Cluster};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

/// A place in the audit log.
#[derive(Clone, Copy)]
pub(super) struct Mark(u64);

/// The end of the audit log now.
pub(super) fn mark(cluster: &Cluster) -> Result<Mark> {
    let log = fs::metadata(cluster.audit_log()).context("the audit log")?;
    Ok(Mark(log.len()))
}

/// All writes that were stored since the mark.
pub(super) fn since(cluster: &Cluster, mark: Mark) -> Result<Vec<AuditEvent>> {
    let mut mark = mark;
    new(cluster, &mut mark, |_| true)
}

/// Those of the writes since the mark whose line in the log is `wanted`, and the mark after them:
/// cheap enough to be asked for while a run is measured.
pub(super) fn new(
    cluster: &Cluster,
    mark: &mut Mark,
    wanted: impl Fn(&str) -> bool,
) -> Result<Vec<AuditEvent>> {
    let mut log = File::open(cluster.audit_log()).context("the audit log")?;
    log.seek(SeekFrom::Start(mark.0))?;
    let mut log = BufReader::new(log);
    let mut events = Vec::new();
    let mut line = String::new();
    // A last line without its end is still being written.
    while log.read_line(&mut line)? > 0 && line.ends_with('\n') {
        mark.0 += line.len() as u64;
        if wanted(&line) {
            events.extend(AuditEvent::parse(&line).filter(AuditEvent::is_stored_write));
        }
        line.clear();
    }
    Ok(events)
}

/// Writes of the users that `ours` names, counted by verb and resource: `create pods`.
pub(super) fn by_verb(
    events: &[AuditEvent],
    ours: impl Fn(&str) -> bool,
) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for event in events.iter().filter(|event| ours(&event.user)) {
        let slash = if event.subresource.is_empty() {
            ""
        } else {
            "/"
        };
        let key = format!(
            "{} {}{slash}{}",
            event.verb, event.resource, event.subresource
        );
        *counts.entry(key).or_default() += 1;
    }
    counts
}

/// Names of the pods that were created in a namespace.
pub(super) fn pods_created(events: &[AuditEvent], namespace: &str) -> BTreeSet<String> {
    let created = events.iter().filter(|event| {
        event.verb == "create" && event.resource == "pods" && event.subresource.is_empty()
    });
    let here = created.filter(|event| event.namespace == namespace);
    // With generateName the name is only in the answer, which is not recorded: count it by request.
    let name = |event: &AuditEvent| match event.name.as_str() {
        "" => event.id.clone(),
        name => name.to_owned(),
    };
    here.map(name).collect()
}

/// Nodes that pods of a namespace were bound to, by the scheduler's own requests.
pub(super) fn nodes_bound(events: &[AuditEvent], namespace: &str) -> BTreeSet<String> {
    let bindings = events.iter().filter(|event| {
        event.verb == "create" && event.subresource == "binding" && event.namespace == namespace
    });
    let node = |event: &AuditEvent| {
        let target = event.request_object.as_ref()?.pointer("/target/name")?;
        target.as_str().map(str::to_owned)
    };
    bindings.filter_map(node).collect()
}

/// Seconds from the request that created the job; all by the API server's clock.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Timeline {
    pub(super) last_pod_created: f64,
    pub(super) last_pod_bound: f64,
    /// When the last pod had ended: the kubelets' last write.
    pub(super) last_pod_ended: f64,
    /// The answer to the write that made the job Complete.
    pub(super) complete: f64,
}

/// When what happened to the job of kind `resource` and to the pods of its namespace.
pub(super) fn timeline(events: &[AuditEvent], resource: &str, namespace: &str) -> Result<Timeline> {
    let of_kind = || events.iter().filter(|event| event.resource == resource);
    let created = of_kind()
        .find(|event| event.verb == "create")
        .context("no create in the log")?;
    let complete = |event: &&AuditEvent| {
        let body = event.request_object.as_ref();
        body.is_some_and(|body| has_condition(body, "Complete"))
    };
    let completed = of_kind()
        .find(complete)
        .context("no write made it Complete")?;
    let start = seconds(&created.received)?;
    let pods = || {
        events
            .iter()
            .filter(|e| e.resource == "pods" && e.namespace == namespace)
    };
    let last = |verb: &str, subresource: &str| {
        let mut wanted = pods().filter(|e| e.verb == verb && e.subresource == subresource);
        let last = wanted
            .next_back()
            .with_context(|| format!("no {verb} of pods/{subresource}"))?;
        anyhow::Ok(seconds(&last.stage_time)? - start)
    };
    Ok(Timeline {
        last_pod_created: last("create", "")?,
        last_pod_bound: last("create", "binding")?,
        last_pod_ended: last("patch", "status")?,
        complete: seconds(&completed.stage_time)? - start,
    })
}

/// Whether a condition is anywhere in a body and true: an object, or a patch of any kind.
pub(super) fn has_condition(body: &Value, condition: &str) -> bool {
    match body {
        Value::Object(map) => {
            (map.get("type").is_some_and(|kind| kind == condition)
                && map.get("status").is_some_and(|status| status == "True"))
                || map.values().any(|value| has_condition(value, condition))
        }
        Value::Array(items) => items.iter().any(|item| has_condition(item, condition)),
        _ => false,
    }
}

/// Of `2026-01-01T10:20:30.123456Z` the seconds since 1970.
pub(super) fn seconds(time: &str) -> Result<f64> {
    let time: Timestamp = time
        .parse()
        .with_context(|| format!("{time:?} is not a time"))?;
    Ok(time.as_microsecond() as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_condition_is_found_in_objects_and_in_patches() {
        let is_complete = |body: Value| has_condition(&body, "Complete");
        let condition = json!({"type": "Complete", "status": "True"});
        assert!(is_complete(json!({"status": {"conditions": [condition]}})));
        assert!(is_complete(
            json!([{"op": "add", "path": "/status", "value": [condition]}])
        ));
        assert!(!is_complete(json!({"type": "Complete", "status": "False"})));
        assert!(!has_condition(&condition, "Failed"));
    }

    #[test]
    fn times_have_microseconds_and_a_day() {
        let evening = seconds("2026-01-01T23:59:59.999500Z").unwrap();
        let morning = seconds("2026-01-02T00:00:01.000000Z").unwrap();
        assert!(
            (morning - evening - 1.0005).abs() < 1e-6,
            "{evening} {morning}"
        );
        assert!(seconds("yesterday").is_err());
    }
}
