//! Nodes that were sick before an update touched them: that they have no available pod is not its doing.

use jiff::Timestamp;

use super::lifecycle::told;
use super::on_nodes::{OnNode, OnNodes};
use super::pod::DaemonPod;
use super::rolling_update::is_updated;
use super::spec::DaemonSet;

/// Notes which nodes are excused. `since`: when the current revision was stored.
///
/// A node that has its old pod was not touched, nor made sick by it if it was not ready before that pod was deleted, or
/// was told that it goes. One that has none, or the new one, may have become sick by that: it is excused only if it was
/// not ready before there was the revision. Native DaemonSets keep upstream's arithmetic.
pub(super) fn note(
    set: &DaemonSet,
    on_nodes: &mut OnNodes<'_>,
    (hash, since): (&str, Option<Timestamp>),
) {
    if set.native {
        return;
    }
    for node in on_nodes.values_mut() {
        node.excuse = excuse(set, node, (hash, since));
    }
}

fn excuse(
    set: &DaemonSet,
    node: &OnNode<'_>,
    (hash, since): (&str, Option<Timestamp>),
) -> Option<&'static str> {
    let row = node.row?;
    let is_old = |pod| !is_updated(set, pod, hash);
    let only_old = !node.pods.is_empty() && node.pods.iter().all(|(_, pod)| is_old(pod));
    // What a hook does to the node, such as a cordon, is our doing.
    let touched = |pod: &DaemonPod| pod.deletion.or_else(|| told(set, pod));
    let untouched = only_old && node.pods.iter().all(|(_, pod)| touched(pod).is_none());
    // On a node that is dead a pod that was told to stop never does.
    let before = |sick: Timestamp| {
        let mut touched = node.pods.iter().filter_map(|(_, pod)| touched(pod));
        let by_its_pods = only_old && touched.all(|touched| sick <= touched);
        by_its_pods || since.is_none_or(|since| sick <= since)
    };
    if row.not_ready_since.is_some_and(before) {
        Some("NodeNotReady")
    } else if !untouched {
        None
    } else if row.deleting {
        Some("NodeDeleting")
    } else {
        row.unschedulable.then_some("NodeCordoned")
    }
}
