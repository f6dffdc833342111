//! The requests that only DaemonSets need.

use std::collections::BTreeMap;

use carillon_plan::daemon_set::pod::LABEL_REVISION;
use carillon_plan::{ObjectKey, Uid};
use http::Method;
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

/// Makes a revision the newest.
pub fn renumber_revision(namespace: &str, name: &str, uid: Uid, number: i64) -> Call {
    let body: Value = json!({"metadata": {"uid": uid.to_string()}, "revision": number});
    let path = path(Kind::Revision, namespace, name);
    build(Method::PATCH, path, STRATEGIC, encode(&body))
}
