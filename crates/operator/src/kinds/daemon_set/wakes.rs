//! Whom a change of a pod or of a revision wakes.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use carillon_api::condition::reasons::{PROGRESS_DEADLINE_EXCEEDED, UPDATING};
use carillon_api::condition::types::PROGRESSING;
use carillon_plan::daemon_set::should_run::should_run;
use carillon_plan::daemon_set::spec::Update;
use carillon_plan::daemon_set::{DaemonPod, DaemonSet};
use carillon_plan::selector::selects;
use carillon_plan::{ObjectKey, condition};

use super::tables::{CONTROLLER, DaemonSetTables};
use crate::store::dependents::Concerns;
use crate::store::{Tables, Wake};

/// Whether a node that has lost its pod may get the next one at once. Of one that left with its node, or that its node
/// should not have had, nothing follows but other numbers.
pub(super) fn gets_next(tables: &Tables, set: &DaemonSet, node: Option<&str>) -> bool {
    let node = node.and_then(|name| Some((name, tables.nodes().get(name)?)));
    let runs = |(name, node)| should_run(&set.spec.placement, name, node).runs();
    !set.meta.deleting && node.is_some_and(runs)
}

/// Wakes for a pod that is gone.
pub(super) fn gone(tables: &Tables, owner: Arc<ObjectKey>, pod: Option<&DaemonPod>) -> Wake {
    let node = pod.and_then(|pod| pod.node.as_deref());
    let set = tables.daemon_sets.get(&owner);
    if set.is_some_and(|set| gets_next(tables, set, node)) {
        Wake::now(CONTROLLER, owner)
    } else {
        Wake::soon(CONTROLLER, owner)
    }
}

/// Whether an update waits for pods to become ready: the next node takes its turn at once. Where they have to be ready
/// for a while the plan says when, and where a field of the spec keeps the old pods that are left nothing waits.
pub(super) fn awaits_pods(set: &DaemonSet) -> bool {
    let (spec, status) = (&set.spec, &set.status);
    let updated = status.updated_number_scheduled.unwrap_or(0);
    let progressing = condition::find(&status.conditions, PROGRESSING);
    let reason = progressing.map(|found| &*found.reason);
    let goes_on = matches!(reason, Some(UPDATING | PROGRESS_DEADLINE_EXCEEDED));
    spec.update != Update::OnDelete
        && !spec.paused
        && spec.min_ready_seconds == 0
        && updated < status.current_number_scheduled
        && (set.native || goes_on)
}

/// Wakes those who control it, and those who may adopt it; the former at once if that lets their work go on.
pub(super) fn wake(
    tables: &DaemonSetTables,
    namespace: &str,
    concerns: Concerns,
    goes_on: impl Fn(&DaemonSet) -> bool,
    wakes: &mut Vec<Wake>,
) {
    let Concerns { owners, orphan } = concerns;
    wakes.extend(owners.into_iter().map(|owner| {
        if tables.get(&owner).is_some_and(|set| goes_on(set)) {
            Wake::now(CONTROLLER, owner)
        } else {
            Wake::soon(CONTROLLER, owner)
        }
    }));
    let Some(labels) = orphan else { return };
    let here = tables
        .iter()
        .filter(|set| set.meta.owner.namespace == namespace);
    let selecting = here.filter(|set| selects(&set.spec.selector, &labels));
    wakes.extend(selecting.map(|set| Wake::soon(CONTROLLER, set.meta.owner.clone())));
}
