//! What conditions and events say.

use carillon_api::BroadcastJobStatus;

use super::facts::Facts;
use crate::broadcast_job::progress::Progress;
use crate::broadcast_job::survey::Survey;
use crate::nodes_by_reason::SAMPLE;

/// How many nodes have come out how.
pub(super) fn counts(facts: &Facts<'_>, status: &BroadcastJobStatus) -> String {
    format!(
        "{} of {} nodes succeeded, {} failed{}{}{}",
        status.succeeded,
        status.desired,
        status.failed,
        waiting_for_a_retry(status.retrying),
        lost_nodes(facts.progress),
        left_out(facts.survey)
    )
}

fn waiting_for_a_retry(count: i32) -> String {
    match count {
        0 => String::new(),
        count => format!(", {count} waiting for a retry"),
    }
}

/// `, 5 lost, among them node-a, node-b, node-c`
fn lost_nodes(progress: &Progress<'_>) -> String {
    match progress.lost().count() {
        0 => String::new(),
        count => format!(", {count} lost, among them {}", sample(progress)),
    }
}

/// The first nodes that are lost.
pub(super) fn sample(progress: &Progress<'_>) -> String {
    let lost = progress.lost().take(SAMPLE);
    let names: Vec<&str> = lost.map(|seated| &*seated.record.node).collect();
    names.join(", ")
}

/// `; 2 left out: NodeUnschedulable 1, NodeTaintNotTolerated 1`
pub(super) fn left_out(survey: &Survey<'_>) -> String {
    let refused = survey.refused.told();
    if refused.is_empty() {
        return String::new();
    }
    let total: i32 = refused.iter().map(|refused| refused.count).sum();
    let reasons: Vec<_> = refused
        .iter()
        .map(|r| format!("{} {}", r.reason, r.count))
        .collect();
    format!("; {total} left out: {}", reasons.join(", "))
}

/// Which pod was taken from the job, and what follows.
pub(super) fn taken_message((node, pod, why): &(&str, &str, &str), count: usize) -> String {
    let more = match count {
        1 => String::new(),
        count => format!(" and {} more pods", count - 1),
    };
    format!(
        "pod {pod} on node {node} was taken from the job: {why}; its result{more} is awaited, delete it to \
         give it up"
    )
}

pub(super) fn lost_message(facts: &Facts<'_>) -> String {
    let count = facts.progress.lost().count();
    let policies = &facts.job.policies;
    format!(
        "{count} pods run on nodes that have been gone or not ready for {} s, or should have ended {} s ago; \
         their outcome is awaited, their places are free",
        policies.node_lost_timeout.as_secs(),
        policies.pod_termination_timeout.as_secs()
    )
}
