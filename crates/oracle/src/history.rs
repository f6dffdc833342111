//! Every state a cluster was in.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

/// Every change of the store, in the order of revisions.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// The changes.
    pub steps: Vec<Step>,
}

/// One revision: one object was created, changed or removed.
#[derive(Clone, Debug)]
pub struct Step {
    /// The store's revision; also the object's resourceVersion from here on.
    pub rev: u64,
    /// When it was made, by the clock of the API server.
    pub at: Timestamp,
    /// Which object.
    pub key: Key,
    /// The object before; `None` when it is created.
    pub old: Option<Arc<Value>>,
    /// The object after; `None` when it is removed.
    pub new: Option<Arc<Value>>,
    /// The request that caused it, where that is known.
    pub by: Option<Arc<Request>>,
}

/// The name of an object in the store.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Key {
    /// Plural and, unless it is core, group: `pods`, `broadcastjobs.carillon.dev`.
    pub resource: Arc<str>,
    /// Empty for objects of the cluster.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
}

/// Who changed something, and how.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Request {
    /// The user, as the API server's audit log names it.
    pub user: String,
    /// `userAgent` of the client, which tells processes of one user apart.
    pub agent: String,
    /// `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub verb: String,
    /// Path and query.
    pub uri: String,
    /// Body of the request, where it is known.
    pub body: Option<Value>,
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.namespace.is_empty() {
            write!(f, "{} {}", self.resource, self.name)
        } else {
            write!(f, "{} {}/{}", self.resource, self.namespace, self.name)
        }
    }
}
