//! The status of an open job, computed from the same facts as its plan.

mod conditions;
mod facts;
mod notes;
mod words;

use carillon_api::{BroadcastJobStatus, Phase};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

pub(super) use self::facts::Facts;
use super::decide::{End, Stage};
use super::family::Turn;
use crate::broadcast_job::action::Note;
use crate::condition::whole_seconds;

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
        (survey.failed.len() + survey.retrying, 0)
    } else {
        (survey.failed.len(), survey.retrying)
    };
    let succeeded = kept(facts, survey.succeeded, old.succeeded);
    let failed = kept(facts, failed, old.failed);
    let disrupted = kept(facts, facts.progress.interrupted, old.disrupted);
    let lost = facts.progress.lost().count();
    let (done, desired) = (succeeded + failed, facts.survey.desired);
    let mut status = BroadcastJobStatus {
        observed_generation: Some(facts.job.meta.generation),
        conditions: old.conditions.clone(),
        phase: Some(phase(facts)),
        start_time: old.start_time.clone().or_else(|| started(facts)),
        completion_time: facts.stage.ends().then(|| ended_at(facts)),
        desired: desired as i32,
        active: facts.progress.active() as i32,
        succeeded: succeeded as i32,
        failed: failed as i32,
        disrupted: disrupted as i32,
        retrying: retrying as i32,
        lost: lost as i32,
        done: format!("{done}/{desired}"),
        refused: facts.survey.refused.told(),
        paused_seconds: facts.pause.paused_seconds,
        acknowledged_failed_nodes: facts.pause.accepted as i32,
        last_handled_resume: facts.pause.last_handled_resume.clone(),
        retries: old.retries.clone(),
        summary: String::new(),
    };
    let counts = words::counts(facts, &status);
    conditions::set(facts, &mut status, &counts);
    let notes = notes::of(facts, &status.conditions, &counts);
    (status, notes)
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
