//! A job and its retries: whose turn it is, and what the others have done on a node.
//!
//! The status of the first job lists those that have had their turn. A retry enters itself when all
//! before it have ended with a sealed log; no such log changes any more, so an old view of it can only
//! delay. Therefore one of the family starts pods at a time, however many leaders there are.
//!
//! The log of a retry belongs to the first job, too, and so outlives the retry. One that was deleted at
//! work has left its log open: whoever is next closes it.

mod close;

use std::collections::{BTreeMap, BTreeSet, HashSet};

use carillon_api::broadcast_job::{MAX_RETRIES, Retry};
use carillon_api::condition::{reasons, types};
use carillon_api::node_result_slice::MAX_RESULTS_PER_SLICE;
use carillon_api::{BroadcastJobStatus, NodeState, condition::results};
use jiff::{SignedDuration, Timestamp};

pub(super) use self::close::Closing;
use self::close::LeftOpen;
use super::action::Action;
pub use super::member::{Family, Member};
use super::progress::NodeId;
pub use super::retry_of::First;
use super::snapshot::{Snapshot, WITHDRAWN_AFTER};
use super::spec::BroadcastJob;
use super::standing::may_have_run;
use crate::condition;
use crate::record::{Record, Slice};
use crate::uid::Uid;

/// How soon a retry looks again for what another job of its family has still to do: a pod that runs there does not
/// wake it, nor do results that are not in the cache yet.
const LOOK_SOONEST: SignedDuration = SignedDuration::from_secs(10);
/// And how late, however long it has waited.
const LOOK_LATEST: SignedDuration = SignedDuration::from_secs(60);

/// Whether results are missing that the status of a job has counted. `count`: how many have come out like this.
pub fn lacks_results(status: &BroadcastJobStatus, count: impl Fn(NodeState) -> usize) -> bool {
    let count = |state| i32::try_from(count(state)).unwrap_or(i32::MAX);
    let interrupted = count(NodeState::Disrupted) + count(NodeState::Unknown);
    // What was interrupted may have been counted as failed.
    count(NodeState::Succeeded) < status.succeeded
        || count(NodeState::Failed) + interrupted < status.failed
        || interrupted < status.disrupted
}

/// Whether a job may start pods, as far as its family is concerned.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Turn {
    /// It may: it is nobody's retry, or it has the turn.
    #[default]
    Mine,
    /// It may enter itself.
    Free,
    /// Another one has to end first; in words. `soon`: only its results are not all in the cache.
    After { whom: String, soon: bool },
    /// It never may: reason and message. `soon`: unless more is seen of what the others have done.
    Never {
        reason: &'static str,
        message: String,
        soon: bool,
    },
}

/// What the others have done on a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Elsewhere<'a> {
    /// Nothing that stands in the way.
    Nothing,
    /// There is nothing left to do on the node, for this reason.
    Settled(&'static str),
    /// A pod of this job is still there. One that is not in the cache has to be asked for besides.
    Runs(&'a str, Option<(&'a str, Uid)>),
    /// The last pod of another one is not in the cache: it has to be asked for.
    Missing(&'a str, Uid),
}

/// What a job has to know of its family.
#[derive(Debug, Default)]
pub(super) struct Kin<'a> {
    pub(super) turn: Turn,
    /// A retry that is gone and has left its log open. All that had a turn since are over.
    left_open: Option<LeftOpen<'a>>,
    /// Nodes on which a pod of another one succeeded.
    succeeded: BTreeSet<NodeId<'a>>,
    /// Nodes that a retry has tried which whoever made this one did not know, or whose outcome nobody knows.
    tried: BTreeSet<NodeId<'a>>,
    /// Names of nodes where a pod of another one has not ended, and whose.
    occupied: BTreeMap<&'a str, &'a str>,
    /// The last pods of others on nodes of each name, where they are not in the cache.
    missing: BTreeMap<&'a str, (&'a str, Uid)>,
}

impl<'a> Kin<'a> {
    pub(super) fn read(snapshot: &Snapshot<'a>, now: Timestamp) -> Self {
        let job = snapshot.job;
        let (Some(retry_of), Some(family)) = (&job.retry_of, snapshot.family) else {
            return Self::default();
        };
        let mut kin = Self::default();
        match turn(job, retry_of, family) {
            Ok(turn) => kin.turn = turn,
            Err(gone) => {
                let open = LeftOpen::read(snapshot, gone, now);
                let (whom, soon) = (open.whom(), true);
                kin.turn = Turn::After { whom, soon };
                kin.left_open = Some(open);
            }
        }
        // What they have done is long, and matters to who may begin.
        if !kin.may_begin() {
            return kin;
        }
        let own = Own::of(snapshot);
        let others = family.first.iter().chain(&family.retries);
        for member in others.filter(|member| member.uid != job.meta.owner.uid) {
            kin.add(snapshot, member, &own, now);
        }
        let place = place(job, family).unwrap_or(family.retries.len());
        let unknown = family.retries[..place].iter().skip(retry_of.known_retries);
        for member in unknown.filter(|member| is_over(member).is_ok()) {
            let records = member.slices.iter().flat_map(|slice| &slice.records);
            let tried = records.filter(|record| own.has(&record.node) && may_have_run(record));
            kin.tried
                .extend(tried.map(|record| (&*record.node, record.node_uid)));
        }
        kin
    }

    fn add(
        &mut self,
        snapshot: &Snapshot<'a>,
        member: &'a Member<'a>,
        own: &Own<'_>,
        now: Timestamp,
    ) {
        let mut last: BTreeMap<&str, &Record> = BTreeMap::new();
        let records = member.slices.iter().flat_map(|slice| &slice.records);
        for record in records.filter(|record| own.has(&record.node)) {
            if record.state == NodeState::Succeeded {
                self.succeeded.insert((&record.node, record.node_uid));
            } else if *record.reason == *results::JOB_DELETED {
                self.tried.insert((&record.node, record.node_uid));
            }
            if member
                .pod_of(record)
                .is_some_and(|pod| !pod.phase.has_ended())
            {
                self.occupied.insert(&record.node, member.name);
            }
            let last = last.entry(&record.node).or_insert(record);
            if last.attempt <= record.attempt {
                *last = record;
            }
        }
        #[expect(clippy::disallowed_methods, reason = "each says the same of its node")]
        let alive = member.pods.values().filter(|pod| !pod.phase.has_ended());
        for node in alive.filter_map(|pod| pod.node.as_deref()) {
            self.occupied.insert(node, member.name);
        }
        for (node, record) in last {
            let pod = record.pod_uid.map(|uid| (&*record.pod, uid));
            let unknown = pod.filter(|(pod, uid)| {
                !snapshot.gone.contains(uid) && !member.pods.contains_key(*pod)
            });
            let taken = unknown.and_then(|(pod, uid)| snapshot.taken_pod(pod, uid));
            match (unknown, taken) {
                (Some(unknown), None) => {
                    self.missing.insert(node, unknown);
                }
                // It is asked for until it has ended.
                (Some(unknown), Some(taken)) if !taken.pod.phase.has_ended() => {
                    let bound = taken.pod.node.as_deref();
                    for node in bound.into_iter().chain([node]) {
                        self.occupied.insert(node, member.name);
                    }
                    if taken.ask_at().is_some_and(|at| at <= now) {
                        self.missing.insert(node, unknown);
                    }
                }
                _ => {
                    if !record.is_final() || may_still_come(snapshot.job, record, now) {
                        self.occupied.insert(node, member.name);
                    }
                }
            }
        }
    }

    /// Names of nodes on which others have done anything that matters.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &'a str> {
        let done = self.succeeded.iter().chain(&self.tried);
        let done = done.map(|(name, _)| *name);
        done.chain(self.occupied.keys().chain(self.missing.keys()).copied())
    }

    /// What the others have done on a node. `tried`: this job has begun with it.
    pub(super) fn on(&self, (name, uid): (&str, Uid), tried: bool) -> Elsewhere<'a> {
        let id = &(name, uid);
        if !tried && self.succeeded.contains(id) {
            Elsewhere::Settled(results::ALREADY_SUCCEEDED)
        } else if let Some(whose) = self.occupied.get(name) {
            Elsewhere::Runs(whose, self.missing.get(name).copied())
        } else if !tried && self.tried.contains(id) {
            Elsewhere::Settled(results::ALREADY_TRIED)
        } else if let Some((pod, uid)) = self.missing.get(name) {
            Elsewhere::Missing(pod, *uid)
        } else {
            Elsewhere::Nothing
        }
    }

    /// Whether nobody has to end before.
    pub(super) fn may_begin(&self) -> bool {
        matches!(self.turn, Turn::Mine | Turn::Free)
    }

    /// Whether it waits for something of which no event tells.
    pub(super) fn looks_again_soon(&self) -> bool {
        matches!(
            self.turn,
            Turn::After { soon: true, .. } | Turn::Never { soon: true, .. }
        )
    }

    /// When it looks again for what others have still to do. A log that cannot be closed waits for somebody: the
    /// longer it does, the more seldom it is looked at.
    pub(super) fn looks_again_at(&self, job: &BroadcastJob, now: Timestamp) -> Option<Timestamp> {
        let conditions = &job.status.conditions;
        let since =
            condition::find(conditions, types::RECONCILING).map(|c| c.last_transition_time.0);
        let waited = since.filter(|_| self.left_open.is_some());
        let waited = waited.map_or(SignedDuration::ZERO, |since| now.duration_since(since));
        now.checked_add((waited / 4).clamp(LOOK_SOONEST, LOOK_LATEST))
            .ok()
    }

    /// What it takes to close a log that was left open.
    pub(super) fn closing(&self, most: usize) -> Closing {
        let open = self.left_open.as_ref();
        open.map(|open| open.close(most)).unwrap_or_default()
    }
}

/// The nodes that matter to a job: those that it names, all if it names none, and those that it has tried.
struct Own<'a> {
    only: Option<&'a BTreeSet<Box<str>>>,
    tried: HashSet<&'a str>,
}

impl<'a> Own<'a> {
    fn of(snapshot: &Snapshot<'a>) -> Self {
        let records = snapshot.slices.iter().flat_map(|slice| &slice.records);
        Self {
            only: snapshot.job.placement.only.as_ref(),
            tried: records.map(|record| &*record.node).collect(),
        }
    }

    fn has(&self, node: &str) -> bool {
        let named = self.only.is_none_or(|only| only.contains(node));
        named || self.tried.contains(node)
    }
}

/// Enters the job of `snapshot` into the list of its family.
pub(super) fn join(snapshot: &Snapshot<'_>) -> Option<Action> {
    let first = snapshot.family?.first.as_ref()?;
    let mut retries = first.job?.status.retries.clone();
    let owner = &snapshot.job.meta.owner;
    retries.push(Retry {
        name: owner.name.clone(),
        uid: owner.uid.to_string(),
    });
    Some(Action::JoinFamily {
        first: first.name.into(),
        uid: first.uid,
        rv: first.job?.meta.rv,
        retries,
    })
}

/// Who needs the results of an ended job, so that its time to live has to wait: reason and message.
pub(super) fn needed_by(snapshot: &Snapshot<'_>) -> Option<(&'static str, String)> {
    let (job, family) = (snapshot.job, snapshot.family?);
    if let Some(open) = family.open {
        let what = format!(
            "BroadcastJob {open}, a retry of this job, has not ended; let it end, resume it if it is paused, or delete it"
        );
        return Some((reasons::RETRY_HAS_NOT_ENDED, what));
    }
    let first = family.first.as_ref().filter(|_| job.retry_of.is_some())?;
    let what = format!(
        "BroadcastJob {}, of which this job is a retry, is there; this job goes when that is gone, or when somebody deletes it",
        first.name
    );
    Some((reasons::RETRIED_JOB_THERE, what))
}

/// The place of a job in the list of its family.
fn place(job: &BroadcastJob, family: &Family<'_>) -> Option<usize> {
    let mut retries = family.retries.iter();
    retries.position(|member| member.uid == job.meta.owner.uid)
}

/// Why a job cannot retry the one of this name and uid: reason and message. `first` is that one, if it is
/// there, and `other` the uid of one that has its name; `listed`: the retry has had its turn.
pub fn no_first(
    retry_of: &First,
    first: Option<&BroadcastJob>,
    other: Option<Uid>,
    listed: bool,
) -> Option<(&'static str, String)> {
    let First { name, uid, .. } = retry_of;
    let Some(stored) = first else {
        let what = match other {
            Some(other) => format!(
                "spec.retryOf: BroadcastJob {name} has uid {other}, and not {uid}; create the job again with uid {other} if that one is meant, and without spec.retryOf if not"
            ),
            None => format!(
                "there is no BroadcastJob {name} with uid {uid}: what it has done is not known; delete this job and create one without spec.retryOf"
            ),
        };
        return Some((reasons::RETRIED_JOB_GONE, what));
    };
    if let Some(other) = &stored.retry_of {
        let what = format!(
            "spec.retryOf: {name} is a retry itself; create the job again with name {} and uid {}",
            other.name, other.uid
        );
        return Some((reasons::INVALID_SPEC, what));
    }
    if let Some(problem) = stored.problems.first() {
        let what = format!("BroadcastJob {name}: {problem}");
        return Some((reasons::INVALID_SPEC, what));
    }
    (stored.meta.deleting && !listed).then(|| {
        let what = format!("BroadcastJob {name} is being deleted; delete this job, too");
        (reasons::RETRIED_JOB_GONE, what)
    })
}

/// Whether the job may start pods. The error is a retry that is gone and has left its log open.
fn turn<'a>(
    job: &BroadcastJob,
    retry_of: &First,
    family: &'a Family<'a>,
) -> Result<Turn, &'a Member<'a>> {
    let name = &retry_of.name;
    let place = place(job, family);
    let stored = family.first.as_ref().and_then(|first| first.job);
    if let Some((reason, what)) = no_first(retry_of, stored, family.other, place.is_some()) {
        return Ok(never(reason, what));
    }
    let Some((first, stored)) = family.first.as_ref().zip(stored) else {
        return Ok(Turn::default());
    };
    let before = &family.retries[..place.unwrap_or(family.retries.len())];
    for member in before.iter().rev().chain([first]) {
        match is_over(member) {
            Ok(()) => {}
            Err(NotOver::Gone(what)) => {
                return Ok(Turn::Never {
                    reason: reasons::RETRIED_JOB_GONE,
                    message: format!(
                        "BroadcastJob {}, a retry of {name}, is gone, and {what}: what it has done is not known; delete this job and create one without spec.retryOf",
                        member.name
                    ),
                    soon: true,
                });
            }
            Err(NotOver::LeftOpen) => return Err(member),
            Err(NotOver::Runs) => {
                return Ok(Turn::After {
                    whom: format!("BroadcastJob {} has not ended", member.name),
                    soon: false,
                });
            }
            Err(NotOver::Incomplete(why)) => {
                return Ok(Turn::After {
                    whom: format!("results of BroadcastJob {} are missing{why}", member.name),
                    soon: true,
                });
            }
        }
    }
    Ok(if place.is_some() {
        Turn::Mine
    } else if stored.status.retries.len() >= MAX_RETRIES {
        let what = format!(
            "BroadcastJob {name}: status.retries has {} entries, and {MAX_RETRIES} are the most; delete this job and create one without spec.retryOf, with the nodes to run in spec.nodeNames",
            stored.status.retries.len()
        );
        never(reasons::TOO_MANY_RETRIES, what)
    } else {
        Turn::Free
    })
}

fn never(reason: &'static str, message: String) -> Turn {
    let soon = false;
    Turn::Never {
        reason,
        message,
        soon,
    }
}

/// Why a job may still start pods, or is not known not to.
enum NotOver {
    /// It is not there, and neither is all that it has done; in words.
    Gone(&'static str),
    /// It is not there, and has left a log to which more might be added.
    LeftOpen,
    /// It has not ended.
    Runs,
    /// It has ended, and not all that it did is known.
    Incomplete(String),
}

/// Whether a job has ended and all that it did is known.
fn is_over(member: &Member<'_>) -> Result<(), NotOver> {
    let has_ended = |job: &BroadcastJob| {
        let ended = |type_| condition::is_true(&job.status.conditions, type_);
        ended(types::COMPLETE) || ended(types::FAILED)
    };
    if member.job.is_some_and(|job| !has_ended(job)) {
        return Err(NotOver::Runs);
    }
    if let Some(problem) = &member.problem {
        return Err(NotOver::Incomplete(format!(": {problem}")));
    }
    let mut full = member.slices.iter().map(is_full);
    let last_is_full = full.next_back().unwrap_or_default();
    let in_order = full.all(|full| full)
        && (member.slices.iter().zip(0..)).all(|(slice, index)| slice.index == index);
    let mut records = member.slices.iter().flat_map(|slice| &slice.records);
    let is_whole = in_order && records.all(Record::is_final);
    let sealed = member.slices.last().is_some_and(|slice| slice.sealed);
    let count = |state| count(member.slices, state);
    match member.job {
        // One that has had its turn has begun its log before.
        None if member.slices.is_empty() => Err(NotOver::Gone("so are its NodeResultSlices")),
        None if !in_order => Err(NotOver::Gone("so are some of its NodeResultSlices")),
        // There may have been another one, which somebody has deleted.
        None if last_is_full && !sealed => Err(NotOver::Gone(
            "its last NodeResultSlice is full and not sealed, so that one may be missing",
        )),
        None if is_whole && sealed => Ok(()),
        None => Err(NotOver::LeftOpen),
        Some(job) if is_whole && sealed && !lacks_results(&job.status, count) => Ok(()),
        Some(_) => Err(NotOver::Incomplete(String::new())),
    }
}

/// How many attempts have come out like this.
pub fn count(slices: &[Slice], state: NodeState) -> usize {
    let records = slices.iter().flat_map(|slice| &slice.records);
    records.filter(|record| record.state == state).count()
}

/// Whether a slice has room for no further result: the next one goes into another slice.
fn is_full(slice: &Slice) -> bool {
    slice.records.len() >= MAX_RESULTS_PER_SLICE
}

/// Whether a pod that was given up before it was seen may still be created, by a request that is under way.
/// Where nothing may run twice, that is waited for.
fn may_still_come(job: &BroadcastJob, record: &Record, now: Timestamp) -> bool {
    let over = record
        .finished
        .and_then(|at| at.checked_add(WITHDRAWN_AFTER).ok());
    job.policies.at_most_once && record.pod_uid.is_none() && over.is_some_and(|over| now < over)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn results_are_missing_when_any_number_of_the_status_is_more_than_they_say() {
        let counted = |succeeded, failed, disrupted| -> BroadcastJobStatus {
            let numbers = json!({"succeeded": succeeded, "failed": failed, "disrupted": disrupted});
            serde_json::from_value(numbers).unwrap()
        };
        // Two have succeeded, two have failed, one was interrupted, and of one nothing is known.
        let count = |state| match state {
            NodeState::Succeeded | NodeState::Failed => 2,
            NodeState::Disrupted | NodeState::Unknown => 1,
            NodeState::Started | NodeState::Skipped => 0,
        };
        for (status, expected) in [
            (counted(2, 2, 2), false),
            (counted(2, 4, 2), false),
            (counted(3, 0, 0), true),
            (counted(0, 5, 0), true),
            (counted(0, 0, 3), true),
        ] {
            assert_eq!(lacks_results(&status, count), expected, "{status:?}");
        }
    }
}
