//! The status of a Job: counts, conditions, and its end.

use std::collections::{BTreeSet, HashSet};

use k8s_openapi::api::batch::v1::JobStatus;

use super::stored::{FOR_EVER, count, is, lists, successes};
use super::{Check, rules};
use crate::interlock::trip::{Trip, trip};
use crate::pod::PodPhase;

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
            let left: usize = lists(new).iter().map(BTreeSet::len).sum();
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
