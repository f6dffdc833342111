//! What a plan for a CronJob does.

use std::io::Write;

use carillon_api::CronJobStatus;
use jiff::Timestamp;

use super::child::ChildKind;
use crate::digest::line;
pub use crate::plan::{Act, Note, OnError};
use crate::uid::Uid;

/// A plan for a CronJob.
pub type Plan = crate::plan::Plan<Action>;
/// A step of it.
pub type Step = crate::plan::Step<Action>;

/// A run that is to be started.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Run {
    /// Kind of the child.
    pub kind: ChildKind,
    /// Its name.
    pub name: String,
    /// The time it is scheduled for; of a run on request, when it was asked for.
    pub time: Timestamp,
    /// The value of the annotation that asked for it.
    pub request: Option<String>,
}

/// Why a child is deleted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Why {
    /// More have ended than the history limit keeps.
    History,
    /// `concurrencyPolicy: Replace`.
    Replaced,
}

/// One write, or one question only the API server can answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Ask whether the API server accepts such a child (dry run).
    TryChild(Run),
    /// Ask whether a child that was recorded, and is not in the cache, is really gone.
    ConfirmGone {
        /// Kind of the child.
        kind: ChildKind,
        /// Name of the child.
        name: String,
        /// Uid it had. `None`: any child of ours with this name.
        uid: Option<Uid>,
    },
    /// Ask whether the CronJob is still the one that was judged.
    ConfirmCurrent,
    /// Write the status, if the CronJob is still the one that was judged.
    WriteStatus(Box<CronJobStatus>),
    /// Create the child of a promised run.
    CreateChild(Run),
    /// Delete a child, if it is still the one that was judged.
    DeleteChild {
        /// Kind of the child.
        kind: ChildKind,
        /// Name of the child.
        name: String,
        /// Precondition.
        uid: Uid,
        /// Precondition.
        rv: u64,
        /// What for.
        why: Why,
    },
    /// Remove our finalizer: the run is recorded.
    ReleaseChild {
        /// Kind of the child.
        kind: ChildKind,
        /// Name of the child.
        name: String,
        /// Precondition.
        uid: Uid,
    },
}

impl Act for Action {
    fn word(&self) -> &'static str {
        match self {
            Self::TryChild(_) => "try_child",
            Self::ConfirmGone { .. } => "confirm_gone",
            Self::ConfirmCurrent => "confirm_current",
            Self::WriteStatus(_) => "write_status",
            Self::CreateChild(_) => "create_child",
            Self::DeleteChild { .. } => "delete_child",
            Self::ReleaseChild { .. } => "release_child",
        }
    }

    fn object(&self) -> Option<String> {
        Some(match self {
            Self::TryChild(run) | Self::CreateChild(run) => {
                format!("{} {} for {}", run.kind.kind(), run.name, run.time)
            }
            Self::ConfirmGone { kind, name, .. }
            | Self::DeleteChild { kind, name, .. }
            | Self::ReleaseChild { kind, name, .. } => format!("{} {name}", kind.kind()),
            Self::ConfirmCurrent => return None,
            Self::WriteStatus(status) => {
                let last = status.last_schedule_time.as_ref().map(|time| time.0);
                let last = last.map_or_else(|| "never".to_owned(), |time| time.to_string());
                format!("{} active, last scheduled {last}", status.active.len())
            }
        })
    }

    fn write(&self, out: &mut dyn Write) -> serde_json::Result<()> {
        line(out, &format_args!("{self:?}"))
    }
}
