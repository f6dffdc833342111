//! What the records of a BroadcastJob tell of its nodes.

use carillon_api::NodeState;
use carillon_api::condition::results;
use carillon_plan::record::Record;
use carillon_plan::view::broadcast_job::ledger::Ledger;
use jiff::Timestamp;

use crate::report::{AtLimit, Node};

/// Limits of which it is told when they would be exceeded.
const LIMITS: [usize; 9] = [0, 1, 2, 5, 10, 20, 50, 100, 1000];

/// Each node that was served, in the order of their start.
pub(crate) fn nodes(ledger: &Ledger<'_>, begin: Timestamp) -> Vec<Node> {
    let seconds = |at: Option<Timestamp>| at.map(|at| at.duration_since(begin).as_secs());
    let mut nodes: Vec<Node> = ledger
        .nodes()
        .filter_map(|(name, _, records)| {
            let last = records.last()?;
            Some(Node {
                name: name.to_owned(),
                start_seconds: seconds(started(records)),
                end_seconds: seconds(last.finished),
                attempts: last.attempt,
                state: format!("{:?}", last.state),
                ran: records
                    .iter()
                    .filter_map(|one| Some((seconds(one.started)?, seconds(one.finished)?)))
                    .collect(),
            })
        })
        .collect();
    nodes.sort_by(|a, b| (a.start_seconds, &a.name).cmp(&(b.start_seconds, &b.name)));
    nodes
}

/// When each limit is exceeded, of those that are. `retries`: attempts of a node after its first; `created`: when
/// each pod was created.
pub(crate) fn at_limit(
    ledger: &Ledger<'_>,
    begin: Timestamp,
    retries: u32,
    created: &[i64],
) -> Vec<AtLimit> {
    let stopped = [results::STOPPED_BY_FAILURE, results::DEADLINE_EXCEEDED];
    let by_itself = |record: &&Record| {
        let for_good = record.attempt > retries || *record.reason == *results::FAILED_BY_RULE;
        record.state == NodeState::Failed && for_good && !stopped.contains(&&*record.reason)
    };
    let failed = ledger.latest().filter(by_itself);
    let mut failed: Vec<Timestamp> = failed.filter_map(|record| record.finished).collect();
    failed.sort_unstable();
    let limits = LIMITS.into_iter().filter_map(|limit| {
        let seconds = failed.get(limit)?.duration_since(begin).as_secs();
        Some(AtLimit {
            max_failed_nodes: limit,
            seconds,
            created_pods: created.iter().filter(|at| **at <= seconds).count(),
        })
    });
    limits.collect()
}

fn started(records: &[&Record]) -> Option<Timestamp> {
    records.iter().find_map(|record| record.started)
}
