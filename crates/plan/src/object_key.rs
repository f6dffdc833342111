//! Who an object is: what caches, queues and memories are keyed by.
//!
//! A uid alone says nothing. The API server lets anybody write an owner reference with the uid of an
//! object of another namespace, so two objects are the same only if all of this is the same. The
//! garbage collector of Kubernetes decides so, too.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use carillon_api::names::API_VERSION;
use serde_json::Value;

use crate::object::object;
use crate::uid::Uid;

/// `apiVersion` and `kind` of objects that control others.
pub type ApiKind = (&'static str, &'static str);
/// BroadcastJobs.
pub const BROADCAST_JOB: ApiKind = (API_VERSION, "BroadcastJob");
/// CronJobs of carillon.dev.
pub const CRON_JOB: ApiKind = (API_VERSION, "CronJob");
/// CronJobs of batch/v1.
pub const NATIVE_CRON_JOB: ApiKind = ("batch/v1", "CronJob");
/// DaemonSets of carillon.dev.
pub const DAEMON_SET: ApiKind = (API_VERSION, "DaemonSet");
/// DaemonSets of apps/v1.
pub const NATIVE_DAEMON_SET: ApiKind = ("apps/v1", "DaemonSet");
/// ControllerRevisions.
pub const REVISION: ApiKind = ("apps/v1", "ControllerRevision");
/// Jobs of batch/v1.
pub const JOB: ApiKind = ("batch/v1", "Job");
/// Pods.
pub const POD: ApiKind = ("v1", "Pod");

/// Identity of an object of a namespace. It is shared: `Arc<ObjectKey>` is the key of a map.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct ObjectKey {
    /// Such as `carillon.dev/v1alpha1`.
    pub api_version: &'static str,
    /// Such as BroadcastJob.
    pub kind: &'static str,
    /// Its namespace, which is that of all it controls.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: Uid,
}

impl Hash for ObjectKey {
    /// The rest is the same wherever a uid has not been copied.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.uid.hash(state);
        self.namespace.hash(state);
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kind,
            namespace,
            name,
            uid,
            ..
        } = self;
        write!(f, "{kind} {namespace}/{name} ({uid})")
    }
}

impl ObjectKey {
    /// The key of an object.
    pub fn of(
        (api_version, kind): ApiKind,
        namespace: impl Into<String>,
        name: impl Into<String>,
        uid: Uid,
    ) -> Arc<Self> {
        Arc::new(Self {
            api_version,
            kind,
            namespace: namespace.into(),
            name: name.into(),
            uid,
        })
    }

    /// The controller reference its children carry.
    pub fn reference(&self) -> Value {
        let mut reference = self.plain_reference();
        reference["controller"] = true.into();
        reference["blockOwnerDeletion"] = true.into();
        reference
    }

    /// The reference that what it owns carries beside that of its controller.
    pub fn plain_reference(&self) -> Value {
        object([
            ("apiVersion", self.api_version.into()),
            ("kind", self.kind.into()),
            ("name", self.name.as_str().into()),
            ("uid", self.uid.to_string().into()),
        ])
    }
}
