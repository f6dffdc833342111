//! Where one node stands in a job: exactly one place for every node.

use carillon_api::NodeState;
use carillon_api::condition::results;
use serde::Serialize;

use super::progress::{Standing, standing};
use crate::broadcast_job::Job;
use crate::eligibility;
use crate::node::NodeRow;
use crate::record::Record;

/// Where a node stands, in the order in which tables show it.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub enum Place {
    /// Its last attempt succeeded.
    Succeeded,
    /// Its last attempt failed.
    Failed,
    /// Its pod exists, and its outcome is not known yet.
    Running,
    /// Its pod is about to be created.
    Starting,
    /// It is eligible and was not started yet.
    Waiting,
    /// It was interrupted, and is to be tried again.
    Interrupted,
    /// The job ended before anything ran there.
    NotStarted,
    /// It was interrupted, and its Node object has gone.
    Gone,
    /// It is left out: a check does not pass.
    Refused,
}

/// The place of a node with its reason; the reason is empty where the place says all.
///
/// `row` is `None` for a node whose object is gone, `latest` for one that was never started.
pub fn place(
    job: &Job,
    name: &str,
    row: Option<&NodeRow>,
    latest: Option<&Record>,
) -> (Place, String) {
    let refusal = row.and_then(|row| eligibility::refusal(&job.placement, name, row));
    let refused = refusal.map(|refusal| refusal.reason().to_owned());
    let ends = matches!(
        standing(job).0,
        Standing::Complete | Standing::Failed | Standing::Stopping
    );
    let Some(latest) = latest else {
        return match (refused, row) {
            (Some(reason), _) => (Place::Refused, reason),
            (None, None) => (Place::Gone, results::NODE_GONE.to_owned()),
            (None, Some(_)) if ends => (Place::NotStarted, "JobEnded".to_owned()),
            (None, Some(_)) => (Place::Waiting, String::new()),
        };
    };
    let reason = || latest.reason.to_string();
    match latest.state {
        NodeState::Succeeded => (Place::Succeeded, String::new()),
        NodeState::Failed => (Place::Failed, reason()),
        NodeState::Skipped => (Place::NotStarted, reason()),
        NodeState::Started if latest.pod_uid.is_some() => (Place::Running, String::new()),
        NodeState::Started => (Place::Starting, String::new()),
        NodeState::Disrupted | NodeState::Unknown => match (refused, row) {
            (_, None) => (Place::Gone, results::NODE_GONE.to_owned()),
            (Some(reason), _) if !ends => (Place::Interrupted, reason),
            _ => (Place::Interrupted, reason()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::samples::{condition, job, record};
    use serde_json::json;

    #[test]
    fn a_node_that_was_started_stands_where_its_record_says_whatever_the_node_is_now() {
        let cordoned = NodeRow {
            unschedulable: true,
            ..NodeRow::default()
        };
        let open = job(&json!({}), &json!({}));
        let stands = |latest: Option<&Record>, row: Option<&NodeRow>| {
            let (place, reason) = place(&open.job, "n1", row, latest);
            format!("{place:?} {reason}")
        };
        let of = |state| record("n1", 1, state);
        let row = Some(&cordoned);
        assert_eq!(stands(Some(&of(NodeState::Succeeded)), row), "Succeeded ");
        assert_eq!(
            stands(Some(&of(NodeState::Failed)), row),
            "Failed NonZeroExitCode"
        );
        assert_eq!(stands(Some(&of(NodeState::Started)), row), "Running ");
        let disrupted = of(NodeState::Disrupted);
        assert_eq!(
            stands(Some(&disrupted), row),
            "Interrupted NodeUnschedulable"
        );
        assert_eq!(stands(Some(&disrupted), None), "Gone NodeGone");
        assert_eq!(stands(None, row), "Refused NodeUnschedulable");
        assert_eq!(stands(None, Some(&NodeRow::default())), "Waiting ");
    }

    #[test]
    fn nothing_waits_in_a_job_that_has_ended() {
        let status = json!({"conditions": [condition("Failed", "NodeFailed", "")]});
        let ended = job(&json!({}), &status);
        let row = NodeRow::default();
        let found = place(&ended.job, "n1", Some(&row), None);
        assert_eq!(found, (Place::NotStarted, "JobEnded".to_owned()));
    }
}
