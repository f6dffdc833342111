//! DaemonSet, of carillon.dev and of apps/v1: one pod on each node that should have one.
//!
//! What is here decides which nodes those are, and which pods come and go. It is not served yet.

pub mod backoff;
mod manage;
mod on_nodes;
pub mod pod;
mod rolling_update;
pub mod should_run;
mod snapshot;
pub mod spec;
mod status;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::DaemonSetStatus;

pub use self::manage::Why;
use self::manage::manage;
use self::on_nodes::on_nodes;
pub use self::pod::{DaemonPod, DaemonPods};
pub use self::rolling_update::Budget;
use self::rolling_update::rolling_update;
pub use self::snapshot::Snapshot;
pub use self::spec::DaemonSet;

/// Which pods come and go.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct PodChanges<'a> {
    /// Nodes that get a pod.
    pub create: Vec<&'a str>,
    /// Pods that are deleted, by name, with why.
    pub delete: Vec<(&'a str, Why)>,
    /// When a failed pod may be replaced.
    pub wake: Option<Timestamp>,
}

/// What should happen to pods now. `hash`: the current revision.
pub fn pod_changes<'a>(snapshot: &Snapshot<'a>, hash: &str, now: Timestamp) -> PodChanges<'a> {
    let nodes = on_nodes(snapshot);
    let managed = manage(snapshot, &nodes, hash, now);
    let removed = managed.delete.iter().map(|((name, _), _)| *name).collect();
    let next = rolling_update(snapshot.set, &nodes, &removed, hash, now);
    let outdated = next.delete.into_iter().map(|name| (name, Why::Outdated));
    let deleted = managed
        .delete
        .into_iter()
        .map(|((name, _), why)| (name, why));
    PodChanges {
        create: managed.create.into_iter().chain(next.create).collect(),
        delete: deleted.chain(outdated).collect(),
        wake: managed.wake,
    }
}

/// The numbers of the status now. `hash`: the current revision.
pub fn counts(snapshot: &Snapshot<'_>, hash: &str, now: Timestamp) -> DaemonSetStatus {
    status::count(snapshot.set, &on_nodes(snapshot), hash, now)
}
