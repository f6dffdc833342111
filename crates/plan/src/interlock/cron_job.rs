//! The same for CronJobs: what a plan for one must never do.

use std::collections::{BTreeSet, HashMap, HashSet};

use carillon_api::condition::{reasons, types};
use carillon_api::cron_job::{RunReference, ScheduleInForce};
use carillon_api::{ConcurrencyPolicy, CronJobStatus, DstPolicy};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::TRIPPED_RECHECK;
use super::trip::{Trip, trip};
use crate::condition;
use crate::cron_job::action::{Action, Note, OnError, Plan, Run, Step, Why};
use crate::cron_job::{Child, ChildKind, CronJob, Snapshot, columns};
use crate::name;
use crate::uid::Uid;

/// The rules, as they are named in messages and metrics.
pub mod rules {
    pub use super::super::left_behind::rules::LEFT_BEHIND;

    /// A child is created only for a promise that is stored, or stored by the step before.
    pub const PROMISED_FIRST: &str = "promised_first";
    /// A run has at most one child.
    pub const ONE_PER_RUN: &str = "one_per_run";
    /// Forbid and Replace: nothing starts beside another run.
    pub const CONCURRENCY: &str = "concurrency";
    /// A CronJob that is suspended or being deleted starts nothing by schedule, and nothing starts
    /// before its time or after its deadline, for a time before its schedule was in force, or on a
    /// request that does not name this very CronJob.
    pub const STARTS: &str = "starts";
    /// Times and counts of the status never go back, and a schedule comes in force by an edit only.
    pub const FORWARD: &str = "forward";
    /// The status forgets no run that may be there, and records none that is not.
    pub const RECORD: &str = "record";
    /// Children are deleted by uid and resourceVersion, and only for a reason.
    pub const DELETE: &str = "delete";
    /// Children are released by uid, and only when their run is stored, or stored by a step before.
    pub const RELEASE: &str = "release";

    /// All of them.
    pub const ALL: [&str; 9] = [
        PROMISED_FIRST,
        ONE_PER_RUN,
        CONCURRENCY,
        STARTS,
        FORWARD,
        RECORD,
        DELETE,
        RELEASE,
        LEFT_BEHIND,
    ];
}

/// Checks `plan`, which was made from `snapshot` at `now`.
///
/// # Errors
/// The first rule the plan breaks. None of it may then be carried out.
pub fn verify(snapshot: &Snapshot<'_>, plan: &Plan, now: Timestamp) -> Result<(), Trip> {
    let mut ended = [0; 2];
    for end in snapshot.children.values().filter_map(|child| child.ended) {
        ended[usize::from(end.succeeded())] += 1;
    }
    let mut check = Check {
        snapshot,
        now,
        stored: Stored::of(&snapshot.cron.status),
        current: false,
        created: BTreeSet::new(),
        stopped: BTreeSet::new(),
        ended,
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
    let message = format!("the interlock refused a plan ({trip}); please report it");
    let mut status = cron.status.clone();
    let (reason, generation) = (reasons::INTERLOCK_TRIPPED, cron.meta.generation);
    let conditions = &mut status.conditions;
    let stalled = types::STALLED;
    condition::set(conditions, stalled, true, reason, &message, generation, now);
    // kubectl shows the reason of the first that is true.
    conditions.sort_by_key(|condition| condition.type_ != types::STALLED);
    columns::fill(&mut status);
    let is_news = !cron.is_native() && status != cron.status;
    let write = is_news.then(|| Step::needed(vec![Action::WriteStatus(Box::new(status))]));
    Plan {
        steps: write.into_iter().collect(),
        wake: now.checked_add(TRIPPED_RECHECK).ok(),
        notes: vec![Note {
            warning: true,
            reason,
            action: "Planning",
            message,
            about: None,
        }],
        ..Plan::default()
    }
}

/// A status as it is stored when an action is done, and its runs by name and by uid.
struct Stored<'a> {
    status: &'a CronJobStatus,
    runs: HashMap<RunName<'a>, &'a RunReference>,
    uids: HashSet<Uid>,
}

/// Kind and name of a run.
type RunName<'a> = (&'a str, &'a str);

impl<'a> Stored<'a> {
    fn of(status: &'a CronJobStatus) -> Self {
        let active = status.active.iter();
        Self {
            status,
            // Of two with one name the first counts.
            runs: active
                .clone()
                .rev()
                .map(|run| (name_of(run), run))
                .collect(),
            uids: active.filter_map(uid_of).collect(),
        }
    }
}

struct Check<'a> {
    snapshot: &'a Snapshot<'a>,
    now: Timestamp,
    stored: Stored<'a>,
    /// The plan has proved that it sees the present.
    current: bool,
    created: BTreeSet<&'a str>,
    stopped: BTreeSet<Uid>,
    /// How many children that failed, and that completed, are left.
    ended: [usize; 2],
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
                    self.stored = Stored::of(status);
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
                let judged = child.filter(|child| child.uid == *uid && child.rv == *rv);
                self.delete(name, judged, *why, step)
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
        self.in_force(
            old.schedule_in_force.as_ref(),
            new.schedule_in_force.as_ref(),
        )?;
        let written = Stored::of(new);
        if let Some(run) = old.active.iter().find(|run| !self.may_go(run, &written)) {
            return trip(
                rules::RECORD,
                format!("{} may be there and is forgotten", run.name),
            );
        }
        let identity = |run: &'a RunReference| (name_of(run), run.uid.as_deref());
        let known: HashSet<_> = old.active.iter().map(identity).collect();
        let is_known = |run: &RunReference| {
            let child = self.child(run);
            run.uid.is_none()
                || known.contains(&(name_of(run), run.uid.as_deref()))
                || child.is_some_and(|child| uid_of(run) == Some(child.uid))
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

    /// Whether the schedule in force may be noted anew.
    fn in_force(
        &self,
        old: Option<&ScheduleInForce>,
        new: Option<&ScheduleInForce>,
    ) -> Result<(), Trip> {
        let meta = &self.snapshot.cron.meta;
        let Some(new) = new.filter(|new| old != Some(*new)) else {
            return match (old, new) {
                (Some(_), None) => trip(rules::FORWARD, "a schedule in force is forgotten"),
                _ => Ok(()),
            };
        };
        let seen = self.snapshot.cron.status.observed_generation;
        let edited = match old {
            Some(old) => written(old) != written(new),
            None => meta.generation > seen.unwrap_or(1),
        };
        let since_creation = old.is_none() && new.since.0 == meta.created;
        let in_time = new.since.0 <= self.now.max(meta.created);
        if self.is_of_spec(new) && in_time && (edited || since_creation) {
            return Ok(());
        }
        let what = format!("{:?} comes in force, and is no edit", new.schedule);
        trip(rules::FORWARD, what)
    }

    fn is_of_spec(&self, noted: &ScheduleInForce) -> bool {
        let cron = self.snapshot.cron;
        written(noted) == (&*cron.written, cron.zone.as_deref(), cron.dst)
    }

    /// Whether a status has what became of a run that was active or promised, or may do without.
    fn may_go(&self, run: &RunReference, new: &Stored<'_>) -> bool {
        let known = self.snapshot;
        let foreign = !ChildKind::ALL.iter().any(|kind| kind.kind() == run.kind);
        let ended = self.child(run).filter(|child| child.ended.is_some());
        let settled = match uid_of(run) {
            None => {
                new.runs.contains_key(&name_of(run))
                    || known.absent.contains(&run.name)
                    || known.conflicts.contains(&run.name)
                    || ended.is_some()
            }
            Some(uid) => {
                new.uids.contains(&uid)
                    || known.gone.contains(&uid)
                    || ended.is_some_and(|child| child.uid == uid)
            }
        };
        settled || foreign
    }

    fn child(&self, run: &RunReference) -> Option<&Child> {
        let mut kinds = ChildKind::ALL.into_iter();
        let kind = kinds.find(|kind| kind.kind() == run.kind)?;
        self.snapshot
            .children
            .get(&(kind, run.name.as_str().into()))
    }

    fn delete(
        &mut self,
        name: &str,
        judged: Option<&Child>,
        why: Why,
        step: &Step,
    ) -> Result<(), Trip> {
        let replaces = self.snapshot.cron.concurrency == ConcurrencyPolicy::Replace;
        let Some(child) = judged else {
            let what = format!("{name} is not the child that was judged");
            return trip(rules::DELETE, what);
        };
        if why == Why::History {
            self.history(name, child)?;
        } else if !replaces {
            return trip(rules::DELETE, format!("{name} is stopped without Replace"));
        } else if step.on_error != OnError::Stop {
            let what = format!("what replaces {name} does not wait for it");
            return trip(rules::DELETE, what);
        }
        if let (true, Some(ended)) = (self.stopped.insert(child.uid), child.ended) {
            self.ended[usize::from(ended.succeeded())] -= 1;
        }
        Ok(())
    }

    /// What has ended, is recorded, and is more than the limit keeps.
    fn history(&self, name: &str, child: &Child) -> Result<(), Trip> {
        let Some(ended) = child.ended.filter(|_| !child.held) else {
            let what = format!("{name} has not ended, or is not recorded");
            return trip(rules::DELETE, what);
        };
        if self.stored.uids.contains(&child.uid) {
            return trip(rules::DELETE, format!("{name} is still active"));
        }
        if child.retried {
            let what = format!("{name} goes; expected that it stays while a retry of it is open");
            return trip(rules::DELETE, what);
        }
        let cron = self.snapshot.cron;
        let keep = if ended.succeeded() {
            cron.keep_complete
        } else {
            cron.keep_failed
        };
        let left = self.ended[usize::from(ended.succeeded())];
        if keep.is_none_or(|keep| left <= keep) {
            return trip(rules::DELETE, format!("the limit keeps {name}"));
        }
        Ok(())
    }

    fn create(&mut self, run: &'a Run) -> Result<(), Trip> {
        let name = &run.name;
        let is_promise = |kind: ChildKind| {
            let entry = self.stored.runs.get(&(kind.kind(), name));
            entry.is_some_and(|entry| entry.uid.is_none())
        };
        if !is_promise(run.kind) || !self.current {
            return trip(rules::PROMISED_FIRST, format!("{name} is not promised"));
        }
        // A promise to start the same as another kind may have been kept.
        let mut kinds = ChildKind::ALL.into_iter();
        if kinds.any(|kind| kind != run.kind && is_promise(kind)) {
            let what = format!("{name} may be there as another kind");
            return trip(rules::ONE_PER_RUN, what);
        }
        let key = (run.kind, name.as_str().into());
        if !self.created.insert(name) || self.snapshot.children.contains_key(&key) {
            return trip(rules::ONE_PER_RUN, format!("{name} is there already"));
        }
        self.may_start(run)?;
        self.is_alone(run)
    }

    /// Whether it is time for a run, or somebody asks for it.
    fn may_start(&self, run: &Run) -> Result<(), Trip> {
        let cron = self.snapshot.cron;
        let refuse = |why: &str| trip(rules::STARTS, format!("{} starts, and {why}", run.name));
        if cron.meta.deleting {
            return refuse("nothing may");
        }
        if let Some(word) = &run.request {
            let asked = Some(format!("{}/{word}", cron.meta.owner.uid)) == cron.run_now;
            return if asked {
                Ok(())
            } else {
                refuse("nobody asked for it")
            };
        }
        if cron.suspended || cron.timetable.is_err() {
            return refuse("nothing may");
        }
        let due = run.time.checked_add(cron.offset).unwrap_or(run.time);
        let over = cron.deadline.and_then(|limit| due.checked_add(limit).ok());
        // A deadline is over in the second in which it ends.
        let second = SignedDuration::from_secs(1);
        let over = over.and_then(|over| over.checked_add(second).ok());
        if due > self.now || over.is_some_and(|over| over < self.now) {
            return refuse("that is out of its time");
        }
        let noted = self.stored.status.schedule_in_force.as_ref();
        let foreign = |noted: &ScheduleInForce| {
            !cron.is_native() && (!self.is_of_spec(noted) || run.time <= noted.since.0)
        };
        if noted.is_some_and(foreign) {
            return refuse("its schedule was not in force at its time");
        }
        Ok(())
    }

    fn is_alone(&self, run: &Run) -> Result<(), Trip> {
        let policy = self.snapshot.cron.concurrency;
        if policy == ConcurrencyPolicy::Allow {
            return Ok(());
        }
        let own = (run.kind.kind(), &*run.name);
        let active = self.stored.status.active.iter();
        for other in active.filter(|entry| name_of(entry) != own) {
            let child = self.child(other);
            let goes = policy == ConcurrencyPolicy::Replace
                && child.is_some_and(|child| child.deleting || self.stopped.contains(&child.uid));
            if !goes {
                let what = format!("{} starts beside {}", run.name, other.name);
                return trip(rules::CONCURRENCY, what);
            }
        }
        Ok(())
    }

    fn release(&self, kind: ChildKind, name: &str, uid: Uid) -> Result<(), Trip> {
        let entry = self.stored.runs.get(&(kind.kind(), name));
        let child = self.snapshot.children.get(&(kind, name.into()));
        let recorded = |child: &Child| match entry {
            Some(entry) => uid_of(entry) == Some(uid),
            None => self.snapshot.cron.meta.deleting || self.was_recorded(name, child),
        };
        if !child.is_some_and(|child| child.uid == uid && recorded(child)) {
            return trip(rules::RELEASE, format!("{name} is not recorded yet"));
        }
        Ok(())
    }

    /// Whether the status knows by then of a run that is no longer active.
    fn was_recorded(&self, name: &str, child: &Child) -> bool {
        let stored = self.stored.status;
        let suffix = name.strip_prefix(&*self.snapshot.cron.meta.owner.name);
        let suffix = suffix.and_then(|suffix| suffix.strip_prefix('-'));
        if let Some(minute) = suffix.and_then(|minute| minute.parse::<i64>().ok()) {
            let last = stored.last_schedule_time.as_ref();
            return last.is_some_and(|last| last.0.as_second() / 60 >= minute);
        }
        let uid = self.snapshot.cron.meta.owner.uid;
        let is_its = |request: &&str| suffix == Some(&format!("r{}", name::request(uid, request)));
        let mut requests = child.request.as_deref().into_iter().filter(is_its);
        requests.all(|request| stored.handled_run_now.iter().any(|known| known == request))
    }
}

fn name_of(run: &RunReference) -> RunName<'_> {
    (&run.kind, &run.name)
}

fn uid_of(run: &RunReference) -> Option<Uid> {
    run.uid.as_ref()?.parse().ok()
}

/// A schedule as it was written.
fn written(noted: &ScheduleInForce) -> (&str, Option<&str>, DstPolicy) {
    (
        &noted.schedule,
        noted.time_zone.as_deref(),
        noted.dst_policy,
    )
}
