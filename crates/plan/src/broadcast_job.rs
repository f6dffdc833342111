//! BroadcastJob: one pod on every node that fits, run to completion, each exactly once.
//!
//! The records decide what has been done (see [`crate::record`]); pods only add outcomes to them.

pub mod action;
mod decide;
pub mod family;
mod finish;
mod index;
mod judge;
mod ledger;
mod order;
mod pause;
mod place;
mod policies;
mod progress;
mod spec;
mod standing;
mod start;
mod status;
mod survey;
pub mod taken;

use std::collections::{BTreeMap, BTreeSet};

use carillon_api::condition::{reasons, types};
use jiff::{SignedDuration, Timestamp};

pub use self::family::{Family, Member, no_first};
pub use self::index::{Changes, Index};
pub use self::policies::Policies;
pub use self::spec::{Job, JobMeta};
pub use self::standing::{Standing as NodeStanding, last_that_ran, standing_after};
pub use self::status::settle;
pub use self::taken::{Taken, TakenPod, TakenPods};
use crate::broadcast_job::action::{Action, Plan, Step};
use crate::condition::{self, Refusal};
use crate::node::Nodes;
use crate::pod::{PodRow, Pods};
use crate::record::Slice;
use crate::uid::Uid;

/// How often a template that was refused is tried again: quotas and policies change.
pub const TEMPLATE_RECHECK: SignedDuration = SignedDuration::from_secs(60);

/// Wait before the first retry of a failed node, or the second of an interrupted one; doubled for
/// each further one.
pub const RETRY_BASE: SignedDuration = SignedDuration::from_secs(10);

/// The longest wait before a further attempt.
pub const RETRY_MAX: SignedDuration = SignedDuration::from_secs(600);

/// How long a pod is known to be other than as it was read; then it is asked about again, if it still
/// matters.
pub const DISPUTED: SignedDuration = SignedDuration::from_secs(10);

/// Everything a plan is made from.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'a> {
    /// The job.
    pub job: &'a Job,
    /// All nodes of the cluster.
    pub nodes: &'a Nodes,
    /// The pods the job controls.
    pub pods: &'a Pods,
    /// Those of its pods that somebody has taken from it.
    pub taken: Taken<'a>,
    /// Pods that were created, or were found under the name of an attempt, and that its record may not name
    /// yet: their uids.
    pub created: &'a BTreeMap<Box<str>, Uid>,
    /// The job's result slices, by index.
    pub slices: &'a [Slice],
    /// What the API server said of the template.
    pub template: &'a Template,
    /// Pods that were asked for and are gone.
    pub gone: &'a BTreeSet<Uid>,
    /// Pod names held by somebody else's pods.
    pub conflicts: &'a BTreeSet<Box<str>>,
    /// Names of pods that were asked about and are other than as they were read: what they have not done is
    /// not known.
    pub disputed: &'a BTreeSet<Box<str>>,
    /// Why the last creations were refused.
    pub creation_problem: Option<&'a Refused>,
    /// Pods whose creation was refused, and which of them later: the higher the number.
    pub refused: &'a BTreeMap<Box<str>, u64>,
    /// What else is refused again and again.
    pub refusal: Option<&'a Refusal>,
    /// The other jobs of its family, of a job that is a retry or has one.
    pub family: Option<&'a Family<'a>>,
    /// Most pods created or deleted by one plan.
    pub max_pod_changes: usize,
    /// What was kept of earlier plans, brought up to date. `None`: it is made from the rest, and the plan is the
    /// same.
    pub index: Option<&'a Index>,
}

impl<'a> Snapshot<'a> {
    /// With its index, or else the one made from the rest, which is put `here`.
    pub(crate) fn indexed<'b>(&'b self, here: &'b mut Option<Index>) -> (Snapshot<'b>, &'b Index) {
        let index = self.index.unwrap_or_else(|| {
            here.insert(Index::of(self.job, self.nodes, self.pods, self.slices))
        });
        (*self, index)
    }

    /// The pods that a plan looks at, and maybe others.
    pub fn noticed_pods(&self) -> impl Iterator<Item = (&'a str, &'a PodRow)> + use<'a> {
        let (index, pods) = (self.index, self.pods);
        let all = pods.iter().filter(move |_| index.is_none());
        let noticed = index.into_iter().flat_map(Index::pods);
        let looked_at = index.into_iter().flat_map(|index| {
            let awake = index.awake().iter();
            let awake = awake.map(|place| &index.records().at(*place).0.pod);
            awake.filter(|pod| !index.pods().contains(*pod))
        });
        let noticed = noticed.chain(looked_at);
        let noticed = noticed.filter_map(|name| pods.get_key_value(name));
        all.chain(noticed).map(|(name, pod)| (&**name, pod))
    }

    /// The pods that are not over, but those of quiet attempts.
    pub(crate) fn pods_of(
        &self,
        index: &'a Index,
    ) -> impl Iterator<Item = (&'a str, &'a PodRow)> + use<'a> {
        let pods = self.pods;
        let known = index.pods().iter();
        known.filter_map(|name| Some((&**name, pods.get(name)?)))
    }
}

/// What the API server said when it was asked to accept the template.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Template {
    /// Not asked yet.
    #[default]
    Unknown,
    /// It would create such a pod.
    Accepted,
    /// It would not.
    Refused {
        /// Its words, and what kind of refusal it is.
        problem: Refused,
        /// When it was asked.
        at: Timestamp,
    },
}

/// A refusal of the API server.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Refused {
    /// Reason of the condition that reports it.
    pub reason: &'static str,
    /// The API server's words.
    pub message: String,
}

/// Why a job is going to fail.
#[derive(Clone, Debug, PartialEq)]
struct Cause {
    reason: String,
    message: String,
}

/// The plan.
pub fn plan(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let job = snapshot.job;
    let ended = |type_| condition::is_true(&job.status.conditions, type_);
    let mut fresh = None;
    if job.deleting {
        return finish::release_everything(snapshot);
    }
    let (snapshot, index) = snapshot.indexed(&mut fresh);
    if ended(types::COMPLETE) || ended(types::FAILED) {
        finish::after_the_end(&snapshot, index, now)
    } else {
        told_first(&snapshot, now).unwrap_or_else(|| place::work(&snapshot, index, now))
    }
}

/// What is refused may stand in the way of the rest of a plan, and so of its status.
fn told_first(snapshot: &Snapshot<'_>, now: Timestamp) -> Option<Plan> {
    let (job, refusal) = (snapshot.job, snapshot.refusal?);
    let mut status = job.status.clone();
    let news = refusal.tell(&mut status.conditions, job.generation, now);
    let write = Action::WriteStatus(Box::new(status));
    news.then(|| Plan {
        steps: vec![Step::needed(vec![write])],
        again: true,
        ..Plan::default()
    })
}

/// The stored decision to fail, which is made once and for all.
fn stored_cause(job: &Job) -> Option<Cause> {
    condition::find(&job.status.conditions, types::FAILURE_TARGET)
        .filter(|condition| condition.status == "True")
        .map(|c| Cause {
            reason: c.reason.clone(),
            message: c.message.clone(),
        })
}

/// Deletes and releases, as bounded steps.
fn stop(pods: impl IntoIterator<Item = (impl AsRef<str>, Uid, u64)>, most: usize) -> Option<Step> {
    let actions: Vec<Action> = pods
        .into_iter()
        .take(most)
        .map(|(pod, uid, rv)| Action::DeletePod {
            pod: pod.as_ref().into(),
            uid,
            rv,
        })
        .collect();
    (!actions.is_empty()).then(|| Step::wanted(actions))
}

fn release(pods: impl IntoIterator<Item = (impl AsRef<str>, Uid)>) -> Option<Step> {
    let actions: Vec<Action> = pods
        .into_iter()
        .map(|(pod, uid)| Action::ReleasePod {
            pod: pod.as_ref().into(),
            uid,
        })
        .collect();
    (!actions.is_empty()).then(|| Step::wanted(actions))
}

/// The reason recorded for pods that are stopped because the job is failing.
fn stop_reason(cause: &Cause) -> &'static str {
    use carillon_api::condition::results;
    if cause.reason == reasons::DEADLINE_EXCEEDED {
        results::DEADLINE_EXCEEDED
    } else {
        results::STOPPED_BY_FAILURE
    }
}

#[cfg(test)]
mod tests;
