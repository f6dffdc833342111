//! A pod of a DaemonSet, as far as the planner has to know it.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use crate::node::Labels;
use crate::pod::PodPhase;
use crate::selector::label;
use crate::uid::Uid;

/// Label: the hash of the ControllerRevision that the pod was made from.
pub const LABEL_REVISION: &str = "controller-revision-hash";
/// Label: the generation of the template that the pod was made from; DaemonSets of apps/v1 only.
pub const LABEL_GENERATION: &str = "pod-template-generation";

/// A pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DaemonPod {
    /// Uid.
    pub uid: Uid,
    /// resourceVersion.
    pub rv: u64,
    /// Phase.
    pub phase: PodPhase,
    /// When somebody has deleted it, if so.
    pub deletion: Option<Timestamp>,
    /// The node it was bound to, or is for. `None`: it does not say.
    pub node: Option<Arc<str>>,
    /// `spec.nodeName` is set.
    pub bound: bool,
    /// Since when it is Ready; `None`: it is not.
    pub ready: Option<Timestamp>,
    /// `metadata.creationTimestamp`.
    pub created: Timestamp,
    /// Labels, for the selector, the revision and a hook.
    pub labels: Labels,
    /// What it says of when it was told that it goes: see [`lifecycle`](super::lifecycle).
    pub told: Option<Timestamp>,
    /// Finalizers, for a hook.
    pub finalizers: Box<[Arc<str>]>,
}

/// The pods that a DaemonSet controls, by name.
pub type DaemonPods = BTreeMap<Box<str>, DaemonPod>;

/// A pod and its name.
pub type Named<'a> = (&'a str, &'a DaemonPod);

impl DaemonPod {
    /// Somebody has deleted it.
    pub fn is_deleting(&self) -> bool {
        self.deletion.is_some()
    }

    /// The hash of the revision that it was made from.
    pub fn revision(&self) -> Option<&str> {
        label(&self.labels, LABEL_REVISION)
    }

    /// The generation of the template that it was made from.
    pub fn template_generation(&self) -> Option<i64> {
        label(&self.labels, LABEL_GENERATION)?.parse().ok()
    }

    /// Whether it has been Ready for so many seconds. Source: `podutil.IsPodAvailable`.
    pub fn is_available(&self, min_ready_seconds: i32, now: Timestamp) -> bool {
        let enough = SignedDuration::from_secs(min_ready_seconds.into());
        let is_over = |since: Timestamp| {
            let available = since.checked_add(enough);
            available.is_ok_and(|available| available <= now)
        };
        self.ready
            .is_some_and(|since| min_ready_seconds <= 0 || is_over(since))
    }

    /// The end of it is known and it is only kept by a finalizer: nothing of it runs any more.
    pub(super) fn is_left_over(&self) -> bool {
        self.phase.has_ended() && self.is_deleting()
    }
}
