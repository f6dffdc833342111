//! What came out on the nodes of a job, identical outcomes folded.

use std::collections::BTreeMap;

use carillon_api::NodeState;
use carillon_api::condition::results;
use jiff::Timestamp;
use serde::Serialize;

use crate::printable::quoted;
use crate::record::Record;

/// Names of nodes that a folded outcome shows.
pub const SAMPLE: usize = 3;

/// Nodes whose last attempt ended in the same way.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// How many nodes.
    pub count: usize,
    /// What became of the attempt.
    pub state: NodeState,
    /// Why, for every state but Started and Succeeded.
    pub reason: String,
    /// Exit code of the first container that failed, or 0.
    pub exit_code: Option<i32>,
    /// Last words.
    pub message: String,
    /// The nodes, by name.
    pub nodes: Vec<String>,
}

impl Outcome {
    /// `Failed: exit 3, "no space left"`.
    pub fn sentence(&self) -> String {
        sentence(self.state, &self.reason, self.exit_code, &self.message)
    }
}

/// The outcomes, folded: failures first, then what is under way, then successes; the more
/// frequent first.
pub fn fold<'a>(records: impl IntoIterator<Item = &'a Record>) -> Vec<Outcome> {
    let mut folded: BTreeMap<_, Vec<&Record>> = BTreeMap::new();
    for record in records {
        let (reason, message) = (&*record.reason, &*record.message);
        let key = (rank(record.state), reason, record.exit_code, message);
        folded.entry(key).or_default().push(record);
    }
    let outcomes = folded.into_values().map(|alike| Outcome {
        count: alike.len(),
        state: alike[0].state,
        reason: alike[0].reason.to_string(),
        exit_code: alike[0].exit_code,
        message: alike[0].message.to_string(),
        nodes: alike.iter().map(|record| record.node.to_string()).collect(),
    });
    let mut outcomes: Vec<Outcome> = outcomes.collect();
    outcomes.sort_by_key(|outcome| (rank(outcome.state), std::cmp::Reverse(outcome.count)));
    outcomes
}

fn rank(state: NodeState) -> u8 {
    match state {
        NodeState::Failed => 0,
        NodeState::Unknown => 1,
        NodeState::Disrupted => 2,
        NodeState::Skipped => 3,
        NodeState::Started => 4,
        NodeState::Succeeded => 5,
    }
}

/// An outcome in words. A reason that only repeats the exit code is left out.
pub fn sentence(state: NodeState, reason: &str, exit_code: Option<i32>, message: &str) -> String {
    let exit_code = exit_code.filter(|_| state != NodeState::Succeeded);
    let exit = exit_code.map(|code| format!("exit {code}"));
    let repeats = exit.is_some() && reason == results::NON_ZERO_EXIT_CODE;
    let reason = (!reason.is_empty() && !repeats).then(|| reason.to_owned());
    let message = (!message.is_empty()).then(|| quoted(message));
    let parts: Vec<String> = [reason, exit, message].into_iter().flatten().collect();
    if parts.is_empty() {
        format!("{state:?}")
    } else {
        format!("{state:?}: {}", parts.join(", "))
    }
}

/// One attempt on one node.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Attempt {
    /// Node name.
    pub node_name: String,
    /// 1 for the first.
    pub attempt: u32,
    /// What became of it.
    pub state: NodeState,
    /// Why, for every state but Started and Succeeded.
    pub reason: String,
    /// Exit code of the first container that failed, or 0.
    pub exit_code: Option<i32>,
    /// Start of the first container.
    pub start_time: Option<Timestamp>,
    /// End of the last container.
    pub completion_time: Option<Timestamp>,
    /// From start to end; of one that runs, until now.
    pub seconds: Option<i64>,
    /// Pod name.
    pub pod_name: String,
    /// Last words.
    pub message: String,
}

impl Attempt {
    /// The attempt of a record.
    pub fn of(record: &Record, now: Timestamp) -> Self {
        let under_way = (record.state == NodeState::Started).then_some(now);
        let end = record.finished.or(under_way);
        let ran = record.started.zip(end);
        let took = ran.map(|(started, end)| end.duration_since(started));
        Self {
            node_name: record.node.to_string(),
            attempt: record.attempt,
            state: record.state,
            reason: record.reason.to_string(),
            exit_code: record.exit_code,
            start_time: record.started,
            completion_time: record.finished,
            seconds: took.map(|took| took.as_secs().max(0)),
            pod_name: record.pod.to_string(),
            message: record.message.to_string(),
        }
    }

    /// `Failed: exit 3, "no space left"`.
    pub fn sentence(&self) -> String {
        sentence(self.state, &self.reason, self.exit_code, &self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::broadcast_job::ledger::Ledger;
    use crate::view::broadcast_job::samples::{at, record, slice};

    #[test]
    fn identical_outcomes_are_folded_and_failures_come_first() {
        let full = |node: &str| Record {
            message: "no space left".into(),
            ..record(node, 1, NodeState::Failed)
        };
        let slices = slice(vec![
            record("n1", 1, NodeState::Succeeded),
            record("n2", 1, NodeState::Succeeded),
            record("n3", 1, NodeState::Succeeded),
            record("n4", 1, NodeState::Failed),
            full("n5"),
            full("n6"),
            record("n7", 1, NodeState::Started),
        ]);
        let ledger = Ledger::read(&slices);
        let lines = |records: Vec<&Record>| -> Vec<String> {
            fold(records)
                .iter()
                .map(|o| format!("{} {}", o.count, o.sentence()))
                .collect()
        };
        assert_eq!(
            lines(ledger.latest().collect()),
            [
                "2 Failed: exit 3, \"no space left\"",
                "1 Failed: exit 3",
                "1 Started",
                "3 Succeeded"
            ]
        );
    }

    #[test]
    fn only_the_last_attempt_on_a_node_counts() {
        let slices = slice(vec![
            record("n1", 1, NodeState::Disrupted),
            record("n1", 2, NodeState::Succeeded),
        ]);
        let folded = fold(Ledger::read(&slices).latest());
        assert_eq!(
            (folded.len(), folded[0].state, folded[0].count),
            (1, NodeState::Succeeded, 1)
        );
    }

    #[test]
    fn sentences_say_what_is_known_and_nothing_twice() {
        let cases = [
            (NodeState::Succeeded, "", Some(0), "", "Succeeded"),
            (
                NodeState::Failed,
                "OOMKilled",
                Some(137),
                "",
                "Failed: OOMKilled, exit 137",
            ),
            (
                NodeState::Failed,
                "NonZeroExitCode",
                None,
                "",
                "Failed: NonZeroExitCode",
            ),
            (
                NodeState::Disrupted,
                "PodDeleted",
                None,
                "",
                "Disrupted: PodDeleted",
            ),
        ];
        for (state, reason, exit, message, expected) in cases {
            assert_eq!(sentence(state, reason, exit, message), expected);
        }
    }

    #[test]
    fn an_attempt_under_way_lasts_until_now() {
        let running = Attempt::of(&record("n1", 1, NodeState::Started), at(25));
        assert_eq!((running.seconds, running.completion_time), (Some(25), None));
        let ended = Attempt::of(&record("n1", 1, NodeState::Succeeded), at(25));
        assert_eq!(ended.seconds, Some(10));
        let mut lost = record("n1", 1, NodeState::Unknown);
        lost.finished = None;
        assert_eq!(Attempt::of(&lost, at(25)).seconds, None);
    }
}
