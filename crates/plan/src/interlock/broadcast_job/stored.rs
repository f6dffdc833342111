//! What a stored status of a BroadcastJob says.

use carillon_api::BroadcastJobStatus;
use carillon_api::condition::types;

use crate::broadcast_job::BroadcastJob;

/// Whether a condition is True.
pub(super) fn holds(status: &BroadcastJobStatus, type_: &str) -> bool {
    let mut conditions = status.conditions.iter();
    conditions.any(|condition| condition.type_ == type_ && condition.status == "True")
}

/// Whether a condition of the stored status is True.
pub(super) fn is(job: &BroadcastJob, type_: &str) -> bool {
    holds(&job.status, type_)
}

/// Whether the job fails, so that its pods may be stopped.
pub(super) fn stops(status: &BroadcastJobStatus) -> bool {
    holds(status, types::FAILED) || holds(status, types::FAILURE_TARGET)
}
