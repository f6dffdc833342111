//! What becomes of the request and of the times that are due.

use std::collections::HashSet;

use carillon_api::cron_job::RunReference;
use jiff::Timestamp;

use super::account::Account;
use super::action::Run;
use super::due;
use super::promise::is_to;
use super::request::Asked;
use super::snapshot::Snapshot;

/// What there is to do about a CronJob, as the account of it stands.
#[derive(Debug, Default)]
pub(super) struct Decision {
    /// The runs there should be now: the one asked for, and the one of the time whose turn it is.
    pub(super) run: Vec<Run>,
    /// The run that was asked for, and can have no child.
    pub(super) lost: Option<Run>,
    /// Times before that of `run` that have their child already, or can have none; oldest first.
    pub(super) passed: Vec<Run>,
    /// The last time that is over without a run.
    pub(super) over: Option<Timestamp>,
    /// More than 100 times were missed.
    pub(super) many: bool,
    /// When to look again.
    pub(super) wake: Option<Timestamp>,
}

impl Decision {
    /// Decides at `now`; `blocked` says that nothing is run by schedule.
    pub(super) fn of(
        snapshot: &Snapshot<'_>,
        account: &Account<'_>,
        now: Timestamp,
        blocked: bool,
    ) -> Self {
        let view = View::of(snapshot, account);
        let mut decision = Self::default();
        view.request(&mut decision, now);
        if !blocked {
            view.times(&mut decision, now);
        }
        decision
    }

    /// Notes what was decided of the times that have no run, and of those that others have run.
    pub(super) fn note(&self, account: &mut Account<'_>, snapshot: &Snapshot<'_>) {
        if let Some(run) = &self.lost {
            account.tell_of_conflict(run);
        }
        if let Some(over) = self.over {
            account.give_up(over);
        }
        if self.many {
            let message = "too many missed start times. Set or decrease \
                           .spec.startingDeadlineSeconds or check clock skew";
            account.note(true, "TooManyMissedTimes", "Scheduling", message.to_owned());
        }
        for run in &self.passed {
            account.pass_over(snapshot, run);
        }
    }
}

/// What is known of the runs that were started or promised.
struct View<'a> {
    snapshot: &'a Snapshot<'a>,
    account: &'a Account<'a>,
    /// Names of runs that have their child.
    started: HashSet<(&'a str, &'a str)>,
    /// Promises of which it is not known whether they were kept.
    open: Vec<&'a RunReference>,
}

impl<'a> View<'a> {
    fn of(snapshot: &'a Snapshot<'a>, account: &'a Account<'a>) -> Self {
        let active = account.status.active.iter();
        let started = active.filter(|entry| entry.uid.is_some());
        let known = |name| snapshot.absent.contains(name) || snapshot.conflicts.contains(name);
        let open = account.unkept.iter().filter(|entry| !known(&entry.name));
        Self {
            snapshot,
            account,
            started: started.map(|entry| (&*entry.kind, &*entry.name)).collect(),
            open: open.collect(),
        }
    }

    /// The run that somebody has asked for.
    fn request(&self, decision: &mut Decision, now: Timestamp) {
        let Asked::Run(request) = self.snapshot.cron.asked() else {
            return;
        };
        let run = self.snapshot.cron.run_for(request, now);
        // It may have been started as another kind.
        let other =
            |entry: &&RunReference| entry.name == run.name && !is_to(entry, run.kind, &run.name);
        if self.snapshot.conflicts.contains(&run.name) {
            decision.lost = Some(run);
        } else if !self
            .account
            .status
            .handled_run_now
            .iter()
            .any(|ran| ran == request)
            && !self.is_taken(&run)
            && !self.open.iter().any(other)
        {
            decision.run.push(run);
        }
    }

    /// The times of the schedule.
    fn times(&self, decision: &mut Decision, now: Timestamp) {
        let cron = self.snapshot.cron;
        let Ok(schedule) = &cron.timetable else {
            return;
        };
        let (clock, decided) = (cron.clock(now), self.account.decided_until());
        // A clock that is wrong may be put right at any time.
        let from = if decided > now { clock } else { decided };
        let starts = |tick: Timestamp| tick.checked_add(cron.offset).ok();
        decision.wake = due::next(schedule, from, clock).and_then(starts);
        let due = due::due(cron, schedule, decided, clock);
        let mut possible = due.run.iter().map(|tick| cron.run_at(*tick));
        let first = possible.find(|run| !self.is_taken(run));
        // Until it is known what became of it nothing is decided: it may have been kept.
        let is_other = |entry: &&RunReference| {
            let mut first = first.iter();
            let is_first = first.any(|run| is_to(entry, run.kind, &run.name));
            !is_first && cron.minute_of(&entry.name).is_some()
        };
        if self.open.iter().any(is_other) {
            return;
        }
        // What is promised may be an earlier tick of its minute.
        let open = self.open.iter();
        let open = open.filter_map(|entry| cron.minute_of(&entry.name));
        let open = open.min().unwrap_or(Timestamp::MAX);
        decision.over = due.over.filter(|over| !cron.is_native() && *over < open);
        decision.many = due.many;
        // One after the other, so that everything before a recorded tick is decided.
        let before = |tick: &&Timestamp| first.as_ref().is_none_or(|first| **tick < first.time);
        let passed = due.run.iter().take_while(before);
        decision.passed = passed.map(|tick| cron.run_at(*tick)).collect();
        let over = |run: &Run| starts(run.time.checked_add(cron.deadline?).ok()?);
        let over = first.as_ref().and_then(over);
        decision.wake = decision.wake.into_iter().chain(over).min();
        decision.run.extend(first);
    }

    /// Whether a run has its child already, or never will.
    fn is_taken(&self, run: &Run) -> bool {
        let Snapshot {
            children,
            conflicts,
            ..
        } = self.snapshot;
        self.started.contains(&(run.kind.kind(), &*run.name))
            || children.contains_key(&(run.kind, run.name.as_str().into()))
            || conflicts.contains(&run.name)
    }
}
