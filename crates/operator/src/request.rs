//! The requests behind the actions of a plan: method, path and body, no I/O.

use std::collections::BTreeMap;

use carillon_api::names::{
    API_VERSION, FINALIZER_RESULT_TRACKING, FINALIZER_RUN_TRACKING, LABEL_BROADCAST_JOB_NAME,
    LABEL_BROADCAST_JOB_UID,
};
use carillon_api::path::{NoSegment, Path, Resource};
use carillon_api::{NodeResult, Retry};
use carillon_plan::ObjectKey;
use carillon_plan::Uid;
use carillon_plan::broadcast_job::action::SliceWrite;
use carillon_plan::job::FINALIZER_JOB_TRACKING;
use carillon_plan::object::object;
use carillon_plan::record::Record;
use carillon_plan::{name, record};
use http::{Method, Request, Uri, header};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::gate::Kind;
use crate::slim::SlimMeta;

const JSON: &str = "application/json";
/// `Accept` of a create whose reply matters by its metadata only; the server then answers with
/// that, which saves it and us the whole pod.
///
/// Protobuf, too, saves both: the managed fields, most of it, are skipped unread.
const ACCEPT_METADATA: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,\
    application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const EVENTS: Resource = Resource {
    group: "events.k8s.io",
    version: "v1",
    plural: "events",
};

/// A request whose path leads to what it names and nowhere else; or why there is none that does.
#[derive(Debug)]
pub struct Call(Result<Request<Vec<u8>>, String>);

impl Call {
    /// The request.
    ///
    /// # Errors
    /// When nothing can have such a name: in words.
    pub fn into_request(self) -> Result<Request<Vec<u8>>, String> {
        self.0
    }

    /// The namespace that it is about; empty when that is none.
    pub fn namespace(&self) -> &str {
        let path = self.0.as_ref().map_or("", |request| request.uri().path());
        let mut segments = path
            .split('/')
            .skip_while(|segment| *segment != "namespaces");
        segments.nth(1).unwrap_or_default()
    }
}

/// All objects of a kind in a namespace.
fn collection(kind: Kind, namespace: &str) -> Result<Path, NoSegment> {
    let (group, version) = kind.group_version();
    let plural = kind.plural();
    let resource = Resource {
        group,
        version,
        plural,
    };
    resource.within(namespace)
}

/// One of them.
fn path(kind: Kind, namespace: &str, name: &str) -> Result<Path, NoSegment> {
    collection(kind, namespace)?.object(name)
}

/// A body. As long as most from the beginning, so that it does not grow in steps.
fn encode(body: &impl Serialize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(1024);
    // A vector takes everything, and our bodies have text for keys.
    let _ = serde_json::to_writer(&mut bytes, body);
    bytes
}

/// Every reply is asked for as metadata only: that is all we read of one.
fn build(
    method: Method,
    path: Result<Path, NoSegment>,
    content: &'static str,
    body: Vec<u8>,
) -> Call {
    let uri = path
        .map_err(|error| error.to_string())
        .and_then(|path| Uri::try_from(path.as_str()).map_err(|error| error.to_string()));
    Call(uri.map(|uri| {
        let has_body = !body.is_empty();
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        let headers = request.headers_mut();
        headers.insert(
            header::ACCEPT,
            header::HeaderValue::from_static(ACCEPT_METADATA),
        );
        if has_body {
            let content = header::HeaderValue::from_static(content);
            headers.insert(header::CONTENT_TYPE, content);
        }
        request
    }))
}

/// Reads an object's metadata, from the quorum.
pub fn get(kind: Kind, namespace: &str, name: &str) -> Call {
    let path = path(kind, namespace, name);
    build(Method::GET, path, JSON, Vec::new())
}

/// Reads an object with all that is in it, from the quorum.
pub fn get_whole(kind: Kind, namespace: &str, name: &str) -> Call {
    let Call(request) = get(kind, namespace, name);
    Call(request.map(|mut request| {
        let json = header::HeaderValue::from_static(JSON);
        request.headers_mut().insert(header::ACCEPT, json);
        request
    }))
}

/// Deletes the pod that was judged and no other.
pub fn delete_pod(namespace: &str, name: &str, uid: Uid, rv: u64) -> Call {
    build(
        Method::DELETE,
        path(Kind::Pod, namespace, name),
        JSON,
        encode(&delete_options(uid, Some(rv))),
    )
}

/// Removes our finalizer from a Job and leaves those of others.
pub fn release_job(namespace: &str, name: &str, uid: Uid) -> Call {
    without(
        Kind::NativeJob,
        namespace,
        name,
        uid,
        FINALIZER_RUN_TRACKING,
    )
}

/// Removes our finalizer from a BroadcastJob, if its finalizers are still these. Lists of custom
/// resources know no strategic merge, so the version says which list is meant.
pub fn release_broadcast_job(namespace: &str, job: &SlimMeta) -> Call {
    let finalizers: Vec<&String> = job
        .finalizers
        .iter()
        .flatten()
        .filter(|finalizer| *finalizer != FINALIZER_RUN_TRACKING)
        .collect();
    let body = json!({"metadata": {
        "uid": job.uid,
        "resourceVersion": job.resource_version,
        "finalizers": finalizers,
    }});
    let path = path(Kind::BroadcastJob, namespace, &job.name);
    build(Method::PATCH, path, MERGE, encode(&body))
}

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

/// Removes the mark of a pod of a Job that may not be counted yet, and leaves those of others.
pub fn release_job_pod(namespace: &str, name: &str, uid: Uid) -> Call {
    without(Kind::Pod, namespace, name, uid, FINALIZER_JOB_TRACKING)
}

/// The same for a pod that no Job controls, if it is still as it was seen.
pub fn release_orphan_pod(namespace: &str, name: &str, uid: Uid, rv: u64) -> Call {
    let mut metadata = metadata_without(uid, FINALIZER_JOB_TRACKING);
    metadata["resourceVersion"] = json!(rv.to_string());
    patch_metadata(Kind::Pod, namespace, name, &metadata)
}

/// Gives a pod to a Job, which counts it from now on.
pub fn adopt_pod(owner: &ObjectKey, name: &str, uid: Uid) -> Call {
    let metadata = json!({
        "uid": uid.to_string(),
        "ownerReferences": [owner.reference()],
        "finalizers": [FINALIZER_JOB_TRACKING],
    });
    patch_metadata(Kind::Pod, &owner.namespace, name, &metadata)
}

/// Takes a pod from a Job, which does not count it.
pub fn disown_pod(owner: &ObjectKey, name: &str, uid: Uid) -> Call {
    let mut metadata = metadata_without(uid, FINALIZER_JOB_TRACKING);
    metadata["ownerReferences"] = json!([{"$patch": "delete", "uid": owner.uid.to_string()}]);
    patch_metadata(Kind::Pod, &owner.namespace, name, &metadata)
}

/// Deletes this pod of a Job, in whatever state it is by now.
pub fn delete_job_pod(namespace: &str, name: &str, uid: Uid) -> Call {
    let path = path(Kind::Pod, namespace, name);
    build(
        Method::DELETE,
        path,
        JSON,
        encode(&delete_options(uid, None)),
    )
}

/// Deletes a Job after its pods, as its time to live wants it.
pub fn delete_native_job(owner: &ObjectKey) -> Call {
    let mut body = delete_options(owner.uid, None);
    body["propagationPolicy"] = json!("Foreground");
    let path = path(Kind::NativeJob, &owner.namespace, &owner.name);
    build(Method::DELETE, path, JSON, encode(&body))
}

/// Removes a finalizer from an object of a built-in kind.
fn without(kind: Kind, namespace: &str, name: &str, uid: Uid, finalizer: &str) -> Call {
    patch_metadata(kind, namespace, name, &metadata_without(uid, finalizer))
}

fn metadata_without(uid: Uid, finalizer: &str) -> Value {
    object([
        ("uid", uid.to_string().into()),
        ("$deleteFromPrimitiveList/finalizers", json!([finalizer])),
    ])
}

/// Changes the metadata of an object of a built-in kind.
fn patch_metadata(kind: Kind, namespace: &str, name: &str, metadata: &Value) -> Call {
    let path = path(kind, namespace, name);
    build(
        Method::PATCH,
        path,
        STRATEGIC,
        encode(&BTreeMap::from([("metadata", metadata)])),
    )
}

/// Deletes a job; garbage collection deletes its pods and slices.
pub fn delete_job(owner: &ObjectKey, rv: u64) -> Call {
    let kind = Kind::BroadcastJob;
    delete_with_dependents(kind, &owner.namespace, &owner.name, owner.uid, rv)
}

/// Deletes the object that was judged and no other; garbage collection deletes what it owns.
pub fn delete_with_dependents(kind: Kind, namespace: &str, name: &str, uid: Uid, rv: u64) -> Call {
    let mut body = delete_options(uid, Some(rv));
    body["propagationPolicy"] = json!("Background");
    let path = path(kind, namespace, name);
    build(Method::DELETE, path, JSON, encode(&body))
}

/// Creates an object, or only asks whether it would be created.
pub fn create(kind: Kind, namespace: &str, body: &impl Serialize, dry_run: bool) -> Call {
    let mut path = collection(kind, namespace);
    if dry_run {
        path = path.map(|path| path.with("dryRun", "All"));
    }
    build(Method::POST, path, JSON, encode(body))
}

/// Creates an event of events.k8s.io.
pub fn create_event(namespace: &str, body: &impl Serialize) -> Call {
    build(Method::POST, EVENTS.within(namespace), JSON, encode(body))
}

fn delete_options(uid: Uid, rv: Option<u64>) -> Value {
    let mut preconditions = json!({"uid": uid.to_string()});
    if let Some(rv) = rv {
        preconditions["resourceVersion"] = json!(rv.to_string());
    }
    json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions})
}

/// Writes an object's status over `old`, if the object is still at `rv`.
pub fn write_status(kind: Kind, owner: &ObjectKey, rv: u64, old: &Value, new: Value) -> Call {
    let metadata = object([
        ("uid", owner.uid.to_string().into()),
        ("resourceVersion", rv.to_string().into()),
    ]);
    let body = object([("metadata", metadata), ("status", over(old, new))]);
    let path = path(kind, &owner.namespace, &owner.name).map(|path| path.subresource("status"));
    build(Method::PATCH, path, MERGE, encode(&body))
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

/// `new` as a merge patch of `old`: that keeps what it does not name, however deep.
fn over(old: &Value, mut new: Value) -> Value {
    if let (Some(old), Some(new)) = (old.as_object(), new.as_object_mut()) {
        for (key, old) in old {
            let value = new.entry(key.as_str()).or_insert(Value::Null);
            *value = over(old, value.take());
        }
    }
    new
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

    use super::*;
    use carillon_plan::object_key::BROADCAST_JOB;

    fn owner() -> Arc<ObjectKey> {
        let uid = "4e0c5d6a-0b1c-4d2e-8f3a-5b6c7d8e9f00".parse().unwrap();
        ObjectKey::of(BROADCAST_JOB, "ops", "fix", uid)
    }

    fn request(call: &Call) -> &Request<Vec<u8>> {
        call.0.as_ref().unwrap()
    }

    fn body(call: &Call) -> Value {
        serde_json::from_slice(request(call).body()).unwrap()
    }

    #[test]
    fn a_name_that_leads_elsewhere_makes_no_request() {
        let of = |name: &str| [get(Kind::Pod, "ops", name), get(Kind::Pod, name, "p")];
        for call in [of(""), of(".."), of("../../nodes"), of("p/log")]
            .into_iter()
            .flatten()
        {
            assert!(call.into_request().is_err());
        }
        let [asked, _] = of("?watch=true");
        let uri = request(&asked).uri();
        assert_eq!(uri, "/api/v1/namespaces/ops/pods/%3Fwatch%3Dtrue");
    }

    #[test]
    fn every_delete_names_the_object_and_the_version_that_was_judged() {
        let preconditions = json!({
            "uid": owner().uid.to_string(), "resourceVersion": "7"});
        let pod = delete_pod("ops", "p", owner().uid, 7);
        assert_eq!(request(&pod).uri(), "/api/v1/namespaces/ops/pods/p");
        for call in [pod, delete_job(&owner(), 7)] {
            assert_eq!(request(&call).method(), Method::DELETE);
            assert_eq!(body(&call)["preconditions"], preconditions);
        }
    }

    #[test]
    fn a_status_patch_clears_what_the_new_status_no_longer_has() {
        let old = json!({"done": "1/2", "refused": [1]});
        let call = write_status(
            Kind::BroadcastJob,
            &owner(),
            7,
            &old,
            json!({"done": "2/2"}),
        );
        assert_eq!(
            body(&call),
            json!({
                "metadata": {"uid": owner().uid.to_string(), "resourceVersion": "7"},
                "status": {"done": "2/2", "refused": null},
            })
        );
    }

    #[test]
    fn a_list_that_a_status_has_emptied_is_cleared_inside_what_stays() {
        let old = json!({"uncountedTerminatedPods": {"succeeded": ["u"], "failed": ["v"]}});
        let new = json!({"uncountedTerminatedPods": {"failed": ["w"]}});
        let call = write_status(Kind::NativeJob, &owner(), 7, &old, new);
        let status = json!({"uncountedTerminatedPods": {"succeeded": null, "failed": ["w"]}});
        assert_eq!(body(&call)["status"], status);
    }

    #[test]
    fn pods_of_a_job_are_named_by_uid_and_a_job_that_expired_goes_after_its_pods() {
        let precondition = json!({"uid": owner().uid.to_string()});
        let pod = delete_job_pod("ops", "p", owner().uid);
        assert_eq!(request(&pod).uri(), "/api/v1/namespaces/ops/pods/p");
        assert_eq!(body(&pod)["preconditions"], precondition);
        let job = delete_native_job(&owner());
        assert_eq!(
            request(&job).uri(),
            "/apis/batch/v1/namespaces/ops/jobs/fix"
        );
        assert_eq!(body(&job)["preconditions"], precondition);
        assert_eq!(body(&job)["propagationPolicy"], "Foreground");
        let released = release_job_pod("ops", "p", owner().uid);
        assert_eq!(
            body(&released)["metadata"],
            json!({
                "uid": owner().uid.to_string(),
                "$deleteFromPrimitiveList/finalizers": ["batch.kubernetes.io/job-tracking"],
            })
        );
    }

    #[test]
    fn a_pod_is_adopted_with_owner_and_finalizer_and_disowned_without_them() {
        let of_job = owner();
        let adopted = body(&adopt_pod(&of_job, "p", of_job.uid));
        let uid = of_job.uid.to_string();
        assert_eq!(
            adopted["metadata"],
            json!({"uid": uid, "ownerReferences": [of_job.reference()],
                "finalizers": ["batch.kubernetes.io/job-tracking"]})
        );
        let finalizers = json!(["batch.kubernetes.io/job-tracking"]);
        let disowned = body(&disown_pod(&of_job, "p", of_job.uid));
        assert_eq!(
            disowned["metadata"],
            json!({"uid": uid, "$deleteFromPrimitiveList/finalizers": finalizers,
                "ownerReferences": [{"$patch": "delete", "uid": uid}]})
        );
        let orphan = body(&release_orphan_pod("ops", "p", of_job.uid, 7));
        assert_eq!(
            orphan["metadata"],
            json!({"uid": uid, "$deleteFromPrimitiveList/finalizers": finalizers,
                "resourceVersion": "7"})
        );
    }

    #[test]
    fn a_slice_is_created_with_its_owner_or_patched_at_its_version() {
        let slice = SliceWrite {
            index: 2,
            sealed: true,
            ..SliceWrite::default()
        };
        let created = write_slice(&owner(), None, &slice);
        assert_eq!(request(&created).method(), Method::POST);
        assert_eq!(
            body(&created)["metadata"]["ownerReferences"][0]["name"],
            "fix"
        );
        assert_eq!(
            body(&created)["metadata"]["labels"]["carillon.dev/slice-index"],
            "2"
        );
        let first = ObjectKey::of(BROADCAST_JOB, "ops", "first", owner().uid);
        let of_retry = body(&write_slice(&owner(), Some(&first), &slice));
        let owners = &of_retry["metadata"]["ownerReferences"];
        assert_eq!(
            (&owners[0]["controller"], &owners[1]["name"]),
            (&json!(true), &json!("first"))
        );
        assert!(owners[1].get("controller").is_none());
        let patched = write_slice(
            &owner(),
            None,
            &SliceWrite {
                rv: Some(9),
                ..slice
            },
        );
        assert_eq!(request(&patched).method(), Method::PATCH);
        assert_eq!(body(&patched)["metadata"], json!({"resourceVersion": "9"}));
    }
}
