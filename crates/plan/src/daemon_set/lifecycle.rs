//! Pods that wait for a hook before they are deleted: `spec.lifecycle.preDelete`.
//!
//! Which pods go is decided by others, and anew in each plan. Here it is decided how they go: one that carries the hook
//! is told by a label, and goes when somebody has taken the hook from it. The label follows the decision: where a pod
//! is to stay after all, it is taken back (OpenKruise deletes such a pod nevertheless).

use carillon_api::names::{LABEL_LIFECYCLE_STATE, STATE_PREPARING_DELETE};
use jiff::Timestamp;

use super::pod::DaemonPod;
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

pub(super) fn is_labelled(pod: &DaemonPod) -> bool {
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
