//! S1: a node has one pod of a DaemonSet.

use super::world::World;
use crate::history::History;
use crate::invariant::Invariant::S1;
use crate::object::{PODS, has_ended, is_deleting, node_of, uid};
use crate::verdict::{Assumptions, Checked, Verdict, Violation};

/// S1. Where we create a pod of a DaemonSet for a node, no other pod of it that we made is there that has not ended;
/// one is if the DaemonSet has, or ever had, a `maxSurge`. Pods of apps/v1 that were told to stop do not count then, as
/// with upstream: they have no slot that others wait for. Nor is a DaemonSet of apps/v1 judged if several lead.
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
        if set.is_native() && assumptions.several_lead() {
            continue;
        }
        if assumptions.others(step) || (assumptions.late)(step) {
            continue;
        }
        let others = set.on(node_of(pod));
        let others = others.filter(|other| uid(other.last) != uid(pod) && other.ours);
        let surged = set.ever_surged();
        let stops = |pod| is_deleting(pod) && surged && set.is_native();
        let others = others.filter(|other| !has_ended(other.last) && !stops(other.last));
        checked.require(others.count() <= usize::from(surged), || {
            let what = format!("{} is one more pod on {}", step.key, node_of(pod));
            Violation::at(S1, step, what)
        })?;
    }
    Ok(checked)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::scene::{Scene, breaks, holds, strict};

    #[test]
    fn a_node_has_one_pod() {
        let one = Scene::agents(json!({}));
        holds(S1, &one, &strict());
        let what = "is one more pod on n1";
        breaks(S1, &one.clone().pod_of("n1", 2), &strict(), what);
        let stopping = one.clone().stops_on("carillon", "n1", 1);
        breaks(S1, &stopping.pod_of("n1", 2), &strict(), what);
        holds(S1, &one.fails_on("n1", 1).pod_of("n1", 2), &strict());
    }

    #[test]
    fn with_a_surge_it_has_two() {
        let surge = json!({"updateStrategy": {"rollingUpdate": {"maxSurge": 1}}});
        let two = Scene::agents(surge).pod_of("n1", 2);
        holds(S1, &two, &strict());
        breaks(S1, &two.pod_of("n1", 3), &strict(), "is one more pod on n1");
    }
}
