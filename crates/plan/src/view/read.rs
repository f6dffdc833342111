//! Objects of the API server, as JSON, become what the planner and the views read.

use std::sync::Arc;

use carillon_api::NodeResult;
use carillon_api::names::{ANNOTATION_RESUME, ANNOTATION_RETRY, LABEL_SLICE_INDEX};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use crate::broadcast_job::{BroadcastJob, Requests};
use crate::meta::Meta;
use crate::node::{Effect, NodeRow, Taint};
use crate::object_key::{ApiKind, BROADCAST_JOB, ObjectKey};
use crate::quantity;
use crate::record::{Record, Records, Slice};

/// A job, and what only people want to know of it.
#[derive(Clone, Debug)]
pub struct StoredJob {
    /// As the planner reads it. A manifest that was not applied has uid 0.
    pub job: BroadcastJob,
    /// `metadata.creationTimestamp`.
    pub created: Option<Timestamp>,
}

/// Reads a BroadcastJob. Total: what is missing is empty, what is wrong is a problem of the job.
pub fn job(object: &Value) -> StoredJob {
    let meta = &object["metadata"];
    let annotation = |key| meta["annotations"][key].as_str().map(str::to_owned);
    let requests = Requests {
        resume: annotation(ANNOTATION_RESUME),
        retry: annotation(ANNOTATION_RETRY),
    };
    let read = metadata(BROADCAST_JOB, meta);
    StoredJob {
        job: BroadcastJob::read(read, requests, &object["spec"], &object["status"]),
        created: text(&meta["creationTimestamp"]).parse().ok(),
    }
}

/// What a planner knows of the metadata of an object. A manifest that was not applied has uid 0.
pub(super) fn metadata(kind: ApiKind, meta: &Value) -> Meta {
    Meta {
        owner: owner(kind, meta),
        generation: meta["generation"].as_i64().unwrap_or(0),
        rv: version(meta),
        deleting: meta["deletionTimestamp"].is_string(),
        created: text(&meta["creationTimestamp"]).parse().unwrap_or_default(),
    }
}

/// Reads a Node. `None` without a usable name and uid.
pub fn node(object: &Value) -> Option<(Arc<str>, NodeRow)> {
    let meta = &object["metadata"];
    let row = NodeRow {
        uid: text(&meta["uid"]).parse().ok()?,
        rv: version(meta),
        deleting: meta["deletionTimestamp"].is_string(),
        unschedulable: object["spec"]["unschedulable"] == true,
        hostname: None,
        labels: entries(&meta["labels"])
            .filter_map(|(key, value)| Some((key.into(), value.as_str()?.into())))
            .collect(),
        taints: list(&object["spec"]["taints"]).filter_map(taint).collect(),
        not_ready_since: not_ready_since(object),
        allocatable: entries(&object["status"]["allocatable"])
            .filter_map(|(key, value)| Some((key.into(), quantity::parse(value.as_str()?)?)))
            .collect(),
    };
    Some((meta["name"].as_str()?.into(), row))
}

/// Reads a job's NodeResultSlices, in the order of their index. The error names the slice that
/// cannot be read whole.
pub fn slices(objects: &[Value]) -> Result<Vec<Slice>, String> {
    let mut slices = objects.iter().map(slice).collect::<Result<Vec<_>, _>>()?;
    slices.sort_by_key(|slice| slice.index);
    Ok(slices)
}

/// Reads one NodeResultSlice. The error names it when it cannot be read whole.
pub fn slice(object: &Value) -> Result<Slice, String> {
    let meta = &object["metadata"];
    let unreadable = |what: &str| {
        let name = text(&meta["name"]);
        format!("NodeResultSlice {name}: {what} this version cannot read")
    };
    let records = list(&object["results"]).map(|result| {
        let result = NodeResult::deserialize(result).ok()?;
        Record::read(&result)
    });
    let records: Option<Records> = records.collect();
    let index = text(&meta["labels"][LABEL_SLICE_INDEX]).parse();
    Ok(Slice {
        index: index.map_err(|_| unreadable("has a slice index"))?,
        uid: text(&meta["uid"]).parse().unwrap_or_default(),
        rv: version(meta),
        sealed: object["sealed"] == true,
        records: records.ok_or_else(|| unreadable("has a result"))?,
    })
}

fn not_ready_since(node: &Value) -> Option<Timestamp> {
    let mut conditions = list(&node["status"]["conditions"]);
    let ready = conditions.find(|condition| condition["type"] == "Ready")?;
    let since = text(&ready["lastTransitionTime"]);
    since.parse().ok().filter(|_| ready["status"] != "True")
}

fn taint(value: &Value) -> Option<Taint> {
    Some(Taint {
        key: text(&value["key"]).into(),
        value: text(&value["value"]).into(),
        effect: Effect::read(text(&value["effect"]))?,
    })
}

/// Kind, namespace, name and uid.
pub(super) fn owner(kind: ApiKind, meta: &Value) -> Arc<ObjectKey> {
    let uid = text(&meta["uid"]).parse().unwrap_or_default();
    ObjectKey::of(kind, text(&meta["namespace"]), text(&meta["name"]), uid)
}

pub(super) fn version(meta: &Value) -> u64 {
    text(&meta["resourceVersion"]).parse().unwrap_or(0)
}

pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

pub(super) fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Sorted by key, as rows have them.
pub(super) fn entries(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let mut entries: Vec<_> = value.as_object().into_iter().flatten().collect();
    entries.sort_by_key(|(key, _)| *key);
    entries.into_iter().map(|(key, value)| (&**key, value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const UID: &str = "4e0c5d6a-0b1c-4d2e-8f3a-5b6c7d8e9f00";

    #[test]
    fn a_node_is_read_with_all_that_a_check_looks_at() {
        let (name, row) = node(&json!({
            "metadata": {"name": "n1", "uid": UID, "labels": {"zone": "a", "pool": "gpu"}},
            "spec": {"unschedulable": true, "taints": [
                {"key": "k", "value": "v", "effect": "NoSchedule"},
                {"key": "later", "effect": "NoSuchEffect"},
            ]},
            "status": {
                "allocatable": {"memory": "1Ki", "cpu": "4"},
                "conditions": [{"type": "Ready", "status": "Unknown",
                                "lastTransitionTime": "2026-01-01T00:00:07Z"}],
            },
        }))
        .unwrap();
        assert_eq!(&*name, "n1");
        assert!(row.unschedulable && !row.deleting);
        assert_eq!(row.label("pool"), Some("gpu"));
        assert_eq!(row.label("zone"), Some("a"));
        assert_eq!((row.allocatable("cpu"), row.taints.len()), (4000, 1));
        assert_eq!(row.allocatable("memory"), 1_024_000);
        assert_eq!(row.not_ready_since, "2026-01-01T00:00:07Z".parse().ok());
    }

    #[test]
    fn slices_come_in_the_order_of_their_index_not_of_their_names() {
        let slice = |name: &str, index: &str| json!({"metadata": {"name": name, "labels": {LABEL_SLICE_INDEX: index}}});
        let read = slices(&[slice("a", "10"), slice("b", "9")]).unwrap();
        assert_eq!([read[0].index, read[1].index], [9, 10]);
    }

    #[test]
    fn a_slice_that_cannot_be_read_whole_is_named() {
        let object = json!({
            "metadata": {"name": "fix-abc", "labels": {LABEL_SLICE_INDEX: "0"}},
            "results": [{"nodeName": "n", "nodeUID": UID, "attempt": 1, "state": "Teleported", "podName": "p"}],
        });
        assert!(slices(&[object]).unwrap_err().contains("fix-abc"));
        assert!(slices(&[json!({})]).unwrap_err().contains("slice index"));
    }

    #[test]
    fn anything_can_be_read_as_a_job_without_a_panic() {
        for object in [
            json!(null),
            json!([1]),
            json!({"metadata": 3, "spec": [], "status": "x"}),
        ] {
            assert!(!job(&object).job.problems.is_empty(), "{object}");
        }
    }
}
