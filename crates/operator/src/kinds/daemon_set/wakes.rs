//! Whom a change of a pod or of a revision wakes.

#[cfg(test)]
mod tests;

use carillon_plan::selector::selects;

use super::tables::{CONTROLLER, DaemonSetTables};
use crate::store::Wake;
use crate::store::dependents::Concerns;

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
