//! S9: a pod of a DaemonSet that waits for a hook is not deleted.

use serde_json::Value;

use super::world::World;
use crate::history::History;
use crate::invariant::Invariant::S9;
use crate::object::{PODS, is_deleting, list};
use crate::verdict::{Assumptions, Checked, Verdict, Violation};

/// S9. Where we delete a pod of a DaemonSet of carillon.dev, it carries none of the labels and finalizers of
/// `lifecycle.preDelete` in a version that whoever deletes may see.
pub fn no_pod_is_deleted_with_its_hook(history: &History, assumptions: &Assumptions) -> Verdict {
    let mut checked = Checked::all_of(history);
    let mut world = World::new(assumptions);
    for step in &history.steps {
        let (old, new) = (step.old.as_deref(), step.new.as_deref());
        let deleted = old.filter(|old| !is_deleting(old) && new.is_none_or(is_deleting));
        let judged = &*step.key.resource == PODS && assumptions.ours(step);
        let set = deleted.filter(|_| judged).and_then(|pod| world.of(pod));
        if let (Some(pod), Some(set)) = (deleted, set.filter(|set| !set.is_native())) {
            let mut versions = set.seen(assumptions, step);
            checked.require(versions.any(|version| !is_hooked(version, pod)), || {
                let what = format!("{} was deleted with its hook on it", step.key);
                Violation::at(S9, step, what)
            })?;
        }
        world.apply(step);
    }
    Ok(checked)
}

fn is_hooked(set: &Value, pod: &Value) -> bool {
    let hook = &set["spec"]["lifecycle"]["preDelete"];
    let labels = hook["labelsHandler"].as_object();
    let mut labels = labels.into_iter().flatten();
    let finalizers = list(pod, &["metadata", "finalizers"]);
    let mut wanted = list(hook, &["finalizersHandler"]).iter();
    labels.any(|(key, value)| pod["metadata"]["labels"][key] == *value)
        || wanted.any(|name| finalizers.contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::{Scene, breaks, holds, strict};

    #[test]
    fn a_pod_goes_when_its_hook_is_gone() {
        let scene = Scene::hooked(&serde_json::json!({}));
        let scene = scene.image(2).revision(2, 2).later(60);
        let told = scene.clone().told_on("carillon", "n1", 1);
        let what = "was deleted with its hook on it";
        for hooked in [&scene, &told] {
            let deleted = hooked.clone().stops_on("carillon", "n1", 1);
            breaks(S9, &deleted, &strict(), what);
            let by_others = hooked.clone().stops_on("kubectl", "n1", 1);
            let other = by_others.let_go_of("n2", 1);
            holds(S9, &other.stops_on("carillon", "n2", 1), &strict());
        }
        let let_go = told.clone().let_go_of("n1", 1);
        holds(S9, &let_go.stops_on("carillon", "n1", 1), &strict());
        let plain = told.edit_agent(|set| set["spec"]["lifecycle"] = Value::Null);
        let plain = plain.later(60);
        holds(S9, &plain.stops_on("carillon", "n1", 1), &strict());
    }
}
