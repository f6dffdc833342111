//! The requests that only DaemonSets need.

use std::collections::BTreeMap;

use carillon_api::names::{
    ANNOTATION_LIFECYCLE_TIMESTAMP, LABEL_LIFECYCLE_STATE, STATE_PREPARING_DELETE,
};
use carillon_plan::condition::whole_seconds;
use carillon_plan::daemon_set::pod::LABEL_REVISION;
use carillon_plan::{ObjectKey, Uid};
use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::gate::Kind;
use crate::request::{Call, STRATEGIC, adoption, build, disownment, encode, patch_metadata, path};

/// Gives a pod or a revision to a DaemonSet.
pub fn adopt(kind: Kind, owner: &ObjectKey, name: &str, uid: Uid) -> Call {
    patch_metadata(kind, &owner.namespace, name, &adoption(owner, uid))
}

/// Takes a pod or a revision from a DaemonSet.
pub fn disown(kind: Kind, owner: &ObjectKey, name: &str, uid: Uid) -> Call {
    patch_metadata(kind, &owner.namespace, name, &disownment(owner, uid))
}

/// Gives a pod another hash.
pub fn relabel_pod(namespace: &str, name: &str, uid: Uid, hash: &str) -> Call {
    let labels = BTreeMap::from([(LABEL_REVISION, hash)]);
    let metadata = json!({"uid": uid.to_string(), "labels": labels});
    patch_metadata(Kind::Pod, namespace, name, &metadata)
}

/// Tells a pod that it is to be deleted, if it is as it was judged.
pub fn prepare_pod(namespace: &str, name: &str, (uid, rv): (Uid, u64), at: Timestamp) -> Call {
    let at = whole_seconds(at).0.to_string();
    tell_pod(
        namespace,
        name,
        (uid, rv),
        (STATE_PREPARING_DELETE.into(), at.into()),
    )
}

/// Tells a pod that it is not to be deleted after all, if it is as it was judged.
pub fn keep_pod(namespace: &str, name: &str, (uid, rv): (Uid, u64)) -> Call {
    tell_pod(namespace, name, (uid, rv), (Value::Null, Value::Null))
}

fn tell_pod(
    namespace: &str,
    name: &str,
    (uid, rv): (Uid, u64),
    (state, since): (Value, Value),
) -> Call {
    let metadata = json!({
        "uid": uid.to_string(),
        "resourceVersion": rv.to_string(),
        "labels": {LABEL_LIFECYCLE_STATE: state},
        "annotations": {ANNOTATION_LIFECYCLE_TIMESTAMP: since},
    });
    patch_metadata(Kind::Pod, namespace, name, &metadata)
}

/// Makes a revision the newest.
pub fn renumber_revision(namespace: &str, name: &str, uid: Uid, number: i64) -> Call {
    let body: Value = json!({"metadata": {"uid": uid.to_string()}, "revision": number});
    let path = path(Kind::Revision, namespace, name);
    build(Method::PATCH, path, STRATEGIC, encode(&body))
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "4e0c5d6a-0b1c-4d2e-8f3a-5b6c7d8e9f00";

    #[test]
    fn a_pod_is_told_that_it_goes_and_that_it_stays_only_as_it_was_judged() {
        let uid = UID.parse().unwrap();
        let at = "2026-01-01T00:00:09.5Z".parse().unwrap();
        let told = prepare_pod("ops", "agent-x", (uid, 7), at);
        let kept = keep_pod("ops", "agent-x", (uid, 7));
        for (call, state, since) in [
            (
                told,
                json!("PreparingDelete"),
                json!("2026-01-01T00:00:09Z"),
            ),
            (kept, Value::Null, Value::Null),
        ] {
            let call = call.into_request().unwrap();
            assert_eq!(call.uri(), "/api/v1/namespaces/ops/pods/agent-x");
            let body: Value = serde_json::from_slice(call.body()).unwrap();
            let metadata = json!({"uid": UID, "resourceVersion": "7",
                "labels": {"lifecycle.apps.kruise.io/state": state},
                "annotations": {"lifecycle.apps.kruise.io/timestamp": since}});
            assert_eq!(body, json!({"metadata": metadata}));
        }
    }
}
