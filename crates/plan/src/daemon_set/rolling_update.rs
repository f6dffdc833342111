//! Which pods of an older template are replaced next (upstream: `rollingUpdate`).

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::lifecycle::{is_preparing, waits};
use super::manage::Managed;
use super::on_nodes::{OnNode, OnNodes, desired};
use super::pod::{DaemonPod, Named};
use super::pod_name::free_name;
use super::snapshot::Snapshot;
use super::spec::{DaemonSet, Update};
use crate::selector::selects_by;

/// What an update does next.
#[derive(Debug, Default, Eq, PartialEq)]
pub(super) struct Next<'a> {
    /// Nodes that get a second pod.
    pub create: Vec<&'a str>,
    /// Pods that make room for a new one, or that a new one has replaced.
    pub delete: Vec<&'a str>,
}

/// What an update may do to nodes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Budget {
    /// How many nodes should have a pod.
    pub desired: usize,
    /// How many of them may be without an available one.
    pub max_unavailable: usize,
    /// How many of them may have a second one.
    pub max_surge: usize,
}

impl Budget {
    /// That of an update of so many nodes. Nothing would ever be updated with none of both.
    pub fn of(update: Update, desired: usize) -> Option<Self> {
        let Update::Rolling {
            max_unavailable,
            max_surge,
        } = update
        else {
            return None;
        };
        let (unavailable, max_surge) = (max_unavailable.of(desired), max_surge.of(desired));
        let stuck = desired > 0 && unavailable == 0 && max_surge == 0;
        Some(Self {
            desired,
            max_unavailable: if stuck { 1 } else { unavailable },
            max_surge,
        })
    }
}

/// The pods of a node that are not on their way out.
pub(super) enum Pair<'a> {
    /// None.
    None,
    /// Of the current template.
    New(&'a DaemonPod),
    /// Of an older one.
    Old(Named<'a>),
    /// One of each.
    Both {
        /// Of the current template.
        new: &'a DaemonPod,
        /// Of an older one.
        old: Named<'a>,
        /// The older one waits for a hook, if it is to go.
        held: bool,
    },
    /// More than that: [`manage`](super::manage::manage) comes first.
    Excess,
}

/// A node as an update sees it.
struct Place<'a> {
    name: &'a str,
    /// A pod should be there.
    runs: bool,
    pair: Pair<'a>,
    /// The update is about this node.
    selected: bool,
    /// It was sick before.
    excused: bool,
    /// How much budget it uses up while it has no available pod: 1; 0 if it was sick before, or if no pod should be
    /// there. Of apps/v1 the latter counts while it has pods, as with upstream (kruise gate
    /// `DaemonSetPruneIneligibleNodes`).
    counts: usize,
    /// When something was refused for it last.
    refused: Option<Timestamp>,
}

/// Whether a pod is of the current template. The generation counts where the hash does not: a rewritten
/// revision changes hashes and no pod.
pub(crate) fn is_updated(set: &DaemonSet, pod: &DaemonPod, hash: &str) -> bool {
    let generation = set.template_generation;
    let same_template = generation.is_some() && pod.template_generation() == generation;
    same_template || pod.revision() == Some(hash)
}

pub(super) fn pair<'a, 'b>(
    set: &DaemonSet,
    pods: impl Iterator<Item = &'b Named<'a>>,
    hash: &str,
) -> Pair<'a>
where
    'a: 'b,
{
    let (mut new, mut old) = (None, None);
    for named in pods.filter(|(_, pod)| !pod.is_deleting()) {
        let before = if is_updated(set, named.1, hash) {
            new.replace(named.1).is_some()
        } else {
            old.replace(*named).is_some()
        };
        if before {
            return Pair::Excess;
        }
    }
    match (new, old) {
        (None, None) => Pair::None,
        (Some(new), None) => Pair::New(new),
        (None, Some(old)) => Pair::Old(old),
        (Some(new), Some(old)) => Pair::Both {
            new,
            old,
            held: waits(set, old.1),
        },
    }
}

/// What is done next, node by node in the order of their names; those for which something was refused come last.
/// `managed`: what is done in any case.
pub(super) fn rolling_update<'a>(
    snapshot: &Snapshot<'a>,
    on_nodes: &OnNodes<'a>,
    managed: &Managed<'a>,
    hash: &str,
    now: Timestamp,
) -> Next<'a> {
    let set = snapshot.set;
    let desired = desired(on_nodes);
    let Some(budget) = Budget::of(set.spec.update, desired).filter(|_| !set.spec.paused) else {
        return Next::default();
    };
    let removed: BTreeSet<&str> = managed.delete.iter().map(|((name, _), _)| *name).collect();
    let busy = managed.busy();
    // A pod that goes is no longer there, unless it waits for a hook beside the one in its place.
    let stays = |(name, pod): &&Named<'_>| {
        !removed.contains(name) || waits(set, pod) && budget.max_surge > 0
    };
    // What waits for a hook where no pod should be uses up no budget.
    let leaves = |(name, pod): &Named<'_>| removed.contains(name) && waits(set, pod);
    let concerned = |(_, node): &(_, &OnNode<'_>)| node.runs() || !node.pods.iter().all(leaves);
    let places = on_nodes.iter().filter(concerned);
    let mut places: Vec<Place<'a>> = places
        .map(|(name, node)| {
            let stay = node.pods.iter().filter(stays);
            // Where a pod goes or comes otherwise, no second one comes now.
            let pair = if budget.max_surge > 0 && busy.contains(*name) {
                busy_pair(snapshot, (name, node), now)
            } else {
                pair(set, stay, hash)
            };
            Place {
                name,
                runs: node.runs(),
                selected: is_selected(set, node),
                excused: node.excuse.is_some(),
                counts: usize::from(node.excuse.is_none() && (set.native || holds_up(node))),
                refused: node.refused,
                pair,
            }
        })
        .collect();
    // Others have their turn before a node for which something was refused.
    places.sort_by_key(|place| place.refused);
    let room = room(set, &places, desired);
    let health = |pod: &DaemonPod| {
        if is_preparing(set, pod) && pod.ready.is_some() {
            Health::Prepared
        } else if pod.is_available(set.spec.min_ready_seconds, now) {
            Health::Available
        } else if pod.ready.is_some() && !set.native {
            Health::Young
        } else {
            Health::Down
        }
    };
    if budget.max_surge == 0 {
        in_place(places, budget, room, health)
    } else {
        let has_name = |node: &str| free_name(snapshot, node, now).is_some();
        with_surge(places, budget, room, (health, has_name))
    }
}

/// Whether an update waits for what is on a node: a pod should be there, or is kept away only since the node is not
/// ready. The update may have made it so.
fn holds_up(node: &OnNode<'_>) -> bool {
    let stays = node.should.is_some_and(|should| should.stays());
    let is_sick = node.row.is_some_and(|row| row.not_ready_since.is_some());
    node.runs() || stays && is_sick
}

/// A node on which pods come or go otherwise counts as one that has two. Not so if no pod should be there, if that was
/// refused and one is there, or if none is there and others have its names: one bad node stops no update. Of apps/v1
/// each counts, as with upstream.
fn busy_pair<'a>(
    snapshot: &Snapshot<'_>,
    (name, node): (&str, &OnNode<'a>),
    now: Timestamp,
) -> Pair<'a> {
    let there = node.pods.iter().filter(|(_, pod)| !pod.is_deleting());
    let there = there.count();
    let is_refused = || node.refused.is_some() && there < 2;
    let gets_none = || there == 0 && node.name_taken && free_name(snapshot, name, now).is_none();
    if !snapshot.set.native && (!node.runs() || is_refused() || gets_none()) {
        Pair::None
    } else {
        Pair::Excess
    }
}

/// What a pod is worth to those who use it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Health {
    /// It has been ready for `minReadySeconds`.
    Available,
    /// It is ready, and was not for long: it serves, and so is replaced under the budget. Upstream replaces all such
    /// pods at once (kruise issue 1323: two updates within `minReadySeconds`, or kubelets that are restarted), and so
    /// no pod of a native DaemonSet is young.
    Young,
    /// It is ready, and was told that it goes: nobody should use it any more, and it counts as gone.
    Prepared,
    /// Nobody loses anything when it goes.
    Down,
}

/// Whether an update is about this node.
pub(crate) fn is_selected(set: &DaemonSet, node: &OnNode<'_>) -> bool {
    let selector = set.spec.node_selector.as_ref();
    selector.is_none_or(|selector| {
        node.row
            .is_some_and(|row| selects_by(selector, |key| row.label(key)))
    })
}

/// How many more nodes may leave their old pod: all but those of the partition.
fn room(set: &DaemonSet, places: &[Place<'_>], desired: usize) -> usize {
    let kept = set.spec.partition.of_at_most(desired);
    if kept == 0 {
        return usize::MAX;
    }
    let old = places
        .iter()
        .filter(|place| place.runs && matches!(place.pair, Pair::Old(_)));
    old.count().saturating_sub(kept)
}

/// How many more pods of the current template may be created. With `partitionedScaling` nodes of the partition get
/// none.
pub(super) fn room_for_new(
    set: &DaemonSet,
    on_nodes: &OnNodes<'_>,
    (hash, desired): (&str, usize),
) -> usize {
    let kept = set.spec.partition.of_at_most(desired);
    if !set.spec.partitioned_scaling || kept == 0 {
        return usize::MAX;
    }
    let has_new = |node: &&OnNode<'_>| {
        let mut pods = node.pods.iter().filter(|(_, pod)| !pod.is_deleting());
        node.runs() && pods.any(|(_, pod)| is_updated(set, pod, hash))
    };
    let new = on_nodes.values().filter(has_new);
    desired.saturating_sub(kept + new.count())
}

/// The old pod goes first: as many nodes as may be are without one.
fn in_place(
    places: Vec<Place<'_>>,
    budget: Budget,
    room: usize,
    health: impl Fn(&DaemonPod) -> Health,
) -> Next<'_> {
    let (mut unavailable, mut unavailable_young) = (0, 0);
    let (mut delete, mut young, mut candidates) = (Vec::new(), Vec::new(), Vec::new());
    let (mut excused, mut prepared) = (Vec::new(), Vec::new());
    for place in places {
        let old = match place.pair {
            Pair::New(new) if health(new) == Health::Available => continue,
            Pair::Old((name, old)) => Some((name, health(old))),
            Pair::None | Pair::New(_) | Pair::Both { .. } | Pair::Excess => None,
        };
        let old = old.filter(|_| place.selected);
        match old {
            Some((name, Health::Available)) => candidates.push(name),
            Some((name, Health::Young)) => {
                young.push(name);
                unavailable_young += place.counts;
            }
            Some((name, Health::Down | Health::Prepared)) if place.excused => excused.push(name),
            Some((name, Health::Prepared)) => prepared.push(name),
            Some((name, Health::Down)) => delete.push(name),
            None => {}
        }
        let is_down =
            old.is_none_or(|(_, health)| matches!(health, Health::Down | Health::Prepared));
        if is_down && place.selected {
            unavailable += place.counts;
        }
    }
    let left = budget.max_unavailable.saturating_sub(unavailable);
    // Pods may have been told while they were not ready, or should not have been there. Of those that serve again so
    // many go as may; the others are told that they stay. What is down otherwise does not count here: the word would
    // come and go with each pod that is not ready for a moment.
    prepared.truncate(budget.max_unavailable);
    delete.extend(prepared);
    let rest = room.saturating_sub(delete.len() + young.len() + candidates.len());
    // A young pod is an unavailable one, whether it stays or goes.
    candidates.truncate(left.saturating_sub(unavailable_young));
    young.truncate(left);
    delete.extend(young);
    delete.extend(candidates);
    delete.truncate(room);
    // They are not what tries a template: of a partition they get what others leave.
    excused.truncate(rest);
    delete.extend(excused);
    Next {
        create: Vec::new(),
        delete,
    }
}

/// The new pod comes first, and the old one goes when it is available.
fn with_surge(
    places: Vec<Place<'_>>,
    budget: Budget,
    room: usize,
    (health, has_name): (impl Fn(&DaemonPod) -> Health, impl Fn(&str) -> bool),
) -> Next<'_> {
    let available = |pod: &DaemonPod| health(pod) == Health::Available;
    let (mut surging, mut available_nodes) = (0, 0);
    let mut next = Next::default();
    // Where placement moves, nodes that are left keep their pods until others have one.
    let (mut candidates, mut excused, mut left) = (Vec::new(), Vec::new(), Vec::new());
    for place in places {
        let counts = place.counts;
        match place.pair {
            Pair::None => {}
            Pair::Excess => surging += counts,
            Pair::New(new) => available_nodes += usize::from(available(new)),
            Pair::Both { new, old, held } => {
                let serves = available(old.1) || held && available(new);
                available_nodes += usize::from(serves);
                if available(new) {
                    next.delete.push(old.0);
                }
                // While the old one waits for its hook the node has two.
                if !available(new) || held {
                    surging += counts;
                }
            }
            Pair::Old((name, old)) => {
                available_nodes += usize::from(available(old));
                let serves = match health(old) {
                    Health::Available | Health::Young => true,
                    // It stays until another one is there, and is told so, unless no pod should be here.
                    Health::Prepared => place.runs,
                    Health::Down => false,
                };
                match (serves, place.runs) {
                    (false, false) => next.delete.push(name),
                    (true, false) => left.push(name),
                    (_, true) if !place.selected => {}
                    // One whose names others have is not waited for, and leaves its place in the partition to others.
                    (false, true) if !has_name(place.name) => {}
                    (false, true) if place.excused => excused.push(place.name),
                    (false, true) => next.create.push(place.name),
                    (true, true) => candidates.push(place.name),
                }
            }
        }
    }
    let rest = room.saturating_sub(next.create.len() + candidates.len());
    let may_surge = budget.max_surge.saturating_sub(surging);
    let candidates = candidates
        .into_iter()
        .filter(|node| has_name(node))
        .take(may_surge);
    left.truncate(available_nodes.saturating_sub(budget.desired));
    next.create.extend(candidates);
    next.create.truncate(room);
    excused.truncate(rest);
    next.create.extend(excused);
    next.delete.extend(left);
    next
}
