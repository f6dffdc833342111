//! S1: a node has one pod of a DaemonSet.

use super::world::World;
use crate::history::History;
use crate::invariant::Invariant::S1;
use crate::object::{PODS, has_ended, node_of, uid};
use crate::verdict::{Assumptions, Checked, Verdict, Violation};

/// S1. Where we create a pod of a DaemonSet for a node, no other pod of it that we made is there that has not ended;
/// one is if the DaemonSet has, or ever had, a `maxSurge`.
pub fn one_pod_per_node(history: &History, assumptions: &Assumptions) -> Verdict {
    let mut checked = Checked::all_of(history);
    let mut world = World::new(assumptions);
    for step in &history.steps {
        world.apply(step);
        let pod = step.new.as_deref().filter(|_| step.old.is_none());
        let Some(pod) = pod.filter(|_| &*step.key.resource == PODS) else {
            continue;
        };
        let Some(set) = world.of(pod) else { continue };
        if assumptions.others(step) || (assumptions.late)(step) {
            continue;
        }
        let others = set.on(node_of(pod));
        let others = others.filter(|other| uid(other.last) != uid(pod) && other.ours);
        let others = others.filter(|other| !has_ended(other.last)).count();
        checked.require(others <= usize::from(set.ever_surged()), || {
            let what = format!("{} is one more pod on {}", step.key, node_of(pod));
            Violation::at(S1, step, what)
        })?;
    }
    Ok(checked)
}
