//! What CronJobs start, as far as their planner has to know.

use std::collections::BTreeMap;

use jiff::Timestamp;

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

    /// Such as `batch/v1`.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::Job => "batch/v1",
            Self::BroadcastJob => carillon_api::names::API_VERSION,
        }
    }

    /// Such as `Job`.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Job => "Job",
            Self::BroadcastJob => "BroadcastJob",
        }
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
    /// Complete; otherwise Failed.
    pub complete: bool,
    /// `status.completionTime`, or when it had failed.
    pub at: Option<Timestamp>,
}

impl Ended {
    /// Type of the condition that says so.
    pub fn condition(self) -> &'static str {
        if self.complete { "Complete" } else { "Failed" }
    }
}

/// The children that a CronJob controls, by kind and name.
pub type Children = BTreeMap<(ChildKind, Box<str>), Child>;
