//! Rules of a job and its retries: whose turn it is, and which nodes are left.

use std::collections::{BTreeMap, HashMap, HashSet};

use carillon_api::condition::{results, types};
use carillon_api::node_result_slice::MAX_RESULTS_PER_SLICE;
use carillon_api::{NodeState, Retry};

use super::log::starts_nothing;
use super::stored::is;
use super::{Check, rules};
use crate::broadcast_job::action::{OnError, SliceWrite, Step};
use crate::broadcast_job::{BroadcastJob, Member, Snapshot};
use crate::interlock::trip::{Trip, trip};
use crate::pod::{Deletion, PodPhase, PodRow};
use crate::record::{Record, Slice};
use crate::uid::Uid;

/// Why a job may still start pods, if so.
fn may_start_pods(member: &Member<'_>) -> Option<&'static str> {
    let mut records = member.slices.iter().flat_map(|slice| &slice.records);
    let ended = |job| is(job, types::COMPLETE) || is(job, types::FAILED);
    if member.job.is_some_and(|job| !ended(job)) {
        Some("has not ended")
    } else if member.problem.is_some() {
        Some("has a log that cannot be relied upon")
    } else if !member.slices.last().is_some_and(|slice| slice.sealed) {
        Some("has an open log")
    } else if records.any(|record| record.state == NodeState::Started) {
        Some("has an attempt under way")
    } else {
        None
    }
}

/// The first of these jobs that may still start pods, and why.
fn at_work<'a>(
    members: impl IntoIterator<Item = &'a Member<'a>>,
) -> Option<(&'a str, &'static str)> {
    let mut members = members.into_iter();
    members.find_map(|member| Some((member.name, may_start_pods(member)?)))
}

/// The job that is retried, and these others, are over.
fn are_over(snapshot: &Snapshot<'_>, retries: &[Member<'_>]) -> Result<(), String> {
    let first = snapshot.family.and_then(|family| family.first.as_ref());
    let Some(first) = first else {
        return Err("a retry starts; expected that the job it retries is there".to_owned());
    };
    match at_work(retries.iter().chain([first])) {
        None => Ok(()),
        Some((name, why)) => Err(format!(
            "a retry starts while job {name} {why}; expected that it is over"
        )),
    }
}

fn of_family(what: String) -> Trip {
    Trip {
        rule: rules::FAMILY,
        what,
    }
}

/// What the others of a family forbid.
#[derive(Default)]
struct Others<'a> {
    /// Nodes that have succeeded, and in which job.
    served: HashMap<(&'a str, Uid), &'a str>,
    /// Names of nodes where a pod is or may be, with pod and job.
    held: HashMap<&'a str, (&'a str, &'a str)>,
}

impl<'a> Others<'a> {
    fn of(snapshot: &Snapshot<'a>) -> Self {
        let mut others = Self::default();
        let own = snapshot.job.meta.owner.uid;
        let Some(family) = snapshot.family else {
            return others;
        };
        let members = family.first.iter().chain(&family.retries);
        for member in members.filter(|member| member.uid != own) {
            others.add(snapshot, member);
        }
        others
    }

    fn add(&mut self, snapshot: &Snapshot<'a>, member: &'a Member<'a>) {
        let whose = member.name;
        let mut last: BTreeMap<&str, &Record> = BTreeMap::new();
        for record in member.slices.iter().flat_map(|slice| &slice.records) {
            let node = &*record.node;
            if record.state == NodeState::Succeeded || *record.reason == *results::JOB_DELETED {
                self.served.insert((node, record.node_uid), whose);
            }
            let taken = member.taken.filter(|_| record.pod_uid.is_none());
            let taken = taken.and_then(|taken| taken.get(&record.pod));
            let pods = [member.pods.get(&record.pod), taken.map(|taken| &taken.pod)];
            if pods.into_iter().flatten().any(|pod| !pod.phase.has_ended()) {
                self.held.insert(node, (&record.pod, whose));
            }
            if last.get(node).is_none_or(|l| l.attempt < record.attempt) {
                last.insert(node, record);
            }
        }
        for (node, record) in last {
            let taken = |uid: &Uid| snapshot.taken_pod(&record.pod, *uid);
            let asked = |uid: &Uid| {
                let ended = taken(uid).is_some_and(|taken| taken.pod.phase.has_ended());
                ended || snapshot.gone.contains(uid)
            };
            let seen = member.pods.contains_key(&record.pod);
            if !seen && !record.pod_uid.as_ref().is_none_or(asked) {
                self.held.insert(node, (&record.pod, whose));
            }
        }
        #[expect(clippy::iter_over_hash_type, reason = "the first by name is kept")]
        for (pod, row) in member.pods {
            if let Some(node) = row.node.as_deref().filter(|_| !row.phase.has_ended()) {
                let held = self.held.entry(node).or_insert((pod, whose));
                *held = (*held).min((pod, whose));
            }
        }
    }
}

/// Whether a pod was told to stop before it ended, as far as that is certain.
fn was_stopped(pod: &PodRow) -> bool {
    let ended = pod.end.as_ref().and_then(|end| end.finished);
    let late = |deletion: Deletion| ended.is_some_and(|ended| ended > deletion.asked());
    pod.interrupted || pod.deletion.is_some_and(late)
}

/// What becomes of a record of a job that is gone: it is over, and its pod is.
fn gives_up(
    check: &Check<'_>,
    gone: &Member<'_>,
    old: &Record,
    new: &Record,
) -> Result<(), String> {
    let same = Record {
        state: old.state,
        pod_uid: old.pod_uid,
        reason: old.reason.clone(),
        finished: old.finished,
        message: old.message.clone(),
        ..new.clone()
    };
    let is_over = old.state != NodeState::Started;
    if *old == *new && is_over {
        return Ok(());
    }
    if is_over || same != *old {
        return Err("changes; expected as it was read, it is over".to_owned());
    }
    let row = gone.pods.get(&old.pod);
    if row.is_some_and(|row| !row.phase.has_ended()) {
        return Err("is over; expected that its pod is known to have ended".to_owned());
    }
    let uid = old.pod_uid;
    let row = row.filter(|row| uid.is_none_or(|uid| uid == row.uid));
    let taken = || check.snapshot.taken_pod(&old.pod, uid?);
    let pod = row.or_else(|| Some(&taken()?.pod));
    let succeeded = pod.is_some_and(|pod| pod.phase == PodPhase::Succeeded && !was_stopped(pod));
    let known = match (pod, &uid) {
        (Some(pod), _) => pod.phase.has_ended(),
        (None, Some(uid)) => check.snapshot.gone.contains(uid),
        (None, None) => check.log.is_absent(&old.pod),
    };
    let outcome = new.state == NodeState::Unknown || new.state == NodeState::Succeeded && succeeded;
    // What nobody has seen may have succeeded.
    let told = pod.is_some() || *new.reason == *results::JOB_DELETED;
    if outcome && known && told {
        return Ok(());
    }
    let state = new.state;
    Err(format!(
        "becomes {state:?}; expected Unknown, of a pod that is known to have ended"
    ))
}

/// The slice of a job that is gone which a write may close.
fn closable<'a>(gone: &'a Member<'_>, write: &SliceWrite) -> Result<&'a Slice, &'static str> {
    let is_full = |slice: &Slice| slice.records.len() >= MAX_RESULTS_PER_SLICE;
    let last = gone.slices.last();
    if last.is_none_or(|last| is_full(last) && !last.sealed) {
        return Err("written; expected nothing, its last slice is full, not sealed");
    }
    let at = write.index as usize;
    let Some(stored) = gone.slices.get(at) else {
        return Err("added; expected that it was there");
    };
    if at + 1 == gone.slices.len() && !write.sealed {
        return Err("written; expected that it is sealed");
    }
    let is_kept = write.kept == stored.records && write.added.is_empty();
    if write.rv != Some(stored.rv) || !is_kept {
        return Err("written; expected the version and results that were read");
    }
    Ok(stored)
}

impl Check<'_> {
    /// The log of another one that is gone is closed.
    pub(super) fn close(
        &self,
        name: &str,
        uid: Uid,
        write: &SliceWrite,
        step: &Step,
    ) -> Result<(), Trip> {
        let closed = self.may_close((name, uid), write, step);
        let index = write.index;
        closed.map_err(|what| of_family(format!("slice {index} of job {name}: {what}")))
    }

    fn may_close(&self, whose: (&str, Uid), write: &SliceWrite, step: &Step) -> Result<(), String> {
        if let Some(why) = starts_nothing(self.snapshot) {
            return Err(format!("written; expected nothing, {why}"));
        }
        if step.on_error != OnError::Stop {
            return Err("the plan goes on when this fails; expected that it stops".to_owned());
        }
        let (listed, place) = self.listed();
        let before = &listed[..place.unwrap_or(listed.len())];
        let is_gone =
            |member: &Member<'_>| (member.name, member.uid) == whose && member.job.is_none();
        let Some(at) = before.iter().position(is_gone) else {
            return Err(
                "written; expected a retry of the family that had its turn before, and that it is gone"
                    .to_owned(),
            );
        };
        let (gone, since) = (&before[at], &before[at + 1..]);
        if let Some(problem) = &gone.problem {
            return Err(format!("written; expected a log that is whole: {problem}"));
        }
        if let Some((other, why)) = at_work(since) {
            return Err(format!(
                "written while job {other} {why}; expected that all who had a turn since are over"
            ));
        }
        let stored = closable(gone, write)?;
        for (old, new) in stored.records.iter().zip(write.records()) {
            gives_up(self, gone, old, new).map_err(|what| format!("pod {}: {what}", old.pod))?;
        }
        Ok(())
    }

    /// The retries that its family lists, and the place of the job among them.
    fn listed(&self) -> (&[Member<'_>], Option<usize>) {
        let family = self.snapshot.family;
        let listed = family.map_or(&[][..], |family| &family.retries);
        let own = self.snapshot.job.meta.owner.uid;
        (listed, listed.iter().position(|member| member.uid == own))
    }

    /// Whether the family lets the job serve these nodes.
    pub(super) fn family_lets(&self) -> Result<(), Trip> {
        if self.snapshot.job.retry_of.is_none() {
            return Ok(());
        }
        self.may_serve().map_err(of_family)
    }

    fn may_serve(&self) -> Result<(), String> {
        let (listed, Some(place)) = self.listed() else {
            return Err(
                "a retry starts; expected that it is in the list of its family before".to_owned(),
            );
        };
        are_over(self.snapshot, &listed[..place])?;
        let others = Others::of(self.snapshot);
        let reserved: HashSet<&str> = self.log.reserved.iter().copied().collect();
        let created: HashSet<&str> = self.created.iter().map(|(pod, _)| *pod).collect();
        for entry in self.log.open() {
            let node = entry.node;
            if !reserved.contains(node) && !created.contains(entry.pod) {
                continue;
            }
            if let Some(whose) = others.served.get(&(node, entry.node_uid)) {
                return Err(format!(
                    "node {node}: served; expected nothing, it succeeded or may have in job {whose}"
                ));
            }
            if let Some((pod, whose)) = others.held.get(node) {
                return Err(format!(
                    "node {node}: served; expected that pod {pod} of job {whose} is known to have ended"
                ));
            }
        }
        Ok(())
    }

    /// A retry enters itself into the list of its family.
    pub(super) fn join(
        &self,
        name: &str,
        uid: Uid,
        rv: u64,
        retries: &[Retry],
    ) -> Result<(), Trip> {
        if let Some(why) = starts_nothing(self.snapshot) {
            let own = &self.snapshot.job.meta.owner.name;
            return trip(
                rules::STARTS,
                format!("job {own}: takes its turn; expected nothing, {why}"),
            );
        }
        let joined = self.may_join((name, uid), rv, retries);
        joined.map_err(of_family)
    }

    fn may_join(&self, to: (&str, Uid), rv: u64, retries: &[Retry]) -> Result<(), String> {
        let (snapshot, job) = (self.snapshot, self.snapshot.job);
        let (name, uid) = to;
        let named = job.retry_of.as_ref();
        let is_named = named.is_some_and(|named| (&*named.name, named.uid) == to);
        let is_first = |first: &&Member<'_>| (first.name, first.uid) == to;
        let is_read = |stored: &&BroadcastJob| stored.meta.rv == rv && stored.retry_of.is_none();
        let family = snapshot.family.filter(|_| is_named);
        let first = family.and_then(|family| family.first.as_ref());
        let stored = first.filter(is_first).and_then(|first| first.job);
        let (Some(family), Some(stored)) = (family, stored.filter(is_read)) else {
            return Err(format!(
                "job {name} ({uid}), version {rv}: its list is written; expected that of the job it retries, as it was read"
            ));
        };
        let before = &stored.status.retries;
        let own = Retry {
            name: job.meta.owner.name.clone(),
            uid: job.meta.owner.uid.to_string(),
        };
        let grows = retries.split_last() == Some((&own, before));
        if !grows || before.iter().any(|retry| retry.uid == own.uid) {
            return Err(format!(
                "job {name}: its list becomes {} long; expected this job added at its end, once",
                retries.len()
            ));
        }
        are_over(snapshot, &family.retries)
    }

    /// Who needs the results of the job.
    pub(super) fn needs_results(&self) -> Option<&str> {
        let family = self.snapshot.family?;
        let first = family.first.as_ref().map(|first| first.name);
        let of_retry = first.filter(|_| self.snapshot.job.retry_of.is_some());
        family.open.or(of_retry)
    }
}
