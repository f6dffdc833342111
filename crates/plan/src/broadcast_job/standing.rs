//! What the last attempt on a node means for the node: done, or to be tried again, and when.

use carillon_api::NodeState;
use carillon_api::condition::results;
use jiff::Timestamp;

use super::progress::Latest;
use super::{Job, Policies, RETRY_BASE, RETRY_MAX};
use crate::record::Record;

/// Where a node stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Standing {
    /// An attempt is under way.
    Started,
    /// Done.
    Succeeded,
    /// Done: nobody tries it again.
    Failed,
    /// The job began to fail before anything was run.
    Skipped,
    /// It was interrupted: to be tried again, from this time on.
    Again(Option<Timestamp>),
    /// It failed: to be tried again, from this time on.
    Retry(Option<Timestamp>),
    /// It was interrupted, and its node object has gone since: no longer to be served.
    Gone,
}

/// Where a node stands after its last attempt, whose pod is called `pod`. `there`: its node object exists.
pub(super) fn standing(policies: &Policies, pod: &str, latest: &Latest, there: bool) -> Standing {
    let asked = policies.retry.contains(pod);
    let failed = if asked && there {
        Standing::Retry(None)
    } else {
        Standing::Failed
    };
    match latest.state {
        NodeState::Started => Standing::Started,
        NodeState::Succeeded => Standing::Succeeded,
        NodeState::Skipped => Standing::Skipped,
        NodeState::Failed => {
            let left = latest.failures <= policies.backoff_limit && !latest.is_final();
            if left && there && !asked {
                Standing::Retry(after(latest, latest.failures))
            } else {
                failed
            }
        }
        NodeState::Disrupted | NodeState::Unknown => {
            if policies.at_most_once && latest.may_have_run() {
                failed
            } else if there {
                Standing::Again(after(latest, latest.attempt.saturating_sub(1) as usize))
            } else {
                Standing::Gone
            }
        }
    }
}

/// The same for those who only look: after these attempts on one node, oldest first, as they are
/// stored. `None`: there was none.
pub fn standing_after(job: &Job, attempts: &[&Record], there: bool) -> Option<Standing> {
    let last = attempts.last()?;
    let failed = |record: &&&Record| record.state == NodeState::Failed;
    let latest = Latest {
        attempt: last.attempt,
        state: last.state,
        reason: last.reason.clone(),
        finished: last.finished,
        failures: attempts.iter().filter(failed).count(),
        place: (0, 0),
    };
    Some(standing(&job.policies, &last.pod, &latest, there))
}

/// When the next attempt may begin: at once if nothing counts against the node, else after 10 s,
/// doubled up to 10 minutes, so that a node that never lets a pod live costs little.
fn after(latest: &Latest, counted: usize) -> Option<Timestamp> {
    let doublings = counted.checked_sub(1)?.min(16);
    let wait = (RETRY_BASE * (1 << doublings)).min(RETRY_MAX);
    latest.finished?.checked_add(wait).ok()
}

impl Latest {
    /// Whether a rule has decided that the failure is final.
    fn is_final(&self) -> bool {
        matches!(
            &*self.reason,
            results::FAILED_BY_RULE | results::JOB_FAILED_BY_RULE
        )
    }

    /// Whether anything may have run. Only what was never bound to its node certainly has not.
    fn may_have_run(&self) -> bool {
        *self.reason != *results::WITHDRAWN
    }
}
