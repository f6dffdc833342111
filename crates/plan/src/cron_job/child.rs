//! What CronJobs start, as far as their planner has to know.

use std::collections::BTreeMap;

use carillon_api::condition::{reasons, types};
use carillon_api::cron_job::RunReference;
use jiff::Timestamp;

use crate::object_key::{ApiKind, BROADCAST_JOB, JOB};
use crate::uid::Uid;

/// What a run is.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub enum ChildKind {
    /// A Job of batch/v1.
    #[default]
    Job,
    /// A BroadcastJob of carillon.dev.
    BroadcastJob,
}

impl ChildKind {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Job, Self::BroadcastJob];

    /// `apiVersion` and `kind`.
    pub fn api_kind(self) -> ApiKind {
        match self {
            Self::Job => JOB,
            Self::BroadcastJob => BROADCAST_JOB,
        }
    }

    /// Such as `batch/v1`.
    pub fn api_version(self) -> &'static str {
        self.api_kind().0
    }

    /// Such as `Job`.
    pub fn kind(self) -> &'static str {
        self.api_kind().1
    }
}

/// A child.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(clippy::struct_excessive_bools)] // each is a fact of its own
pub struct Child {
    /// Uid.
    pub uid: Uid,
    /// resourceVersion.
    pub rv: u64,
    /// It carries our finalizer: that it was started may not be recorded yet.
    pub held: bool,
    /// Somebody has deleted it.
    pub deleting: bool,
    /// Made by hand, with `kubectl create job --from`.
    pub by_hand: bool,
    /// A retry of it has not ended, and needs its results.
    pub retried: bool,
    /// The time it was scheduled for, as its annotation says.
    pub scheduled: Option<Timestamp>,
    /// The value of the annotation that asked for it.
    pub request: Option<Box<str>>,
    /// `status.startTime`.
    pub started: Option<Timestamp>,
    /// How it ended.
    pub ended: Option<Ended>,
}

/// How a child ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ended {
    /// What came out.
    pub outcome: RunOutcome,
    /// `status.completionTime`, or when it had failed.
    pub at: Option<Timestamp>,
}

impl Ended {
    /// What conditions say, each as its type, status, reason and last transition. `completed`: `status.completionTime`.
    pub fn read<'c>(
        mut conditions: impl Iterator<Item = ([&'c str; 3], Option<Timestamp>)>,
        completed: Option<Timestamp>,
    ) -> Option<Self> {
        conditions.find_map(|([type_, status, reason], since)| {
            let outcome = RunOutcome::of(type_, reason).filter(|_| status == "True")?;
            let at = match outcome {
                RunOutcome::Failed => since,
                RunOutcome::Succeeded | RunOutcome::CompletedWithFailures => completed,
            };
            Some(Self { outcome, at })
        })
    }

    /// Type of the condition that says so.
    pub fn condition(self) -> &'static str {
        match self.outcome {
            RunOutcome::Succeeded | RunOutcome::CompletedWithFailures => types::COMPLETE,
            RunOutcome::Failed => types::FAILED,
        }
    }

    /// Whether the run counts as a success: in `lastSuccessfulTime`, and towards `successfulJobsHistoryLimit`.
    pub fn succeeded(self) -> bool {
        self.outcome == RunOutcome::Succeeded
    }
}

/// What came out of a run.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RunOutcome {
    /// Complete.
    Succeeded,
    /// Complete, and nodes of the BroadcastJob failed.
    CompletedWithFailures,
    /// Failed.
    Failed,
}

impl RunOutcome {
    /// What a condition that is true says of the run; `None` if it says nothing of its end.
    fn of(type_: &str, reason: &str) -> Option<Self> {
        match type_ {
            types::COMPLETE if reason == reasons::COMPLETED_WITH_FAILURES => {
                Some(Self::CompletedWithFailures)
            }
            types::COMPLETE => Some(Self::Succeeded),
            types::FAILED => Some(Self::Failed),
            _ => None,
        }
    }
}

/// The children that a CronJob controls, by kind and name.
pub type Children = BTreeMap<(ChildKind, Box<str>), Child>;

/// The child that a reference is to.
pub fn referred<'c>(children: &'c Children, reference: &RunReference) -> Option<&'c Child> {
    let kind = kind_of(reference)?;
    children.get(&(kind, reference.name.as_str().into()))
}

/// Kind of the child a reference is to; `None` for one that somebody else wrote.
pub(super) fn kind_of(reference: &RunReference) -> Option<ChildKind> {
    ChildKind::ALL
        .into_iter()
        .find(|kind| kind.kind() == reference.kind)
}
