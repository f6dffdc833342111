//! The status of an open job, computed from the same facts as its plan.

use std::collections::BTreeSet;

use carillon_api::condition::{reasons, results, types};
use carillon_api::{BroadcastJobStatus, Phase};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::decide::{End, Stage};
use super::family::{Kin, Turn};
use super::pause::Pause;
use super::progress::Progress;
use super::survey::{SAMPLE, Survey};
use super::{Job, Refused};
use crate::broadcast_job::action::Note;
use crate::condition::{self, whole_seconds};

/// What a status is computed from.
pub(super) struct Facts<'a> {
    pub(super) job: &'a Job,
    pub(super) progress: &'a Progress<'a>,
    pub(super) survey: &'a Survey<'a>,
    pub(super) kin: &'a Kin<'a>,
    pub(super) pause: &'a Pause,
    pub(super) stage: &'a Stage,
    pub(super) stalled: Option<(&'static str, String)>,
    pub(super) creation_problem: Option<&'a Refused>,
    /// Nothing is started, and this pod is on a node to serve and belongs to none of its attempts.
    pub(super) other_pod: Option<(&'a str, &'a str)>,
    /// It enters itself into the list of its family now, or asks what it has to know before.
    pub(super) is_about_to_begin: bool,
    pub(super) now: Timestamp,
}

/// A job that cannot be acted on keeps its counts: if its results were deleted, they are what says so.
fn kept(facts: &Facts<'_>, counted: usize, stored: i32) -> usize {
    let stored = usize::try_from(stored).unwrap_or(0);
    if facts.job.problems.is_empty() {
        counted
    } else {
        counted.max(stored)
    }
}

/// The next status, and the events that its changes are worth.
pub(super) fn next(facts: &Facts<'_>) -> (BroadcastJobStatus, Vec<Note>) {
    let old = &facts.job.status;
    let survey = facts.survey;
    // A job that fails or ends tries nothing again, also what was asked for too late.
    let (failed, retrying) = if facts.stage.cause().is_some() || facts.stage.ends() {
        (survey.failed + survey.retrying, 0)
    } else {
        (survey.failed, survey.retrying)
    };
    let succeeded = kept(facts, survey.succeeded, old.succeeded);
    let failed = kept(facts, failed, old.failed);
    let disrupted = kept(facts, facts.progress.interrupted, old.disrupted);
    let lost = facts.progress.lost().count();
    let (done, desired) = (succeeded + failed, facts.survey.desired);
    let mut status = BroadcastJobStatus {
        observed_generation: Some(facts.job.generation),
        conditions: old.conditions.clone(),
        phase: Some(phase(facts)),
        start_time: old.start_time.clone().or_else(|| started(facts)),
        completion_time: facts.stage.ends().then(|| ended_at(facts)),
        desired: desired as i32,
        active: facts.progress.running().count() as i32,
        succeeded: succeeded as i32,
        failed: failed as i32,
        disrupted: disrupted as i32,
        retrying: retrying as i32,
        lost: lost as i32,
        done: format!("{done}/{desired}"),
        refused: facts.survey.refused.clone(),
        paused_seconds: facts.pause.paused_seconds,
        acknowledged_failures: facts.pause.accepted as i32,
        resumed_by: facts.pause.resumed_by.clone(),
        retries: old.retries.clone(),
    };
    let counts = format!(
        "{succeeded} of {desired} nodes succeeded, {failed} failed{}{}{}",
        waiting_for_a_retry(retrying),
        lost_nodes(facts.progress),
        left_out(survey)
    );
    let mut set = |type_: &str, on: bool, reason: &str, message: &str| {
        let generation = facts.job.generation;
        condition::set(
            &mut status.conditions,
            type_,
            on,
            reason,
            message,
            generation,
            facts.now,
        );
    };
    let was = |type_| condition::find(&old.conditions, type_).is_some();

    match facts.pause.reason {
        Some(reason) => set(types::PAUSED, true, reason, &facts.pause.message(failed)),
        None if facts.pause.ends => set(types::PAUSED, false, unpaused(facts), ""),
        None => {
            if let Some(stored) = condition::find(&old.conditions, types::PAUSED) {
                set(types::PAUSED, false, &stored.reason, "");
            }
        }
    }
    if let Some(cause) = facts.stage.cause() {
        set(types::FAILURE_TARGET, true, &cause.reason, &cause.message);
    }
    let stalled = facts
        .stalled
        .as_ref()
        .filter(|_| matches!(facts.stage, Stage::Open));
    match stalled {
        Some((reason, message)) => set(types::STALLED, true, reason, message),
        None if was(types::STALLED) => set(types::STALLED, false, reasons::RESUMED, ""),
        None => {}
    }
    if let Stage::Ending(end) = facts.stage {
        let (type_, reason, message) = ended(end, survey, &counts);
        set(type_, true, reason, &message);
    }
    let (on, reason, message) = reconciling(facts, stalled.is_some(), &counts);
    set(types::RECONCILING, on, reason, &message);
    tell_of_request(facts, &mut status);
    (status, notes(facts, &counts))
}

/// Condition, reason and message with which the job ends.
fn ended<'a>(end: &'a End, survey: &Survey<'_>, counts: &str) -> (&'static str, &'a str, String) {
    match end {
        End::Complete if survey.is_settled => {
            let message = format!("nothing is left to be tried{}", left_out(survey));
            (types::COMPLETE, nothing_left(survey), message)
        }
        End::Complete if survey.desired == 0 => {
            let message = no_eligible_nodes(survey);
            (types::COMPLETE, reasons::NO_ELIGIBLE_NODES, message)
        }
        End::Complete => (types::COMPLETE, reasons::ALL_NODES_DONE, counts.to_owned()),
        End::Failed(cause) => {
            let message = format!("{}; {counts}", cause.message);
            (types::FAILED, &cause.reason, message)
        }
    }
}

/// Why a job is paused no more.
fn unpaused(facts: &Facts<'_>) -> &'static str {
    match facts.stage {
        Stage::Open => reasons::RESUMED,
        Stage::Deciding(_) | Stage::Stopping(_) => reasons::STOPPING,
        Stage::Ending(_) => reasons::FINISHED,
    }
}

/// The job starts now. One that waits for others of its family has not started yet, and one that enters
/// itself may find that another one was earlier. One that may begin and has nothing to start has started:
/// its time has to end it, too.
fn started(facts: &Facts<'_>) -> Option<Time> {
    let has_begun = match facts.kin.turn {
        Turn::Mine => true,
        Turn::Free => !facts.is_about_to_begin,
        Turn::After { .. } | Turn::Never { .. } => false,
    };
    let starts = has_begun || !matches!(facts.stage, Stage::Open);
    starts.then(|| whole_seconds(facts.now))
}

/// Says of a request that cannot be read what to write. A job that has ended is asked for nothing any more.
fn tell_of_request(facts: &Facts<'_>, status: &mut BroadcastJobStatus) {
    let unreadable = facts.job.policies.unreadable_retry.as_deref();
    let unreadable = unreadable.filter(|_| !facts.stage.ends());
    let conditions = &mut status.conditions;
    if unreadable.is_none() && condition::find(conditions, types::REQUEST_IGNORED).is_none() {
        return;
    }
    let reason = match unreadable {
        Some(_) => reasons::UNREADABLE_REQUEST,
        None => reasons::NOTHING_IGNORED,
    };
    condition::set(
        conditions,
        types::REQUEST_IGNORED,
        unreadable.is_some(),
        reason,
        unreadable.unwrap_or_default(),
        facts.job.generation,
        facts.now,
    );
}

/// When the job ends: now, but not before it started, whatever this machine's clock says.
fn ended_at(facts: &Facts<'_>) -> Time {
    let now = whole_seconds(facts.now);
    let start = facts.job.status.start_time.as_ref();
    start
        .filter(|start| start.0 > now.0)
        .cloned()
        .unwrap_or(now)
}

/// Adds the pods that were created between a status' computation and its writing.
pub fn settle(status: &mut BroadcastJobStatus, created: usize) {
    status.active += created as i32;
}

fn phase(facts: &Facts<'_>) -> Phase {
    match facts.stage {
        Stage::Ending(End::Complete) => Phase::Completed,
        Stage::Ending(End::Failed(_)) => Phase::Failed,
        Stage::Open if facts.pause.reason.is_some() => Phase::Paused,
        Stage::Open | Stage::Deciding(_) | Stage::Stopping(_) => Phase::Running,
    }
}

fn waiting_for_a_retry(count: usize) -> String {
    match count {
        0 => String::new(),
        count => format!(", {count} waiting for a retry"),
    }
}

/// `, 5 lost, among them node-a, node-b, node-c`
fn lost_nodes(progress: &Progress<'_>) -> String {
    match progress.lost().count() {
        0 => String::new(),
        count => format!(", {count} lost, among them {}", sample(progress)),
    }
}

/// The first nodes that are lost.
fn sample(progress: &Progress<'_>) -> String {
    let lost = progress.lost().take(SAMPLE);
    let names: Vec<&str> = lost.map(|seated| &*seated.record.node).collect();
    names.join(", ")
}

/// Why nothing is left to do for a retry.
fn nothing_left(survey: &Survey<'_>) -> &'static str {
    let mut refused = survey.refused.iter();
    if refused.any(|refused| refused.reason == results::ALREADY_TRIED) {
        reasons::ALREADY_TRIED
    } else {
        reasons::ALREADY_SUCCEEDED
    }
}

fn no_eligible_nodes(survey: &Survey<'_>) -> String {
    format!(
        "no node passes the checks of the template{}",
        left_out(survey)
    )
}

/// `; 2 left out: NodeUnschedulable 1, NodeTaintNotTolerated 1`
fn left_out(survey: &Survey<'_>) -> String {
    if survey.refused.is_empty() {
        return String::new();
    }
    let total: i32 = survey.refused.iter().map(|refused| refused.count).sum();
    let reasons: Vec<_> = survey
        .refused
        .iter()
        .map(|r| format!("{} {}", r.reason, r.count))
        .collect();
    format!("; {total} left out: {}", reasons.join(", "))
}

fn reconciling(facts: &Facts<'_>, stalled: bool, counts: &str) -> (bool, &'static str, String) {
    let (progress, survey) = (facts.progress, facts.survey);
    let lost = progress.lost().count();
    let alive = progress.running().count() > lost;
    let other_pod = facts.other_pod.filter(|_| !alive);
    let taken: BTreeSet<&str> = progress.taken.iter().map(|(_, pod, _)| *pod).collect();
    let running = progress.running();
    let taken_and_running = running
        .filter(|seated| taken.contains(&*seated.record.pod))
        .count();
    let others_run = progress.running().count() > lost + taken_and_running;
    let idle = !alive && progress.reserved().next().is_none() && survey.candidates.is_empty();
    let all = || counts.to_owned();
    match facts.stage {
        Stage::Ending(_) => return (false, reasons::FINISHED, String::new()),
        Stage::Deciding(_) | Stage::Stopping(_) => return (true, reasons::STOPPING, all()),
        Stage::Open => {}
    }
    if let Some(reason) = facts.pause.reason {
        return (true, reason, all());
    } else if stalled {
        return (false, reasons::STALLED, String::new());
    } else if let Turn::After { whom, .. } = &facts.kin.turn {
        return (true, reasons::WAITING_FOR_JOB, whom.clone());
    } else if let Some(problem) = facts.creation_problem {
        return (true, problem.reason, problem.message.clone());
    } else if survey.desired == 0 {
        return (true, reasons::NO_ELIGIBLE_NODES, no_eligible_nodes(survey));
    } else if let Some((node, pod)) = other_pod {
        let message = format!(
            "node {node} is served when pod {pod}, which belongs to none of its attempts, has ended or is gone; {counts}"
        );
        return (true, reasons::WAITING_FOR_OTHER_PODS, message);
    } else if let Some(pod) = progress.taken.first().filter(|_| !others_run) {
        let message = format!("{}; {counts}", taken_message(pod, progress.taken.len()));
        return (true, reasons::WAITING_FOR_TAKEN_PODS, message);
    } else if !idle {
        return (true, reasons::RUNNING, all());
    }
    if let Some((node, whose)) = survey.elsewhere_sample {
        let message = format!(
            "{} nodes wait for a pod of another job of the family to end, among them {node}: BroadcastJob {whose}; {counts}",
            survey.elsewhere
        );
        return (true, reasons::RUNS_ELSEWHERE, message);
    }
    if let Some((node, why)) = survey.held_up_sample {
        let waiting = survey.held_up;
        let (reason, what) = if survey.retrying == waiting {
            (reasons::WAITING_FOR_RETRIES, "failed")
        } else {
            (reasons::WAITING_FOR_INTERRUPTED_NODES, "interrupted")
        };
        let message = format!(
            "{waiting} {what} nodes wait for their next attempt, among them {node}: {why}; {counts}"
        );
        return (true, reason, message);
    }
    if lost > 0 {
        let message = format!("{}; {counts}", lost_message(facts));
        return (true, reasons::WAITING_FOR_LOST_NODES, message);
    }
    if facts.job.never_ends && progress.running().next().is_none() && survey.held_up == 0 {
        return (false, reasons::WAITING_FOR_NODES, all());
    }
    (true, reasons::RUNNING, all())
}

/// Which pod was taken from the job, and what follows.
fn taken_message((node, pod, why): &(&str, &str, &str), count: usize) -> String {
    let more = match count {
        1 => String::new(),
        count => format!(" and {} more pods", count - 1),
    };
    format!(
        "pod {pod} on node {node} was taken from the job: {why}; its result{more} is awaited, delete it to \
         give it up"
    )
}

fn lost_message(facts: &Facts<'_>) -> String {
    let count = facts.progress.lost().count();
    let timeout = facts.job.policies.node_lost_timeout;
    format!(
        "{count} pods run on nodes that have been gone or not ready for {} s; their outcome is \
         awaited, their places are free",
        timeout.as_secs()
    )
}

fn notes(facts: &Facts<'_>, counts: &str) -> Vec<Note> {
    let old = &facts.job.status.conditions;
    let was_true = |type_| condition::is_true(old, type_);
    let mut notes = Vec::new();
    let mut note = |warning, reason, action, message: &str| {
        notes.push(Note {
            warning,
            reason,
            action,
            message: message.to_owned(),
        });
    };
    match facts.pause.reason {
        Some(reason) if !was_true(types::PAUSED) => {
            note(
                reason == reasons::PAUSED_BY_FAILURE,
                reason,
                "Pausing",
                &facts.pause.message(facts.survey.failed),
            );
        }
        None if facts.pause.ends && matches!(facts.stage, Stage::Open) => {
            note(false, reasons::RESUMED, "Resuming", counts);
        }
        _ => {}
    }
    if let Some((reason, message)) = &facts.stalled
        && !was_true(types::STALLED)
        && !facts.stage.ends()
    {
        note(true, reason, "Stalling", message);
    }
    if let Some(cause) = facts.stage.cause()
        && !was_true(types::FAILURE_TARGET)
    {
        let known = [
            reasons::DEADLINE_EXCEEDED,
            reasons::POD_FAILURE_POLICY,
            reasons::NO_ELIGIBLE_NODES,
        ];
        let mut known = known.into_iter();
        let reason = known.find(|known| cause.reason == *known);
        let reason = reason.unwrap_or(reasons::NODE_FAILED);
        note(true, reason, "Stopping", &cause.message);
    }
    let lost = facts.progress.lost().count();
    let before = facts.job.status.lost.max(0) as usize;
    if lost > before {
        let names = sample(facts.progress);
        let message = format!("{}; among them {names}", lost_message(facts));
        note(true, results::NODE_LOST, "Waiting", &message);
    } else if lost < before {
        let message = format!("{lost} pods are still on lost nodes, {before} were before");
        note(false, "NodeLostEnded", "Waiting", &message);
    }
    match facts.stage {
        Stage::Ending(End::Complete) => note(false, "JobComplete", "Finishing", counts),
        Stage::Ending(End::Failed(_)) => note(true, "JobFailed", "Finishing", counts),
        _ => {}
    }
    notes
}
