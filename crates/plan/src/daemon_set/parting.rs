//! How pods go that are to go: at once, or when their hook is gone. And what those are told that stay.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::action::{Action, Note};
use super::lifecycle::{is_labelled, is_preparing, waits};
use super::manage::Why;
use super::pod::Named;
use super::snapshot::Snapshot;
use super::spec::DaemonSet;
use crate::uid::Uid;

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
        node: pod.node.as_deref().unwrap_or_default().to_owned(),
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
pub fn preparing_note(namespace: &str, (name, uid): (&str, Uid), node: &str) -> Note {
    Note {
        warning: false,
        reason: "PreparingDelete",
        action: "Deleting",
        message: format!(
            "Pod {namespace}/{name} on node {node} is to be deleted, and waits until the labels and finalizers of \
             spec.lifecycle.preDelete are taken from it"
        ),
        about: Some(uid.to_string()),
    }
}
