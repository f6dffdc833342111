//! CronJob: a child at each tick of a schedule, exactly one.
//!
//! Why a run is promised first and its child held until it is recorded: decision 0015.

mod account;
pub mod action;
mod child;
pub(crate) mod columns;
mod conditions;
mod decision;
mod due;
mod history;
mod promise;
mod request;
mod snapshot;
mod spec;
mod starts;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use carillon_api::ConcurrencyPolicy;
use carillon_api::condition::{reasons, types};
use jiff::Timestamp;

use self::account::Account;
use self::action::{Action, Plan, Run, Step};
pub use self::child::{Child, ChildKind, Children, Ended, RunOutcome, referred};
use self::decision::Decision;
pub use self::due::{Due, IN_TIME, MOST_MADE_UP};
pub use self::request::Asked;
use self::snapshot::SKEW;
pub use self::snapshot::{REFUSALS, Refused, Snapshot, Template};
pub use self::spec::{Api, CronJob, Unusable};
use self::starts::Starts;
use crate::condition::{self, Refusal, whole_seconds};

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
        columns::fill(&mut account.status);
    }
    let news = condition::newly_ignored(&cron.status.conditions, &account.status.conditions);
    if let Some(message) = news.map(str::to_owned) {
        account.note(true, types::REQUEST_IGNORED, "Scheduling", message);
    }
    let changed = account.status != cron.status;
    if changed && !cron.is_native() {
        // Whatever was decided was decided by the schedule that is there since the creation.
        let since_creation = || cron.in_force(cron.meta.created);
        let in_force = &mut account.status.schedule_in_force;
        in_force.get_or_insert_with(since_creation);
    }
    let status = match (changed, starts.created.is_empty()) {
        (true, _) => vec![Action::WriteStatus(Box::new(account.status))],
        // Only who sees the present may keep a promise.
        (false, false) => vec![Action::ConfirmCurrent],
        (false, true) => Vec::new(),
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
    columns::fill(&mut status);
    let write = Action::WriteStatus(Box::new(status));
    news.then(|| Plan {
        steps: vec![Step::needed(vec![write])],
        again: true,
        ..Plan::default()
    })
}

/// The part of a plan that looks ahead: promises, creations, when to look again.
fn ahead(
    snapshot: &Snapshot<'_>,
    account: &mut Account<'_>,
    plan: &mut Plan,
    now: Timestamp,
) -> Starts {
    let cron = snapshot.cron;
    let clock = cron.clock(now);
    account.put_in_force(now);
    let obstacle = conditions::obstacle(cron, [account.decided_until(), clock]);
    report(cron, account, obstacle.as_ref());
    let decision = Decision::of(snapshot, account, now, obstacle.is_some());
    decision.note(account, snapshot);
    plan.wake = decision.wake;
    let wanted = decision.run;
    take_back(snapshot, account, &wanted);
    if let Some(question) = question(snapshot, &wanted, now) {
        account.questions.push(question);
    }
    let problem = match snapshot.template {
        Template::Refused(refused) => Some(refused),
        Template::Unknown | Template::Accepted => None,
    };
    let mut starts = Starts::default();
    if problem.is_none() {
        for run in wanted {
            starts.add(snapshot, account, run);
        }
    }
    let mut asked = account.questions.iter();
    let asks = asked.any(|asked| matches!(asked, Action::TryChild(_)));
    // Without the answer nothing can be said yet.
    if !cron.is_native() && (problem.is_some() || snapshot.refusal.is_some() || !asks) {
        let problem = problem.map(|refused| (refused.reason, &*refused.message));
        let problem = problem.or_else(|| snapshot.refusal.map(Refusal::stalled));
        outlook(account, obstacle.as_ref(), problem, clock, now);
    }
    starts
}

/// What the status says of what is to come.
fn outlook(
    account: &mut Account<'_>,
    obstacle: Option<&(&'static str, String)>,
    problem: Option<(&str, &str)>,
    clock: Timestamp,
    now: Timestamp,
) {
    let (cron, decided) = (account.cron, account.decided_until());
    let status = &mut account.status;
    let next = match (&cron.timetable, cron.suspended) {
        (Ok(schedule), false) => due::next(schedule, decided, clock),
        _ => None,
    };
    status.next_schedule_time = next.map(whole_seconds);
    status.observed_generation = Some(cron.meta.generation);
    // Later than `clock` it may be after an edit of the jitter.
    let rests = Some(decided)
        .filter(|until| *until > cron.meta.created && until.duration_since(now) > SKEW);
    conditions::set(cron, status, obstacle, problem, rests, now);
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
        } else if let Some(kind) = child::kind_of(&entry) {
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
    let active = account.status.active.iter().rev();
    let active = active.map(|entry| ((&*entry.kind, &*entry.name), entry.uid.as_deref()));
    let active: HashMap<_, _> = active.collect();
    let is_recorded =
        |kind: ChildKind, name: &str, child: &Child| match active.get(&(kind.kind(), name)) {
            Some(uid) => *uid == Some(child.uid.to_string().as_str()),
            None => snapshot.cron.meta.deleting || account.is_recorded(name, child),
        };
    let held = snapshot.children.iter().filter(|(_, child)| child.held);
    let recorded = held.filter(|((kind, name), child)| is_recorded(*kind, name, child));
    let release = recorded.map(|((kind, name), child)| Action::ReleaseChild {
        kind: *kind,
        name: name.to_string(),
        uid: child.uid,
    });
    release.collect()
}
