//! S3: an update takes no more nodes their pod than `maxUnavailable` allows.

use std::collections::BTreeSet;

use serde_json::Value;

use super::world::{Set, World, is_available, is_well, rolling_update, scaled, should};
use crate::history::{History, Step};
use crate::invariant::Invariant::S3;
use crate::object::{PODS, is_deleting, node_of, uid};
use crate::verdict::{Assumptions, Checked, Verdict, Violation};

/// S3. A node is *taken down* when we delete the last available pod of a DaemonSet on it, while it is well and should
/// have one; until it has an available pod again, or should have none, or is gone. At no revision are more nodes
/// taken down than `maxUnavailable` of a version that whoever deletes may see; with a `maxSurge` none is.
pub fn no_more_than_may_be(history: &History, assumptions: &Assumptions) -> Verdict {
    let mut checked = Checked::all_of(history);
    let mut world = World::new(assumptions);
    let mut down: BTreeSet<(&str, &str)> = BTreeSet::new();
    for step in &history.steps {
        let taken = taken(&world, step);
        world.apply(step);
        down.retain(|(set, node)| still_down(&world, set, node, step));
        let Some((set, node)) = taken else { continue };
        down.insert((set, node));
        let Some(known) = world.sets.get(set) else {
            continue;
        };
        let many = down.iter().filter(|(of, _)| *of == set).count();
        let allowed = allowed(&world, known, step);
        checked.require(many <= allowed, || {
            let what = format!("{many} nodes are without an available pod, {allowed} may be");
            Violation::at(S3, step, what)
        })?;
    }
    Ok(checked)
}

/// DaemonSet and node that a step takes down.
fn taken<'h>(world: &World<'h>, step: &'h Step) -> Option<(&'h str, &'h str)> {
    let (old, new) = (step.old.as_deref()?, step.new.as_deref());
    let told = new.is_none_or(is_deleting) && !is_deleting(old);
    let judged = &*step.key.resource == PODS
        && told
        && world.assumptions.ours(step)
        && !(world.assumptions.late)(step);
    let set = world.of(old).filter(|_| judged)?;
    let (node, row) = world.nodes.get_key_value(node_of(old))?;
    let available = |pod: &Value| is_available(set.last, pod, step.at);
    let others = set.on(node).filter(|pod| uid(pod.last) != uid(old));
    let keeps = others.filter(|pod| available(pod.last)).count() > 0;
    let meant = set
        .seen(world.assumptions, step)
        .all(|version| should(version, row).0);
    (available(old) && !keeps && is_well(row) && meant).then(|| (uid(set.last), *node))
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

fn allowed(world: &World<'_>, set: &Set<'_>, step: &Step) -> usize {
    let nodes = world.nodes.len();
    let versions = set.seen(world.assumptions, step);
    let each = versions.map(|version| {
        let rolling = rolling_update(version);
        let surge = scaled(&rolling["maxSurge"], nodes).unwrap_or(0);
        let otherwise = usize::from(surge == 0);
        let most = scaled(&rolling["maxUnavailable"], nodes).unwrap_or(otherwise);
        // With none of both nothing would ever be updated.
        most.max(otherwise)
    });
    each.max().unwrap_or(1)
}
