//! The numbers of a DaemonSet's status (upstream: `updateDaemonSetStatus`).

use carillon_api::DaemonSetStatus;
use jiff::{SignedDuration, Timestamp};

use super::lifecycle::is_available;
use super::on_nodes::OnNodes;
use super::rolling_update::is_updated;
use super::snapshot::Snapshot;
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
    // For kubectl's table, which would show nothing; of native ones the API server shows 0.
    status.number_available = Some(available).filter(|count| *count != 0 || !set.native);
    status.number_unavailable = counted(unavailable);
    status.updated_number_scheduled = counted(updated);
    status
}

/// So long are numbers gathered before they are told again, while others will follow.
const GATHER: SignedDuration = SignedDuration::from_millis(500);

/// Whether every node has its available pod of the current template: no other numbers follow by themselves.
pub fn is_settled(status: &DaemonSetStatus) -> bool {
    let desired = status.desired_number_scheduled;
    let all = |count: Option<i32>| count.unwrap_or(0) == desired;
    status.current_number_scheduled == desired
        && all(status.updated_number_scheduled)
        && all(status.number_available)
}

/// Until when a status waits that says nothing new but numbers, and what comes with them.
pub(super) fn gathers_until(
    snapshot: &Snapshot<'_>,
    new: &DaemonSetStatus,
    now: Timestamp,
) -> Option<Timestamp> {
    let told_at = snapshot.told_at.filter(|told_at| *told_at <= now)?;
    let due = told_at.checked_add(GATHER).ok()?;
    let news = is_settled(new) || !says_the_same(&snapshot.set.status, new);
    (!news && now < due).then_some(due)
}

fn says_the_same(old: &DaemonSetStatus, new: &DaemonSetStatus) -> bool {
    fn conditions(status: &DaemonSetStatus) -> impl Iterator<Item = (&str, &str)> {
        let conditions = status.conditions.iter();
        conditions.map(|condition| (&*condition.type_, &*condition.status))
    }
    old.observed_generation == new.observed_generation
        && old.collision_count == new.collision_count
        && old.update_revision == new.update_revision
        && conditions(old).eq(conditions(new))
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
