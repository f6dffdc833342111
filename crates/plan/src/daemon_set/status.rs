//! The numbers of a DaemonSet's status (upstream: `updateDaemonSetStatus`).

use carillon_api::DaemonSetStatus;
use jiff::{SignedDuration, Timestamp};

use super::lifecycle::is_available;
use super::on_nodes::OnNodes;
use super::rolling_update::is_updated;
use super::spec::DaemonSet;

/// Counts nodes. Of several pods on a node the first one decides; pods on nodes that are gone do not count. A node of a
/// DaemonSet of ours is available with any: the first one may have been told that it goes.
pub(super) fn count(
    set: &DaemonSet,
    on_nodes: &OnNodes<'_>,
    hash: &str,
    now: Timestamp,
) -> DaemonSetStatus {
    let mut status = DaemonSetStatus::default();
    let (mut available, mut updated) = (0, 0);
    for node in on_nodes.values().filter(|node| node.should.is_some()) {
        let first = node.pods.first();
        if !node.runs() {
            status.number_misscheduled += i32::from(first.is_some());
            continue;
        }
        status.desired_number_scheduled += 1;
        let Some((_, pod)) = first else { continue };
        status.current_number_scheduled += 1;
        status.number_ready += i32::from(pod.ready.is_some());
        let others = node.pods.iter().skip(1).filter(|_| !set.native);
        let mut pods = [pod].into_iter().chain(others.map(|(_, pod)| pod));
        available += i32::from(pods.any(|pod| is_available(set, pod, now)));
        updated += i32::from(is_updated(set, pod, hash));
    }
    let unavailable = status.desired_number_scheduled - available;
    let counted = |count: i32| Some(count).filter(|count| *count != 0);
    status.number_available = counted(available);
    status.number_unavailable = counted(unavailable);
    status.updated_number_scheduled = counted(updated);
    status
}

/// When the next pod that is ready will be available.
pub(super) fn next_available(
    set: &DaemonSet,
    on_nodes: &OnNodes<'_>,
    now: Timestamp,
) -> Option<Timestamp> {
    let enough = SignedDuration::from_secs(set.spec.min_ready_seconds.into());
    let pods = on_nodes.values().flat_map(|node| &node.pods);
    let due = pods.filter_map(|(_, pod)| pod.ready?.checked_add(enough).ok());
    due.filter(|due| *due > now).min()
}
