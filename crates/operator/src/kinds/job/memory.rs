//! What is kept between plans, how a snapshot is made with it, and how it is written down.

use std::collections::BTreeMap;

use carillon_plan::ObjectKey;
use carillon_plan::job::backoff::BackoffRecord;
use carillon_plan::job::unanswered::{Unanswered, may_come_until};
use carillon_plan::job::{Job, JobPods, Limits, Snapshot};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::store::Tables;

/// What a restart loses: failures in a row start at none again, as upstream's do.
#[derive(Debug, Default, PartialEq)]
pub struct Memory {
    /// Failures after the last success.
    pub backoff: BackoffRecord,
    /// Pods that may still come to be.
    pub unanswered: BTreeMap<String, Timestamp>,
}

/// The snapshot of a Job, from the caches and what is remembered.
pub(super) fn snapshot<T>(
    tables: &Tables,
    job: &Job,
    memory: &Memory,
    limits: &Limits,
    look: impl FnOnce(&Snapshot<'_>) -> T,
) -> T {
    let none = JobPods::default();
    let owner = &job.meta.owner;
    look(&Snapshot {
        job,
        pods: tables.jobs.pods(owner).unwrap_or(&none),
        free: tables.jobs.orphans(&owner.namespace).unwrap_or(&none),
        backoff: &memory.backoff,
        unanswered: &memory.unanswered,
        limits,
    })
}

impl Memory {
    /// Forgets creations that are over and whose pods are there. Nothing is waited for longer than that takes, though
    /// the clock may have been set back.
    pub(super) fn follow(&mut self, tables: &Tables, job: &ObjectKey, now: Timestamp) {
        let pods = [tables.jobs.pods(job), tables.jobs.orphans(&job.namespace)];
        let is_there = |name: &str| pods.iter().flatten().any(|pods| pods.contains_key(name));
        self.unanswered
            .retain(|name, until| *until > now || !is_there(name));
        for until in self.unanswered.values_mut() {
            *until = (*until).min(may_come_until(now));
        }
    }

    /// What goes into the flight recorder besides the versions of the objects.
    pub(super) fn inputs(&self, limits: &Limits) -> Inputs {
        Inputs {
            failures: self.backoff.failures,
            last_failure: self.backoff.last,
            unanswered: self.unanswered.clone(),
            backoff: limits.backoff,
            max_backoff: limits.max_backoff,
            max_uncounted: limits.max_uncounted,
            max_pod_changes: limits.max_pod_changes,
            strict_parity: limits.strict_parity,
        }
    }
}

/// What a plan is made from besides the objects, as the flight recorder keeps it.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct Inputs {
    failures: u32,
    last_failure: Option<Timestamp>,
    #[serde(skip_serializing_if = "Unanswered::is_empty")]
    unanswered: Unanswered,
    backoff: SignedDuration,
    max_backoff: SignedDuration,
    max_uncounted: usize,
    max_pod_changes: usize,
    strict_parity: bool,
}

impl Inputs {
    /// The memory and the limits that were written down.
    pub(super) fn recorded(self) -> (Memory, Limits) {
        let backoff = BackoffRecord {
            failures: self.failures,
            last: self.last_failure,
        };
        let limits = Limits {
            backoff: self.backoff,
            max_backoff: self.max_backoff,
            max_uncounted: self.max_uncounted,
            max_pod_changes: self.max_pod_changes,
            strict_parity: self.strict_parity,
        };
        let memory = Memory {
            backoff,
            unanswered: self.unanswered,
        };
        (memory, limits)
    }
}
