//! Which nodes need a pod, and which pods are one too many (upstream: `podsShouldBeOnNode`).

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::backoff;
use super::lifecycle::{is_available, is_preparing};
use super::on_nodes::OnNodes;
use super::pod::Named;
use super::snapshot::Snapshot;
use crate::pod::PodPhase;

/// What is to be done on all nodes.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Managed<'a> {
    /// Nodes that need a pod.
    pub create: Vec<&'a str>,
    /// Pods that are to go, with why.
    pub delete: Vec<(Named<'a>, Why)>,
    /// When a failed pod may be replaced.
    pub wake: Option<Timestamp>,
}

impl<'a> Managed<'a> {
    /// Nodes on which something else than an update happens.
    pub(super) fn busy(&self) -> BTreeSet<&'a str> {
        let other = self.delete.iter().filter(|(_, why)| *why != Why::Outdated);
        let nodes = other.filter_map(|((_, pod), _)| pod.node.as_deref());
        nodes.chain(self.create.iter().copied()).collect()
    }
}

/// Why a pod is deleted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Why {
    /// It has failed.
    Failed,
    /// It has succeeded, which no pod of a DaemonSet should.
    Succeeded,
    /// Another one is there.
    Duplicate,
    /// Its node should not have one, or is gone.
    NotWanted,
    /// It is of an older template.
    Outdated,
}

impl Why {
    /// The word for it in logs and digests.
    pub fn word(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Succeeded => "succeeded",
            Self::Duplicate => "duplicate",
            Self::NotWanted => "not_wanted",
            Self::Outdated => "outdated",
        }
    }
}

/// Compares what is on each node with what should be there. `hash`: the current revision.
pub(super) fn manage<'a>(
    snapshot: &Snapshot<'a>,
    on_nodes: &OnNodes<'a>,
    hash: &str,
    now: Timestamp,
) -> Managed<'a> {
    let may_surge = snapshot.set.spec.update.may_surge();
    let mut managed = Managed::default();
    for (name, node) in on_nodes {
        let there = node.pods.iter().filter(|(_, pod)| !pod.is_deleting());
        let unwanted = |pod: &Named<'a>| (*pod, Why::NotWanted);
        match node.should {
            // Nobody else removes a pod that waits for a node that is gone.
            None => {
                let waiting = there.filter(|(_, pod)| !pod.bound);
                managed.delete.extend(waiting.map(unwanted));
            }
            Some(should) if node.pods.is_empty() => {
                managed.create.extend(should.runs().then_some(*name));
            }
            Some(should) if !should.stays() => managed.delete.extend(there.map(unwanted)),
            Some(should) => {
                let (mut running, held) = sort_out(&mut managed, snapshot, name, there, now);
                if !may_surge {
                    // Of several the oldest stays that was not told that it goes.
                    running.sort_by_key(|(_, pod)| is_preparing(snapshot.set, pod));
                }
                match running[..] {
                    [] if may_surge && should.runs() && !held => managed.create.push(name),
                    [] | [_] => {}
                    [_, ref rest @ ..] if !may_surge => {
                        let rest = rest.iter().map(|pod| (*pod, Why::Duplicate));
                        managed.delete.extend(rest);
                    }
                    _ => managed.delete.extend(beside(&running, snapshot, hash, now)),
                }
            }
        }
    }
    managed
}

/// Those of the pods that run, and whether a failed one has to stay for a while. Those that have ended are to go.
fn sort_out<'a, 'b>(
    managed: &mut Managed<'a>,
    snapshot: &Snapshot<'a>,
    node: &str,
    pods: impl Iterator<Item = &'b Named<'a>>,
    now: Timestamp,
) -> (Vec<Named<'a>>, bool)
where
    'a: 'b,
{
    let (mut running, mut is_held) = (Vec::new(), false);
    for pod in pods {
        match pod.1.phase {
            PodPhase::Failed => {
                let generation = snapshot.set.meta.generation;
                match backoff::held(snapshot.failed, node, generation, now) {
                    Some(held) => {
                        let wake = managed.wake.into_iter().chain([held.until()]);
                        managed.wake = wake.min();
                        is_held = true;
                    }
                    None => managed.delete.push((*pod, Why::Failed)),
                }
            }
            PodPhase::Succeeded => managed.delete.push((*pod, Why::Succeeded)),
            PodPhase::Pending | PodPhase::Running | PodPhase::Unknown => running.push(*pod),
        }
    }
    (running, is_held)
}

/// With a surge one pod of the current revision may run beside one of an older one, until it is available or
/// the older one is not ready.
fn beside<'a>(
    running: &[Named<'a>],
    snapshot: &Snapshot<'a>,
    hash: &str,
    now: Timestamp,
) -> Vec<(Named<'a>, Why)> {
    let is_new = |(_, pod): &Named<'_>| pod.revision() == Some(hash);
    let new = running.iter().position(is_new);
    let old = running.iter().position(|pod| !is_new(pod));
    let kept = |at: usize| Some(at) == new || Some(at) == old;
    let rest = running.iter().enumerate().filter(|(at, _)| !kept(*at));
    let mut delete: Vec<_> = rest.map(|(_, pod)| (*pod, Why::Duplicate)).collect();
    if let (Some(new), Some(old)) = (new, old) {
        let ((_, new), outdated) = (running[new], running[old]);
        if outdated.1.ready.is_none() || is_available(snapshot.set, new, now) {
            delete.push((outdated, Why::Outdated));
        }
    }
    delete
}
