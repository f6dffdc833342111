//! The same for CronJobs: what a plan for one must never do.

use std::collections::BTreeSet;

use carillon_api::condition::{reasons, types};
use carillon_api::cron_job::RunReference;
use carillon_api::{ConcurrencyPolicy, CronJobStatus};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{TRIPPED_RECHECK, Trip, trip};
use crate::condition;
use crate::cron_job::action::{Action, Note, OnError, Plan, Run, Step, Why};
use crate::cron_job::{Child, ChildKind, CronJob, Snapshot};
use crate::name;
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
    /// before its time or after its deadline, or on a request that does not name this very CronJob.
    pub const STARTS: &str = "starts";
    /// Times and counts of the status never go back.
    pub const FORWARD: &str = "forward";
    /// The status forgets no run that may be there, and records none that is not.
    pub const RECORD: &str = "record";
    /// Children are deleted by uid and resourceVersion, and only for a reason.
    pub const DELETE: &str = "delete";
    /// Children are let go by uid, and only when their run is stored, or stored by a step before.
    pub const RELEASE: &str = "release";

    /// All of them.
    pub const ALL: [&str; 8] = [
        PROMISED_FIRST,
        ONE_PER_RUN,
        CONCURRENCY,
        STARTS,
        FORWARD,
        RECORD,
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
        status: &snapshot.cron.status,
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
        // kubectl shows the reason of the first that is true.
        conditions.sort_by_key(|condition| condition.type_ != types::STALLED);
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
    status: &'a CronJobStatus,
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
                self.status(status)?;
                if step.on_error == OnError::Stop {
                    self.status = status;
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
                    Why::History => self.history(name, child),
                    Why::Replaced
                        if self.snapshot.cron.concurrency != ConcurrencyPolicy::Replace =>
                    {
                        trip(rules::DELETE, format!("{name} is stopped without Replace"))
                    }
                    Why::Replaced if step.on_error != OnError::Stop => trip(
                        rules::DELETE,
                        format!("what replaces {name} does not wait for it"),
                    ),
                    Why::Replaced => Ok(()),
                }?;
                self.stopped.insert(*uid);
                Ok(())
            }
            Action::ReleaseChild { kind, name, uid } => self.release(*kind, name, *uid),
        }
    }

    fn status(&self, new: &CronJobStatus) -> Result<(), Trip> {
        let old = &self.snapshot.cron.status;
        let time = |time: &Option<Time>| time.as_ref().map(|time| time.0);
        let times = [
            (&old.last_schedule_time, &new.last_schedule_time),
            (&old.last_successful_time, &new.last_successful_time),
            (&old.last_failure_time, &new.last_failure_time),
            (&old.last_missed_time, &new.last_missed_time),
        ];
        let back = times.iter().any(|(old, new)| time(new) < time(old));
        if back || new.missed_runs < old.missed_runs {
            return trip(rules::FORWARD, "a time or count of the status goes back");
        }
        if let Some(run) = old.active.iter().find(|run| !self.may_go(run, new)) {
            return trip(
                rules::RECORD,
                format!("{} may be there and is forgotten", run.name),
            );
        }
        let is_known = |run: &RunReference| {
            let child = self.child(run);
            run.uid.is_none()
                || old.active.contains(run)
                || child.is_some_and(|child| has_uid(run, child.uid))
        };
        if let Some(run) = new.active.iter().find(|run| !is_known(run)) {
            return trip(rules::RECORD, format!("{} was never seen", run.name));
        }
        if let Some(tick) = time(&new.last_schedule_time)
            && new.last_schedule_time != old.last_schedule_time
        {
            let minute = format!("-{}", tick.as_second().div_euclid(60));
            let mut names = self.snapshot.children.keys();
            if !names.any(|(_, name)| name.ends_with(&minute)) {
                return trip(rules::RECORD, format!("nothing was started for {tick}"));
            }
        }
        Ok(())
    }

    /// Whether `new` has what became of a run that was active or promised, or may do without.
    fn may_go(&self, run: &RunReference, new: &CronJobStatus) -> bool {
        let Some(uid) = run.uid.as_ref().and_then(|uid| uid.parse().ok()) else {
            let there = new
                .active
                .iter()
                .any(|known| known.name == run.name && known.kind == run.kind);
            let known = self.snapshot.absent.contains(&run.name)
                || self.snapshot.conflicts.contains(&run.name);
            let ended = self.child(run).is_some_and(|child| child.ended.is_some());
            let foreign = !ChildKind::ALL.iter().any(|kind| kind.kind() == run.kind);
            return there || known || ended || foreign;
        };
        let there = new.active.iter().any(|known| has_uid(known, uid));
        let ended = self
            .child(run)
            .is_some_and(|child| child.uid == uid && child.ended.is_some());
        let foreign = !ChildKind::ALL.iter().any(|kind| kind.kind() == run.kind);
        there || ended || foreign || self.snapshot.gone.contains(&uid)
    }

    fn child(&self, run: &RunReference) -> Option<&Child> {
        let mut kinds = ChildKind::ALL.into_iter();
        let kind = kinds.find(|kind| kind.kind() == run.kind)?;
        self.snapshot
            .children
            .get(&(kind, run.name.as_str().into()))
    }

    /// What has ended, is recorded, and is more than the limit keeps.
    fn history(&self, name: &str, child: &Child) -> Result<(), Trip> {
        let Some(ended) = child.ended.filter(|_| !child.held) else {
            let what = format!("{name} has not ended, or is not recorded");
            return trip(rules::DELETE, what);
        };
        if self.status.active.iter().any(|run| has_uid(run, child.uid)) {
            return trip(rules::DELETE, format!("{name} is still active"));
        }
        if child.retried {
            let what = format!("{name} goes; expected that it stays while a retry of it is open");
            return trip(rules::DELETE, what);
        }
        let cron = self.snapshot.cron;
        let keep = if ended.complete {
            cron.keep_complete
        } else {
            cron.keep_failed
        };
        let children = self.snapshot.children.values();
        let alike =
            children.filter(|child| child.ended.is_some_and(|e| e.complete == ended.complete));
        let left = alike.filter(|child| !self.stopped.contains(&child.uid));
        if keep.is_none_or(|keep| left.count() <= keep) {
            return trip(rules::DELETE, format!("the limit keeps {name}"));
        }
        Ok(())
    }

    fn create(&mut self, run: &'a Run) -> Result<(), Trip> {
        let cron = self.snapshot.cron;
        let name = &run.name;
        let is_run = |entry: &RunReference| entry.name == *name && entry.kind == run.kind.kind();
        let promised = self
            .status
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
        // A promise to start the same as another kind may have been kept.
        let mut active = self.status.active.iter();
        if active.any(|entry| entry.name == *name && entry.uid.is_none() && !is_run(entry)) {
            let what = format!("{name} may be there as another kind");
            return trip(rules::ONE_PER_RUN, what);
        }
        let by_schedule = run.request.is_none();
        let asks = |word: &String| Some(format!("{}/{word}", cron.meta.owner.uid));
        if !by_schedule && run.request.as_ref().and_then(asks) != cron.meta.run_now {
            return trip(
                rules::STARTS,
                format!("{name} starts, and nobody asked for it"),
            );
        }
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
        let others = self.status.active.iter().filter(|entry| !is_run(entry));
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
        let mut entries = self.status.active.iter();
        let entry = entries.find(|entry| entry.name == name && entry.kind == kind.kind());
        let is_promise = entry.is_some_and(|entry| entry.uid.is_none());
        let key = (kind, name.into());
        let child = self
            .snapshot
            .children
            .get(&key)
            .filter(|child| child.uid == uid);
        let recorded = |child: &Child| match entry {
            Some(entry) => has_uid(entry, uid),
            None => self.snapshot.cron.meta.deleting || self.was_recorded(name, child),
        };
        if is_promise || !child.is_some_and(recorded) {
            return trip(rules::RELEASE, format!("{name} is not recorded yet"));
        }
        Ok(())
    }

    /// Whether the status knows by then of a run that is no longer active.
    fn was_recorded(&self, name: &str, child: &Child) -> bool {
        let stored = self.status;
        let suffix = name.strip_prefix(&*self.snapshot.cron.meta.owner.name);
        let suffix = suffix.and_then(|suffix| suffix.strip_prefix('-'));
        if let Some(minute) = suffix.and_then(|minute| minute.parse::<i64>().ok()) {
            let last = stored.last_schedule_time.as_ref();
            return last.is_some_and(|last| last.0.as_second() / 60 >= minute);
        }
        let uid = self.snapshot.cron.meta.owner.uid;
        let is_its = |request: &&str| suffix == Some(&format!("r{}", name::request(uid, request)));
        let mut requests = child.request.as_deref().into_iter().filter(is_its);
        requests.all(|request| stored.ran_now.iter().any(|known| known == request))
    }
}

fn has_uid(run: &RunReference, uid: Uid) -> bool {
    run.uid.as_ref().and_then(|uid| uid.parse().ok()) == Some(uid)
}
