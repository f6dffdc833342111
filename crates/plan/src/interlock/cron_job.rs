//! The same for CronJobs: what a plan for one must never do.

use std::collections::BTreeSet;

use carillon_api::ConcurrencyPolicy;
use carillon_api::condition::{reasons, types};
use carillon_api::cron_job::RunReference;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{TRIPPED_RECHECK, Trip, trip};
use crate::condition;
use crate::cron_job::action::{Action, Note, OnError, Plan, Run, Step, Why};
use crate::cron_job::{ChildKind, CronJob, Snapshot};
use crate::uid::Uid;

/// The rules, as they are named in messages and metrics.
pub mod rules {
    /// A child is created only for a promise that is stored, or stored by the step before.
    pub const PROMISED_FIRST: &str = "promised_first";
    /// A run has at most one child.
    pub const ONE_PER_RUN: &str = "one_per_run";
    /// Forbid and Replace: nothing starts beside another run.
    pub const CONCURRENCY: &str = "concurrency";
    /// A CronJob that is suspended or being deleted starts nothing by schedule, and nothing starts
    /// before its time or after its deadline.
    pub const STARTS: &str = "starts";
    /// Times and counts of the status never go back.
    pub const FORWARD: &str = "forward";
    /// Children are deleted by uid and resourceVersion, and only for a reason.
    pub const DELETE: &str = "delete";
    /// Children are let go by uid, and only when their run is stored.
    pub const RELEASE: &str = "release";

    /// All of them.
    pub const ALL: [&str; 7] = [
        PROMISED_FIRST,
        ONE_PER_RUN,
        CONCURRENCY,
        STARTS,
        FORWARD,
        DELETE,
        RELEASE,
    ];
}

/// Checks `plan`, which was made from `snapshot` at `now`.
///
/// # Errors
/// The first rule the plan breaks. None of it may then be carried out.
pub fn verify(snapshot: &Snapshot<'_>, plan: &Plan, now: Timestamp) -> Result<(), Trip> {
    let mut check = Check {
        snapshot,
        now,
        active: &snapshot.cron.status.active,
        current: false,
        created: BTreeSet::new(),
        stopped: BTreeSet::new(),
    };
    for step in &plan.steps {
        for action in &step.actions {
            check.action(action, step)?;
        }
    }
    Ok(())
}

/// What is done instead of a plan that must not be carried out: it is told, and looked at again.
pub fn refuse(cron: &CronJob, trip: &Trip, now: Timestamp) -> Plan {
    let mut plan = Plan {
        wake: now.checked_add(TRIPPED_RECHECK).ok(),
        ..Plan::default()
    };
    let message = format!("the interlock refused a plan ({trip}); please report it");
    if !cron.is_native() {
        let mut status = cron.status.clone();
        let (reason, generation) = (reasons::INTERLOCK_TRIPPED, cron.meta.generation);
        let conditions = &mut status.conditions;
        condition::set(
            conditions,
            types::STALLED,
            true,
            reason,
            &message,
            generation,
            now,
        );
        if status != cron.status {
            let status = Action::WriteStatus(Box::new(status));
            plan.steps = vec![Step::needed(vec![status])];
        }
    }
    plan.notes = vec![Note {
        warning: true,
        reason: reasons::INTERLOCK_TRIPPED,
        action: "Planning",
        message,
    }];
    plan
}

struct Check<'a> {
    snapshot: &'a Snapshot<'a>,
    now: Timestamp,
    /// As stored when an action is done.
    active: &'a [RunReference],
    /// The plan has proved that it sees the present.
    current: bool,
    created: BTreeSet<&'a str>,
    stopped: BTreeSet<Uid>,
}

impl<'a> Check<'a> {
    fn action(&mut self, action: &'a Action, step: &Step) -> Result<(), Trip> {
        match action {
            Action::TryChild(_) | Action::ConfirmGone { .. } => Ok(()),
            Action::ConfirmCurrent => {
                self.current = step.on_error == OnError::Stop;
                Ok(())
            }
            Action::WriteStatus(status) => {
                let old = &self.snapshot.cron.status;
                let time = |time: &Option<Time>| time.as_ref().map(|time| time.0);
                let times = [
                    (&old.last_schedule_time, &status.last_schedule_time),
                    (&old.last_successful_time, &status.last_successful_time),
                    (&old.last_failure_time, &status.last_failure_time),
                    (&old.last_missed_time, &status.last_missed_time),
                ];
                let back = times.iter().any(|(old, new)| time(new) < time(old));
                if back || status.missed_runs < old.missed_runs {
                    return trip(rules::FORWARD, "a time or count of the status goes back");
                }
                if step.on_error == OnError::Stop {
                    self.active = &status.active;
                    self.current = true;
                }
                Ok(())
            }
            Action::CreateChild(run) => self.create(run),
            Action::DeleteChild {
                kind,
                name,
                uid,
                rv,
                why,
            } => {
                let child = self.snapshot.children.get(&(*kind, name.as_str().into()));
                let Some(child) = child.filter(|child| child.uid == *uid && child.rv == *rv) else {
                    return trip(
                        rules::DELETE,
                        format!("{name} is not the child that was judged"),
                    );
                };
                match why {
                    Why::History if child.ended.is_none() || child.held => trip(
                        rules::DELETE,
                        format!("{name} has not ended, or is not recorded"),
                    ),
                    Why::Replaced
                        if self.snapshot.cron.concurrency != ConcurrencyPolicy::Replace =>
                    {
                        trip(rules::DELETE, format!("{name} is stopped without Replace"))
                    }
                    Why::Replaced if step.on_error != OnError::Stop => trip(
                        rules::DELETE,
                        format!("what replaces {name} does not wait for it"),
                    ),
                    _ => {
                        self.stopped.insert(*uid);
                        Ok(())
                    }
                }
            }
            Action::ReleaseChild { kind, name, uid } => self.release(*kind, name, *uid),
        }
    }

    fn create(&mut self, run: &'a Run) -> Result<(), Trip> {
        let cron = self.snapshot.cron;
        let name = &run.name;
        let is_run = |entry: &RunReference| entry.name == *name && entry.kind == run.kind.kind();
        let promised = self
            .active
            .iter()
            .any(|entry| is_run(entry) && entry.uid.is_none());
        if !promised || !self.current {
            return trip(rules::PROMISED_FIRST, format!("{name} is not promised"));
        }
        let key = (run.kind, name.as_str().into());
        if !self.created.insert(name) || self.snapshot.children.contains_key(&key) {
            return trip(rules::ONE_PER_RUN, format!("{name} is there already"));
        }
        let by_schedule = run.request.is_none();
        if cron.meta.deleting || by_schedule && (cron.suspended || cron.timetable.is_err()) {
            return trip(rules::STARTS, format!("{name} starts, and nothing may"));
        }
        let due = run.time.checked_add(cron.offset).unwrap_or(run.time);
        let over = cron
            .deadline
            .and_then(|deadline| due.checked_add(deadline).ok());
        // A deadline is over in the second in which it ends.
        let second = SignedDuration::from_secs(1);
        let over = over.and_then(|over| over.checked_add(second).ok());
        if by_schedule && (due > self.now || over.is_some_and(|over| over < self.now)) {
            return trip(
                rules::STARTS,
                format!("{name} of {} starts out of its time", run.time),
            );
        }
        if cron.concurrency == ConcurrencyPolicy::Allow {
            return Ok(());
        }
        let others = self.active.iter().filter(|entry| !is_run(entry));
        for other in others {
            let child = ChildKind::ALL.into_iter().find_map(|kind| {
                let key = (kind, other.name.as_str().into());
                self.snapshot.children.get(&key)
            });
            let goes = cron.concurrency == ConcurrencyPolicy::Replace
                && child.is_some_and(|child| child.deleting || self.stopped.contains(&child.uid));
            if !goes {
                let what = format!("{name} starts beside {}", other.name);
                return trip(rules::CONCURRENCY, what);
            }
        }
        Ok(())
    }

    fn release(&self, kind: ChildKind, name: &str, uid: Uid) -> Result<(), Trip> {
        let stored = &self.snapshot.cron.status;
        let mut entries = stored.active.iter();
        let entry = entries.find(|entry| entry.name == name && entry.kind == kind.kind());
        let is_promise = entry.is_some_and(|entry| entry.uid.is_none());
        let key = (kind, name.into());
        let child = self
            .snapshot
            .children
            .get(&key)
            .filter(|child| child.uid == uid);
        if is_promise || child.is_none() {
            return trip(rules::RELEASE, format!("{name} is not recorded yet"));
        }
        Ok(())
    }
}
