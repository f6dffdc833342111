//! Where one node stands in a job: exactly one place for every node.

use carillon_api::condition::results;
use jiff::Timestamp;
use serde::Serialize;

use super::progress::{Standing, standing};
use crate::broadcast_job::{BroadcastJob, NodeStanding, last_that_ran, standing_after};
use crate::eligibility;
use crate::eligibility::Refusal;
use crate::node::NodeRow;
use crate::record::Record;

/// Where a node stands, in the order in which tables show it.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub enum Place {
    /// Its last attempt succeeded.
    Succeeded,
    /// It failed, and is not tried again by itself.
    Failed,
    /// Its pod exists, and its outcome is not known yet.
    Running,
    /// Its pod is about to be created.
    Starting,
    /// It is eligible and was not started yet.
    Waiting,
    /// Its last attempt failed, and it is tried again.
    Retrying,
    /// It was interrupted, and is tried again if the job is open.
    Interrupted,
    /// The job ended before anything ran there.
    NotStarted,
    /// It was interrupted, and its Node object has gone.
    Gone,
    /// It is left out: a check does not pass.
    Refused,
}

/// A node in a job.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Found {
    /// Where it stands.
    pub place: Place,
    /// Why, in one word; empty where the place says all.
    pub reason: String,
    /// When it may be tried again, if there is a time.
    pub due: Option<Timestamp>,
}

/// The attempt that decides what a node is told by: the last in which something ran, if there is one.
pub(super) fn decisive<'r>(attempts: &[&'r Record]) -> Option<&'r Record> {
    last_that_ran(attempts).or_else(|| attempts.last().copied())
}

/// Finds a node. `row` is `None` when its object is gone; `attempts` are those on this very node,
/// oldest first; `settled` is why its family leaves nothing to do there.
pub fn find(
    job: &BroadcastJob,
    name: &str,
    row: Option<&NodeRow>,
    attempts: &[&Record],
    settled: Option<&'static str>,
) -> Found {
    let refusal = row.and_then(|row| eligibility::refusal(&job.placement, name, row));
    let refused = refusal.map(|refusal| refusal.reason().to_owned());
    let ends = matches!(
        standing(job).0,
        Standing::Complete | Standing::Failed | Standing::Stopping
    );
    let found = |place, reason: &str| Found {
        place,
        reason: reason.to_owned(),
        due: None,
    };
    let decides = decisive(attempts);
    let known = standing_after(job, attempts, row.is_some()).zip(attempts.last());
    let of_decisive = |place| found(place, decides.map_or("", |record| &record.reason));
    let Some((stands, latest)) = known else {
        return match (refused, row) {
            (refused, Some(_))
                if let Some(reason) = settled
                    && refused.as_deref() != Some(Refusal::NotListed.reason()) =>
            {
                found(Place::Refused, reason)
            }
            (Some(reason), _) => found(Place::Refused, &reason),
            (None, None) => found(Place::Refused, results::NODE_NOT_FOUND),
            (None, Some(_)) if ends => found(Place::NotStarted, "JobEnded"),
            (None, Some(_)) => found(Place::Waiting, ""),
        };
    };
    let waits = |place, due| Found {
        due,
        ..found(place, refused.as_deref().unwrap_or(&latest.reason))
    };
    match stands {
        NodeStanding::Succeeded => found(Place::Succeeded, ""),
        NodeStanding::Failed => of_decisive(Place::Failed),
        NodeStanding::Skipped => found(Place::NotStarted, &latest.reason),
        NodeStanding::Started if latest.pod_uid.is_some() => found(Place::Running, ""),
        NodeStanding::Started => found(Place::Starting, ""),
        NodeStanding::Gone => found(Place::Gone, results::NODE_GONE),
        NodeStanding::Retry(_) if ends => of_decisive(Place::Failed),
        NodeStanding::Again(_) if ends => found(Place::Interrupted, &latest.reason),
        NodeStanding::Retry(due) => waits(Place::Retrying, due),
        NodeStanding::Again(due) => waits(Place::Interrupted, due),
    }
}

#[cfg(test)]
mod tests {
    use carillon_api::NodeState;

    use super::*;
    use crate::view::broadcast_job::samples::{at, condition, job, record};
    use serde_json::json;

    fn found(job: &BroadcastJob, latest: Option<&Record>, row: Option<&NodeRow>) -> String {
        let attempts: Vec<&Record> = latest.into_iter().collect();
        let Found { place, reason, due } = find(job, "n1", row, &attempts, None);
        let due = due.map(|due| format!(" in {}", due.duration_since(at(10)).as_secs()));
        format!("{place:?} {reason}{}", due.unwrap_or_default())
    }

    fn of(state: NodeState) -> Record {
        record("n1", 1, state)
    }

    #[test]
    fn a_node_that_was_started_stands_where_its_record_says_whatever_the_node_is_now() {
        let cordoned = NodeRow {
            unschedulable: true,
            ..NodeRow::default()
        };
        let open = job(&json!({}), &json!({})).job;
        let row = Some(&cordoned);
        let stands = |state| found(&open, Some(&of(state)), row);
        assert_eq!(stands(NodeState::Succeeded), "Succeeded ");
        assert_eq!(stands(NodeState::Failed), "Failed NonZeroExitCode");
        assert_eq!(stands(NodeState::Started), "Running ");
        assert_eq!(
            stands(NodeState::Disrupted),
            "Interrupted NodeUnschedulable"
        );
        assert_eq!(
            found(&open, Some(&of(NodeState::Disrupted)), None),
            "Gone NodeGone"
        );
        assert_eq!(found(&open, None, row), "Refused NodeUnschedulable");
        assert_eq!(found(&open, None, Some(&NodeRow::default())), "Waiting ");
    }

    #[test]
    fn policies_say_whether_a_node_is_tried_again() {
        let row = NodeRow::default();
        let with = |spec, state| found(&job(&spec, &json!({})).job, Some(&of(state)), Some(&row));
        assert_eq!(
            with(json!({"backoffLimitPerNode": 1}), NodeState::Failed),
            "Retrying NonZeroExitCode in 10"
        );
        let once = json!({"executionPolicy": "AtMostOnce"});
        assert!(with(once, NodeState::Disrupted).starts_with("Failed"));
        let only = json!({"nodeNames": ["n2"]});
        assert_eq!(
            found(&job(&only, &json!({})).job, None, Some(&row)),
            "Refused NodeNotListed"
        );
    }

    #[test]
    fn nothing_waits_in_a_job_that_has_ended() {
        let status = json!({"conditions": [condition("Failed", "MaxFailedNodesExceeded", "")]});
        let ended = job(&json!({"backoffLimitPerNode": 9}), &status).job;
        let row = NodeRow::default();
        assert_eq!(found(&ended, None, Some(&row)), "NotStarted JobEnded");
        let failed = of(NodeState::Failed);
        assert_eq!(
            found(&ended, Some(&failed), Some(&row)),
            "Failed NonZeroExitCode"
        );
    }
}
