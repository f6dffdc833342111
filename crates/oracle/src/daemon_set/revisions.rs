//! S5: a revision that a pod was made from stays.

use super::world::{World, hash};
use crate::history::History;
use crate::invariant::Invariant::S5;
use crate::verdict::{Assumptions, Checked, Verdict, Violation};

/// S5. Where we delete a revision, no pod of its DaemonSet carries its hash, unless another revision has that, too.
/// It is not judged if several lead: one of them may not have seen the pod.
pub fn kept_while_used(history: &History, assumptions: &Assumptions) -> Verdict {
    let mut checked = Checked::all_of(history);
    let mut world = World::new(assumptions);
    for step in &history.steps {
        let gone = step.old.as_deref().filter(|_| step.new.is_none());
        world.apply(step);
        let Some(gone) = gone.filter(|_| assumptions.ours(step) && !assumptions.several_lead())
        else {
            continue;
        };
        if &*step.key.resource != "controllerrevisions.apps" {
            continue;
        }
        let Some(set) = world.of(gone) else { continue };
        let mut pods = set.pods.values();
        let used = pods.any(|pod| hash(pod.last) == hash(gone));
        let mut others = set.revisions.values();
        let kept = others.any(|other| hash(other) == hash(gone));
        checked.require(!used || kept, || {
            Violation::at(S5, step, format!("{} is gone while pods need it", step.key))
        })?;
    }
    Ok(checked)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::scene::{Scene, breaks, holds, strict};

    use super::super::world::REVISIONS;

    #[test]
    fn a_revision_that_a_pod_was_made_from_stays() {
        let scene = Scene::agents(json!({})).image(2).revision(2, 2);
        let gone = |scene: Scene| scene.remove("carillon", (REVISIONS, "h1"));
        breaks(S5, &gone(scene.clone()), &strict(), "pods need it");
        let mut without = scene;
        for node in ["n1", "n2", "n3"] {
            without = without.gone_from(node, 1);
        }
        holds(S5, &gone(without), &strict());
    }
}
