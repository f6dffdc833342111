//! L1, L2, L4 and L6: when nothing happens any more each node has the pod that it should have, and the status says so.

use jiff::Timestamp;

use super::told::has_word;
use super::world::{Set, World, hash, is_well, rolling_update, should};
use crate::history::History;
use crate::invariant::Invariant::{self, L1, L2, L4, L6};
use crate::object::{has_ended, is_deleting, is_true, name, node_of, number, phase};
use crate::verdict::{Assumptions, Checked, Verdict, Violation};

/// L1, for a run that is `over`. Of each DaemonSet that is left and that nobody has deleted, each node that is well and
/// should have a pod has one; of the newest revision, unless the update is paused, partitioned, by request, or only of
/// some nodes; and no node that should have none has one that may not stay. A node on which a pod has failed may wait.
pub fn every_node_is_served(history: &History, assumptions: &Assumptions) -> Verdict {
    if assumptions.over {
        settled_by(L1, history, assumptions, Timestamp::MAX, unsettled)
    } else {
        Ok(Checked::all_of(history))
    }
}

/// L6, for a run that is `over` and had `permanent_faults`: what L1 says.
pub fn every_node_is_served_under_pressure(
    history: &History,
    assumptions: &Assumptions,
) -> Verdict {
    if assumptions.over && assumptions.permanent_faults {
        settled_by(L6, history, assumptions, Timestamp::MAX, unsettled)
    } else {
        Ok(Checked::all_of(history))
    }
}

/// L2, for a run that was `healed`: what L1 says is so when the bound is over.
pub fn every_node_is_served_in_time(history: &History, assumptions: &Assumptions) -> Verdict {
    let Some((healed, bound)) = assumptions.healed else {
        return Ok(Checked::all_of(history));
    };
    let due = healed.checked_add(bound).unwrap_or(Timestamp::MAX);
    settled_by(L2, history, assumptions, due, unsettled)
}

/// L4, for a run that is `over`: the numbers of the status are those of the nodes and pods, and it was written for the
/// last generation.
pub fn status_is_what_is_there(history: &History, assumptions: &Assumptions) -> Verdict {
    if assumptions.over {
        settled_by(L4, history, assumptions, Timestamp::MAX, miscounted)
    } else {
        Ok(Checked::all_of(history))
    }
}

fn settled_by(
    invariant: Invariant,
    history: &History,
    assumptions: &Assumptions,
    until: Timestamp,
    wrong: fn(&World<'_>, &Set<'_>) -> Option<String>,
) -> Verdict {
    let mut checked = Checked::all_of(history);
    let (world, last) = World::at(history, assumptions, until);
    let alive = |set: &&Set<'_>| set.gone.is_none() && !is_deleting(set.last);
    for set in world.sets.values().filter(alive) {
        let wrong = wrong(&world, set);
        checked.require(wrong.is_none(), || {
            let what = format!("{}: {}", set.key, wrong.unwrap_or_default());
            Violation::in_state(invariant, last, set.key, Some(set.last), what)
        })?;
    }
    Ok(checked)
}

fn unsettled(world: &World<'_>, set: &Set<'_>) -> Option<String> {
    if is_true(set.last, "Stalled") {
        return Some("it is Stalled".to_owned());
    }
    let rolling = rolling_update(set.last);
    let none =
        |field: &str| rolling[field].is_null() || rolling[field] == 0 || rolling[field] == "0%";
    let updates = set.last["spec"]["updateStrategy"]["type"] != "OnDelete"
        && rolling["paused"] != true
        && rolling["selector"].is_null()
        && none("partition");
    let newest = set.newest().map(hash);
    for (node, row) in &world.nodes {
        let (runs, stays) = should(set.last, row);
        let pods: Vec<_> = set.on(node).map(|pod| pod.last).collect();
        if !stays && is_well(row) && !pods.is_empty() {
            return Some(format!("{node} should have no pod"));
        }
        if !runs || !is_well(row) || pods.iter().any(|pod| phase(pod) == "Failed") {
            continue;
        }
        let [pod] = pods[..] else {
            return Some(format!("{node} has {} pods", pods.len()));
        };
        let stays = Some(hash(pod)) == newest || rolling["paused"] == true;
        if stays && has_word(pod) && !is_deleting(pod) {
            return Some(format!(
                "{} on {node} stays, and is told that it goes",
                name(pod)
            ));
        }
        if updates && (is_deleting(pod) || Some(hash(pod)) != newest) {
            return Some(format!(
                "{} on {node} is not of the newest revision",
                name(pod)
            ));
        }
    }
    None
}

fn miscounted(world: &World<'_>, set: &Set<'_>) -> Option<String> {
    let status = |field: &str| number(set.last, &["status", field]);
    let newest = set.newest().map(hash);
    let meant = world
        .nodes
        .iter()
        .filter(|(_, row)| should(set.last, row).0);
    let (mut desired, mut current, mut ready, mut updated) = (0, 0, 0, 0);
    for (node, _) in meant {
        desired += 1;
        let alive = set
            .on(node)
            .filter(|pod| !(has_ended(pod.last) && is_deleting(pod.last)));
        let pods: Vec<_> = alive.map(|pod| pod.last).collect();
        let [pod] = pods[..] else { continue };
        debug_assert_eq!(node_of(pod), *node);
        current += 1;
        ready += i64::from(is_true(pod, "Ready"));
        updated += i64::from(Some(hash(pod)) == newest);
    }
    for (field, expected) in [
        ("desiredNumberScheduled", desired),
        ("currentNumberScheduled", current),
        ("numberReady", ready),
        ("updatedNumberScheduled", updated),
        (
            "observedGeneration",
            number(set.last, &["metadata", "generation"]),
        ),
    ] {
        if status(field) != expected {
            return Some(format!("{field} is {}, not {expected}", status(field)));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::scene::{Scene, breaks, holds, strict};

    use super::super::world::OURS;

    fn over() -> Assumptions {
        Assumptions {
            over: true,
            ..strict()
        }
    }

    #[test]
    fn each_node_has_a_pod_of_the_newest_revision_in_the_end() {
        let served = Scene::agents(json!({}));
        holds(L1, &served, &over());
        breaks(
            L1,
            &served.clone().gone_from("n1", 1),
            &over(),
            "n1 has 0 pods",
        );
        breaks(
            L1,
            &served.clone().pod_of("n1", 2),
            &over(),
            "n1 has 2 pods",
        );
        holds(L1, &served.clone().fails_on("n1", 1), &over());
        let old = served.clone().image(2).revision(2, 2);
        breaks(L1, &old, &over(), "is not of the newest revision");
        let paused = json!({"rollingUpdate": {"paused": true}});
        let paused = old.edit_agent(|set| set["spec"]["updateStrategy"] = paused);
        holds(L1, &paused, &over());
        let tainted = served.clone().taint("n1", "NoExecute");
        breaks(L1, &tainted, &over(), "n1 should have no pod");
        holds(L1, &served.taint("n1", "NoSchedule"), &over());
    }

    #[test]
    fn a_pod_that_stays_is_told_so_in_the_end() {
        let told = Scene::hooked(&json!({})).told_on("carillon", "n1", 1);
        let what = "stays, and is told that it goes";
        breaks(L1, &told, &over(), what);
        holds(L1, &told.kept_on("n1", 1), &over());
    }

    #[test]
    fn the_status_says_what_is_there() {
        let counted = |ready: i64| {
            Scene::agents(json!({})).edit("carillon", (OURS, "agent"), |set| {
                set["status"] = json!({"desiredNumberScheduled": 3, "currentNumberScheduled": 3,
                    "numberReady": ready, "updatedNumberScheduled": 3, "observedGeneration": 1});
            })
        };
        holds(L4, &counted(3), &over());
        breaks(L4, &counted(2), &over(), "numberReady is 2, not 3");
    }
}
