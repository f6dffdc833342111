//! The status of an open job, computed from the same facts as its plan.

use carillon_api::condition::{reasons, types};
use carillon_api::{BroadcastJobStatus, FailurePolicyType, NodeState, Phase};
use jiff::Timestamp;

use super::progress::Progress;
use super::survey::Survey;
use super::{Cause, Job, Refused};
use crate::action::Note;
use crate::condition::{self, whole_seconds};

/// How a job ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum End {
    Complete,
    Failed,
}

/// Whether the job is paused, and what follows from that for the status.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Pause {
    /// Why the job is paused, if it is.
    pub(super) reason: Option<&'static str>,
    /// Failures that no longer pause it.
    pub(super) acknowledged: usize,
    /// Resume annotation that was acted on.
    pub(super) resumed_by: Option<String>,
    /// Time it was paused, up to its last resumption.
    pub(super) paused_seconds: i64,
    /// It was paused until now.
    pub(super) ends: bool,
}

impl Pause {
    pub(super) fn decide(job: &Job, failed: usize, now: Timestamp) -> Self {
        let status = &job.status;
        let stored = condition::find(&status.conditions, types::PAUSED)
            .filter(|condition| condition.status == "True");
        let by_failure = stored.is_some_and(|c| c.reason == reasons::PAUSED_BY_FAILURE);
        let asked = job.resume.is_some() && job.resume != status.resumed_by;
        // Whoever sets spec.paused on a job that failures have paused has taken it over.
        let acknowledged = if asked || by_failure && job.paused {
            failed
        } else {
            status.acknowledged_failures as usize
        };
        let reason = if job.paused {
            Some(reasons::PAUSED_BY_USER)
        } else if job.failure == FailurePolicyType::Pause && failed > acknowledged {
            Some(reasons::PAUSED_BY_FAILURE)
        } else {
            None
        };
        let ended = stored.filter(|_| reason.is_none());
        let just_paused = ended.map_or(0, |condition| {
            now.duration_since(condition.last_transition_time.0)
                .as_secs()
                .max(0)
        });
        Self {
            reason,
            acknowledged,
            resumed_by: if asked {
                job.resume.clone()
            } else {
                status.resumed_by.clone()
            },
            paused_seconds: status.paused_seconds.saturating_add(just_paused),
            ends: ended.is_some(),
        }
    }
}

/// What a status is computed from.
pub(super) struct Facts<'a> {
    pub(super) job: &'a Job,
    pub(super) progress: &'a Progress<'a>,
    pub(super) survey: &'a Survey<'a>,
    pub(super) pause: &'a Pause,
    pub(super) cause: Option<&'a Cause>,
    pub(super) end: Option<End>,
    pub(super) stalled: Option<(&'static str, String)>,
    pub(super) creation_problem: Option<&'a Refused>,
    pub(super) now: Timestamp,
}

/// The next status, and the events that its changes are worth.
pub(super) fn next(facts: &Facts<'_>) -> (BroadcastJobStatus, Vec<Note>) {
    let old = &facts.job.status;
    // A job that cannot be acted on keeps its counts: if its results were deleted, they are what
    // says so.
    let count = |state, stored: i32| {
        let counted = facts.progress.count(state);
        let stored = usize::try_from(stored).unwrap_or(0);
        if facts.job.problems.is_empty() {
            counted
        } else {
            counted.max(stored)
        }
    };
    let (succeeded, failed) = (
        count(NodeState::Succeeded, old.succeeded),
        count(NodeState::Failed, old.failed),
    );
    let (done, desired) = (succeeded + failed, facts.survey.desired);
    let mut status = BroadcastJobStatus {
        observed_generation: Some(facts.job.generation),
        conditions: old.conditions.clone(),
        phase: Some(phase(facts)),
        start_time: old
            .start_time
            .clone()
            .or_else(|| Some(whole_seconds(facts.now))),
        completion_time: facts.end.map(|_| whole_seconds(facts.now)),
        desired: desired as i32,
        active: facts.progress.running.len() as i32,
        succeeded: succeeded as i32,
        failed: failed as i32,
        disrupted: facts.progress.interrupted as i32,
        done: format!("{done}/{desired}"),
        refused: facts.survey.refused.clone(),
        paused_seconds: facts.pause.paused_seconds,
        acknowledged_failures: facts.pause.acknowledged as i32,
        resumed_by: facts.pause.resumed_by.clone(),
    };
    let counts = format!(
        "{succeeded} of {desired} nodes succeeded, {failed} failed{}",
        left_out(facts.survey)
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
        Some(reason) => set(types::PAUSED, true, reason, pause_message(reason)),
        None if was(types::PAUSED) => set(types::PAUSED, false, reasons::RESUMED, ""),
        None => {}
    }
    if let Some(cause) = facts.cause {
        set(types::FAILURE_TARGET, true, &cause.reason, &cause.message);
    }
    let stalled = facts
        .stalled
        .as_ref()
        .filter(|_| facts.end.is_none() && facts.cause.is_none());
    match stalled {
        Some((reason, message)) => set(types::STALLED, true, reason, message),
        None if was(types::STALLED) => set(types::STALLED, false, reasons::RESUMED, ""),
        None => {}
    }
    match (facts.end, facts.cause) {
        (Some(End::Complete), _) => {
            set(types::COMPLETE, true, reasons::ALL_NODES_DONE, &counts);
        }
        (Some(End::Failed), Some(cause)) => {
            set(
                types::FAILED,
                true,
                &cause.reason,
                &format!("{}; {counts}", cause.message),
            );
        }
        _ => {}
    }
    let (on, reason, message) = reconciling(facts, stalled.is_some(), &counts);
    set(types::RECONCILING, on, reason, &message);
    let notes = notes(facts, &counts);
    (status, notes)
}

/// Adds the pods that were created between a status' computation and its writing.
pub fn settle(status: &mut BroadcastJobStatus, created: usize) {
    status.active += created as i32;
}

fn phase(facts: &Facts<'_>) -> Phase {
    match facts.end {
        Some(End::Complete) => Phase::Completed,
        Some(End::Failed) => Phase::Failed,
        None if facts.pause.reason.is_some() => Phase::Paused,
        None => Phase::Running,
    }
}

fn pause_message(reason: &str) -> &'static str {
    if reason == reasons::PAUSED_BY_USER {
        "spec.paused is true; set it to false to go on"
    } else {
        "a node failed and failurePolicy is Pause; set the annotation carillon.dev/resume to a new value to go on"
    }
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
    let busy = !facts.progress.running.is_empty() || !facts.progress.reserved.is_empty();
    if facts.end.is_some() {
        (false, reasons::FINISHED, String::new())
    } else if facts.cause.is_some() {
        (true, reasons::STOPPING, counts.to_owned())
    } else if let Some(reason) = facts.pause.reason {
        (true, reason, counts.to_owned())
    } else if stalled {
        (false, reasons::STALLED, String::new())
    } else if let Some(problem) = facts.creation_problem {
        (true, problem.reason, problem.message.clone())
    } else if facts.survey.desired == 0 {
        let message = format!(
            "no node passes the checks of the template{}",
            left_out(facts.survey)
        );
        (true, reasons::NO_ELIGIBLE_NODES, message)
    } else if let Some((node, why)) = facts.survey.held_up_sample
        && !busy
        && facts.survey.candidates.is_empty()
    {
        let waiting = facts.survey.held_up;
        let message = format!(
            "{waiting} interrupted nodes wait for their next attempt, among them {node}: {why}; {counts}"
        );
        (true, reasons::WAITING_FOR_INTERRUPTED_NODES, message)
    } else if !busy && facts.job.never_ends && facts.survey.candidates.is_empty() {
        (false, reasons::WAITING_FOR_NODES, counts.to_owned())
    } else {
        (true, reasons::RUNNING, counts.to_owned())
    }
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
                pause_message(reason),
            );
        }
        None if facts.pause.ends => note(false, reasons::RESUMED, "Resuming", counts),
        _ => {}
    }
    if let Some((reason, message)) = &facts.stalled
        && !was_true(types::STALLED)
        && facts.end.is_none()
    {
        note(true, reason, "Stalling", message);
    }
    if let Some(cause) = facts.cause
        && !was_true(types::FAILURE_TARGET)
    {
        let reason = if cause.reason == reasons::DEADLINE_EXCEEDED {
            reasons::DEADLINE_EXCEEDED
        } else {
            reasons::NODE_FAILED
        };
        note(true, reason, "Stopping", &cause.message);
    }
    match facts.end {
        Some(End::Complete) => note(false, "JobComplete", "Finishing", counts),
        Some(End::Failed) => note(true, "JobFailed", "Finishing", counts),
        None => {}
    }
    notes
}
