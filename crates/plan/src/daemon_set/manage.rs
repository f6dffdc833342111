//! Which nodes need a pod, and which pods are one too many (upstream: `podsShouldBeOnNode`).

use jiff::Timestamp;

use super::on_nodes::OnNodes;
use super::pod::Named;
use super::should_run::should_run;
use super::snapshot::Snapshot;
use super::{backoff, pod::DaemonPod};
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

/// Compares what is on each node with what should be there. `hash`: the current revision.
pub(super) fn manage<'a>(
    snapshot: &Snapshot<'a>,
    on_nodes: &OnNodes<'a>,
    hash: &str,
    now: Timestamp,
) -> Managed<'a> {
    let set = snapshot.set;
    let mut managed = Managed::default();
    for (name, node) in snapshot.nodes {
        let found = on_nodes.get(&**name);
        let should = should_run(&set.spec.placement, name, node);
        match found {
            None if should.runs() => managed.create.push(name),
            Some(pods) if should.stays() => {
                let running = sort_out(&mut managed, snapshot, name, pods, now);
                let may_surge = set.spec.update.may_surge();
                match running[..] {
                    [] if may_surge && should.runs() => managed.create.push(name),
                    [_, ref rest @ ..] if !may_surge => {
                        let rest = rest.iter().map(|pod| (*pod, Why::Duplicate));
                        managed.delete.extend(rest);
                    }
                    _ if running.len() > 1 => {
                        managed.delete.extend(beside(&running, snapshot, hash, now));
                    }
                    _ => {}
                }
            }
            Some(pods) => {
                let running = pods.iter().filter(|(_, pod)| !pod.deleting);
                managed
                    .delete
                    .extend(running.map(|pod| (*pod, Why::NotWanted)));
            }
            None => {}
        }
    }
    // Nobody else removes a pod that waits for a node that is gone.
    let lost = |node: &&&str| !snapshot.nodes.contains_key(**node);
    for pods in on_nodes
        .keys()
        .filter(lost)
        .filter_map(|node| on_nodes.get(node))
    {
        let waiting = pods.iter().filter(|(_, pod)| !pod.bound && !pod.deleting);
        managed
            .delete
            .extend(waiting.map(|pod| (*pod, Why::NotWanted)));
    }
    managed
}

/// The pods of a node that run. Those that have ended are to go, failed ones after a while.
fn sort_out<'a>(
    managed: &mut Managed<'a>,
    snapshot: &Snapshot<'a>,
    node: &str,
    pods: &[Named<'a>],
    now: Timestamp,
) -> Vec<Named<'a>> {
    let mut running = Vec::new();
    for pod in pods.iter().filter(|(_, pod)| !pod.deleting) {
        match pod.1.phase {
            PodPhase::Failed => {
                let generation = snapshot.set.meta.generation;
                match backoff::held(snapshot.failed, node, generation, now) {
                    Some(held) => {
                        let wake = managed.wake.into_iter().chain([held.until()]);
                        managed.wake = wake.min();
                    }
                    None => managed.delete.push((*pod, Why::Failed)),
                }
            }
            PodPhase::Succeeded => managed.delete.push((*pod, Why::Succeeded)),
            PodPhase::Pending | PodPhase::Running | PodPhase::Unknown => running.push(*pod),
        }
    }
    running
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
        let min_ready = snapshot.set.spec.min_ready_seconds;
        let replaced = |new: &DaemonPod, old: &DaemonPod| {
            old.ready.is_none() || new.is_available(min_ready, now)
        };
        if replaced(running[new].1, running[old].1) {
            delete.push((running[old], Why::Outdated));
        }
    }
    delete
}
