//! Pods that wait for a hook before they are deleted: `spec.lifecycle.preDelete`.
//!
//! Which pods go is decided by others, and anew in each plan. Here it is decided how they go: one that carries the hook
//! is told by a label, and goes when somebody has taken the hook from it. The label follows the decision: where a pod
//! is to stay after all, it is taken back (OpenKruise deletes such a pod nevertheless).

use std::collections::BTreeSet;

use carillon_api::names::{LABEL_LIFECYCLE_STATE, STATE_PREPARING_DELETE};
use jiff::Timestamp;

use super::action::{Action, Note};
use super::manage::Why;
use super::pod::{DaemonPod, Named};
use super::snapshot::Snapshot;
use super::spec::DaemonSet;
use crate::selector::label;

/// What of the hook a pod carries, as people write it: labels with that value, and finalizers.
pub(crate) fn hooks<'a>(set: &'a DaemonSet, pod: &'a DaemonPod) -> impl Iterator<Item = String> {
    let hook = set.spec.pre_delete.iter();
    hook.flat_map(|hook| {
        let labels = hook.labels.iter();
        let labels = labels.filter(|(key, value)| label(&pod.labels, key) == Some(value));
        let labels = labels.map(|(key, value)| format!("label {key}={value}"));
        let there = |wanted: &&String| pod.finalizers.iter().any(|there| **there == ***wanted);
        let finalizers = hook.finalizers.iter().filter(there);
        labels.chain(finalizers.map(|name| format!("finalizer {name}")))
    })
}

fn is_labelled(pod: &DaemonPod) -> bool {
    label(&pod.labels, LABEL_LIFECYCLE_STATE) == Some(STATE_PREPARING_DELETE)
}

/// Whether it was told that it goes. What uses it may have let go of it: it counts as if it were gone. Without a hook
/// in the spec the label says nothing.
pub(crate) fn is_preparing(set: &DaemonSet, pod: &DaemonPod) -> bool {
    set.spec.pre_delete.is_some() && is_labelled(pod) && !pod.is_deleting()
}

/// Since when it was told that it goes, if it was. For ever, if it does not say.
pub(super) fn told(set: &DaemonSet, pod: &DaemonPod) -> Option<Timestamp> {
    is_preparing(set, pod).then(|| pod.told.unwrap_or(Timestamp::MIN))
}

/// Whether one that is to go has to wait for its hook.
pub(crate) fn waits(set: &DaemonSet, pod: &DaemonPod) -> bool {
    hooks(set, pod).next().is_some() && !pod.is_deleting()
}

/// Whether it has been Ready for long enough, and was not told that it goes.
pub(crate) fn is_available(set: &DaemonSet, pod: &DaemonPod, now: Timestamp) -> bool {
    pod.is_available(set.spec.min_ready_seconds, now) && !is_preparing(set, pod)
}

/// How pods go.
#[derive(Debug, Default)]
pub(super) struct Parting<'a> {
    /// They are deleted.
    pub delete: Vec<(Named<'a>, Why)>,
    /// They are told that they go.
    pub prepare: Vec<(Named<'a>, Why)>,
    /// They were told so, and stay.
    pub keep: Vec<Named<'a>>,
}

/// How those go that are to go, and what the others were told in vain. Those that were told and still carry the hook
/// are in none of the lists.
pub(super) fn part<'a>(snapshot: &Snapshot<'a>, going: &[(&'a str, Why)]) -> Parting<'a> {
    let set = snapshot.set;
    let mut parting = Parting::default();
    for (name, why) in going {
        let Some(pod) = snapshot.pods.get(*name) else {
            continue;
        };
        if !waits(set, pod) {
            parting.delete.push(((name, pod), *why));
        } else if !is_preparing(set, pod) {
            parting.prepare.push(((name, pod), *why));
        }
    }
    if !set.native {
        let going: BTreeSet<&str> = going.iter().map(|(name, _)| *name).collect();
        let pods = snapshot.pods.iter().map(|(name, pod)| (&**name, pod));
        let told = pods.filter(|(_, pod)| is_labelled(pod) && !pod.is_deleting());
        parting.keep = told.filter(|(name, _)| !going.contains(name)).collect();
    }
    parting
}

/// A pod is deleted. With a hook it must still be as it was judged: the hook may have come back.
pub(super) fn delete(set: &DaemonSet, (name, pod): Named<'_>, why: Why) -> Action {
    Action::DeletePod {
        name: name.to_owned(),
        uid: pod.uid,
        rv: set.spec.pre_delete.is_some().then_some(pod.rv),
        node: pod.node.as_deref().unwrap_or_default().to_owned(),
        why,
    }
}

/// A pod is told that it goes.
pub(super) fn prepare((name, pod): Named<'_>, why: Why, now: Timestamp) -> Action {
    Action::PreparePod {
        name: name.to_owned(),
        uid: pod.uid,
        rv: pod.rv,
        why,
        at: now,
    }
}

/// A pod is told that it stays.
pub(super) fn keep((name, pod): Named<'_>) -> Action {
    Action::KeepPod {
        name: name.to_owned(),
        uid: pod.uid,
        rv: pod.rv,
    }
}

/// What people are told of a pod that waits for its hook.
pub(super) fn note(set: &DaemonSet, (name, pod): Named<'_>) -> Note {
    let namespace = &set.meta.owner.namespace;
    let node = pod.node.as_deref().unwrap_or_default();
    Note {
        warning: false,
        reason: "PreparingDelete",
        action: "Deleting",
        message: format!(
            "Pod {namespace}/{name} on node {node} is to be deleted, and waits until the labels and finalizers of \
             spec.lifecycle.preDelete are taken from it"
        ),
    }
}
