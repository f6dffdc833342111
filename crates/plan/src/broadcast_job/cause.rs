//! Why a job is going to fail.

use carillon_api::condition::{reasons, results, types};

use super::spec::BroadcastJob;
use crate::condition;

/// Why a job is going to fail.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Cause {
    pub(super) reason: String,
    pub(super) message: String,
}

/// The stored decision to fail, which is made once and for all.
pub(super) fn stored_cause(job: &BroadcastJob) -> Option<Cause> {
    condition::find(&job.status.conditions, types::FAILURE_TARGET)
        .filter(|condition| condition.status == "True")
        .map(|c| Cause {
            reason: c.reason.clone(),
            message: c.message.clone(),
        })
}

/// The reason recorded for pods that are stopped because the job is failing.
pub(super) fn stop_reason(cause: &Cause) -> &'static str {
    if cause.reason == reasons::DEADLINE_EXCEEDED {
        results::DEADLINE_EXCEEDED
    } else {
        results::STOPPED_BY_FAILURE
    }
}

/// Failed nodes that neither fail nor pause the job: those allowed, and those a resume accepted. A percentage is
/// of the nodes of now, `present`.
pub(super) fn tolerated(job: &BroadcastJob, accepted: usize, present: usize) -> usize {
    accepted.max(job.policies.max_failed_nodes.of(present))
}
