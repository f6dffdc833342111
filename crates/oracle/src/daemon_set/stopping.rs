//! S9: a pod of a DaemonSet is deleted for a reason.

use super::world::{World, hash, should};
use crate::history::History;
use crate::invariant::Invariant::S9;
use crate::object::{PODS, has_ended, is_deleting, node_of, uid};
use crate::verdict::{Assumptions, Checked, Verdict, Violation};

/// S9. Where we delete a pod of a DaemonSet: it has ended; or its node is gone, or should have none by a version that
/// whoever deletes may see; or another pod is there; or it is not of the newest revision, by now or in what may be
/// seen of the DaemonSet.
pub fn stopped_for_a_reason(history: &History, assumptions: &Assumptions) -> Verdict {
    let mut checked = Checked::all_of(history);
    let mut world = World::new(assumptions);
    for step in &history.steps {
        let (old, new) = (step.old.as_deref(), step.new.as_deref());
        let told = old.filter(|old| !is_deleting(old) && new.is_none_or(is_deleting));
        let judged = &*step.key.resource == PODS && assumptions.ours(step);
        let set = told.filter(|_| judged).and_then(|pod| world.of(pod));
        if let (Some(pod), Some(set)) = (told, set) {
            let node = world.nodes.get(node_of(pod));
            let unmeant = node.is_none_or(|node| {
                let mut versions = set.seen(assumptions, step);
                versions.any(|version| !should(version, node).1)
            });
            let beside = set
                .on(node_of(pod))
                .any(|other| uid(other.last) != uid(pod));
            let outdated = set.newest().is_none_or(|newest| hash(newest) != hash(pod));
            let edited = set.seen(assumptions, step).count() > 1;
            let reason = has_ended(pod) || unmeant || beside || outdated || edited;
            checked.require(reason, || {
                let what = format!("{} was deleted without a reason", step.key);
                Violation::at(S9, step, what)
            })?;
        }
        world.apply(step);
    }
    Ok(checked)
}
