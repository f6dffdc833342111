//! What a plan for a Job is made from.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::backoff::BackoffRecord;
use super::pod::{JobPod, JobPods, Named};
use super::spec::{Job, MANAGED_BY};

/// Names of pods whose creation had no answer, and until when each may come to be.
pub type Unanswered = BTreeMap<String, Timestamp>;

/// Everything a plan is made from.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'a> {
    /// The Job.
    pub job: &'a Job,
    /// The pods it controls.
    pub pods: &'a JobPods,
    /// The pods of its namespace that nothing controls.
    pub free: &'a JobPods,
    /// What is remembered of failures.
    pub backoff: &'a BackoffRecord,
    /// Pods that may still come to be.
    pub unanswered: &'a Unanswered,
    /// What the flags say.
    pub limits: &'a Limits,
}

impl<'a> Snapshot<'a> {
    /// Whether a pod counts as failed. Once a Job has succeeded, one that is told to stop has not: it
    /// was released without being counted, and may be seen with our finalizer for a while.
    pub(super) fn has_failed(&self, pod: &JobPod) -> bool {
        let waits = self.job.spec.replaces_only_failed || self.job.has("SuccessCriteriaMet");
        pod.has_failed(waits)
    }

    /// The pods, with their names.
    pub(super) fn named(&self) -> impl Iterator<Item = Named<'a>> + use<'a> {
        self.pods.iter().map(|(name, pod)| (&**name, pod))
    }
}

/// Time constants and caps; the defaults are upstream's.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Wait after the first failure; doubles with each further one.
    pub backoff: SignedDuration,
    /// The longest wait.
    pub max_backoff: SignedDuration,
    /// Pods counted in one sync.
    pub max_uncounted: usize,
    /// Pods created or removed in one sync.
    pub max_pod_changes: usize,
    /// Jobs that are not ours by name show the oddities of kube-controller-manager, too.
    pub strict_parity: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            backoff: SignedDuration::from_secs(10),
            max_backoff: SignedDuration::from_mins(10),
            max_uncounted: 500,
            max_pod_changes: 500,
            strict_parity: false,
        }
    }
}

/// Whether a Job is to show the oddities of kube-controller-manager, too.
pub fn is_strict(job: &Job, limits: &Limits) -> bool {
    limits.strict_parity && job.spec.managed_by.as_deref() != Some(MANAGED_BY)
}
