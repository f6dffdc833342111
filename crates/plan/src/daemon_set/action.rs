//! What a plan for a DaemonSet does.

use std::io::Write;

use carillon_api::DaemonSetStatus;
use jiff::Timestamp;

use super::manage::Why;
use crate::digest::line;
pub use crate::plan::{Act, Note, OnError};
use crate::uid::Uid;

/// The word for the creation of a pod.
pub const CREATE_POD: &str = "create_pod";

/// A plan for a DaemonSet.
pub type Plan = crate::plan::Plan<Action>;
/// A step of it.
pub type Step = crate::plan::Step<Action>;

/// A pod that is to be created.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct NewPod {
    /// Its name: see [`daemon_pod`](crate::name::daemon_pod).
    pub name: String,
    /// The node that it is for.
    pub node: String,
    /// The hash of the revision that it is made from.
    pub hash: String,
}

/// A revision that is to be created.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct NewRevision {
    /// Its name.
    pub name: String,
    /// The hash that its pods carry.
    pub hash: String,
    /// Its number.
    pub number: i64,
}

/// One write, or one question only the API server can answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Ask whether the DaemonSet is still the one that was judged.
    ConfirmCurrent,
    /// Become the controller of a pod that has none.
    AdoptPod {
        /// Its name.
        name: String,
        /// Precondition.
        uid: Uid,
    },
    /// No longer be the controller of a pod.
    DisownPod {
        /// Its name.
        name: String,
        /// Precondition.
        uid: Uid,
    },
    /// Become the controller of a revision that has none.
    AdoptRevision {
        /// Its name.
        name: String,
        /// Precondition.
        uid: Uid,
    },
    /// No longer be the controller of a revision.
    DisownRevision {
        /// Its name.
        name: String,
        /// Precondition.
        uid: Uid,
    },
    /// Store the template as a revision.
    CreateRevision(NewRevision),
    /// Make a revision the newest.
    RenumberRevision {
        /// Its name.
        name: String,
        /// Precondition.
        uid: Uid,
        /// Its new number.
        number: i64,
    },
    /// Delete a revision. One that was made the newest meanwhile stays.
    DeleteRevision {
        /// Its name.
        name: String,
        /// Precondition.
        uid: Uid,
        /// Precondition.
        rv: u64,
    },
    /// Give a pod the hash of the revision that stays of two with the same data.
    RelabelPod {
        /// Its name.
        name: String,
        /// Precondition.
        uid: Uid,
        /// The hash.
        hash: String,
    },
    /// Create a pod.
    CreatePod(NewPod),
    /// Tell a pod that it is to be deleted, and its hook that it may let go of it.
    PreparePod {
        /// Its name.
        name: String,
        /// Precondition.
        uid: Uid,
        /// Precondition.
        rv: u64,
        /// Its node.
        node: String,
        /// Why it is to be deleted.
        why: Why,
        /// When that was decided.
        at: Timestamp,
    },
    /// Tell a pod that it is not to be deleted after all.
    KeepPod {
        /// Its name.
        name: String,
        /// Precondition.
        uid: Uid,
        /// Precondition.
        rv: u64,
    },
    /// Delete a pod.
    DeletePod {
        /// Its name.
        name: String,
        /// Precondition.
        uid: Uid,
        /// Precondition, where a hook may have come back.
        rv: Option<u64>,
        /// The node that it was on, or for.
        node: String,
        /// Why.
        why: Why,
    },
    /// Write the status, if the DaemonSet is still the one that was judged.
    WriteStatus(Box<DaemonSetStatus>),
}

impl Act for Action {
    fn word(&self) -> &'static str {
        match self {
            Self::ConfirmCurrent => "confirm_current",
            Self::AdoptPod { .. } => "adopt_pod",
            Self::DisownPod { .. } => "disown_pod",
            Self::AdoptRevision { .. } => "adopt_revision",
            Self::DisownRevision { .. } => "disown_revision",
            Self::CreateRevision(_) => "create_revision",
            Self::RenumberRevision { .. } => "renumber_revision",
            Self::DeleteRevision { .. } => "delete_revision",
            Self::RelabelPod { .. } => "relabel_pod",
            Self::CreatePod(_) => CREATE_POD,
            Self::PreparePod { .. } => "prepare_pod",
            Self::KeepPod { .. } => "keep_pod",
            Self::DeletePod { .. } => "delete_pod",
            Self::WriteStatus(_) => "write_status",
        }
    }

    fn object(&self) -> Option<String> {
        Some(match self {
            Self::ConfirmCurrent => return None,
            Self::AdoptPod { name, .. }
            | Self::DisownPod { name, .. }
            | Self::AdoptRevision { name, .. }
            | Self::DisownRevision { name, .. }
            | Self::RenumberRevision { name, .. }
            | Self::DeleteRevision { name, .. }
            | Self::RelabelPod { name, .. }
            | Self::PreparePod { name, .. }
            | Self::KeepPod { name, .. }
            | Self::DeletePod { name, .. } => name.clone(),
            Self::CreateRevision(revision) => revision.name.clone(),
            Self::CreatePod(pod) => pod.name.clone(),
            Self::WriteStatus(status) => {
                let updated = status.updated_number_scheduled.unwrap_or(0);
                let available = status.number_available.unwrap_or(0);
                let desired = status.desired_number_scheduled;
                format!("{desired} desired, {updated} updated, {available} available")
            }
        })
    }

    fn write(&self, out: &mut dyn Write) -> serde_json::Result<()> {
        let word = self.word();
        match self {
            Self::ConfirmCurrent => line(out, &word),
            Self::AdoptPod { name, uid }
            | Self::DisownPod { name, uid }
            | Self::AdoptRevision { name, uid }
            | Self::DisownRevision { name, uid } => line(out, &(word, name, uid.to_string())),
            Self::CreateRevision(NewRevision { name, hash, number }) => {
                line(out, &(word, name, hash, number))
            }
            Self::RenumberRevision { name, uid, number } => {
                line(out, &(word, name, uid.to_string(), number))
            }
            Self::RelabelPod { name, uid, hash } => line(out, &(word, name, uid.to_string(), hash)),
            Self::CreatePod(NewPod { name, node, hash }) => line(out, &(word, name, node, hash)),
            Self::PreparePod {
                name,
                uid,
                rv,
                node,
                why,
                at,
            } => {
                let at = at.to_string();
                let which = (name, uid.to_string(), rv, node);
                line(out, &(word, which, why.word(), at))
            }
            Self::KeepPod { name, uid, rv } | Self::DeleteRevision { name, uid, rv } => {
                line(out, &(word, name, uid.to_string(), rv))
            }
            Self::DeletePod {
                name,
                uid,
                rv,
                node,
                why,
            } => line(out, &(word, name, uid.to_string(), rv, node, why.word())),
            Self::WriteStatus(status) => line(out, &(word, status)),
        }
    }
}
