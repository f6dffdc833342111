//! What a plan consists of.

use std::sync::Arc;

use carillon_api::BroadcastJobStatus;
use carillon_api::node_result_slice::NodeResult;
use jiff::Timestamp;

use crate::uid::Uid;

/// What should happen now. Steps are done in order; a crash between any two writes must leave a
/// state from which the next plan goes on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// In order.
    pub steps: Vec<Step>,
    /// Plan again at this time at the latest. Computed anew by every plan from stored state.
    pub wake: Option<Timestamp>,
    /// More is to be done as soon as this plan is applied and seen.
    pub again: bool,
    /// Events to publish once the plan is applied.
    pub notes: Vec<Note>,
}

/// Actions that may be done side by side.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// In the order they are tried.
    pub actions: Vec<Action>,
    /// What a failed action means.
    pub on_error: OnError,
    /// Try 1, then 2, then 4, … at a time; the first batch with a failure is the last.
    pub slow_start: bool,
}

/// What a failed action of a step means for the plan.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum OnError {
    /// The later steps rely on this one: stop.
    Stop,
    /// The later steps stand on their own: go on, and plan again after a back-off.
    GoOn,
}

impl Step {
    /// A step the later ones rely on.
    pub fn needed(actions: Vec<Action>) -> Self {
        Self {
            actions,
            on_error: OnError::Stop,
            slow_start: false,
        }
    }

    /// A step the later ones do not rely on.
    pub fn wanted(actions: Vec<Action>) -> Self {
        Self {
            actions,
            on_error: OnError::GoOn,
            slow_start: false,
        }
    }

    /// Creations, slowly at first: if the first is refused, hundreds more would be too.
    pub fn slowly(actions: Vec<Action>) -> Self {
        Self {
            actions,
            on_error: OnError::GoOn,
            slow_start: true,
        }
    }
}

/// One write, or one question only the API server can answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Ask whether the API server accepts this pod (dry run).
    CheckTemplate {
        /// Name of the node it is tried for.
        node: Arc<str>,
        /// Name of the pod.
        pod: Box<str>,
    },
    /// Ask whether a pod that was seen once, and is not in the cache, is really gone.
    ConfirmGone {
        /// Name of the pod.
        pod: Box<str>,
        /// Uid it had.
        uid: Uid,
    },
    /// Create or update a result slice.
    WriteSlice(SliceWrite),
    /// Create the pod of a reserved attempt.
    CreatePod {
        /// Name of the pod, made from job uid, node and attempt.
        pod: Box<str>,
        /// Node it is for.
        node: Arc<str>,
    },
    /// Delete a pod, if it is still the one that was judged.
    DeletePod {
        /// Name of the pod.
        pod: Box<str>,
        /// Precondition.
        uid: Uid,
        /// Precondition.
        rv: u64,
    },
    /// Remove our finalizer: the result is stored.
    ReleasePod {
        /// Name of the pod.
        pod: Box<str>,
        /// Precondition.
        uid: Uid,
    },
    /// Write the job's status, if the job is still the one that was judged.
    WriteStatus(Box<BroadcastJobStatus>),
    /// Delete the job: its time to live is over.
    DeleteJob,
}

impl Action {
    /// The action's word in logs and metrics.
    pub fn word(&self) -> &'static str {
        match self {
            Self::CheckTemplate { .. } => "check_template",
            Self::ConfirmGone { .. } => "confirm_gone",
            Self::WriteSlice(_) => "write_slice",
            Self::CreatePod { .. } => "create_pod",
            Self::DeletePod { .. } => "delete_pod",
            Self::ReleasePod { .. } => "release_pod",
            Self::WriteStatus(_) => "write_status",
            Self::DeleteJob => "delete_job",
        }
    }
}

/// The whole content of a result slice.
#[derive(Clone, Debug, PartialEq)]
pub struct SliceWrite {
    /// Index of the slice.
    pub index: u32,
    /// resourceVersion it was planned from. `None`: the slice is created, and must not exist.
    pub rv: Option<u64>,
    /// No further attempt may be reserved.
    pub sealed: bool,
    /// All of its results.
    pub results: Vec<NodeResult>,
}

/// An event.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Note {
    /// True: a person may have to act.
    pub warning: bool,
    /// CamelCase.
    pub reason: &'static str,
    /// What the operator was doing.
    pub action: &'static str,
    /// For people.
    pub message: String,
}
