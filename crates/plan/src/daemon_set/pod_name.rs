//! The names that pods of a node may have: the name is what keeps it from getting two.

use jiff::Timestamp;

use super::snapshot::Snapshot;
use super::spec::DaemonSet;
use crate::name;

/// Names that are tried for a node: more than one are held by others only if pods were released there.
const MOST_NAMES: u32 = 64;

/// How many names of a node pods of the set and those of others may have, before the next one has to wait. Upstream has
/// names without an end, and so no pod that waits for a name.
fn slots(set: &DaemonSet) -> u32 {
    match (set.native, set.spec.update.may_surge()) {
        (true, _) => MOST_NAMES,
        (false, true) => 2,
        (false, false) => 1,
    }
}

/// Whether the next pod of a node may have to wait until this name of a pod of the set is free.
pub(super) fn is_slot(set: &DaemonSet, node: &str, pod: &str) -> bool {
    let owner = &set.meta.owner;
    let mut names =
        (0..slots(set)).map(|slot| name::daemon_pod(&owner.name, owner.uid, node, slot));
    !set.native && names.any(|name| name == pod)
}

/// The name of the next pod of a node. `None`: each that it may have is taken. One of apps/v1 does not get that of the
/// failed pod that it replaces: who waits for the end of that pod waits for its name. One that a pod has kept which was
/// released is left to it. If another controller has adopted that pod, no cache shows it: a leader that is behind would
/// take the name as soon as it is free, and so no third one is taken meanwhile.
pub(super) fn free_name(snapshot: &Snapshot<'_>, node: &str, now: Timestamp) -> Option<String> {
    let set = snapshot.set;
    let is_taken = |name: &str| {
        let known = snapshot.taken_pods.get(name);
        known.is_some_and(|known| known.tried.holds(set.meta.generation, now))
    };
    let failed = snapshot.failed.get(node).map(|failed| &*failed.pod);
    let replaced = failed.filter(|_| set.native);
    let owner = &set.meta.owner;
    let mut slots = slots(set);
    for slot in 0..MOST_NAMES {
        let name = name::daemon_pod(&owner.name, owner.uid, node, slot);
        if snapshot.free.contains_key(name.as_str()) || replaced == Some(&*name) {
            continue;
        }
        if !snapshot.pods.contains_key(name.as_str()) && !is_taken(&name) {
            return Some(name);
        }
        slots -= 1;
        if slots == 0 {
            return None;
        }
    }
    None
}
