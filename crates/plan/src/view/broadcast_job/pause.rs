//! What to write to pause a job, to let it go on, and when waiting for it is over.

use carillon_api::FailurePolicyType;
use carillon_api::condition::{reasons, types};
use carillon_api::names::ANNOTATION_RESUME;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::progress::{Standing, standing};
use crate::broadcast_job::BroadcastJob;
use crate::condition;

/// The merge patch that pauses a job; `None` when it is paused on request already. The error says
/// why it cannot be paused.
pub fn pause(job: &BroadcastJob) -> Result<Option<Value>, String> {
    must_be_open(job, "paused")?;
    Ok((!job.paused).then(|| json!({"spec": {"paused": true}})))
}

/// The merge patch that lets a job go on, whatever has paused it; `None` when nothing has. Failures
/// so far are accepted: only a further one pauses it again.
pub fn resume(job: &BroadcastJob, now: Timestamp) -> Result<Option<Value>, String> {
    must_be_open(job, "resumed")?;
    let status = &job.status;
    let by_failure = condition::find(&status.conditions, types::PAUSED)
        .is_some_and(|c| c.status == "True" && c.reason == reasons::PAUSED_BY_FAILURE);
    // Paused on request it does not say yet that it would be paused by these, too.
    let would_be =
        job.failure == FailurePolicyType::Pause && status.failed > status.acknowledged_failed_nodes;
    if !job.paused && !by_failure {
        return Ok(None);
    }
    let mut patch = json!({});
    if job.paused {
        patch["spec"] = json!({"paused": false});
    }
    if by_failure || would_be {
        patch["metadata"] = json!({"annotations": {ANNOTATION_RESUME: now.to_string()}});
    }
    Ok(Some(patch))
}

fn must_be_open(job: &BroadcastJob, what: &str) -> Result<(), String> {
    let (stands, condition) = standing(job);
    let name = &job.meta.owner.name;
    if job.meta.deleting {
        return Err(format!("{name} is being deleted and cannot be {what}"));
    }
    match condition {
        Some(condition) if stands.has_ended() => Err(format!(
            "{name} has ended ({stands:?}, {}) and cannot be {what}",
            condition.reason
        )),
        _ => Ok(()),
    }
}

/// How waiting for a job ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum End {
    /// It is Complete, or of a type that never ends and has served every node of now.
    Served,
    /// It is Failed.
    Failed,
    /// It goes on only after a person has changed something: it is Stalled, or paused by failures.
    NeedsHelp,
}

/// The end, once it has come. A pause on request is none: whoever paused the job resumes it.
pub fn end(job: &BroadcastJob) -> Option<End> {
    match standing(job) {
        (Standing::Complete, _) => Some(End::Served),
        (Standing::Failed, _) => Some(End::Failed),
        _ if !is_up_to_date(job) => None,
        (Standing::Waiting, Some(c)) if c.reason == reasons::WAITING_FOR_NODES => Some(End::Served),
        (Standing::Stalled, _) => Some(End::NeedsHelp),
        (Standing::Paused, Some(c)) if c.reason == reasons::PAUSED_BY_FAILURE => {
            Some(End::NeedsHelp)
        }
        _ => None,
    }
}

/// Whether the operator has acted on the spec as it is now, and on the last resume.
fn is_up_to_date(job: &BroadcastJob) -> bool {
    job.status.observed_generation == Some(job.meta.generation) && !job.asks_to_resume()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::broadcast_job::samples::{at, condition, job};

    fn with(spec: &Value, conditions: &Value, failed: i32) -> BroadcastJob {
        job(spec, &json!({"conditions": conditions, "failed": failed})).job
    }

    #[test]
    fn a_job_paused_by_failures_is_resumed_by_the_annotation() {
        let paused = json!([condition("Paused", "PausedByFailure", "")]);
        let job = with(&json!({"failurePolicy": {"type": "Pause"}}), &paused, 1);
        let expected =
            json!({"metadata": {"annotations": {"carillon.dev/resume": at(5).to_string()}}});
        assert_eq!(resume(&job, at(5)), Ok(Some(expected)));
    }

    #[test]
    fn a_job_paused_on_request_is_resumed_by_the_field_and_its_failures_are_accepted() {
        let paused = json!([condition("Paused", "PausedByUser", "")]);
        let job = with(&json!({"paused": true}), &paused, 1);
        let patch = resume(&job, at(5)).unwrap().unwrap();
        assert_eq!(patch, json!({"spec": {"paused": false}}));
        let spec = json!({"paused": true, "failurePolicy": {"type": "Pause"}});
        let patch = resume(&with(&spec, &paused, 1), at(5)).unwrap().unwrap();
        assert!(patch["metadata"]["annotations"]["carillon.dev/resume"].is_string());
        // Those that were accepted before need it no more.
        let mut accepted = with(&spec, &paused, 1);
        accepted.status.acknowledged_failed_nodes = 1;
        let patch = resume(&accepted, at(5)).unwrap().unwrap();
        assert_eq!(patch, json!({"spec": {"paused": false}}));
    }

    #[test]
    fn what_is_so_already_needs_no_patch() {
        let running = with(&json!({}), &json!([]), 0);
        assert_eq!(resume(&running, at(5)), Ok(None));
        assert!(pause(&running).unwrap().is_some());
        assert_eq!(
            pause(&with(&json!({"paused": true}), &json!([]), 0)),
            Ok(None)
        );
    }

    #[test]
    fn a_job_that_has_ended_can_be_neither_paused_nor_resumed() {
        let ended = with(
            &json!({}),
            &json!([condition("Failed", "MaxFailedNodesExceeded", "")]),
            1,
        );
        assert!(
            pause(&ended)
                .unwrap_err()
                .contains("MaxFailedNodesExceeded")
        );
        assert!(resume(&ended, at(5)).is_err());
    }

    fn with_condition(condition: &Value) -> BroadcastJob {
        let status = json!({"conditions": [condition], "observedGeneration": 0});
        job(&json!({}), &status).job
    }

    #[test]
    fn waiting_ends_with_the_job_or_when_every_node_of_now_is_served_or_when_a_person_is_needed() {
        let waiting = json!({"type": "Reconciling", "status": "False", "reason": "WaitingForNodes",
            "message": "", "lastTransitionTime": at(0).to_string()});
        for (condition, expected) in [
            (
                condition("Complete", "AllNodesSucceeded", ""),
                Some(End::Served),
            ),
            (
                condition("Failed", "MaxFailedNodesExceeded", ""),
                Some(End::Failed),
            ),
            (
                condition("Paused", "PausedByFailure", ""),
                Some(End::NeedsHelp),
            ),
            (
                condition("Stalled", "InvalidSpec", ""),
                Some(End::NeedsHelp),
            ),
            (condition("Paused", "PausedByUser", ""), None),
            (waiting, Some(End::Served)),
        ] {
            assert_eq!(end(&with_condition(&condition)), expected, "{condition}");
        }
    }

    #[test]
    fn what_the_operator_has_not_acted_on_yet_may_still_help() {
        let paused = with_condition(&condition("Paused", "PausedByFailure", ""));
        let resumed = BroadcastJob {
            resume: Some("now".to_owned()),
            ..paused.clone()
        };
        let mut taken_off = paused.clone();
        taken_off.status.last_handled_resume = Some("before".to_owned());
        assert_eq!(end(&taken_off), Some(End::NeedsHelp));
        let mut changed = paused;
        changed.meta.generation = 1;
        assert_eq!(end(&resumed), None);
        assert_eq!(end(&changed), None);
        let mut ended = with_condition(&condition("Complete", "AllNodesSucceeded", ""));
        ended.meta.generation = 1;
        assert_eq!(end(&ended), Some(End::Served));
    }
}
