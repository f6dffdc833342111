//! The requests behind the actions of a plan: method, path and body, no I/O.

use std::collections::BTreeMap;

use carillon_api::path::{NoSegment, Path, Resource};
use carillon_plan::ObjectKey;
use carillon_plan::Uid;
use carillon_plan::object::object;
use http::{Method, Request, Uri, header};
use serde::Serialize;
use serde_json::{Value, json};

use crate::gate::Kind;

pub(crate) const JSON: &str = "application/json";
/// `Accept` of a create whose reply matters by its metadata only; the server then answers with
/// that, which saves it and us the whole pod.
///
/// Protobuf, too, saves both: the managed fields, most of it, are skipped unread.
const ACCEPT_METADATA: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,\
    application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
pub(crate) const MERGE: &str = "application/merge-patch+json";
pub(crate) const STRATEGIC: &str = "application/strategic-merge-patch+json";
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

/// All objects of a kind in a namespace; in the cluster, where they are in none.
pub(crate) fn collection(kind: Kind, namespace: &str) -> Result<Path, NoSegment> {
    let (group, version) = kind.group_version();
    let plural = kind.plural();
    let resource = Resource {
        group,
        version,
        plural,
    };
    if kind.is_namespaced() {
        resource.within(namespace)
    } else {
        Ok(resource.everywhere())
    }
}

/// One of them.
pub(crate) fn path(kind: Kind, namespace: &str, name: &str) -> Result<Path, NoSegment> {
    collection(kind, namespace)?.object(name)
}

/// A body. As long as most from the beginning, so that it does not grow in steps.
pub(crate) fn encode(body: &impl Serialize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(1024);
    // A vector takes everything, and our bodies have text for keys.
    let _ = serde_json::to_writer(&mut bytes, body);
    bytes
}

/// Every reply is asked for as metadata only: that is all we read of one.
pub(crate) fn build(
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

/// Metadata that gives an object of a built-in kind to an owner.
pub(crate) fn adoption(owner: &ObjectKey, uid: Uid) -> Value {
    object([
        ("uid", uid.to_string().into()),
        ("ownerReferences", vec![owner.reference()].into()),
    ])
}

/// Metadata that takes an object of a built-in kind from its owner.
pub(crate) fn disownment(owner: &ObjectKey, uid: Uid) -> Value {
    let removed = json!({"$patch": "delete", "uid": owner.uid.to_string()});
    object([
        ("uid", uid.to_string().into()),
        ("ownerReferences", vec![removed].into()),
    ])
}

/// Deletes this object, in whatever state it is by now.
pub fn delete(kind: Kind, namespace: &str, name: &str, uid: Uid) -> Call {
    let path = path(kind, namespace, name);
    let options = encode(&delete_options(uid, None));
    build(Method::DELETE, path, JSON, options)
}

/// Deletes this object if it is as it was judged.
pub fn delete_unchanged(kind: Kind, namespace: &str, name: &str, uid: Uid, rv: u64) -> Call {
    let path = path(kind, namespace, name);
    let options = encode(&delete_options(uid, Some(rv)));
    build(Method::DELETE, path, JSON, options)
}

/// Removes a finalizer from an object of a built-in kind.
pub(crate) fn without(kind: Kind, namespace: &str, name: &str, uid: Uid, finalizer: &str) -> Call {
    patch_metadata(kind, namespace, name, &metadata_without(uid, finalizer))
}

pub(crate) fn metadata_without(uid: Uid, finalizer: &str) -> Value {
    object([
        ("uid", uid.to_string().into()),
        ("$deleteFromPrimitiveList/finalizers", json!([finalizer])),
    ])
}

/// Changes the metadata of an object of a built-in kind.
pub(crate) fn patch_metadata(kind: Kind, namespace: &str, name: &str, metadata: &Value) -> Call {
    let path = path(kind, namespace, name);
    build(
        Method::PATCH,
        path,
        STRATEGIC,
        encode(&BTreeMap::from([("metadata", metadata)])),
    )
}

/// Deletes the object that was judged and no other; garbage collection deletes what it owns.
pub fn delete_with_dependents(kind: Kind, namespace: &str, name: &str, uid: Uid, rv: u64) -> Call {
    let mut body = delete_options(uid, Some(rv));
    body["propagationPolicy"] = json!("Background");
    let path = path(kind, namespace, name);
    build(Method::DELETE, path, JSON, encode(&body))
}

/// How an object is created.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CreateMode {
    /// Without the fields that the API server does not know.
    Plain,
    /// Refused if it has such a field. A misspelt field of a template of ours would vanish otherwise: our CRDs keep
    /// what they do not know.
    Strict,
    /// Only asks whether it would be created, as strictly.
    DryRun,
}

/// Creates an object.
pub fn create(kind: Kind, namespace: &str, body: &impl Serialize, mode: CreateMode) -> Call {
    let path = collection(kind, namespace).map(|path| match mode {
        CreateMode::Plain => path,
        CreateMode::Strict => path.with("fieldValidation", "Strict"),
        CreateMode::DryRun => path.with("dryRun", "All").with("fieldValidation", "Strict"),
    });
    build(Method::POST, path, JSON, encode(body))
}

/// Creates an event of events.k8s.io.
pub fn create_event(namespace: &str, body: &impl Serialize) -> Call {
    build(Method::POST, EVENTS.within(namespace), JSON, encode(body))
}

pub(crate) fn delete_options(uid: Uid, rv: Option<u64>) -> Value {
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

/// What tests look at.
#[cfg(test)]
pub(crate) mod shown {
    use http::Request;
    use serde_json::Value;

    use super::Call;

    pub(crate) fn request(call: Call) -> Request<Vec<u8>> {
        call.into_request().unwrap()
    }

    pub(crate) fn body(call: Call) -> Value {
        serde_json::from_slice(request(call).body()).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::shown::{body, request};
    use super::*;
    use carillon_plan::object_key::BROADCAST_JOB;

    fn owner() -> Arc<ObjectKey> {
        let uid = "4e0c5d6a-0b1c-4d2e-8f3a-5b6c7d8e9f00".parse().unwrap();
        ObjectKey::of(BROADCAST_JOB, "ops", "fix", uid)
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
        let asked = request(asked);
        assert_eq!(asked.uri(), "/api/v1/namespaces/ops/pods/%3Fwatch%3Dtrue");
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
            body(call),
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
        assert_eq!(body(call)["status"], status);
    }
}
