//! The status of a Job: counts, conditions, and its end.

use std::collections::HashSet;

use k8s_openapi::api::batch::v1::JobStatus;

use super::{Check, rules};
use crate::interlock::{Trip, trip};
use crate::job::indexes::Indexes;
use crate::job::{JobPod, Spec};
use crate::pod::PodPhase;

/// Conditions that stay once they are True.
const FOR_EVER: [&str; 4] = ["Complete", "Failed", "FailureTarget", "SuccessCriteriaMet"];

fn is(status: &JobStatus, type_: &str) -> bool {
    let mut conditions = status.conditions.iter().flatten();
    conditions.any(|known| known.type_ == type_ && known.status == "True")
}

pub(super) fn is_ending(status: &JobStatus) -> bool {
    FOR_EVER.iter().any(|type_| is(status, type_))
}

/// Uids that a status keeps: of pods that have succeeded, and of those that have failed.
fn lists(status: &JobStatus) -> [HashSet<&str>; 2] {
    let uncounted = status.uncounted_terminated_pods.as_ref();
    let succeeded = uncounted.and_then(|of| of.succeeded.as_ref());
    let failed = uncounted.and_then(|of| of.failed.as_ref());
    [succeeded, failed].map(|uids| uids.into_iter().flatten().map(String::as_str).collect())
}

/// What a status says of pods, read once.
pub(super) struct Stored<'a> {
    status: &'a JobStatus,
    pub(super) lists: [HashSet<&'a str>; 2],
    pub(super) succeeded: Indexes,
    pub(super) failed: Indexes,
}

impl<'a> Stored<'a> {
    pub(super) fn of(status: &'a JobStatus) -> Self {
        let read =
            |list: &Option<String>| Indexes::read(list.as_deref().unwrap_or_default(), u32::MAX);
        Self {
            status,
            lists: lists(status),
            succeeded: read(&status.completed_indexes),
            failed: read(&status.failed_indexes),
        }
    }

    pub(super) fn has_index(&self, index: u32) -> bool {
        self.succeeded.contains(index) || self.failed.contains(index)
    }
}

/// How many indexes there are of a Job that counts by them.
pub(super) fn indexes(spec: &Spec) -> Option<u32> {
    let end = spec.completions.filter(|_| spec.is_indexed())?;
    u32::try_from(end).ok()
}

/// How much of what is still asked for has succeeded: by a status, or in one of these pods, unless the
/// status lists it.
pub(super) fn successes<'a>(
    spec: &Spec,
    status: &JobStatus,
    ended: impl Iterator<Item = &'a JobPod>,
) -> i64 {
    let [succeeded, failed] = lists(status);
    let ended = ended.map(|pod| (pod.uid.to_string(), pod.index));
    let ended = ended.filter(|(uid, _)| !failed.contains(uid.as_str()));
    let Some(end) = indexes(spec) else {
        let ended = ended.filter(|(uid, _)| !succeeded.contains(uid.as_str()));
        return count(status.succeeded) + (succeeded.len() + ended.count()) as i64;
    };
    let written = status.completed_indexes.as_deref().unwrap_or_default();
    let mut done = Indexes::read(written, end);
    done.extend(ended.filter_map(|(_, index)| index).filter(|at| *at < end));
    done.len().into()
}

fn count(count: Option<i32>) -> i64 {
    count.unwrap_or(0).into()
}

impl Check<'_> {
    pub(super) fn write(&self, new: &JobStatus) -> Result<(), Trip> {
        let old = self.stored.status;
        for type_ in FOR_EVER {
            if is(old, type_) && !is(new, type_) {
                return trip(rules::TERMINAL, format!("{type_} is taken back"));
            }
        }
        if is(new, "Complete") && is(new, "Failed") || count(new.failed) < count(old.failed) {
            let why = "it is Complete and Failed, or fewer have failed";
            return trip(rules::TERMINAL, why);
        }
        let pods = self.snapshot.pods.values();
        let ends = ["Complete", "Failed"].iter().any(|type_| is(new, type_));
        // Of a Job that is being deleted not all pods are looked at.
        if self.snapshot.job.meta.deleting {
            return Ok(());
        }
        if ends {
            let running = pods.filter(|pod| !pod.phase.has_ended()).count();
            let left: usize = lists(new).iter().map(HashSet::len).sum();
            let open = self.may_come().count();
            if running > 0 || left > 0 || open > 0 {
                let why = format!(
                    "it ends while {running} pods run, {left} are to be counted, and {open} may come to be"
                );
                return trip(rules::END, why);
            }
        }
        if !is(old, "SuccessCriteriaMet") {
            self.enough(new)?;
        }
        self.counts(old, new)
    }

    /// Who says that all completions are there has them: stored, listed, or in pods that have succeeded
    /// and are not listed as failed.
    fn enough(&self, new: &JobStatus) -> Result<(), Trip> {
        let mut conditions = new.conditions.iter().flatten();
        let reached = conditions.any(|known| {
            let reason = known.reason.as_deref();
            known.type_ == "SuccessCriteriaMet" && reason == Some("CompletionsReached")
        });
        if !reached {
            return Ok(());
        }
        let spec = &self.snapshot.job.spec;
        let pods = self.snapshot.pods.values();
        let ended = pods.filter(|pod| pod.tracked && pod.phase == PodPhase::Succeeded);
        let done = successes(spec, new, ended);
        let wanted = spec.completions.map_or(1, i64::from);
        if done >= wanted {
            return Ok(());
        }
        let why = format!("it is complete with {done} of {wanted} successes");
        trip(rules::END, why)
    }

    fn counts(&self, old: &JobStatus, new: &JobStatus) -> Result<(), Trip> {
        let tracked = self.snapshot.pods.values().filter(|pod| pod.tracked);
        let tracked: HashSet<String> = tracked.map(|pod| pod.uid.to_string()).collect();
        let (was, is) = (lists(old), lists(new));
        if let Some(uid) = is[0].intersection(&is[1]).next() {
            return trip(rules::COUNTS, format!("{uid} has succeeded and failed"));
        }
        for (was, is) in was.iter().zip(&is) {
            if let Some(uid) = is.difference(was).find(|uid| !tracked.contains(**uid)) {
                let why = format!("{uid} is no pod that is to be counted");
                return trip(rules::COUNTS, why);
            }
            if let Some(uid) = was.difference(is).find(|uid| tracked.contains(**uid)) {
                return trip(rules::COUNTS, format!("{uid} is counted and still held"));
            }
        }
        let left = |at: usize| was[at].difference(&is[at]).count() as i64;
        let grown = |new: Option<i32>, old: Option<i32>| count(new) - count(old);
        let indexed = self.snapshot.job.spec.is_indexed();
        let succeeded = indexed || grown(new.succeeded, old.succeeded) == left(0);
        if !succeeded || grown(new.failed, old.failed) != left(1) {
            let why = "the counters grow by others than were listed";
            return trip(rules::COUNTS, why);
        }
        Ok(())
    }
}
