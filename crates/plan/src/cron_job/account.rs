//! What became of the runs that were started or promised: the part of a plan that looks back.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use carillon_api::condition::reasons;
use carillon_api::cron_job::{MAX_RAN_NOW, RunReference};
use carillon_api::{ConcurrencyPolicy, CronJobStatus};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::action::{Action, Note, Run};
use super::child::{Child, ChildKind, Ended, kind_of, referred};
use super::snapshot::Snapshot;
use super::spec::{CronJob, timetable};
use crate::condition::whole_seconds;
use crate::schedule::Schedule;
use crate::uid::Uid;

/// Missed runs are counted one by one up to so many at a time.
const MOST_COUNTED: u64 = 10_000;

/// The status as it will be, and what is to be asked and said on the way.
#[derive(Debug)]
pub(super) struct Account<'a> {
    pub(super) cron: &'a CronJob,
    /// The schedule in force: that of the spec, until an edit of it is noted.
    schedule: Option<Arc<Schedule>>,
    pub(super) status: CronJobStatus,
    pub(super) notes: Vec<Note>,
    pub(super) questions: Vec<Action>,
    /// Promises whose child is not there.
    pub(super) unkept: Vec<RunReference>,
}

impl<'a> Account<'a> {
    /// Looks at every active reference, and at every child that no reference names.
    pub(super) fn of(snapshot: &Snapshot<'a>) -> Self {
        let cron = snapshot.cron;
        let mut account = Self {
            cron,
            schedule: in_force(cron),
            status: cron.status.clone(),
            notes: Vec::new(),
            questions: Vec::new(),
            unkept: Vec::new(),
        };
        let active = std::mem::take(&mut account.status.active);
        let newest = active.len().saturating_sub(1);
        for (at, reference) in active.into_iter().enumerate() {
            account.look_at(snapshot, reference, at == newest);
        }
        let known = cron.status.active.iter();
        let known: HashSet<_> = known.map(|entry| (&*entry.kind, &*entry.name)).collect();
        for ((kind, name), child) in snapshot.children {
            if !known.contains(&(kind.kind(), &**name)) {
                account.look_at_stranger(*kind, name, child);
            }
        }
        account
    }

    fn look_at(&mut self, snapshot: &Snapshot<'_>, mut reference: RunReference, newest: bool) {
        let Some(kind) = kind_of(&reference) else {
            return;
        };
        let child = referred(snapshot.children, &reference);
        let uid: Option<Uid> = reference.uid.as_ref().and_then(|uid| uid.parse().ok());
        if uid.is_none() {
            // What somebody wrote there, and is no uid, makes it a promise again.
            reference.uid = None;
        }
        match (uid, child) {
            (None, Some(child)) => {
                self.keep(&reference.name, child);
                reference.uid = Some(child.uid.to_string());
                reference.resource_version = Some(child.rv.to_string());
                self.put(reference, child);
            }
            (None, None) => {
                self.unkept.push(reference.clone());
                self.status.active.push(reference);
            }
            (Some(uid), Some(child)) if child.uid == uid => self.put(reference, child),
            (Some(uid), _) if snapshot.gone.contains(&uid) => {
                // Of those that were replaced people were told already.
                if newest || self.cron.concurrency != ConcurrencyPolicy::Replace {
                    let message = format!("Active job went missing: {}", reference.name);
                    self.note(false, "MissingJob", "Syncing", message);
                }
            }
            (Some(uid), _) => {
                self.questions.push(Action::ConfirmGone {
                    kind,
                    name: reference.name.clone(),
                    uid: Some(uid),
                });
                self.status.active.push(reference);
            }
        }
    }

    /// A promise was kept: the run is recorded.
    fn keep(&mut self, name: &str, child: &Child) {
        let Some(tick) = self.cron.tick_of(name, child) else {
            let ran = &mut self.status.handled_run_now;
            let request = self.cron.request_of(name, child).map(str::to_owned);
            if let Some(request) = request.filter(|request| !ran.contains(request)) {
                ran.push(request);
                let more = ran.len().saturating_sub(MAX_RAN_NOW);
                ran.drain(..more);
            }
            return;
        };
        if tick > self.decided_until() {
            self.count_missed(tick, true);
        }
        // It was started, even if that came to light only after it was given up as missed.
        if Some(tick) > seconds(self.status.last_schedule_time.as_ref()) {
            self.status.last_schedule_time = Some(whole_seconds(tick));
        }
    }

    /// The child of a tick that is due was made by somebody else: by kube-controller-manager, which
    /// served this CronJob before us, or by hand.
    fn adopt(&mut self, run: &Run, child: &Child) {
        self.keep(&run.name, child);
        let uid = child.uid.to_string();
        let mut active = self.status.active.iter();
        if child.ended.is_none() && !active.any(|entry| entry.uid.as_ref() == Some(&uid)) {
            self.put_stranger(run.kind, &run.name, child);
        }
    }

    /// An active reference stays active until its child has ended.
    fn put(&mut self, reference: RunReference, child: &Child) {
        match child.ended {
            None => self.status.active.push(reference),
            Some(ended) => {
                let message = format!(
                    "Saw completed job: {}, condition: {}",
                    reference.name,
                    ended.condition()
                );
                self.note(false, "SawCompletedJob", "Syncing", message);
                self.has_ended(ended);
            }
        }
    }

    fn has_ended(&mut self, ended: Ended) {
        let last = match ended.succeeded() {
            true => &mut self.status.last_successful_time,
            false if self.cron.is_native() => return,
            false => &mut self.status.last_failure_time,
        };
        let known = last.as_ref().map(|time| time.0);
        if let Some(at) = ended.at.filter(|at| Some(*at) > known) {
            *last = Some(whole_seconds(at));
        }
    }

    /// A child that the status does not name.
    fn look_at_stranger(&mut self, kind: ChildKind, name: &str, child: &Child) {
        if let Some(ended) = child.ended {
            self.has_ended(ended);
        }
        if child.held && !self.is_recorded(name, child) {
            // Its promise was taken back while the creation was still under way.
            self.keep(name, child);
        }
        if child.ended.is_some() || child.deleting {
            return;
        }
        if child.held {
            self.put_stranger(kind, name, child);
        } else if self.cron.is_native() || !child.by_hand {
            let message = format!("Saw a job that the controller did not create or forgot: {name}");
            self.note(true, "UnexpectedJob", "Syncing", message);
        }
    }

    fn put_stranger(&mut self, kind: ChildKind, name: &str, child: &Child) {
        self.status.active.push(RunReference {
            uid: Some(child.uid.to_string()),
            resource_version: Some(child.rv.to_string()),
            ..self.cron.reference(kind, name)
        });
    }

    /// Whether the status says that this run was started, though it is not active.
    pub(super) fn is_recorded(&self, name: &str, child: &Child) -> bool {
        let status = &self.status;
        if let Some(tick) = self.cron.tick_of(name, child) {
            return Some(tick) <= seconds(status.last_schedule_time.as_ref());
        }
        let request = self.cron.request_of(name, child);
        request.is_none_or(|request| status.handled_run_now.iter().any(|known| known == request))
    }

    /// Up to when it is decided what became of each tick.
    pub(super) fn decided_until(&self) -> Timestamp {
        self.cron.decided_until(&self.status)
    }

    /// Counts the ticks that were not run until `tick`, which itself was (`ran`) or was not.
    fn count_missed(&mut self, tick: Timestamp, ran: bool) {
        let counts = !self.cron.is_native();
        let Some(schedule) = self.schedule.as_ref().filter(|_| counts) else {
            return;
        };
        let second = SignedDuration::from_secs(i64::from(ran));
        let until = tick.checked_sub(second).unwrap_or(tick);
        let missed = schedule.count(self.decided_until(), until, MOST_COUNTED);
        self.status.missed_runs = self.status.missed_runs.saturating_add(missed as i64);
        if !ran {
            self.status.last_missed_time = Some(whole_seconds(tick));
        }
    }

    /// Counts the ticks until `tick` as over without a run, and tells of it.
    pub(super) fn give_up(&mut self, tick: Timestamp) {
        let before = self.status.missed_runs;
        self.count_missed(tick, false);
        let missed = self.status.missed_runs - before;
        let message = match missed {
            1 => format!("Could not start the run of {tick} in time"),
            _ => format!("Could not start {missed} runs in time, the last one of {tick}"),
        };
        self.note(true, "MissSchedule", "Scheduling", message);
    }

    /// Notes that the schedule was edited. What the former one still owed is over then, and of the
    /// new one only times to come are run; native CronJobs have no place to note it.
    pub(super) fn put_in_force(&mut self, now: Timestamp) {
        let cron = self.cron;
        // Never noted, it is that of the generation the status was last written for, or the first.
        let unedited = || cron.meta.generation <= cron.status.observed_generation.unwrap_or(1);
        let since = match &self.status.schedule_in_force {
            _ if cron.is_native() => return,
            Some(known) if *known == cron.in_force(known.since.0) => return,
            None if unedited() => return,
            None => now,
            Some(_) => self.end_former(now),
        };
        self.schedule = cron.timetable.as_ref().ok().cloned();
        self.status.schedule_in_force = Some(cron.in_force(since.max(cron.meta.created)));
    }

    /// Gives up what a former schedule owed, and says since when the new one is in force: since now.
    ///
    /// When the edit was made is not known. If the last time is one of both it was due in any case,
    /// and is left to the new one.
    fn end_former(&mut self, now: Timestamp) -> Timestamp {
        let Some(former) = self.schedule.clone() else {
            return now;
        };
        let decided = self.decided_until();
        let last = former.latest(decided, now);
        let just_before = |tick: Timestamp| tick.checked_sub(SignedDuration::from_secs(1)).ok();
        let is_common = |before: &Timestamp| {
            let new = self.cron.timetable.as_ref();
            new.is_ok_and(|new| new.latest(*before, now) == last)
        };
        let common = last.and_then(just_before).filter(is_common);
        let since = common.unwrap_or(now);
        if let Some(over) = former.latest(decided, since) {
            self.give_up(over);
        }
        since
    }

    /// A tick whose child there is already, or that can have none.
    pub(super) fn pass_over(&mut self, snapshot: &Snapshot<'_>, run: &Run) {
        let key = (run.kind, run.name.as_str().into());
        if let Some(child) = snapshot.children.get(&key) {
            if self.cron.tick_of(&run.name, child) > Some(self.decided_until()) {
                return self.adopt(run, child);
            }
        } else if snapshot.conflicts.contains(&run.name) {
            self.tell_of_conflict(run);
        }
        self.count_missed(run.time, false);
    }

    pub(super) fn tell_of_conflict(&mut self, run: &Run) {
        let (kind, name) = (run.kind.kind(), &run.name);
        let message = format!(
            "{kind} {name} exists and belongs to somebody else, so that the run of {} is lost; \
             rename or delete that {kind}",
            run.time
        );
        self.note(true, reasons::NAME_CONFLICT, "Creating", message);
    }

    pub(super) fn note(
        &mut self,
        warning: bool,
        reason: &'static str,
        action: &'static str,
        message: String,
    ) {
        self.notes.push(Note {
            warning,
            reason,
            action,
            message,
            about: None,
        });
    }

    /// Uids of the children that are active.
    pub(super) fn active_uids(&self) -> BTreeSet<Uid> {
        let uids = self
            .status
            .active
            .iter()
            .filter_map(|entry| entry.uid.as_ref());
        uids.filter_map(|uid| uid.parse().ok()).collect()
    }
}

/// The schedule that is noted as the one in force; otherwise that of the spec.
fn in_force(cron: &CronJob) -> Option<Arc<Schedule>> {
    let noted = cron.status.schedule_in_force.as_ref();
    match noted.filter(|noted| **noted != cron.in_force(noted.since.0)) {
        Some(former) => {
            let zone = former.time_zone.as_deref();
            timetable(&former.schedule, zone, former.dst_policy).ok()
        }
        None => cron.timetable.as_ref().ok().cloned(),
    }
}

fn seconds(time: Option<&Time>) -> Option<Timestamp> {
    time.map(|time| time.0)
}
