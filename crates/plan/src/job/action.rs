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
    /// Ask for a pod that nobody can have created any more, so that it is there by now or never.
    ConfirmAbsent {
        /// Its name.
        name: String,
    },
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
            Self::ConfirmAbsent { .. } => "confirm_absent",
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
            Self::ConfirmAbsent { name }
            | Self::AdoptPod { name, .. }
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
            Self::ConfirmAbsent { name } => line(out, &(word, name)),
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn an_action_tells_what_it_is_done_to() {
        let (name, uid) = ("a".to_owned(), Uid::default());
        let stops = Action::StopPod { name, uid };
        assert_eq!(
            (stops.word(), stops.object()),
            ("stop_pod", Some("a".to_owned()))
        );
        assert_eq!(Action::DeleteJob.object(), None);
        let status = JobStatus {
            active: Some(1),
            failed: Some(2),
            ..JobStatus::default()
        };
        let write = Action::WriteStatus(Box::new(StatusWrite {
            status,
            created: 0,
            removed: 0,
            backoff: BackoffRecord::default(),
        }));
        let told = "1 active, 0 succeeded, 2 failed".to_owned();
        assert_eq!(write.object(), Some(told));
    }

    #[test]
    fn every_part_of_a_plan_is_in_its_digest() {
        let uid = |n: u64| -> Uid { format!("4e0c5d6a-0b1c-4d2e-8f3a-{n:012x}").parse().unwrap() };
        let named = |pod: &str, n: u64| {
            let (name, uid) = (pod.to_owned(), uid(n));
            let handled = None;
            let (adopt, disown) = (name.clone(), name.clone());
            [
                Action::AdoptPod { name: adopt, uid },
                Action::DisownPod { name: disown, uid },
                Action::StopPod {
                    name: name.clone(),
                    uid,
                },
                Action::ReleasePod { name, uid, handled },
            ]
        };
        let removed = |tracked| Action::RemovePod {
            name: "a".to_owned(),
            uid: uid(1),
            tracked,
        };
        let created = |change: &dyn Fn(&mut NewPod)| {
            let mut pod = NewPod::default();
            change(&mut pod);
            Action::CreatePod(pod)
        };
        let written = |change: &dyn Fn(&mut StatusWrite)| {
            let mut write = StatusWrite {
                status: JobStatus::default(),
                created: 0,
                removed: 0,
                backoff: BackoffRecord::default(),
            };
            change(&mut write);
            Action::WriteStatus(Box::new(write))
        };
        let mut all = vec![
            Action::ConfirmCurrent,
            Action::DeleteJob,
            Action::ConfirmAbsent {
                name: "a".to_owned(),
            },
            Action::ConfirmAbsent {
                name: "b".to_owned(),
            },
            removed(true),
            removed(false),
            created(&|_| {}),
            created(&|pod| "a".clone_into(&mut pod.name)),
            created(&|pod| pod.index = Some(1)),
            created(&|pod| pod.failures = Some(1)),
            created(&|pod| pod.ignored_failures = Some(1)),
            written(&|_| {}),
            written(&|write| write.status.failed = Some(1)),
            written(&|write| write.created = 1),
            written(&|write| write.removed = 1),
            written(&|write| write.backoff.failures = 1),
            written(&|write| write.backoff.last = jiff::Timestamp::from_second(1).ok()),
        ];
        all.extend(named("a", 1));
        all.extend(named("b", 1));
        all.extend(named("a", 2));
        let digests: BTreeSet<String> = all
            .iter()
            .map(|action| {
                let steps = vec![Step::needed(vec![action.clone()])];
                let plan = Plan {
                    steps,
                    ..Plan::default()
                };
                plan.digest()
            })
            .collect();
        assert_eq!(digests.len(), all.len());
    }
}
