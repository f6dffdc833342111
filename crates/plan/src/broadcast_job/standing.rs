//! What the attempts on a node mean for it: done, or to be tried again, and when.

use carillon_api::NodeState;
use carillon_api::condition::results;
use jiff::{SignedDuration, Timestamp};

use super::counts::Counts;
use super::policies::Policies;
use super::spec::BroadcastJob;
use crate::record::Record;

/// Wait before the first retry of a failed node, or the second of an interrupted one; doubled for
/// each further one.
pub const RETRY_BASE: SignedDuration = SignedDuration::from_secs(10);

/// The longest wait before a further attempt.
pub const RETRY_MAX: SignedDuration = SignedDuration::from_secs(600);

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
    /// It was to be tried again, and its node object has gone since: no longer to be served.
    Gone,
}

impl Standing {
    /// What a node adds to the counts of its job. `there`: its node object exists.
    pub(super) fn counts(self, there: bool) -> Counts {
        Counts {
            desired: usize::from(self != Self::Gone),
            present: usize::from(there),
            succeeded: usize::from(self == Self::Succeeded),
        }
    }
}

/// What the attempts on one node come to. `R` leads to a record.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Attempts<R> {
    /// How many have failed.
    failures: usize,
    /// How many were interrupted, or refused by the kubelet.
    interruptions: usize,
    /// How many were withdrawn.
    withdrawn: usize,
    /// The last one, and its number.
    pub(super) last: (u32, R),
    /// The last one in which anything may have run, and its number: this one decides.
    pub(super) ran: Option<(u32, R)>,
}

impl<R: Copy> Attempts<R> {
    /// Of one.
    pub(super) fn of(record: &Record, at: R) -> Self {
        let one = (record.attempt, at);
        let interrupted = matches!(record.state, NodeState::Disrupted | NodeState::Unknown);
        Self {
            failures: usize::from(record.state == NodeState::Failed),
            interruptions: usize::from(interrupted && !was_withdrawn(record)),
            withdrawn: usize::from(was_withdrawn(record)),
            last: one,
            ran: may_have_run(record).then_some(one),
        }
    }

    /// And of others on the same node.
    pub(super) fn and(self, other: Self) -> Self {
        let later = |one: (u32, R), other: (u32, R)| if one.0 <= other.0 { other } else { one };
        Self {
            failures: self.failures + other.failures,
            interruptions: self.interruptions + other.interruptions,
            withdrawn: self.withdrawn + other.withdrawn,
            last: later(self.last, other.last),
            ran: match (self.ran, other.ran) {
                (Some(one), Some(other)) => Some(later(one, other)),
                (one, other) => one.or(other),
            },
        }
    }

    /// Where the node stands after them. `there`: its node object exists.
    pub(super) fn standing<'r>(
        &self,
        policies: &Policies,
        record: impl Fn(R) -> &'r Record + Copy,
        there: bool,
    ) -> Standing {
        let last = record(self.last.1);
        let again = |due| {
            if there {
                Standing::Again(due)
            } else {
                Standing::Gone
            }
        };
        if last.state == NodeState::Started {
            return Standing::Started;
        }
        let Some(ran) = self.ran.map(|(_, at)| record(at)) else {
            return match last.state {
                NodeState::Skipped => Standing::Skipped,
                _ => again(self.after_interruptions(last)),
            };
        };
        let asked = self.is_asked_for(policies, record);
        let given_up = if asked && there {
            Standing::Retry(None)
        } else {
            Standing::Failed
        };
        match ran.state {
            NodeState::Succeeded => Standing::Succeeded,
            NodeState::Failed if asked || self.failures > policies.backoff_limit || ruled(ran) => {
                given_up
            }
            NodeState::Failed if there => Standing::Retry(after(ran, self.failures)),
            NodeState::Failed => Standing::Gone,
            _ if policies.at_most_once => given_up,
            _ => again(self.after_interruptions(last)),
        }
    }

    /// Whether somebody has asked for one more attempt. If one has begun in which nothing ran, the request still
    /// holds, also when it is not there any more.
    pub(super) fn is_asked_for<'r>(
        &self,
        policies: &Policies,
        record: impl Fn(R) -> &'r Record,
    ) -> bool {
        self.ran.is_some_and(|(ran, at)| {
            let has_begun = ran < self.last.0 && record(self.last.1).requested;
            has_begun || policies.retry.contains(&record(at).pod)
        })
    }

    /// The first interruption costs no time, nor does the first withdrawal. Each waits for those of its kind only.
    fn after_interruptions(&self, last: &Record) -> Option<Timestamp> {
        let alike = if was_withdrawn(last) {
            self.withdrawn
        } else {
            self.interruptions
        };
        after(last, alike.saturating_sub(1))
    }
}

/// Where a node stands after these attempts on it, for those who only look. `None`: there was none.
pub fn standing_after(job: &BroadcastJob, attempts: &[&Record], there: bool) -> Option<Standing> {
    let standing = fold(attempts)?.standing(&job.policies, |at| attempts[at], there);
    Some(standing)
}

/// Of these attempts on one node, the last in which anything may have run.
pub fn last_that_ran<'r>(attempts: &[&'r Record]) -> Option<&'r Record> {
    let (_, at) = fold(attempts)?.ran?;
    Some(attempts[at])
}

fn fold(attempts: &[&Record]) -> Option<Attempts<usize>> {
    let each = attempts.iter().enumerate();
    let each = each.map(|(at, record)| Attempts::of(record, at));
    each.reduce(Attempts::and)
}

/// When the next attempt may begin: at once if nothing counts against the node, else after 10 s,
/// doubled up to 10 minutes, so that a node that never lets a pod live costs little.
fn after(last: &Record, counted: usize) -> Option<Timestamp> {
    let doublings = counted.checked_sub(1)?.min(16);
    let wait = (RETRY_BASE * (1 << doublings)).min(RETRY_MAX);
    last.finished?.checked_add(wait).ok()
}

/// Whether a rule has decided that the failure is final.
fn ruled(record: &Record) -> bool {
    matches!(
        &*record.reason,
        results::FAILED_BY_RULE | results::JOB_FAILED_BY_RULE
    )
}

fn was_withdrawn(record: &Record) -> bool {
    record.state == NodeState::Disrupted && *record.reason == *results::WITHDRAWN
}

/// Whether anything may have run in an attempt that is over. Only what was never bound to its node, and what
/// the kubelet has refused, certainly has not.
pub(super) fn may_have_run(record: &Record) -> bool {
    match record.state {
        NodeState::Succeeded | NodeState::Failed | NodeState::Unknown => true,
        NodeState::Disrupted => !was_withdrawn(record) && *record.reason != *results::REJECTED,
        NodeState::Started | NodeState::Skipped => false,
    }
}
