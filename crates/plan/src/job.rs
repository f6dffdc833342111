//! Job of batch/v1: pods until enough have succeeded, as kube-controller-manager runs them.

pub mod action;
pub mod active_pods;
pub mod backoff;
pub mod backoff_per_index;
pub mod failed_indexes;
#[cfg(test)]
mod fixture;
pub mod indexes;
mod pod;
pub mod pod_failure_policy;
mod spec;
pub mod success_policy;

use jiff::{SignedDuration, Timestamp};

use self::action::Plan;
use self::backoff::BackoffRecord;
pub use self::pod::{JobPod, JobPods, Restarts};
pub use self::spec::{CompletionMode, Job, JobMeta, MANAGED_BY, MANAGED_BY_KUBERNETES, Spec};

/// Our mark on pods that may not be counted yet; upstream's name.
pub const FINALIZER_JOB_TRACKING: &str = "batch.kubernetes.io/job-tracking";

/// Everything a plan is made from.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'a> {
    /// The Job.
    pub job: &'a Job,
    /// The pods it controls.
    pub pods: &'a JobPods,
    /// What is remembered of failures.
    pub backoff: &'a BackoffRecord,
    /// What the flags say.
    pub limits: &'a Limits,
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
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            backoff: SignedDuration::from_secs(10),
            max_backoff: SignedDuration::from_mins(10),
            max_uncounted: 500,
            max_pod_changes: 500,
        }
    }
}

/// What should happen now.
pub fn plan(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let _ = (snapshot, now);
    Plan::default()
}
