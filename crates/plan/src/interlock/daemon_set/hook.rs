//! `lifecycle.preDelete`: what may be done to pods that carry a hook.

use carillon_api::names::{LABEL_LIFECYCLE_STATE, STATE_PREPARING_DELETE};

use crate::daemon_set::{DaemonPod, DaemonSet};

/// The hook of a DaemonSet, if it has one.
pub(super) struct Hook<'a>(Option<&'a DaemonSet>);

impl<'a> Hook<'a> {
    pub(super) fn of(set: &'a DaemonSet) -> Self {
        Self(Some(set).filter(|set| set.spec.pre_delete.is_some() && !set.native))
    }

    /// Whether a pod carries it.
    pub(super) fn is_on(&self, pod: &DaemonPod) -> bool {
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
        self.0.is_some() && Self::carries_word(pod)
    }

    /// Whether there is one.
    pub(super) fn is_some(&self) -> bool {
        self.0.is_some()
    }

    /// Whether a pod says that it goes.
    pub(super) fn carries_word(pod: &DaemonPod) -> bool {
        let mut labels = pod.labels.iter();
        labels.any(|(key, value)| {
            **key == *LABEL_LIFECYCLE_STATE && **value == *STATE_PREPARING_DELETE
        })
    }
}
