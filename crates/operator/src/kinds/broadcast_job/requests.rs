//! The requests that only BroadcastJobs need.

use carillon_api::names::{
    API_VERSION, FINALIZER_RESULT_TRACKING, LABEL_BROADCAST_JOB_NAME, LABEL_BROADCAST_JOB_UID,
};
use carillon_api::{NodeResult, Retry};
use carillon_plan::broadcast_job::action::SliceWrite;
use carillon_plan::object::object;
use carillon_plan::record::{self, Record};
use carillon_plan::{ObjectKey, Uid, name};
use http::Method;
use serde_json::{Map, Value, json};

use crate::gate::Kind;
use crate::request::{
    Call, JSON, MERGE, build, collection, delete_with_dependents, encode, patch_metadata, path,
    without,
};

/// Removes our finalizer from a pod and leaves those of others.
pub fn release_pod(namespace: &str, name: &str, uid: Uid) -> Call {
    without(Kind::Pod, namespace, name, uid, FINALIZER_RESULT_TRACKING)
}

/// Puts the labels of a pod of a BroadcastJob back, by which it is found.
pub fn label_pod(owner: &ObjectKey, name: &str, uid: Uid) -> Call {
    let metadata = json!({"uid": uid.to_string(), "labels": {
        LABEL_BROADCAST_JOB_NAME: owner.name,
        LABEL_BROADCAST_JOB_UID: owner.uid.to_string(),
    }});
    patch_metadata(Kind::Pod, &owner.namespace, name, &metadata)
}

/// Deletes a job; garbage collection deletes its pods and slices.
pub fn delete_job(owner: &ObjectKey, rv: u64) -> Call {
    let kind = Kind::BroadcastJob;
    delete_with_dependents(kind, &owner.namespace, &owner.name, owner.uid, rv)
}

/// Writes the retries of a BroadcastJob, if it is still at `rv`, and nothing else of its status.
pub fn write_retries(namespace: &str, name: &str, uid: Uid, rv: u64, retries: &[Retry]) -> Call {
    let metadata = object([
        ("uid", uid.to_string().into()),
        ("resourceVersion", rv.to_string().into()),
    ]);
    let status = object([("retries", json!(retries))]);
    let body = object([("metadata", metadata), ("status", status)]);
    let path = path(Kind::BroadcastJob, namespace, name).map(|path| path.subresource("status"));
    build(Method::PATCH, path, MERGE, encode(&body))
}

/// Creates a slice, or writes one that is still at the version it was planned from. That of a retry belongs
/// to the `first` job of its family, too.
pub fn write_slice(owner: &ObjectKey, first: Option<&ObjectKey>, slice: &SliceWrite) -> Call {
    let name = name::slice(&owner.name, owner.uid, slice.index);
    let results: Vec<NodeResult> = slice.records().map(Record::write).collect();
    let content = [("sealed", json!(slice.sealed)), ("results", json!(results))];
    let mut body = json!({});
    for (key, value) in content {
        body[key] = value;
    }
    if let Some(rv) = slice.rv {
        body["metadata"] = json!({"resourceVersion": rv.to_string()});
        let path = path(Kind::Slice, &owner.namespace, &name);
        return build(Method::PATCH, path, MERGE, encode(&body));
    }
    let labels: Map<String, Value> = record::slice_labels(&owner.name, owner.uid, slice.index)
        .into_iter()
        .map(|(key, value)| (key.to_owned(), json!(value)))
        .collect();
    let mut owners = vec![owner.reference()];
    owners.extend(first.map(ObjectKey::plain_reference));
    body["apiVersion"] = json!(API_VERSION);
    body["kind"] = json!("NodeResultSlice");
    body["metadata"] = json!({
        "name": name,
        "namespace": owner.namespace,
        "labels": labels,
        "ownerReferences": owners,
    });
    build(
        Method::POST,
        collection(Kind::Slice, &owner.namespace),
        JSON,
        encode(&body),
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use carillon_plan::object_key::BROADCAST_JOB;
    use serde_json::Value;

    use super::*;
    use crate::request::delete_unchanged;
    use crate::request::shown::{body, request};

    fn owner() -> Arc<ObjectKey> {
        let uid = "4e0c5d6a-0b1c-4d2e-8f3a-5b6c7d8e9f00".parse().unwrap();
        ObjectKey::of(BROADCAST_JOB, "ops", "fix", uid)
    }

    #[test]
    fn every_delete_names_the_object_and_the_version_that_was_judged() {
        let preconditions = json!({"uid": owner().uid.to_string(), "resourceVersion": "7"});
        let pod = request(delete_unchanged(Kind::Pod, "ops", "p", owner().uid, 7));
        assert_eq!(pod.uri(), "/api/v1/namespaces/ops/pods/p");
        for request in [pod, request(delete_job(&owner(), 7))] {
            assert_eq!(request.method(), Method::DELETE);
            let body: Value = serde_json::from_slice(request.body()).unwrap();
            assert_eq!(body["preconditions"], preconditions);
        }
    }

    #[test]
    fn a_slice_is_created_with_its_owner_or_patched_at_its_version() {
        let slice = SliceWrite {
            index: 2,
            sealed: true,
            ..SliceWrite::default()
        };
        let created = request(write_slice(&owner(), None, &slice));
        assert_eq!(created.method(), Method::POST);
        let created = &body(write_slice(&owner(), None, &slice))["metadata"];
        assert_eq!(created["ownerReferences"][0]["name"], "fix");
        assert_eq!(created["labels"]["carillon.dev/slice-index"], "2");
        let first = ObjectKey::of(BROADCAST_JOB, "ops", "first", owner().uid);
        let of_retry = body(write_slice(&owner(), Some(&first), &slice));
        let owners = &of_retry["metadata"]["ownerReferences"];
        let named = (&owners[0]["controller"], &owners[1]["name"]);
        assert_eq!(named, (&json!(true), &json!("first")));
        assert!(owners[1].get("controller").is_none());
        let slice = SliceWrite {
            rv: Some(9),
            ..slice
        };
        let patched = request(write_slice(&owner(), None, &slice));
        assert_eq!(patched.method(), Method::PATCH);
        let patched = body(write_slice(&owner(), None, &slice));
        assert_eq!(patched["metadata"], json!({"resourceVersion": "9"}));
    }
}
