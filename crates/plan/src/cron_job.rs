//! CronJob: a child at each tick of a schedule, exactly one.
//!
//! Why a run is promised first and its child held until it is recorded: decision 0015.

mod account;
pub mod action;
mod child;
mod conditions;
mod due;
mod history;
mod promise;
mod request;
mod spec;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use carillon_api::ConcurrencyPolicy;
use carillon_api::condition::{reasons, types};
use carillon_api::cron_job::RunReference;
use jiff::{SignedDuration, Timestamp};

use self::account::Account;
use self::action::{Action, Plan, Run, Step, Why};
pub use self::child::{Child, ChildKind, Children, Ended};
pub use self::due::{Due, IN_TIME, MOST_MADE_UP};
pub use self::request::Asked;
pub use self::spec::{Api, CronJob, CronJobMeta, Unusable};
use crate::condition::{self, Refusal, whole_seconds};
use crate::uid::Uid;

/// Reasons for which children are refused: asked about again until they are not.
pub const REFUSALS: [&str; 4] = [
    reasons::INVALID_TEMPLATE,
    reasons::QUOTA_EXCEEDED,
    reasons::JOB_FORBIDDEN,
    reasons::JOB_CREATION_FAILING,
];

/// Everything a plan is made from.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'a> {
    /// The CronJob.
    pub cron: &'a CronJob,
    /// The children it controls.
    pub children: &'a Children,
    /// Uids of children that were asked for and are gone.
    pub gone: &'a BTreeSet<Uid>,
    /// Names of promised children that were asked for and are not there.
    pub absent: &'a BTreeSet<String>,
    /// Names of promised children that are somebody else's.
    pub conflicts: &'a BTreeSet<String>,
    /// What the API server said of such children.
    pub template: &'a Template,
    /// What else is refused again and again.
    pub refusal: Option<&'a Refusal>,
}

/// What is known about whether the API server accepts such children.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Template {
    /// It was not asked, or the answer was for another generation.
    #[default]
    Unknown,
    /// It does.
    Accepted,
    /// It does not, for now.
    Refused(Refused),
}

/// A refusal of the API server.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Refused {
    /// Reason of the condition that reports it.
    pub reason: &'static str,
    /// Its words.
    pub message: String,
}

/// Clocks differ by less.
const SKEW: SignedDuration = SignedDuration::from_secs(60);

/// What should happen now.
pub fn plan(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let cron = snapshot.cron;
    if let Some(plan) = told_first(snapshot, now) {
        return plan;
    }
    let mut account = Account::of(snapshot);
    let mut plan = Plan::default();
    let mut starts = Starts::default();
    let mut history = Vec::new();
    if !cron.meta.deleting {
        starts = ahead(snapshot, &mut account, &mut plan, now);
        history = history::beyond_limits(&account, snapshot.children);
    }
    let released = released(snapshot, &account);
    if !cron.is_native() {
        account.status.running = account.status.active.len() as i32;
    }
    let status = match (account.status == cron.status, starts.created.is_empty()) {
        (false, _) => vec![Action::WriteStatus(Box::new(account.status))],
        // Only who sees the present may keep a promise.
        (true, false) => vec![Action::ConfirmCurrent],
        (true, true) => Vec::new(),
    };
    let steps = [
        Step::wanted(account.questions),
        Step::needed(status),
        Step::wanted(history),
        Step::needed(starts.replaced),
        Step::wanted(starts.created),
        Step::wanted(released),
    ];
    let steps = steps.into_iter().filter(|step| !step.actions.is_empty());
    plan.steps.extend(steps);
    plan.notes = account.notes;
    plan
}

/// What is refused may stand in the way of the rest of a plan, and so of its status. That of a native
/// CronJob has no conditions.
fn told_first(snapshot: &Snapshot<'_>, now: Timestamp) -> Option<Plan> {
    let (cron, refusal) = (snapshot.cron, snapshot.refusal?);
    if cron.meta.deleting || cron.is_native() {
        return None;
    }
    let mut status = cron.status.clone();
    let news = refusal.tell(&mut status.conditions, cron.meta.generation, now);
    let write = Action::WriteStatus(Box::new(status));
    news.then(|| Plan {
        steps: vec![Step::needed(vec![write])],
        again: true,
        ..Plan::default()
    })
}

/// What a plan starts, and what has to go first.
#[derive(Debug, Default)]
struct Starts {
    replaced: Vec<Action>,
    created: Vec<Action>,
}

/// The part of a plan that looks ahead: promises, creations, when to look again.
fn ahead(
    snapshot: &Snapshot<'_>,
    account: &mut Account<'_>,
    plan: &mut Plan,
    now: Timestamp,
) -> Starts {
    let cron = snapshot.cron;
    let clock = now.checked_sub(cron.offset).unwrap_or(now);
    let mut starts = Starts::default();
    let decided = account.decided_until();
    // What is due already is run, even if nothing comes after it.
    let obstacle = conditions::obstacle(cron, clock.min(decided));
    report(cron, account, obstacle.as_ref());
    let wanted = wanted(snapshot, account, plan, now, clock, obstacle.is_some());
    take_back(snapshot, account, &wanted);
    if let Some(question) = question(snapshot, &wanted, now) {
        account.questions.push(question);
    }
    let problem = match snapshot.template {
        Template::Refused(refused) => Some(refused),
        Template::Unknown | Template::Accepted => None,
    };
    if problem.is_none() {
        for run in wanted {
            start(snapshot, account, run, &mut starts);
        }
    }
    let asks = account
        .questions
        .iter()
        .any(|asked| matches!(asked, Action::TryChild(_)));
    // Without the answer nothing can be said yet.
    if !cron.is_native() && (problem.is_some() || !asks) {
        let next = match (&cron.timetable, cron.suspended) {
            (Ok(schedule), false) => due::next(schedule, account.decided_until(), clock),
            _ => None,
        };
        account.status.next_schedule_time = next.map(whole_seconds);
        account.status.observed_generation = Some(cron.meta.generation);
        let rests = Some(account.decided_until())
            .filter(|until| *until > cron.meta.created && until.duration_since(clock) > SKEW);
        let status = &mut account.status;
        let problem = problem.map(|refused| (refused.reason, &*refused.message));
        let problem = problem.or_else(|| snapshot.refusal.map(Refusal::stalled));
        conditions::set(cron, status, obstacle.as_ref(), problem, rests, now);
    }
    starts
}

/// The runs there should be now: the one asked for, and the one of the tick whose turn it is. Counts
/// the ticks that are over.
fn wanted(
    snapshot: &Snapshot<'_>,
    account: &mut Account<'_>,
    plan: &mut Plan,
    now: Timestamp,
    clock: Timestamp,
    blocked: bool,
) -> Vec<Run> {
    let cron = snapshot.cron;
    let mut runs = Vec::new();
    if let Asked::Run(request) = cron.asked() {
        let ran = account.status.ran_now.iter().any(|known| known == request);
        let run = cron.run_for(request, now);
        if snapshot.conflicts.contains(&run.name) {
            tell_of_conflict(account, &run);
        } else if !ran && !is_taken(snapshot, account, &run) {
            // It may have been started as another kind.
            let other = |entry: &&RunReference| {
                entry.name == run.name && !promise::is_to(entry, run.kind, &run.name)
            };
            if unsettled(snapshot, account).find(other).is_none() {
                runs.push(run);
            }
        }
    }
    let schedule = match &cron.timetable {
        Ok(schedule) if !blocked => schedule,
        _ => return runs,
    };
    let due = due::due(cron, schedule, account.decided_until(), clock);
    // A clock that is wrong may be put right at any time.
    let decided = account.decided_until().min(clock);
    let wake = due::next(schedule, decided, clock);
    plan.wake = wake.and_then(|at| at.checked_add(cron.offset).ok());
    let mut possible = due.run.iter().map(|tick| cron.run_at(*tick));
    let first = possible.find(|run| !is_taken(snapshot, account, run));
    if is_unsettled(snapshot, account, first.as_ref()) {
        return runs;
    }
    // What is promised may be an earlier tick of its minute.
    let minutes = unsettled(snapshot, account).filter_map(|entry| cron.minute_of(&entry.name));
    let open = minutes.min().unwrap_or(Timestamp::MAX);
    if let Some(over) = due.over.filter(|over| !cron.is_native() && *over < open) {
        let before = account.status.missed_runs;
        account.count_missed(over, false);
        let missed = account.status.missed_runs - before;
        let message = match missed {
            1 => format!("Could not start the run of {over} in time"),
            _ => format!("Could not start {missed} runs in time, the last one of {over}"),
        };
        account.note(true, "MissSchedule", "Scheduling", message);
    }
    if due.many {
        let message = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds \
                       or check clock skew";
        account.note(true, "TooManyMissedTimes", "Scheduling", message.to_owned());
    }
    // One after the other, so that everything before a recorded tick is decided.
    let before = |tick: &&Timestamp| first.as_ref().is_none_or(|first| **tick < first.time);
    for tick in due.run.iter().take_while(before) {
        pass_over(snapshot, account, &cron.run_at(*tick));
    }
    let Some(run) = first else { return runs };
    if let Some(deadline) = cron.deadline {
        let over = run.time.checked_add(deadline);
        let over = over.and_then(|at| at.checked_add(cron.offset)).ok();
        plan.wake = plan.wake.into_iter().chain(over).min();
    }
    runs.push(run);
    runs
}

/// Whether there is a promise for another tick than that of `first`, of which it is not known what
/// became of it. Until then nothing is decided: it may have been kept.
fn is_unsettled(snapshot: &Snapshot<'_>, account: &Account<'_>, first: Option<&Run>) -> bool {
    unsettled(snapshot, account).any(|entry| {
        let is_first = first.is_some_and(|run| promise::is_to(entry, run.kind, &run.name));
        !is_first && snapshot.cron.minute_of(&entry.name).is_some()
    })
}

/// Promises of which it is not known whether they were kept.
fn unsettled<'a>(
    snapshot: &Snapshot<'a>,
    account: &'a Account<'_>,
) -> impl Iterator<Item = &'a RunReference> {
    let Snapshot {
        absent, conflicts, ..
    } = *snapshot;
    let unkept = account.unkept.iter();
    unkept.filter(|entry| !absent.contains(&entry.name) && !conflicts.contains(&entry.name))
}

/// Whether the minute of a run has its child already, or never will.
fn is_taken(snapshot: &Snapshot<'_>, account: &Account<'_>, run: &Run) -> bool {
    let mut active = account.status.active.iter();
    let key = (run.kind, run.name.as_str().into());
    active.any(|entry| entry.uid.is_some() && promise::is_to(entry, run.kind, &run.name))
        || snapshot.children.contains_key(&key)
        || snapshot.conflicts.contains(&run.name)
}

/// A tick whose child there is already, or that can have none.
fn pass_over(snapshot: &Snapshot<'_>, account: &mut Account<'_>, run: &Run) {
    let cron = snapshot.cron;
    if let Some(child) = snapshot.children.get(&(run.kind, run.name.as_str().into())) {
        let tick = cron.tick_of(&run.name, child);
        if tick > Some(account.decided_until()) {
            account.adopt(run, child);
            return;
        }
    } else if snapshot.conflicts.contains(&run.name) {
        tell_of_conflict(account, run);
    }
    account.count_missed(run.time, false);
}

fn tell_of_conflict(account: &mut Account<'_>, run: &Run) {
    let (kind, name) = (run.kind.kind(), &run.name);
    let message = format!(
        "{kind} {name} exists and belongs to somebody else, so that the run of {} is lost; rename \
         or delete that {kind}",
        run.time
    );
    account.note(true, reasons::NAME_CONFLICT, "Creating", message);
}

/// Promises that are not to be kept any more, or cannot be, are taken back. Before a promise is
/// forgotten it must be certain that it was not kept.
fn take_back(snapshot: &Snapshot<'_>, account: &mut Account<'_>, wanted: &[Run]) {
    let refused = matches!(snapshot.template, Template::Refused(_));
    // Two that were promised when the policy was another would wait for each other for ever.
    let side_by_side = snapshot.cron.concurrency == ConcurrencyPolicy::Allow;
    for (at, entry) in account.unkept.clone().into_iter().enumerate() {
        let is_wanted = wanted
            .iter()
            .any(|run| promise::is_to(&entry, run.kind, &run.name));
        if is_wanted && !refused && (at == 0 || side_by_side) {
            continue;
        }
        if snapshot.absent.contains(&entry.name) || snapshot.conflicts.contains(&entry.name) {
            account.status.active.retain(|known| *known != entry);
        } else if let Some(kind) = promise::kind_of(&entry) {
            account.questions.push(Action::ConfirmGone {
                kind,
                name: entry.name,
                uid: None,
            });
        }
    }
}

/// Whether the API server has to be asked about the template: of every new generation, so that a
/// mistake is known long before the first run; and again and again while it refuses.
fn question(snapshot: &Snapshot<'_>, wanted: &[Run], now: Timestamp) -> Option<Action> {
    let cron = snapshot.cron;
    let status = &cron.status;
    let asks = match snapshot.template {
        Template::Accepted => false,
        Template::Refused(_) => true,
        Template::Unknown => {
            let new = status.observed_generation != Some(cron.meta.generation);
            let stalled = condition::find(&status.conditions, types::STALLED)
                .filter(|stalled| stalled.status == "True")
                .is_some_and(|stalled| REFUSALS.contains(&stalled.reason.as_str()));
            wanted.is_empty() && !cron.is_native() && (new || stalled)
        }
    };
    // A native CronJob is asked about when it has something to run.
    let run = wanted.first().cloned();
    let run = run.or_else(|| (!cron.is_native()).then(|| cron.run_at(now)));
    asks.then_some(run).flatten().map(Action::TryChild)
}

/// Promises a run, or keeps its promise, if it may start now.
fn start(snapshot: &Snapshot<'_>, account: &mut Account<'_>, run: Run, starts: &mut Starts) {
    if !make_room(snapshot, account, &run, starts) {
        return;
    }
    let mut active = account.status.active.iter();
    if !active.any(|entry| promise::is_to(entry, run.kind, &run.name)) {
        let promise = snapshot.cron.reference(run.kind, &run.name);
        account.status.active.push(promise);
    }
    starts.created.push(Action::CreateChild(run));
}

/// Whether a run may start beside the others; with Replace, these are stopped for it.
fn make_room(
    snapshot: &Snapshot<'_>,
    account: &mut Account<'_>,
    run: &Run,
    starts: &mut Starts,
) -> bool {
    let cron = snapshot.cron;
    let others: Vec<RunReference> = account
        .status
        .active
        .iter()
        .filter(|entry| !promise::is_to(entry, run.kind, &run.name))
        .cloned()
        .collect();
    if others.is_empty() || cron.concurrency == ConcurrencyPolicy::Allow {
        return true;
    }
    if cron.concurrency == ConcurrencyPolicy::Forbid {
        let message = "Not starting job because prior execution is running and concurrency policy \
                       is Forbid";
        account.note(false, "JobAlreadyActive", "Scheduling", message.to_owned());
        return false;
    }
    let mut stopped = Vec::new();
    for entry in others {
        let key = promise::kind_of(&entry).map(|kind| (kind, entry.name.as_str().into()));
        let Some((kind, name)) = key else { continue };
        match snapshot.children.get(&(kind, name)) {
            Some(child) if !child.deleting => {
                stopped.push(history::delete(kind, &entry.name, child, Why::Replaced));
            }
            Some(_) => {}
            // Promised, or asked for already: what it becomes is known soon.
            None => return false,
        }
    }
    starts.replaced.extend(stopped);
    true
}

/// Says each time why a CronJob cannot be scheduled; of a native one in upstream's words.
fn report(cron: &CronJob, account: &mut Account<'_>, obstacle: Option<&(&'static str, String)>) {
    let written = &cron.written;
    // Kubernetes reads an inline zone, but does not support it.
    if written.contains("TZ") && cron.is_native() {
        let message = format!(
            "CRON_TZ or TZ used in schedule {written:?} is not officially supported, see \
             https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
        );
        account.note(true, "UnsupportedSchedule", "Scheduling", message);
    }
    if let (true, Asked::Unreadable(message)) = (cron.is_native(), cron.asked()) {
        account.note(true, types::REQUEST_IGNORED, "Scheduling", message);
    }
    let Some((reason, message)) = obstacle else {
        return;
    };
    let zone = cron.zone.as_deref().unwrap_or_default();
    let (reason, message) = match (*reason, cron.is_native()) {
        (reasons::SUSPENDED, _) => return,
        (reasons::UNKNOWN_TIME_ZONE, true) => (
            reasons::UNKNOWN_TIME_ZONE,
            format!("invalid timeZone: {zone:?}: unknown time zone {zone}"),
        ),
        (reasons::INVALID_SCHEDULE, true) => (
            "UnparseableSchedule",
            format!("unparseable schedule: {written:?} : {message}"),
        ),
        (reasons::NEVER_FIRES, true) => (
            "InvalidSchedule",
            format!(
                "invalid schedule: {written} : time difference between two schedules is less than 1 second"
            ),
        ),
        (reason, _) => (reason, message.clone()),
    };
    account.note(true, reason, "Scheduling", message);
}

/// Lets go of the children whose run is recorded, by now or by the status that is written first.
fn released(snapshot: &Snapshot<'_>, account: &Account<'_>) -> Vec<Action> {
    let held = snapshot.children.iter().filter(|(_, child)| child.held);
    held.filter(|((kind, name), child)| {
        let mut entries = account.status.active.iter();
        match entries.find(|entry| promise::is_to(entry, *kind, name)) {
            Some(entry) => entry.uid.as_deref() == Some(child.uid.to_string().as_str()),
            None => snapshot.cron.meta.deleting || account.is_recorded(name, child),
        }
    })
    .map(|((kind, name), child)| Action::ReleaseChild {
        kind: *kind,
        name: name.to_string(),
        uid: child.uid,
    })
    .collect()
}
