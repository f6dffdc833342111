//! A pod of a Job, as far as the planner has to know it.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use crate::node::Labels;
use crate::pod::{Failure, PodPhase};
use crate::uid::Uid;

/// Our mark on pods that may not be counted yet; upstream's name.
pub const FINALIZER_JOB_TRACKING: &str = "batch.kubernetes.io/job-tracking";

/// A pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobPod {
    /// Uid.
    pub uid: Uid,
    /// resourceVersion.
    pub rv: u64,
    /// Phase.
    pub phase: PodPhase,
    /// Carries `batch.kubernetes.io/job-tracking`: it may not be counted yet.
    pub tracked: bool,
    /// Somebody has deleted it.
    pub deleting: bool,
    /// A node was found for it.
    pub assigned: bool,
    /// Since when it is Ready; `None`: it is not.
    pub ready: Option<Timestamp>,
    /// `metadata.creationTimestamp`.
    pub created: Timestamp,
    /// Annotation `batch.kubernetes.io/job-completion-index`; `None` where it says no index.
    pub index: Option<u32>,
    /// Annotation `batch.kubernetes.io/job-index-failure-count`: failures of its index before it.
    pub failures: u32,
    /// Annotation `batch.kubernetes.io/job-index-ignored-failure-count`.
    pub ignored_failures: u32,
    /// Restarts of its containers.
    pub restarts: Restarts,
    /// When it ended, for the back-off; only of a pod that counts as ended.
    pub finished: Option<Timestamp>,
    /// Labels, for the selector.
    pub labels: Labels,
    /// How a failed pod ended, for the failure policy: its containers, then its init containers.
    pub failure: Option<Arc<Failure>>,
}

/// Restarts of a pod's containers.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Restarts {
    /// The most of one container.
    pub most: i32,
    /// The most of one sidecar.
    pub most_of_sidecars: i32,
    /// Of all containers and init containers.
    pub sum: i64,
}

/// The pods that a Job controls, by name.
pub type JobPods = BTreeMap<Box<str>, JobPod>;

/// A pod and its name.
pub type Named<'a> = (&'a str, &'a JobPod);

impl JobPod {
    /// It runs, or will.
    pub fn is_active(&self) -> bool {
        !self.phase.has_ended() && !self.deleting
    }

    /// It was told to stop and has not ended yet.
    pub fn is_terminating(&self) -> bool {
        !self.phase.has_ended() && self.deleting
    }

    /// Whether it counts as failed. Where pods are replaced as soon as they are told to stop, such a
    /// pod has failed; otherwise only its end decides.
    pub fn has_failed(&self, replaces_only_failed: bool) -> bool {
        match self.phase {
            PodPhase::Failed => true,
            PodPhase::Succeeded => false,
            PodPhase::Pending | PodPhase::Running | PodPhase::Unknown => {
                self.deleting && !replaces_only_failed
            }
        }
    }
}
