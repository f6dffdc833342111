//! What a pod means for its attempt.

use std::sync::Arc;

use carillon_api::NodeState;
use carillon_api::condition::results;
use carillon_api::node_result_slice::MAX_MESSAGE_BYTES;
use jiff::Timestamp;

use super::policies::Policies;
use super::snapshot::Snapshot;
use super::spec::BroadcastJob;
use crate::eligibility;
use crate::node::NodeRow;
use crate::pod::{self, PodPhase, PodRow, printable};
use crate::record::Record;

/// The node a record is about, if its object is there: a machine replaced under the same name is
/// another one.
pub(super) fn node_of<'a>(snapshot: &Snapshot<'a>, record: &Record) -> Option<&'a NodeRow> {
    snapshot
        .nodes
        .get(&record.node)
        .filter(|node| node.uid == record.node_uid)
}

/// The final record of an attempt; `None` while it is under way. `stopping` is the reason recorded
/// for pods that are stopped because the job is failing.
pub(super) fn judge(
    snapshot: &Snapshot<'_>,
    record: &Record,
    pod: &PodRow,
    stopping: Option<&'static str>,
    now: Timestamp,
) -> Option<Record> {
    let job = snapshot.job;
    if let Some(message) = wrong_node(record, pod) {
        let end = pod.end.as_deref();
        return Some(Record {
            state: NodeState::Failed,
            reason: results::WRONG_NODE.into(),
            pod_uid: Some(pod.uid),
            exit_code: end.and_then(|end| end.exit_code),
            started: pod.started,
            finished: end.and_then(|end| end.finished).or(Some(now)),
            message: message.into(),
            ..record.clone()
        });
    }
    if pod.phase.has_ended() {
        return Some(ended(snapshot, record, pod, stopping, now));
    }
    let end = pod.end.as_deref();
    let over = |state, reason: &str| Record {
        state,
        reason: reason.into(),
        pod_uid: Some(pod.uid),
        exit_code: end.and_then(|end| end.exit_code),
        started: pod.started,
        finished: Some(now),
        message: end.map(|end| end.message.clone()).unwrap_or_default(),
        ..record.clone()
    };
    pod.deletion?;
    // It was told to stop before it had started, and nothing that it does from now on counts.
    if let Some(reason) = given_up(record).filter(|_| !pod.has_started()) {
        return Some(Record {
            message: record.message.clone(),
            ..over(NodeState::Failed, reason)
        });
    }
    if pod.node.is_none() {
        // Deleted before it was bound: it never ran, and never will.
        return Some(if stopping.is_some() {
            over(NodeState::Skipped, results::NOT_STARTED)
        } else {
            over(NodeState::Disrupted, results::WITHDRAWN)
        });
    }
    given_up_at(&job.policies, pod)
        .is_some_and(|at| at <= now)
        .then(|| over(NodeState::Unknown, results::NODE_LOST))
}

/// Why what a pod does is not the work of its node, if so: something has changed where it runs. A pod is
/// bound once, so this stays true.
fn wrong_node(record: &Record, pod: &PodRow) -> Option<String> {
    match &pod.node {
        Some(node) if *node != record.node => Some(printable(&format!(
            "the pod is bound to node {node}: an admission webhook may have changed its affinity"
        ))),
        None if pod.phase == PodPhase::Succeeded => {
            Some("the pod has succeeded without being bound to a node".to_owned())
        }
        _ => None,
    }
}

/// When a pod that has not started is given up.
pub(super) fn start_due(job: &BroadcastJob, pod: &PodRow) -> Option<Timestamp> {
    let wait = job.policies.start_deadline?;
    if pod.deletion.is_some() || pod.has_started() {
        return None;
    }
    pod.created?.checked_add(wait).ok()
}

/// Why a pod that has not ended is being given up, as it is stored.
fn given_up(record: &Record) -> Option<&str> {
    let known = record.pod_uid.is_some() && !record.is_final();
    (known && !record.reason.is_empty()).then_some(&*record.reason)
}

/// Reason and message to store with an attempt under way: why its pod is to be stopped, if it has not
/// started in time. This is no verdict: the pod may have started meanwhile. Then the delete, which
/// names the version that was judged, is refused, and the next plan takes this back.
pub(super) fn gives_up(
    snapshot: &Snapshot<'_>,
    record: &Record,
    pod: &PodRow,
    stopping: Option<&'static str>,
    now: Timestamp,
) -> (Arc<str>, Box<str>) {
    let late = start_due(snapshot.job, pod).is_some_and(|due| due <= now);
    let stored = given_up(record).map(|_| (record.reason.clone(), record.message.clone()));
    if pod.deletion.is_some() || stopping.is_some() {
        return stored.unwrap_or_default();
    }
    if !late {
        return Default::default();
    }
    stored.unwrap_or_else(|| {
        let (reason, message) = pod
            .waiting
            .as_ref()
            .map(|waiting| (&*waiting.reason, &*waiting.message))
            .unwrap_or_default();
        let reason = if reason.is_empty() {
            results::POD_START_DEADLINE_EXCEEDED
        } else {
            reason
        };
        (reason.into(), message.into())
    })
}

fn ended(
    snapshot: &Snapshot<'_>,
    record: &Record,
    pod: &PodRow,
    stopping: Option<&'static str>,
    now: Timestamp,
) -> Record {
    let job = snapshot.job;
    let rules = &job.policies.failure_rules;
    let outcome = pod::outcome(pod, rules, job.restart_limit, stopping);
    let end = pod.end.as_deref().cloned().unwrap_or_default();
    let in_time = pod
        .started
        .zip(pod.deletion)
        .is_some_and(|(started, told)| started < told.asked());
    if let Some(reason) = given_up(record).filter(|_| pod::interrupted(pod) && !in_time) {
        return Record {
            state: NodeState::Failed,
            reason: reason.into(),
            exit_code: end.exit_code,
            started: pod.started,
            finished: end.finished.or(Some(now)),
            ..record.clone()
        };
    }
    // The kubelet's own word, such as OOMKilled, says more than that the exit code was not 0.
    let telling = !matches!(&*end.reason, "" | "Error" | "Completed");
    let reason = match outcome.reason {
        results::NON_ZERO_EXIT_CODE if telling => &*end.reason,
        results::POD_DELETED | results::POD_DISRUPTED if node_of(snapshot, record).is_none() => {
            results::NODE_GONE
        }
        reason => reason,
    };
    let succeeded = outcome.state == NodeState::Succeeded;
    let rule = outcome.rule.as_ref();
    let exit_code = rule.and_then(|rule| rule.exit_code).or(end.exit_code);
    Record {
        state: outcome.state,
        reason: reason.into(),
        pod_uid: Some(pod.uid),
        exit_code: if succeeded { Some(0) } else { exit_code },
        started: pod.started,
        finished: end.finished.or(Some(now)),
        message: match rule {
            Some(rule) => with_words(&rule.why, &end.message),
            None if succeeded => "".into(),
            None if pod.was_rejected() => {
                printable(&format!("{}: {}", end.reason, end.message)).into()
            }
            None => end.message,
        },
        ..record.clone()
    }
}

/// What a rule found, then as much of the last words as there is room for.
fn with_words(why: &str, words: &str) -> Box<str> {
    let why = printable(why);
    let room = MAX_MESSAGE_BYTES.saturating_sub(why.len() + "; ".len());
    let skipped = words
        .char_indices()
        .map(|(at, _)| at)
        .find(|at| words.len() - at <= room);
    match &words[skipped.unwrap_or(words.len())..] {
        "" => why.into(),
        words => format!("{why}; {words}").into(),
    }
}

/// When a pod counts as lost: its node has not been ready for so long, its Node object is gone for so long, or the
/// pod was to be dead so long before.
pub(super) fn lost_at(
    policies: &Policies,
    node: Option<&NodeRow>,
    gone: Option<Timestamp>,
    pod: &PodRow,
) -> Option<Timestamp> {
    let unbound = pod.node.is_none();
    let node = match node {
        _ if unbound => None,
        Some(node) => node.not_ready_since,
        None => gone,
    };
    let silent = node.and_then(|since| since.checked_add(policies.node_lost_timeout).ok());
    silent.into_iter().chain(given_up_at(policies, pod)).min()
}

/// When a pod that is being deleted should have been dead for so long that it is given up.
pub(super) fn given_up_at(policies: &Policies, pod: &PodRow) -> Option<Timestamp> {
    let due = pod.deletion?.due;
    due.checked_add(policies.pod_termination_timeout).ok()
}

/// Running pods that have to go: those over their restart limit, and those that wait for a node
/// that has become ineligible before they were bound to it. A pod that runs is left to finish.
pub(super) fn must_stop(snapshot: &Snapshot<'_>, record: &Record, pod: &PodRow) -> bool {
    if pod::over_limit(pod, snapshot.job.restart_limit) {
        return true;
    }
    pod.node.is_none()
        && node_of(snapshot, record).is_none_or(|node| {
            eligibility::refusal(&snapshot.job.placement, &record.node, node).is_some()
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_rule_found_is_kept_and_the_last_words_give_way() {
        assert_eq!(&*with_words("rule", "no disk"), "rule; no disk");
        assert_eq!(&*with_words("rule", ""), "rule");
        let long = with_words("rule", &format!("{}the end", "ü".repeat(600)));
        assert!(long.len() <= MAX_MESSAGE_BYTES, "{}", long.len());
        assert!(long.starts_with("rule; ü") && long.ends_with("the end"));
    }
}
