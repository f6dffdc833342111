//! For which BroadcastJobs the change of a node makes a difference.

use carillon_plan::broadcast_job::BroadcastJob;
use carillon_plan::eligibility;
use carillon_plan::node::NodeRow;

use super::tables::CONTROLLER;
use crate::store::{Tables, Wake};

/// Wakes the open jobs for which the change of a node makes a difference.
pub(super) fn node_changed(
    tables: &Tables,
    name: &str,
    old: Option<&NodeRow>,
    new: Option<&NodeRow>,
    wakes: &mut Vec<Wake>,
) {
    let replaced = old.map(|node| node.uid) != new.map(|node| node.uid);
    let since = |node: Option<&NodeRow>| node.and_then(|node| node.not_ready_since);
    let readiness = since(old) != since(new);
    for job in tables
        .broadcast_jobs
        .iter()
        .filter(|job| job.is_unfinished())
    {
        let reason = |node: Option<&NodeRow>| {
            node.map(|node| eligibility::refusal(&job.placement, name, node).map(|r| r.reason()))
        };
        if replaced || reason(old) != reason(new) || readiness && runs_on(tables, job, name) {
            wakes.push(Wake::soon(CONTROLLER, job.meta.owner.clone()));
        }
    }
}

/// Whether a pod of the job has been bound to the node and has not ended.
fn runs_on(tables: &Tables, job: &BroadcastJob, node: &str) -> bool {
    let pods = tables.broadcast_jobs.pods(&job.meta.owner);
    let mut pods = pods.into_iter().flat_map(|pods| pods.values());
    pods.any(|pod| pod.node.as_deref() == Some(node) && !pod.phase.has_ended())
}
