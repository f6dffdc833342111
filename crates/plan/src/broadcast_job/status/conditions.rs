//! The conditions of an open job.

use carillon_api::BroadcastJobStatus;
use carillon_api::condition::{reasons, results, types};

use super::facts::Facts;
use super::words::{left_out, lost_message, taken_message};
use crate::broadcast_job::decide::{End, Stage};
use crate::broadcast_job::family::Turn;
use crate::broadcast_job::survey::Survey;
use crate::condition;

/// Sets them. `counts`: what a message says of all nodes.
pub(super) fn set(facts: &Facts<'_>, status: &mut BroadcastJobStatus, counts: &str) {
    let failed = usize::try_from(status.failed).unwrap_or(0);
    let mut set = |type_: &str, on: bool, reason: &str, message: &str| {
        let generation = facts.job.meta.generation;
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
    let old = &facts.job.status;
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
    let end = match facts.stage {
        Stage::Ending(end) => Some(ended(end, facts, failed, counts)),
        Stage::Open | Stage::Deciding(_) | Stage::Stopping(_) => None,
    };
    if let Some((type_, reason, message)) = &end {
        set(type_, true, reason, message);
    }
    let stalled = match &end {
        Some((types::FAILED, reason, message)) => Some((*reason, message.clone())),
        _ => needs_a_person(facts, failed),
    };
    match &stalled {
        Some((reason, message)) => set(types::STALLED, true, reason, message),
        None if was(types::STALLED) => set(types::STALLED, false, reasons::RESUMED, ""),
        None => {}
    }
    let (on, reason, message) = reconciling(facts, stalled.is_some(), counts);
    set(types::RECONCILING, on, reason, &message);
    tell_of_request(facts, status);
}

/// What a job that has not ended needs a person for. kstatus, and with it Flux and `helm --wait`, calls a job
/// failed that is Stalled.
fn needs_a_person<'f>(facts: &'f Facts<'_>, failed: usize) -> Option<(&'f str, String)> {
    let stalled = facts.stalled.as_ref();
    let told = match facts.stage {
        Stage::Open => stalled,
        // What it would be stalled for stops nothing, but what is refused does.
        Stage::Deciding(_) | Stage::Stopping(_) => {
            stalled.filter(|(reason, _)| *reason == reasons::WRITE_REFUSED)
        }
        Stage::Ending(_) => None,
    };
    if let Some((reason, message)) = told {
        return Some((reason, message.clone()));
    }
    let reason = facts.pause.reason?;
    (reason == reasons::PAUSED_BY_FAILURE).then(|| (reason, facts.pause.message(failed)))
}

/// Condition, reason and message with which the job ends.
fn ended<'a>(
    end: &'a End,
    facts: &Facts<'_>,
    failed: usize,
    counts: &str,
) -> (&'static str, &'a str, String) {
    let survey = facts.survey;
    match end {
        End::Complete if survey.is_settled => {
            let message = format!("nothing is left to be tried{}", left_out(survey));
            (types::COMPLETE, nothing_left(survey), message)
        }
        End::Complete if survey.desired == 0 => {
            let message = no_eligible_nodes(survey);
            (types::COMPLETE, reasons::NO_ELIGIBLE_NODES, message)
        }
        End::Complete => {
            let reason = match failed {
                0 => reasons::ALL_NODES_SUCCEEDED,
                _ => reasons::COMPLETED_WITH_FAILURES,
            };
            (types::COMPLETE, reason, counts.to_owned())
        }
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
        facts.job.meta.generation,
        facts.now,
    );
}

/// Why nothing is left to do for a retry.
fn nothing_left(survey: &Survey<'_>) -> &'static str {
    let mut reasons = survey.refused.reasons();
    if reasons.any(|reason| reason == results::ALREADY_TRIED) {
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

fn reconciling(facts: &Facts<'_>, stalled: bool, counts: &str) -> (bool, &'static str, String) {
    let (progress, survey) = (facts.progress, facts.survey);
    let lost = progress.lost().count();
    let alive = progress.active() > lost;
    let other_pod = facts.other_pod.filter(|_| !alive);
    let others_run = progress.active() > lost + progress.active_and_taken();
    let idle = !alive && progress.reserved().next().is_none() && survey.candidates.is_empty();
    let all = || counts.to_owned();
    match facts.stage {
        Stage::Ending(_) => return (false, reasons::FINISHED, String::new()),
        _ if stalled => return (false, reasons::STALLED, all()),
        Stage::Deciding(_) | Stage::Stopping(_) => return (true, reasons::STOPPING, all()),
        Stage::Open => {}
    }
    if let Some(reason) = facts.pause.reason {
        return (true, reason, all());
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
    waiting(facts, counts)
}

/// What the job waits for that has nothing under way.
fn waiting(facts: &Facts<'_>, counts: &str) -> (bool, &'static str, String) {
    let (progress, survey) = (facts.progress, facts.survey);
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
    if progress.lost().next().is_some() {
        let message = format!("{}; {counts}", lost_message(facts));
        return (true, reasons::WAITING_FOR_LOST_NODES, message);
    }
    if facts.job.never_ends && progress.active() == 0 && survey.held_up == 0 {
        return (false, reasons::WAITING_FOR_NODES, counts.to_owned());
    }
    (true, reasons::RUNNING, counts.to_owned())
}
