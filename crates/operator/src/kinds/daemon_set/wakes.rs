//! Whom a change of a pod or of a revision wakes.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use carillon_plan::ObjectKey;
use carillon_plan::daemon_set::spec::Update;
use carillon_plan::daemon_set::{DaemonPod, DaemonSet};
use carillon_plan::selector::selects;

use super::tables::{CONTROLLER, DaemonSetTables};
use crate::store::dependents::Concerns;
use crate::store::{Tables, Wake};

/// Wakes for a pod that is gone. Its node may get the next one at once; one that left with its node is only counted.
pub(super) fn gone(tables: &Tables, owner: Arc<ObjectKey>, pod: Option<&DaemonPod>) -> Wake {
    let exists = |node: &Arc<str>| tables.nodes().contains_key(node);
    let is_free = pod.and_then(|pod| pod.node.as_ref()).is_some_and(exists);
    let set = tables.daemon_sets.get(&owner);
    if is_free && set.is_some_and(|set| !set.meta.deleting) {
        Wake::now(CONTROLLER, owner)
    } else {
        Wake::soon(CONTROLLER, owner)
    }
}

/// Whether an update waits for pods to become ready: the next node takes its turn at once.
pub(super) fn awaits_pods(set: &DaemonSet) -> bool {
    let status = &set.status;
    let updated = status.updated_number_scheduled.unwrap_or(0);
    set.spec.update != Update::OnDelete && updated < status.current_number_scheduled
}

/// Wakes those who control it, and those who may adopt it.
pub(super) fn wake(
    tables: &DaemonSetTables,
    namespace: &str,
    concerns: Concerns,
    wakes: &mut Vec<Wake>,
) {
    let Concerns { owners, orphan } = concerns;
    let owners = owners.into_iter();
    wakes.extend(owners.map(|owner| Wake::soon(CONTROLLER, owner)));
    let Some(labels) = orphan else { return };
    let here = tables
        .iter()
        .filter(|set| set.meta.owner.namespace == namespace);
    let selecting = here.filter(|set| selects(&set.spec.selector, &labels));
    wakes.extend(selecting.map(|set| Wake::soon(CONTROLLER, set.meta.owner.clone())));
}
