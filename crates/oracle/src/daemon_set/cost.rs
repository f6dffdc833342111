//! S12: no pods of a DaemonSet are made and removed, or told that they go and stay, in circles, and no status is
//! written for nothing.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use super::told::{tells, tells_again};
use super::world::{REVISIONS, SETS, World, set_of};
use crate::history::{History, Step};
use crate::invariant::Invariant::S12;
use crate::object::{NODES, PODS, condition, is_deleting, node_of, number, uid};
use crate::verdict::{Assumptions, Checked, Verdict, Violation};

/// Pods for a node whatever happens: each fails at once and is replaced after a wait that doubles, in a few processes
/// one after the other.
const AT_ALL: u64 = 40;
/// And so many for each change of the DaemonSet or the node, and for each pod that somebody else deletes.
const FOR_EACH_CHANGE: u64 = 12;
/// Statuses in a row between which nothing happens but that time passes; and one for each pod that becomes available.
const IDLE_WRITES: usize = 3;

/// S12. We create no more pods of a DaemonSet for a node than a base, and so many for each change by others that could
/// be a reason. So it is with telling a pod that it goes, which no pod is told that knows. Between two statuses that we
/// write something happens that a status may tell of, but for a few, and for what is seen late, one after the other;
/// unless several lead.
pub fn bounded_pods(history: &History, assumptions: &Assumptions) -> Verdict {
    let mut checked = Checked::all_of(history);
    let mut world = World::new(assumptions);
    let mut created: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    let mut of_sets: BTreeMap<&str, u64> = BTreeMap::new();
    let mut of_nodes: BTreeMap<&str, u64> = BTreeMap::new();
    let mut idle: BTreeMap<&str, usize> = BTreeMap::new();
    let mut happened: Vec<(u64, Timestamp)> = Vec::new();
    for step in &history.steps {
        let Some(object) = step.new.as_deref().or(step.old.as_deref()) else {
            continue;
        };
        if happens(step) || assumptions.several_lead() {
            idle.clear();
            happened.push((step.rev, step.at));
        } else if let Some(set) = world.sets.get(uid(object)) {
            let writes = idle.entry(uid(object)).or_default();
            *writes += 1;
            happened.retain(|then| assumptions.may_see(step, *then));
            let allowed = IDLE_WRITES + set.pods.len() + happened.len();
            checked.require(*writes <= allowed, || {
                let what = format!("{}: {writes} statuses while nothing happened", step.key);
                Violation::at(S12, step, what)
            })?;
        }
        let ours = assumptions.ours(step);
        match &*step.key.resource {
            NODES if is_moved(step) => *of_nodes.entry(&step.key.name).or_default() += 1,
            PODS if ours && tells_again(step) => {
                checked.require(false, || {
                    let what = format!("{} is told again that it goes", step.key);
                    Violation::at(S12, step, what)
                })?;
            }
            PODS if !ours && is_deleted(step) => {
                *of_nodes.entry(node_of(object)).or_default() += 1;
            }
            PODS if ours && (step.old.is_none() || tells(step)) => {
                let set = set_of(object).filter(|set| world.sets.contains_key(set));
                let Some(set) = set else { continue };
                let many = created.entry((set, node_of(object))).or_default();
                *many += 1;
                let of = |changes: &BTreeMap<&str, u64>, key| changes.get(key).copied();
                let changes =
                    of(&of_sets, set).unwrap_or(0) + of(&of_nodes, node_of(object)).unwrap_or(0);
                let allowed = AT_ALL + FOR_EACH_CHANGE * changes;
                checked.require(*many <= allowed, || {
                    let what = format!("{}: pod {many} of {}", step.key, node_of(object));
                    Violation::at(S12, step, what)
                })?;
            }
            _ if world.sets.contains_key(uid(object)) && is_edited(step) => {
                *of_sets.entry(uid(object)).or_default() += 1;
            }
            _ => {}
        }
        world.apply(step);
    }
    Ok(checked)
}

/// Whether a status may now have something else to tell.
fn happens(step: &Step) -> bool {
    match &*step.key.resource {
        NODES => {
            let ready =
                |node: &Value| condition(node, "Ready").map(|ready| ready["status"].clone());
            let (old, new) = (step.old.as_deref(), step.new.as_deref());
            is_moved(step) || old.and_then(ready) != new.and_then(ready)
        }
        PODS | REVISIONS => true,
        resource => SETS.contains(&resource) && is_edited(step),
    }
}

fn is_deleted(step: &Step) -> bool {
    let alive = |object: &Value| !is_deleting(object);
    step.old.as_deref().is_some_and(alive) && !step.new.as_deref().is_some_and(alive)
}

fn is_edited(step: &Step) -> bool {
    let generation = |object| number(object, &["metadata", "generation"]);
    let (old, new) = (step.old.as_deref(), step.new.as_deref());
    old.map(generation) != new.map(generation)
}

/// Whether a node could now have a pod that it could not have before, or the other way round.
fn is_moved(step: &Step) -> bool {
    let (Some(old), Some(new)) = (step.old.as_deref(), step.new.as_deref()) else {
        return true;
    };
    old["metadata"]["labels"] != new["metadata"]["labels"] || old["spec"] != new["spec"]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::world::OURS;
    use super::*;
    use crate::check;
    use crate::scene::{Scene, breaks, holds, strict};

    /// A pod fails so often on a node and is replaced.
    fn failed(times: i64, scene: Scene) -> Scene {
        (1..=times).fold(scene, |scene, nth| {
            let failed = scene.pod_of("n1", nth).fails_on("n1", nth);
            failed.stops_on("carillon", "n1", nth).gone_from("n1", nth)
        })
    }

    #[test]
    fn pods_are_not_made_in_circles() {
        let scene = Scene::agent(json!({})).revision(1, 1);
        // The node came, which is a change.
        let most = failed(52, scene.clone());
        holds(S12, &most, &strict());
        breaks(S12, &most.pod_of("n1", 53), &strict(), "pod 53 of n1");
        let deleted = (1..=80).fold(scene, |scene, nth| {
            let stopped = scene.pod_of("n1", nth).stops_on("kubectl", "n1", nth);
            stopped.gone_from("n1", nth)
        });
        holds(S12, &deleted, &strict());
    }

    #[test]
    fn a_pod_is_told_once_that_it_goes() {
        let told = Scene::hooked(&json!({})).told_on("carillon", "n1", 1);
        holds(S12, &told, &strict());
        let again = told.later(5).told_on("carillon", "n1", 1);
        breaks(S12, &again, &strict(), "is told again that it goes");
    }

    #[test]
    fn no_status_is_written_for_nothing() {
        let written = |times: i64| {
            (0..times).fold(Scene::agents(json!({})), |scene, _| {
                scene.edit("carillon", (OURS, "agent"), |_| {})
            })
        };
        holds(S12, &written(6), &strict());
        breaks(
            S12,
            &written(7),
            &strict(),
            "7 statuses while nothing happened",
        );
        let late = Assumptions {
            lag: jiff::SignedDuration::from_mins(15),
            ..strict()
        };
        // Nodes and pods came at the same time, and may have been seen one after the other.
        assert!(check(S12, &written(7).history(), &late).is_ok());
        let ready = written(6).runs_on("n1", 1);
        holds(
            S12,
            &ready.edit("carillon", (OURS, "agent"), |_| {}),
            &strict(),
        );
    }
}
