//! What a plan for a Job does.

use std::io::Write;

use k8s_openapi::api::batch::v1::JobStatus;

use super::backoff::BackoffRecord;
use super::pod_failure_policy::FailureAction;
use crate::digest::line;
pub use crate::plan::{Act, Note, OnError};
use crate::uid::Uid;

/// A plan for a Job.
pub type Plan = crate::plan::Plan<Action>;
/// A step of it.
pub type Step = crate::plan::Step<Action>;

/// A pod that is to be created.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct NewPod {
    /// Its name.
    pub name: String,
    /// Its completion index.
    pub index: Option<u32>,
    /// Failures of its index before it, where these are counted per index.
    pub failures: Option<u32>,
    /// Ignored failures of its index before it, where there are some.
    pub ignored_failures: Option<u32>,
    /// Why, for those who count.
    pub why: Why,
}

/// Why a pod is created.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Why {
    /// None has failed.
    #[default]
    New,
    /// Some have failed, or were told to stop.
    TerminatingOrFailed,
    /// Some have failed, and only these are replaced.
    Failed,
}

/// One write, or one question only the API server can answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Ask whether the Job is still the one that was judged.
    ConfirmCurrent,
    /// Become the controller of a pod that has none, and mark it as not counted.
    AdoptPod {
        /// Its name.
        name: String,
        /// Precondition.
        uid: Uid,
    },
    /// No longer be the controller of a pod, nor keep it.
    DisownPod {
        /// Its name.
        name: String,
        /// Precondition.
        uid: Uid,
    },
    /// Create a pod.
    CreatePod(NewPod),
    /// Delete a pod that is not to be counted: remove our finalizer first.
    RemovePod {
        /// Its name.
        name: String,
        /// Precondition.
        uid: Uid,
        /// It carries our finalizer.
        tracked: bool,
    },
    /// Delete a pod that is to be counted, if it has not ended by itself.
    StopPod {
        /// Its name.
        name: String,
        /// Precondition.
        uid: Uid,
    },
    /// Remove our finalizer: the pod is counted, or never will be.
    ReleasePod {
        /// Its name.
        name: String,
        /// Precondition.
        uid: Uid,
        /// What the rule of the failure policy does that has decided its failure.
        handled: Option<FailureAction>,
    },
    /// Write the status, if the Job is still the one that was judged.
    WriteStatus(Box<StatusWrite>),
    /// Delete the Job, whose time to live is over.
    DeleteJob,
}

/// A status to be written.
#[derive(Clone, Debug, PartialEq)]
pub struct StatusWrite {
    /// The status, if everything before it in the plan goes through.
    pub status: JobStatus,
    /// Pods that earlier steps create: `active` is less by those that were not.
    pub created: i32,
    /// Pods that earlier steps remove: `active` is more by those that were not.
    pub removed: i32,
    /// What is remembered of failures once it is written.
    pub backoff: BackoffRecord,
}

impl Act for Action {
    fn word(&self) -> &'static str {
        match self {
            Self::ConfirmCurrent => "confirm_current",
            Self::AdoptPod { .. } => "adopt_pod",
            Self::DisownPod { .. } => "disown_pod",
            Self::CreatePod(_) => "create_pod",
            Self::RemovePod { .. } => "remove_pod",
            Self::StopPod { .. } => "stop_pod",
            Self::ReleasePod { .. } => "release_pod",
            Self::WriteStatus(_) => "write_status",
            Self::DeleteJob => "delete_job",
        }
    }

    fn object(&self) -> Option<String> {
        Some(match self {
            Self::CreatePod(pod) => pod.name.clone(),
            Self::AdoptPod { name, .. }
            | Self::DisownPod { name, .. }
            | Self::RemovePod { name, .. }
            | Self::StopPod { name, .. }
            | Self::ReleasePod { name, .. } => name.clone(),
            Self::ConfirmCurrent | Self::DeleteJob => return None,
            Self::WriteStatus(write) => {
                let count = |count: Option<i32>| count.unwrap_or(0);
                let status = &write.status;
                let active = count(status.active);
                let (succeeded, failed) = (count(status.succeeded), count(status.failed));
                format!("{active} active, {succeeded} succeeded, {failed} failed")
            }
        })
    }

    fn write(&self, out: &mut dyn Write) -> serde_json::Result<()> {
        let word = self.word();
        match self {
            Self::ConfirmCurrent | Self::DeleteJob => line(out, &word),
            Self::CreatePod(pod) => {
                let counts = (pod.failures, pod.ignored_failures);
                line(out, &(word, &pod.name, pod.index, counts))
            }
            Self::RemovePod { name, uid, tracked } => {
                line(out, &(word, name, uid.to_string(), tracked))
            }
            Self::AdoptPod { name, uid }
            | Self::DisownPod { name, uid }
            | Self::StopPod { name, uid }
            | Self::ReleasePod { name, uid, .. } => line(out, &(word, name, uid.to_string())),
            Self::WriteStatus(write) => {
                let counts = (write.created, write.removed, write.backoff.failures);
                let last = write.backoff.last.map(|time| time.to_string());
                line(out, &(word, &write.status, counts, last))
            }
        }
    }
}
