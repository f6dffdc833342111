//! What is cached of DaemonSets of both APIs, of their pods, and of their revisions.

use std::collections::HashMap;
use std::sync::Arc;

use carillon_plan::daemon_set::{DaemonPod, DaemonPods, DaemonSet, Revision, Revisions};
use carillon_plan::object_key::{ApiKind, DAEMON_SET, NATIVE_DAEMON_SET};
use carillon_plan::{ObjectKey, Written};
use tokio::sync::watch;

use crate::store::dependents::Dependents;

/// Name of the controller in logs, metrics and the work queue.
pub const CONTROLLER: &str = "daemonset";

/// Kinds whose pods and revisions are kept.
pub(super) const KINDS: [ApiKind; 2] = [DAEMON_SET, NATIVE_DAEMON_SET];

/// A DaemonSet, and the spec it was read from if that is small.
#[derive(Clone, Debug)]
pub struct DaemonSetRow {
    /// As the planner reads it.
    pub set: Arc<DaemonSet>,
    pub(super) spec: Written,
}

/// See the module.
#[derive(Debug, Default)]
pub struct DaemonSetTables {
    pub(super) by_key: HashMap<Arc<ObjectKey>, DaemonSetRow>,
    /// Nobody plans from pods and revisions: none is kept.
    pub(super) is_off: bool,
    pub(super) pods: Dependents<DaemonPod>,
    pub(super) revisions: Dependents<Revision>,
    /// Whether one was seen.
    pub(super) has_any: watch::Sender<bool>,
}

impl DaemonSetTables {
    /// A DaemonSet.
    pub fn get(&self, key: &ObjectKey) -> Option<&Arc<DaemonSet>> {
        self.by_key.get(key).map(|row| &row.set)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<DaemonSet>> {
        self.by_key.values().map(|row| &row.set)
    }

    /// The pods that a DaemonSet controls.
    pub fn pods(&self, set: &ObjectKey) -> Option<&DaemonPods> {
        self.pods.of(set)
    }

    /// The pods of a namespace that nothing controls.
    pub fn orphan_pods(&self, namespace: &str) -> Option<&DaemonPods> {
        self.pods.orphans(namespace)
    }

    /// The revisions that a DaemonSet controls.
    pub fn revisions(&self, set: &ObjectKey) -> Option<&Revisions> {
        self.revisions.of(set)
    }

    /// The revisions of a namespace that nothing controls.
    pub fn orphan_revisions(&self, namespace: &str) -> Option<&Revisions> {
        self.revisions.orphans(namespace)
    }

    /// DaemonSets. What one leaves behind is deleted by the garbage collector.
    pub(super) fn each_key(&self, each: &mut dyn FnMut(&Arc<ObjectKey>)) {
        self.by_key.keys().for_each(each);
    }
}
