//! What happens next with a whole job, and what somebody can do about it.

use carillon_api::condition::reasons;

use super::family::Relative;
use super::place::Place;
use super::progress::{Standing, standing};
use super::retry::{choose_again, unfinished};
use crate::broadcast_job::BroadcastJob;
use crate::node::Nodes;
use crate::view::groups::Group;
use crate::view::remedy::MissingAccount;

/// In words, without a full stop.
pub(super) fn next(
    family: &[Relative],
    job: &BroadcastJob,
    nodes: &Nodes,
    groups: &[Group<Place>],
) -> String {
    let name = &job.meta.owner.name;
    let (stands, condition) = standing(job);
    let reason = condition.map_or("", |condition| &*condition.reason);
    let message = condition.map_or("", |condition| &*condition.message);
    match stands {
        Standing::NotStarted => {
            "an operator acts on it; if none does, see whether one runs".to_owned()
        }
        Standing::Running => running(groups),
        Standing::Waiting if reason == reasons::WAITING_FOR_NODES => {
            "nothing until a node joins or becomes eligible: every node of now is served".to_owned()
        }
        Standing::Waiting => waiting(reason),
        Standing::Paused if reason == reasons::PAUSED_BY_FAILURE => format!(
            "look at what failed (kubectl carillon results {name} --failed), and let it go on: kubectl carillon \
             resume {name}"
        ),
        Standing::Paused => {
            format!("it goes on when somebody lets it: kubectl carillon resume {name}")
        }
        Standing::Stalled => stalled(reason, message, name),
        Standing::Stopping => "it is Failed once the pods that run have ended".to_owned(),
        Standing::Complete | Standing::Failed => ended(family, job, nodes),
    }
}

fn waiting(reason: &str) -> String {
    let when = match reason {
        reasons::QUOTA_EXCEEDED => "when the quota of the namespace has room for its pods",
        reasons::POD_CREATION_FAILING => "when the API server accepts its pods again",
        reasons::WAITING_FOR_RETRIES => "when the nodes that have failed may be tried again",
        reasons::WAITING_FOR_INTERRUPTED_NODES => {
            "when the nodes whose pods were interrupted may be tried again, or are deleted"
        }
        reasons::WAITING_FOR_LOST_NODES => {
            "when the lost nodes are back, or their pods or Node objects are deleted"
        }
        reasons::WAITING_FOR_OTHER_PODS => {
            "when the pod that is in its way has ended or is deleted"
        }
        reasons::WAITING_FOR_TAKEN_PODS => {
            "when the pods that somebody has taken have ended or are deleted"
        }
        reasons::WAITING_FOR_JOB => "when the job that it waits for has ended",
        reasons::RUNS_ELSEWHERE => "when the pods of the other job have ended or are deleted",
        reasons::NO_ELIGIBLE_NODES => "when a node passes the checks",
        _ => return format!("it goes on by itself when what holds it back is over ({reason})"),
    };
    format!("it goes on by itself {when}")
}

fn running(groups: &[Group<Place>]) -> String {
    let number = |places: &[Place]| -> usize {
        let those = groups.iter().filter(|group| places.contains(&group.place));
        those.map(|group| group.count).sum()
    };
    let run = number(&[Place::Running, Place::Starting]);
    let wait = number(&[Place::Waiting, Place::Retrying, Place::Interrupted]);
    let verb = if run == 1 { "node runs" } else { "nodes run" };
    match wait {
        0 => format!("{run} {verb}, and none waits"),
        1 => format!("{run} {verb}, and 1 waits for its turn"),
        _ => format!("{run} {verb}, and {wait} wait for their turn"),
    }
}

fn stalled(reason: &str, message: &str, name: &str) -> String {
    match (MissingAccount::of(message), reason) {
        (Some(account), _) => format!("{}; it goes on within a minute then", account.command()),
        (None, reasons::INVALID_TEMPLATE) => {
            format!("a template cannot be changed: delete {name}, and create it with a correct one")
        }
        (None, reasons::POD_FORBIDDEN | reasons::WRITE_REFUSED) => {
            "change what forbids it, as the line above says; it goes on within a minute then"
                .to_owned()
        }
        (None, _) => "nothing until somebody changes what the line above says".to_owned(),
    }
}

/// What is left to do of a job that has ended, as far as no retry does it already.
fn ended(family: &[Relative], job: &BroadcastJob, nodes: &Nodes) -> String {
    let name = &job.meta.owner.name;
    let left = unfinished(family, job, nodes);
    if left.is_empty() {
        return "nothing: the job has ended, and no node is left".to_owned();
    }
    let failed = choose_again(family, name, None, Some(nodes));
    let failed = failed.unwrap_or_default();
    let not_started = left.iter().filter(|node| {
        let by_retry = || failed.tried.iter().any(|(tried, _)| tried == *node);
        !failed.nodes.contains(node) && !by_retry()
    });
    match (
        not_started.count(),
        failed.nodes.len(),
        failed.tried.first(),
    ) {
        (0, 0, Some((_, by))) => format!("what has failed is tried again by {by}"),
        (0, 0, None) => "nothing: the job has ended".to_owned(),
        (0, _, _) => {
            format!("to run what has failed again: kubectl carillon retry {name} --failed")
        }
        (1, ..) => format!(
            "1 node was not started; to run the job there and where it has failed: kubectl carillon retry {name} \
             --unfinished"
        ),
        (number, ..) => format!(
            "{number} nodes were not started; to run the job there and where it has failed: kubectl carillon retry \
             {name} --unfinished"
        ),
    }
}

#[cfg(test)]
mod tests {
    use carillon_api::NodeState;
    use serde_json::{Value, json};

    use super::*;
    use crate::node::NodeRow;
    use crate::record::Record;
    use crate::view::broadcast_job::explain;
    use crate::view::broadcast_job::samples::{condition, job, record, slice, uid};

    /// A job for the nodes n1 to n3.
    fn said(condition: &Value, records: Vec<Record>) -> String {
        let stored = job(
            &json!({}),
            &json!({"desired": 3, "conditions": [condition]}),
        );
        let family = [Relative::new(stored.clone(), slice(records).to_vec())];
        let row = |number| NodeRow {
            uid: uid(number),
            ..NodeRow::default()
        };
        let nodes: Nodes = (1..=3)
            .map(|n| (format!("n{n}").as_str().into(), row(n)))
            .collect();
        explain::job(&family, &stored.job, &nodes).next
    }

    #[test]
    fn what_a_job_waits_for_is_said_in_words_whatever_it_is() {
        for reason in [
            reasons::QUOTA_EXCEEDED,
            reasons::POD_CREATION_FAILING,
            reasons::WAITING_FOR_RETRIES,
            reasons::WAITING_FOR_INTERRUPTED_NODES,
            reasons::WAITING_FOR_LOST_NODES,
            reasons::WAITING_FOR_OTHER_PODS,
            reasons::WAITING_FOR_TAKEN_PODS,
            reasons::WAITING_FOR_JOB,
            reasons::RUNS_ELSEWHERE,
            reasons::NO_ELIGIBLE_NODES,
        ] {
            let said = waiting(reason);
            assert!(said.starts_with("it goes on by itself when "), "{said}");
            assert!(!said.contains(reason), "{said}");
        }
        assert!(waiting("SomethingLater").ends_with("is over (SomethingLater)"));
    }

    #[test]
    fn of_each_standing_it_is_said_what_comes_next() {
        let account = "pods \"fix-1\" is forbidden: error looking up service account ops/nobody: serviceaccount \
                       \"nobody\" not found";
        let failed = || vec![record("n1", 1, NodeState::Failed)];
        let all = |last| {
            let of = |node, state| record(node, 1, state);
            vec![
                of("n1", NodeState::Succeeded),
                of("n2", NodeState::Succeeded),
                of("n3", last),
            ]
        };
        let cases = [
            (
                condition("Reconciling", "Running", ""),
                vec![record("n1", 1, NodeState::Started)],
                "1 node runs, and 2 wait for their turn",
            ),
            (
                condition("Reconciling", "QuotaExceeded", "pods=10"),
                vec![],
                "it goes on by itself when the quota of the namespace has room for its pods",
            ),
            (
                condition("Paused", "PausedByFailure", ""),
                failed(),
                "look at what failed (kubectl carillon results fix --failed), and let it go on: kubectl carillon \
                 resume fix",
            ),
            (
                condition("Paused", "PausedByUser", ""),
                vec![],
                "it goes on when somebody lets it: kubectl carillon resume fix",
            ),
            (
                condition("Stalled", "PodForbidden", account),
                vec![],
                "kubectl -n ops create serviceaccount nobody; it goes on within a minute then",
            ),
            (
                condition("Stalled", "InvalidTemplate", "no such field"),
                vec![],
                "a template cannot be changed: delete fix, and create it with a correct one",
            ),
            (
                condition("Failed", "MaxFailedNodesExceeded", ""),
                failed(),
                "2 nodes were not started; to run the job there and where it has failed: kubectl carillon retry fix \
                 --unfinished",
            ),
            (
                condition("Complete", "CompletedWithFailures", ""),
                all(NodeState::Failed),
                "to run what has failed again: kubectl carillon retry fix --failed",
            ),
            (
                condition("Complete", "AllNodesSucceeded", ""),
                all(NodeState::Succeeded),
                "nothing: the job has ended, and no node is left",
            ),
        ];
        for (condition, records, expected) in cases {
            assert_eq!(said(&condition, records), expected);
        }
    }
}
