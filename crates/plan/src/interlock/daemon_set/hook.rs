//! `lifecycle.preDelete`: what may be done to pods that carry a hook.

use carillon_api::names::{LABEL_LIFECYCLE_STATE, STATE_PREPARING_DELETE};

use super::super::trip::{Trip, trip};
use super::{Check, rules};
use crate::daemon_set::{DaemonPod, DaemonSet};
use crate::uid::Uid;

/// The hook of a DaemonSet, if it has one.
pub(super) struct Hook<'a>(Option<&'a DaemonSet>);

impl<'a> Hook<'a> {
    pub(super) fn of(set: &'a DaemonSet) -> Self {
        Self(Some(set).filter(|set| set.spec.pre_delete.is_some() && !set.native))
    }

    /// Whether a pod carries it.
    fn is_on(&self, pod: &DaemonPod) -> bool {
        let hook = self.0.and_then(|set| set.spec.pre_delete.as_ref());
        hook.is_some_and(|hook| {
            let by_label = pod.labels.iter().any(|(key, value)| {
                let wanted = hook.labels.get(&**key);
                wanted.is_some_and(|wanted| **wanted == **value)
            });
            let named = |name: &str| hook.finalizers.iter().any(|wanted| wanted == name);
            by_label || pod.finalizers.iter().any(|name| named(name))
        })
    }

    /// Whether a pod was told that it goes, where that means something.
    pub(super) fn told(&self, pod: &DaemonPod) -> bool {
        self.0.is_some() && carries_word(pod)
    }
}

fn carries_word(pod: &DaemonPod) -> bool {
    let mut labels = pod.labels.iter();
    labels.any(|(key, value)| **key == *LABEL_LIFECYCLE_STATE && **value == *STATE_PREPARING_DELETE)
}

impl Check<'_> {
    /// One with a hook is not deleted, and what its hook is has not changed meanwhile.
    pub(super) fn delete(&self, name: &str, (uid, rv): (Uid, Option<u64>)) -> Result<(), Trip> {
        let pod = self.leaving(name, uid)?;
        if self.hook.is_on(pod) {
            let why = format!("{name} is deleted, and carries the hook of lifecycle.preDelete");
            return trip(rules::PRE_DELETE, why);
        }
        if self.hook.0.is_some() && rv != Some(pod.rv) {
            let why = format!("{name} is deleted whatever has become of it, and may have a hook");
            return trip(rules::PRE_DELETE, why);
        }
        Ok(())
    }

    /// Whether a node should have a pod, as far as that is plain: no taint and no affinity has a say. One that should
    /// have none may wait for its hook for long, and holds no update up.
    pub(super) fn is_surely_meant(&self, node: &str) -> bool {
        let wish = &self.snapshot.set.spec.placement;
        let plain = wish.node_name.is_none() && wish.required_terms.is_none();
        let row = self.snapshot.nodes.get(node);
        row.is_some_and(|row| {
            let mut wanted = wish.node_selector.iter();
            plain
                && row.taints.is_empty()
                && wanted.all(|(key, value)| row.label(key) == Some(value))
        })
    }

    /// Once, and only one that has to wait.
    pub(super) fn prepare(&self, name: &str, (uid, rv): (Uid, u64)) -> Result<(), Trip> {
        let pod = self.leaving(name, uid)?;
        if self.hook.is_on(pod) && !self.hook.told(pod) && rv == pod.rv {
            return Ok(());
        }
        let why = format!("{name} is told that it goes: it was told, has no hook, or has changed");
        trip(rules::PRE_DELETE, why)
    }

    /// One that goes was not told that it stays.
    fn leaving(&self, name: &str, uid: Uid) -> Result<&DaemonPod, Trip> {
        if self.kept.contains(&uid) {
            return trip(
                rules::PRE_DELETE,
                format!("{name} goes, and is told that it stays"),
            );
        }
        self.pod(rules::PRE_DELETE, name, uid)
    }

    /// Only one that was told that it goes, and that does not go.
    pub(super) fn keep(&mut self, name: &str, (uid, rv): (Uid, u64)) -> Result<(), Trip> {
        let pod = self.pod(rules::PRE_DELETE, name, uid)?;
        self.kept.insert(uid);
        let goes = self.deleted.contains(&uid) || pod.deletion.is_some();
        if carries_word(pod) && !goes && !self.snapshot.set.native && rv == pod.rv {
            return Ok(());
        }
        let why = format!("{name} is told that it stays: nobody has said otherwise, or it goes");
        trip(rules::PRE_DELETE, why)
    }
}
