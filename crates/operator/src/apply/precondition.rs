//! What a plan relies on, and what is said where that is otherwise.

use carillon_plan::{ObjectKey, Uid};
use kube::core::response::StatusDetails;

use crate::slim::SlimMeta;
use crate::writes::SendError;

/// What a plan relies on is there and still as it was read, or the plan ends as one whose write was
/// refused for that.
pub fn unchanged(found: Option<SlimMeta>, rv: u64) -> Result<(), SendError> {
    if found.is_some_and(|found| found.rv() == rv) {
        return Ok(());
    }
    Err(changed())
}

/// What a plan relies on is still not there; else as of [`unchanged`].
pub fn absent(found: Option<SlimMeta>, owner: &ObjectKey) -> Result<(), SendError> {
    match found {
        None => Ok(()),
        Some(found) if found.is_controlled_by(owner) => Err(is_there(&found)),
        Some(_) => Err(conflict("the name belongs to somebody else", NAME_TAKEN)),
    }
}

/// Reason of what [`absent`] says of something that belongs to somebody else.
pub const NAME_TAKEN: &str = "NameTaken";
/// Reason of what [`unchanged`] and [`absent`] say of something that has changed.
pub const CHANGED: &str = "Conflict";

pub(crate) fn changed() -> SendError {
    conflict("it has changed since it was read", CHANGED)
}

/// As [`changed`], with the uid of what there is.
fn is_there(found: &SlimMeta) -> SendError {
    let mut error = changed();
    if let (SendError::Refused(status), Some(uid)) = (&mut error, found.uid()) {
        status.details = Some(StatusDetails {
            uid: uid.to_string(),
            name: String::new(),
            group: String::new(),
            kind: String::new(),
            causes: Vec::new(),
            retry_after_seconds: 0,
        });
    }
    error
}

/// The uid of what there is, where [`absent`] has found it.
pub fn uid_of(error: &SendError) -> Option<Uid> {
    error.refused()?.details.as_ref()?.uid.parse().ok()
}

/// What is found otherwise than a plan relies on.
pub fn conflict(message: &str, reason: &str) -> SendError {
    let mut status = kube::core::Status::failure(message, reason);
    status.code = 409;
    SendError::Refused(Box::new(status))
}
