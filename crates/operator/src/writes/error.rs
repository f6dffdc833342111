//! What became of a request that did not succeed.

use kube::core::Status;

use crate::fence::NotSent;

/// What became of a request that did not succeed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SendError {
    /// Certainly not applied; plan again later.
    #[error("not sent: {0}")]
    NotSent(#[from] NotSent),
    /// The API server refused it (4xx, or 500 for a webhook that does not answer); not applied. `code` is always set;
    /// `reason` too when the code has one.
    #[error("refused: {} ({} {})", .0.message, .0.code, .0.reason)]
    Refused(Box<Status>),
    /// No complete reply, or a server error (5xx): it may have been applied, or still will be.
    #[error("outcome unknown: {0}")]
    Unknown(String),
}

impl SendError {
    /// The API server's refusal.
    pub fn refused(&self) -> Option<&Status> {
        match self {
            Self::Refused(status) => Some(status),
            _ => None,
        }
    }
}
