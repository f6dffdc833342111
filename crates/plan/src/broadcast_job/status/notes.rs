//! The events that a change of status is worth.

use carillon_api::condition::{reasons, results, types};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::facts::Facts;
use super::words::{lost_message, sample};
use crate::broadcast_job::action::Note;
use crate::broadcast_job::cause::Cause;
use crate::broadcast_job::decide::{End, Stage};
use crate::condition;

/// Those of the next status, which has the conditions `new`. `counts`: what a message says of all nodes.
pub(super) fn of(facts: &Facts<'_>, new: &[Condition], counts: &str) -> Vec<Note> {
    let old = &facts.job.status.conditions;
    let was_true = |type_| condition::is_true(old, type_);
    let mut notes = Vec::new();
    let mut note = |warning, reason, action, message: &str| {
        notes.push(Note {
            warning,
            reason,
            action,
            message: message.to_owned(),
            about: None,
        });
    };
    match facts.pause.reason {
        Some(reason) if !was_true(types::PAUSED) => {
            note(
                reason == reasons::PAUSED_BY_FAILURE,
                reason,
                "Pausing",
                &facts.pause.message(facts.survey.failed.len()),
            );
        }
        None if facts.pause.ends && matches!(facts.stage, Stage::Open) => {
            note(false, reasons::RESUMED, "Resuming", counts);
        }
        _ => {}
    }
    if let Some((reason, message)) = &facts.stalled
        && !condition::is_stalled(old)
        && matches!(facts.stage, Stage::Open)
    {
        note(true, reason, "Stalling", message);
    }
    if let Some(message) = condition::newly_ignored(old, new) {
        note(true, types::REQUEST_IGNORED, "Retrying", message);
    }
    if let Some(cause) = facts.stage.cause()
        && !was_true(types::FAILURE_TARGET)
    {
        note(true, reason_of(cause), "Stopping", &cause.message);
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

/// The reason of the event that tells of a cause.
fn reason_of(cause: &Cause) -> &'static str {
    let known = [
        reasons::DEADLINE_EXCEEDED,
        reasons::POD_FAILURE_POLICY,
        reasons::NO_ELIGIBLE_NODES,
    ];
    let mut known = known.into_iter();
    let reason = known.find(|known| cause.reason == *known);
    reason.unwrap_or(reasons::MAX_FAILED_NODES_EXCEEDED)
}
