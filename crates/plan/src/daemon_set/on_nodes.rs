//! The pods of a DaemonSet by the node they are for.

use std::collections::BTreeMap;

use super::pod::{DaemonPods, Named};

/// Pods by node, those of each node in the order in which they would be kept: bound ones, older ones,
/// then by name (upstream: `podByCreationTimestampAndPhase`, which does not look at phases).
pub(super) type OnNodes<'a> = BTreeMap<&'a str, Vec<Named<'a>>>;

/// Pods that only a finalizer keeps are left out: they must not block what comes in their place.
pub(super) fn on_nodes(pods: &DaemonPods) -> OnNodes<'_> {
    let mut nodes = OnNodes::new();
    for (name, pod) in pods {
        if let Some(node) = pod.node.as_deref().filter(|_| !pod.is_left_over()) {
            nodes.entry(node).or_default().push((&**name, pod));
        }
    }
    for pods in nodes.values_mut() {
        pods.sort_by_key(|(name, pod)| (!pod.bound, pod.created, *name));
    }
    nodes
}
