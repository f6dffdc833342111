//! What kubectl's column STATUS shows. It follows from the rest of the status.

use carillon_api::{BroadcastJobStatus, Phase};

use crate::condition;

/// `completed`, `failed`, `stalled`, `paused` or `running`.
pub fn state(status: &BroadcastJobStatus) -> &'static str {
    match status.phase {
        Some(Phase::Completed) => "completed",
        Some(Phase::Failed) => "failed",
        _ if condition::is_stalled(&status.conditions) => "stalled",
        Some(Phase::Paused) => "paused",
        Some(Phase::Running) | None => "running",
    }
}

/// Sets `status.summary`: the state, and why a stalled job is stalled.
pub(super) fn fill(status: &mut BroadcastJobStatus) {
    status.summary = match state(status) {
        "stalled" => condition::stalled(&status.conditions).unwrap_or_default(),
        state => state.to_owned(),
    };
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn kubectl_shows_why_a_job_is_stalled_and_else_its_phase() {
        let cases = [
            ("running", json!([]), "running"),
            (
                "running",
                json!([["Reconciling", "True", "Running"]]),
                "running",
            ),
            (
                "running",
                json!([["Stalled", "True", "InvalidTemplate"]]),
                "Stalled: InvalidTemplate",
            ),
            (
                "running",
                json!([["Stalled", "False", "Resumed"]]),
                "running",
            ),
            ("paused", json!([]), "paused"),
            (
                "paused",
                json!([["Stalled", "True", "ResultsLost"]]),
                "Stalled: ResultsLost",
            ),
            (
                "completed",
                json!([["Complete", "True", "AllNodesSucceeded"]]),
                "completed",
            ),
            (
                "paused",
                json!([["Stalled", "True", "PausedByFailure"]]),
                "paused",
            ),
            // The interlock may refuse a plan for a job that has ended.
            (
                "failed",
                json!([["Stalled", "True", "InterlockTripped"]]),
                "failed",
            ),
        ];
        for (phase, conditions, expected) in cases {
            let condition = |of: &serde_json::Value| {
                json!({
                    "type": of[0], "status": of[1], "reason": of[2], "message": "",
                    "lastTransitionTime": "2027-01-01T00:00:00Z",
                })
            };
            let conditions: Vec<_> = conditions
                .as_array()
                .unwrap()
                .iter()
                .map(condition)
                .collect();
            let status = json!({"phase": phase, "conditions": conditions});
            let mut status: BroadcastJobStatus = serde_json::from_value(status).unwrap();
            fill(&mut status);
            assert_eq!(status.summary, expected, "{phase} {conditions:?}");
        }
    }
}
