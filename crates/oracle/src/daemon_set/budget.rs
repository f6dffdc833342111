//! S3: an update takes no more nodes their pod than `maxUnavailable` allows, and gives no more a second one than
//! `maxSurge`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::told::tells;
use super::world::{Set, World, is_available, is_well, rolling_update, scaled, should};
use crate::history::{History, Step};
use crate::invariant::Invariant::S3;
use crate::object::{PODS, is_deleting, node_of, uid};
use crate::verdict::{Assumptions, Checked, Verdict, Violation};

/// S3. A node is *taken down* when we delete the last available pod of a DaemonSet on it, or tell it that it goes,
/// while the node is well and should have one; until it has an available pod again, or should have none, or is gone. At
/// no revision are more nodes taken down than `maxUnavailable` of a version that whoever deletes may see; with a
/// `maxSurge` none is.
///
/// A node *surges* when we create a pod for it beside one that has been available for a while, and when one of two is
/// told that it goes; until both are available, or one goes, or it should have none, or is gone. At no revision do more
/// nodes surge than `maxSurge` of such a version.
///
/// Where several processes lead at once, each of them may take down and surge so many.
pub fn no_more_than_may_be(history: &History, assumptions: &Assumptions) -> Verdict {
    let mut checked = Checked::all_of(history);
    let mut world = World::new(assumptions);
    let mut down = Touched::default();
    let mut surging = Touched::default();
    for step in &history.steps {
        let taken = taken(&world, step);
        let surged = surged(&world, step);
        world.apply(step);
        down.0
            .retain(|(set, node)| still_down(&world, set, node, step));
        surging
            .0
            .retain(|(set, node)| still_surges(&world, set, node, step));
        if let Some((many, set)) = taken.and_then(|taken| down.with(&world, taken)) {
            let allowed = most(&world, set, step, unavailable);
            checked.require(many <= allowed, || {
                let what = format!("{many} nodes are without an available pod, {allowed} may be");
                Violation::at(S3, step, what)
            })?;
        }
        if tells(step) {
            surging.0.extend(two_for_a_while(&world, step));
        }
        if let Some((many, set)) = surged.and_then(|surged| surging.with(&world, surged)) {
            let allowed = most(&world, set, step, surge);
            checked.require(many <= allowed, || {
                let what = format!("{many} nodes have a second pod, {allowed} may have one");
                Violation::at(S3, step, what)
            })?;
        }
    }
    Ok(checked)
}

/// DaemonSets and nodes.
#[derive(Debug, Default)]
struct Touched<'h>(BTreeSet<(&'h str, &'h str)>);

impl<'h> Touched<'h> {
    /// Adds a node. How many there are then of its DaemonSet, and that.
    fn with<'w>(
        &mut self,
        world: &'w World<'h>,
        one: (&'h str, &'h str),
    ) -> Option<(usize, &'w Set<'h>)> {
        self.0.insert(one);
        let many = self.0.iter().filter(|(set, _)| *set == one.0).count();
        Some((many, world.sets.get(one.0)?))
    }
}

/// DaemonSet and node to which a step gives a second pod.
fn surged<'h>(world: &World<'h>, step: &'h Step) -> Option<(&'h str, &'h str)> {
    let pod = step.new.as_deref().filter(|_| step.old.is_none())?;
    let judged = &*step.key.resource == PODS
        && world.assumptions.ours(step)
        && !(world.assumptions.late)(step);
    let set = world.of(pod).filter(|_| judged)?;
    let (node, row) = world.nodes.get_key_value(node_of(pod))?;
    // What became available just now may not have been seen.
    let then = step.at.checked_sub(world.assumptions.lag).ok()?;
    let mut others = set.on(node);
    let beside = others.any(|other| is_available(set.last, other.last, then));
    let meant = set
        .seen(world.assumptions, step)
        .all(|version| should(version, row).0);
    (beside && is_well(row) && meant).then(|| (uid(set.last), *node))
}

/// DaemonSet and node of a pod that we tell that it goes, where another one is beside it.
fn two_for_a_while<'h>(world: &World<'h>, step: &'h Step) -> Option<(&'h str, &'h str)> {
    let pod = step.new.as_deref()?;
    let judged = &*step.key.resource == PODS && world.assumptions.ours(step);
    let set = world.of(pod).filter(|_| judged)?;
    let (node, row) = world.nodes.get_key_value(node_of(pod))?;
    let surges = is_well(row) && still_surges(world, uid(set.last), node, step);
    surges.then(|| (uid(set.last), *node))
}

fn still_surges(world: &World<'_>, set: &str, node: &str, step: &Step) -> bool {
    let (Some(set), Some(row)) = (world.sets.get(set), world.nodes.get(node)) else {
        return false;
    };
    let alive = || set.on(node).filter(|pod| !is_deleting(pod.last));
    let waits = alive().any(|pod| !is_available(set.last, pod.last, step.at));
    set.gone.is_none() && should(set.last, row).0 && alive().count() > 1 && waits
}

/// DaemonSet and node that a step takes down.
fn taken<'h>(world: &World<'h>, step: &'h Step) -> Option<(&'h str, &'h str)> {
    let (old, new) = (step.old.as_deref()?, step.new.as_deref());
    let told = (tells(step) || new.is_none_or(is_deleting)) && !is_deleting(old);
    let judged = &*step.key.resource == PODS
        && told
        && world.assumptions.ours(step)
        && !(world.assumptions.late)(step);
    let set = world.of(old).filter(|_| judged)?;
    let (node, row) = world.nodes.get_key_value(node_of(old))?;
    // What became available just now may not have been seen: of what is not available anything may go.
    let then = step.at.checked_sub(world.assumptions.lag).ok()?;
    let was_available = is_available(set.last, old, then);
    let others = set.on(node).filter(|pod| uid(pod.last) != uid(old));
    let available = |pod: &Value| is_available(set.last, pod, step.at);
    let keeps = others.filter(|pod| available(pod.last)).count() > 0;
    let meant = set
        .seen(world.assumptions, step)
        .all(|version| should(version, row).0);
    (was_available && !keeps && is_well(row) && meant).then(|| (uid(set.last), *node))
}

fn still_down(world: &World<'_>, set: &str, node: &str, step: &Step) -> bool {
    let (Some(set), Some(row)) = (world.sets.get(set), world.nodes.get(node)) else {
        return false;
    };
    let mut pods = set.on(node);
    set.gone.is_none()
        && should(set.last, row).0
        && !pods.any(|pod| is_available(set.last, pod.last, step.at))
}

/// The largest of what the versions allow that may be seen.
fn most(world: &World<'_>, set: &Set<'_>, step: &Step, of: fn(&Value, usize) -> usize) -> usize {
    let nodes = world.nodes.len();
    let versions = set.seen(world.assumptions, step);
    let each = versions.map(|version| of(rolling_update(version), nodes));
    each.max().unwrap_or(1) * world.assumptions.leaders
}

fn surge(rolling: &Value, nodes: usize) -> usize {
    scaled(&rolling["maxSurge"], nodes).unwrap_or(0)
}

fn unavailable(rolling: &Value, nodes: usize) -> usize {
    let otherwise = usize::from(surge(rolling, nodes) == 0);
    let most = scaled(&rolling["maxUnavailable"], nodes).unwrap_or(otherwise);
    // With none of both nothing would ever be updated.
    most.max(otherwise)
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use serde_json::json;

    use super::*;
    use crate::check;
    use crate::scene::{Scene, breaks, holds, strict};
    use crate::verdict::Assumptions;

    /// Another template, and these nodes lose their pods.
    fn updated(rolling: &Value, nodes: &[&str]) -> Scene {
        let strategy = json!({"updateStrategy": {"rollingUpdate": rolling}});
        let mut scene = Scene::agents(strategy).image(2).revision(2, 2);
        for node in nodes {
            scene = scene.stops_on("carillon", node, 1);
        }
        scene
    }

    #[test]
    fn no_more_nodes_are_taken_down_than_may_be() {
        let none = json!({});
        holds(S3, &updated(&none, &["n1"]), &strict());
        let what = "2 nodes are without an available pod, 1 may be";
        breaks(S3, &updated(&none, &["n1", "n2"]), &strict(), what);
        let two = json!({"maxUnavailable": "60%"});
        holds(S3, &updated(&two, &["n1", "n2"]), &strict());
        let surge = json!({"maxSurge": 1});
        let what = "1 nodes are without an available pod, 0 may be";
        breaks(S3, &updated(&surge, &["n1"]), &strict(), what);
    }

    #[test]
    fn what_became_available_just_now_may_not_have_been_seen() {
        let seconds = SignedDuration::from_secs;
        for (lag, minutes, is_judged) in [(0, 0, true), (600, 0, false), (600, 20, true)] {
            let scene = Scene::agents(json!({})).later(minutes * 60);
            let scene = scene.image(2).revision(2, 2);
            let one = scene.stops_on("carillon", "n1", 1);
            let two = one.stops_on("carillon", "n2", 1);
            let assumed = Assumptions {
                lag: seconds(lag),
                ..strict()
            };
            if is_judged {
                breaks(S3, &two, &assumed, "2 nodes are without");
            } else {
                assert!(check(S3, &two.history(), &assumed).is_ok());
            }
        }
    }

    #[test]
    fn a_node_that_has_an_available_pod_again_is_not_down() {
        for (seconds, is_down) in [(0, false), (50, true)] {
            let scene = Scene::agents(json!({"minReadySeconds": seconds})).image(2);
            let gone = scene.stops_on("carillon", "n1", 1).gone_from("n1", 1);
            let again = gone.pod_of("n1", 2).runs_on("n1", 2);
            let next = again.stops_on("carillon", "n2", 1);
            if is_down {
                breaks(S3, &next, &strict(), "2 nodes are without");
            } else {
                holds(S3, &next, &strict());
            }
        }
    }

    #[test]
    fn what_others_delete_and_what_is_on_sick_nodes_is_not_counted() {
        let others = updated(&json!({}), &[]).stops_on("kubectl", "n2", 1);
        holds(S3, &others.stops_on("carillon", "n1", 1), &strict());
        let cordoned = updated(&json!({}), &[]).cordon("n2", true);
        let both = cordoned.stops_on("carillon", "n2", 1);
        holds(S3, &both.stops_on("carillon", "n1", 1), &strict());
    }

    #[test]
    fn a_node_that_should_have_no_pod_any_more_is_not_down() {
        for (effect, is_down) in [("PreferNoSchedule", true), ("NoExecute", false)] {
            let one = updated(&json!({}), &["n1"]).taint("n1", effect);
            let next = one.stops_on("carillon", "n2", 1);
            if is_down {
                breaks(S3, &next, &strict(), "2 nodes are without");
            } else {
                holds(S3, &next, &strict());
            }
        }
    }

    #[test]
    fn a_node_whose_pod_was_told_that_it_goes_is_down_until_it_is_told_otherwise() {
        let updated = Scene::hooked(&json!({})).image(2).revision(2, 2).later(60);
        let told = updated.told_on("carillon", "n1", 1);
        holds(S3, &told, &strict());
        let what = "2 nodes are without an available pod, 1 may be";
        let more = told.clone().told_on("carillon", "n2", 1);
        breaks(S3, &more, &strict(), what);
        let other = told.clone().let_go_of("n2", 1);
        breaks(S3, &other.stops_on("carillon", "n2", 1), &strict(), what);
        let kept = told.clone().kept_on("n1", 1);
        holds(S3, &kept.told_on("carillon", "n2", 1), &strict());
        let by_others = told.told_on("kubectl", "n2", 1);
        holds(S3, &by_others, &strict());
    }

    #[test]
    fn a_node_has_two_until_the_one_that_was_told_is_gone() {
        let surge = json!({"maxSurge": 1});
        let updated = Scene::hooked(&surge).image(2).revision(2, 2).later(60);
        let both = updated.pod_of("n1", 2).runs_on("n1", 2);
        let told = both.told_on("carillon", "n1", 1).later(60);
        let what = "2 nodes have a second pod, 1 may have one";
        breaks(S3, &told.clone().pod_of("n2", 2), &strict(), what);
        let gone = told.let_go_of("n1", 1).stops_on("carillon", "n1", 1);
        holds(S3, &gone.pod_of("n2", 2), &strict());
    }

    #[test]
    fn of_two_leaders_each_has_the_budget() {
        let two = Assumptions {
            leaders: 2,
            ..strict()
        };
        let surge = updated(&json!({"maxSurge": 1}), &[]).pod_of("n1", 2);
        let both = surge.pod_of("n2", 2);
        holds(S3, &both, &two);
        let what = "3 nodes have a second pod, 2 may have one";
        breaks(S3, &both.pod_of("n3", 2), &two, what);
    }

    #[test]
    fn no_more_nodes_have_a_second_pod_than_may_have_one() {
        let surge = updated(&json!({"maxSurge": 1}), &[]).pod_of("n1", 2);
        holds(S3, &surge, &strict());
        let what = "2 nodes have a second pod, 1 may have one";
        breaks(S3, &surge.clone().pod_of("n2", 2), &strict(), what);
        let next = surge.runs_on("n1", 2);
        holds(S3, &next.clone().pod_of("n2", 2), &strict());
        let gone = next.stops_on("carillon", "n1", 1).gone_from("n1", 1);
        holds(S3, &gone.pod_of("n2", 2), &strict());
    }
}
