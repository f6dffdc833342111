//! S9: a pod of a DaemonSet is deleted for a reason, or told that it is.

use serde_json::Value;

use super::told::tells;
use super::world::{Set, World, hash, scaled, should};
use crate::history::History;
use crate::invariant::Invariant::S9;
use crate::object::{PODS, has_ended, is_deleting, node_of, uid};
use crate::verdict::{Assumptions, Checked, Verdict, Violation};

/// S9. Where we delete a pod of a DaemonSet, or tell it that it goes: it has ended; or its node is gone, or should have
/// none by a version that whoever deletes may see; or another pod is there; or it is not of the newest revision, by now
/// or in what may be seen of the DaemonSet, and that lets updates be made: it is not paused nor OnDelete, its
/// `selector` selects the node, and more nodes have an old pod than its `partition` keeps.
pub fn stopped_for_a_reason(history: &History, assumptions: &Assumptions) -> Verdict {
    let mut checked = Checked::all_of(history);
    let mut world = World::new(assumptions);
    for step in &history.steps {
        let (old, new) = (step.old.as_deref(), step.new.as_deref());
        let goes = tells(step) || new.is_none_or(is_deleting);
        let told = old.filter(|old| !is_deleting(old) && goes);
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
            let specs = set.seen_specs(assumptions, step);
            let due = specs.len() > 1 || outdated && may_update(&world, set, pod, specs[0]);
            let reason = has_ended(pod) || unmeant || beside || due;
            checked.require(reason, || {
                let what = format!("{} was deleted without a reason", step.key);
                Violation::at(S9, step, what)
            })?;
        }
        world.apply(step);
    }
    Ok(checked)
}

/// Whether a spec lets an old pod be replaced.
fn may_update(world: &World<'_>, set: &Set<'_>, pod: &Value, spec: &Value) -> bool {
    let strategy = &spec["updateStrategy"];
    let rolling = &strategy["rollingUpdate"];
    let node = world.nodes.get(node_of(pod));
    let selected = rolling["selector"].is_null()
        || node.is_some_and(|node| {
            let wanted = rolling["selector"]["matchLabels"].as_object();
            let mut wanted = wanted.into_iter().flatten();
            wanted.all(|(key, value)| node["metadata"]["labels"][key] == *value)
        });
    let newest = set.newest().map(hash);
    // Those that are on their way out are still there: who deletes this one may have seen more of them.
    let old = set.pods.values();
    let old = old.filter(|pod| Some(hash(pod.last)) != newest).count();
    let kept = kept(&rolling["partition"], world.nodes.len());
    strategy["type"] != "OnDelete" && rolling["paused"] != true && selected && old > kept
}

/// The nodes of a partition, as few as may be: a percentage is one of the nodes that should have a pod.
fn kept(partition: &Value, nodes: usize) -> usize {
    if partition.is_string() {
        return 0;
    }
    scaled(partition, nodes).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::scene::{Scene, breaks, holds, strict};

    use crate::object::NODES;

    fn stopped(scene: Scene) -> Scene {
        scene.stops_on("carillon", "n1", 1)
    }

    fn updated(strategy: &Value) -> Scene {
        let scene = Scene::agents(json!({"updateStrategy": strategy}));
        scene.image(2).revision(2, 2).later(60)
    }

    #[test]
    fn a_pod_is_deleted_for_a_reason() {
        let runs = Scene::agents(json!({}));
        breaks(S9, &stopped(runs.clone()), &strict(), "without a reason");
        breaks(
            S9,
            &stopped(runs.clone().taint("n1", "NoSchedule")),
            &strict(),
            "without a reason",
        );
        let reasons = [
            runs.clone().fails_on("n1", 1),
            runs.clone().taint("n1", "NoExecute"),
            runs.clone().remove("kubectl", (NODES, "n1")),
            runs.clone().pod_of("n1", 2),
            updated(&json!({})),
            updated(&json!({"rollingUpdate": {"partition": 2}})),
            updated(&json!({"rollingUpdate": {"selector": {"matchLabels": {}}}})),
        ];
        for scene in reasons {
            holds(S9, &stopped(scene), &strict());
        }
    }

    #[test]
    fn a_pod_is_told_that_it_goes_for_a_reason() {
        let runs = Scene::hooked(&json!({}));
        let told = |scene: Scene| scene.told_on("carillon", "n1", 1);
        breaks(S9, &told(runs.clone()), &strict(), "without a reason");
        let updated = runs.image(2).revision(2, 2).later(60);
        holds(S9, &told(updated), &strict());
    }

    #[test]
    fn an_old_pod_stays_where_the_spec_says_so() {
        let pool = json!({"matchLabels": {"pool": "a"}});
        for strategy in [
            json!({"type": "OnDelete"}),
            json!({"rollingUpdate": {"paused": true}}),
            json!({"rollingUpdate": {"partition": 3}}),
            json!({"rollingUpdate": {"selector": pool}}),
        ] {
            breaks(
                S9,
                &stopped(updated(&strategy)),
                &strict(),
                "without a reason",
            );
        }
    }
}
