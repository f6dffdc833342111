//! Nodes that were sick before an update touched them: that they have no available pod is not its doing.

use jiff::Timestamp;

use super::on_nodes::OnNode;
use super::pod::DaemonPod;

/// Why a node is excused; `None`: it counts. One that became sick after its pod was replaced counts: the new pod may
/// be the cause. A cordon has no time, so that it excuses only a node that was not touched.
pub(super) fn excuse(
    node: &OnNode<'_>,
    is_new: impl Fn(&DaemonPod) -> bool,
) -> Option<&'static str> {
    let row = node.row?;
    let touched = node.pods.iter().filter_map(|(_, pod)| {
        if is_new(pod) {
            Some(pod.created)
        } else {
            pod.deletion
        }
    });
    let touched: Option<Timestamp> = touched.min();
    let was_before = |since: Timestamp| touched.is_none_or(|touched| since <= touched);
    if row.not_ready_since.is_some_and(was_before) {
        Some("NodeNotReady")
    } else if touched.is_some() {
        None
    } else if row.deleting {
        Some("NodeDeleting")
    } else {
        row.unschedulable.then_some("NodeCordoned")
    }
}
