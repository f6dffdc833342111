//! Whether a node should have a pod of a DaemonSet, and whether one that is there may stay.

use crate::eligibility::{Check, Refusal, check_one};
use crate::node::{Effect, NodeRow, Taint};
use crate::placement::{Placement, Toleration};

/// What a DaemonSet wants of a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ShouldRun<'a> {
    /// A pod.
    Yes,
    /// No new pod, but one that is there stays.
    OnlyIfThere(Refusal<'a>),
    /// No pod.
    No(Refusal<'a>),
}

impl ShouldRun<'_> {
    /// A pod should be there.
    pub fn runs(&self) -> bool {
        matches!(self, Self::Yes)
    }

    /// A pod that is there stays.
    pub fn stays(&self) -> bool {
        !matches!(self, Self::No(_))
    }

    /// Why no pod should be there.
    pub fn reason(&self) -> Option<&'static str> {
        match self {
            Self::Yes => None,
            Self::OnlyIfThere(refusal) | Self::No(refusal) => Some(refusal.reason()),
        }
    }
}

/// All that is checked of a node.
pub(crate) const CHECKS: [Check; 4] = [IDENTITY[0], IDENTITY[1], IDENTITY[2], Check::Taints];
/// Placement checks that depend on what a node is, and not on its state.
const IDENTITY: [Check; 3] = [Check::NodeName, Check::NodeSelector, Check::NodeAffinity];

/// Whether a node should have a pod. Free room, conditions and a cordon play no role: a DaemonSet's pods
/// tolerate what these become. Source: `NodeShouldRunDaemonPod`.
pub fn should_run<'a>(wish: &'a Placement, name: &str, node: &'a NodeRow) -> ShouldRun<'a> {
    let mut checks = IDENTITY.into_iter();
    if let Some(refusal) = checks.find_map(|check| check_one(check, wish, name, node)) {
        return ShouldRun::No(refusal);
    }
    let untolerated = |effects: &[Effect]| -> Option<&'a Taint> {
        let mut taints = node.taints.iter();
        taints.find(|taint| effects.contains(&taint.effect) && !wish.tolerates(taint))
    };
    if let Some(taint) = untolerated(&[Effect::NoExecute]) {
        return ShouldRun::No(Refusal::Taint(taint));
    }
    match untolerated(&[Effect::NoSchedule]) {
        Some(taint) => ShouldRun::OnlyIfThere(Refusal::Taint(taint)),
        None => ShouldRun::Yes,
    }
}

/// What every pod of a DaemonSet tolerates, as keys and effects.
const ALWAYS: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];
/// What pods in the network of their node tolerate besides.
const ON_HOST_NETWORK: (&str, &str) = ("node.kubernetes.io/network-unavailable", "NoSchedule");

/// Taints that pods tolerate without being told to: keys and effects, for any value.
pub(super) fn automatic_tolerations(
    host_network: bool,
) -> impl Iterator<Item = (&'static str, &'static str)> {
    let on_host = Some(ON_HOST_NETWORK).filter(|_| host_network);
    ALWAYS.into_iter().chain(on_host)
}

/// Adds what every pod tolerates to what its template does.
pub(super) fn with_automatic_tolerations(mut wish: Placement, host_network: bool) -> Placement {
    let automatic = automatic_tolerations(host_network).map(|(key, effect)| Toleration {
        key: key.to_owned(),
        exists: true,
        value: String::new(),
        effect: effect.to_owned(),
    });
    wish.tolerations.extend(automatic);
    wish
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[allow(clippy::too_many_lines)] // a table
    /// Rows of upstream's `TestNodeShouldRunDaemonPod`, and of the tests of taints beside it.
    #[test]
    fn a_node_gets_a_pod_by_its_name_labels_and_taints_and_by_nothing_else() {
        let labelled = |labels: &[(&str, &str)]| NodeRow {
            labels: labels
                .iter()
                .map(|(key, value)| ((*key).into(), (*value).into()))
                .collect(),
            ..NodeRow::default()
        };
        let tainted = |key: &str, effect| NodeRow {
            taints: [Taint {
                key: key.into(),
                value: "v".into(),
                effect,
            }]
            .into(),
            ..NodeRow::default()
        };
        let affinity = |key: &str, value: &str| {
            json!({"affinity": {"nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                    {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}]}}}})
        };
        let named = |name: &str| {
            json!({"affinity": {"nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}]}}}})
        };
        let small = NodeRow {
            allocatable: [("cpu".into(), 1)].into(),
            ..NodeRow::default()
        };
        let cordoned = NodeRow {
            unschedulable: true,
            ..tainted("node.kubernetes.io/unschedulable", Effect::NoSchedule)
        };
        let asks = json!({"containers": [{"resources": {"requests": {"cpu": "4"}}}]});
        let tolerates = |toleration: Value| json!({"tolerations": [toleration]});
        let cases: [(&str, Value, NodeRow, (bool, bool)); 21] = [
            ("any node", json!({}), NodeRow::default(), (true, true)),
            (
                "by name",
                json!({"nodeName": "n"}),
                NodeRow::default(),
                (true, true),
            ),
            (
                "another name",
                json!({"nodeName": "m"}),
                NodeRow::default(),
                (false, false),
            ),
            ("too little room", asks, small, (true, true)),
            ("cordoned", json!({}), cordoned, (true, true)),
            (
                "no such label",
                json!({"nodeSelector": {"a": "1"}}),
                NodeRow::default(),
                (false, false),
            ),
            (
                "another label",
                json!({"nodeSelector": {"a": "1"}}),
                labelled(&[("a", "2")]),
                (false, false),
            ),
            (
                "this label",
                json!({"nodeSelector": {"a": "1"}}),
                labelled(&[("a", "1")]),
                (true, true),
            ),
            (
                "affinity",
                affinity("a", "1"),
                labelled(&[("a", "1")]),
                (true, true),
            ),
            (
                "no affinity",
                affinity("a", "1"),
                labelled(&[("a", "2")]),
                (false, false),
            ),
            ("field", named("n"), NodeRow::default(), (true, true)),
            (
                "another field",
                named("m"),
                NodeRow::default(),
                (false, false),
            ),
            (
                "NoSchedule",
                json!({}),
                tainted("k", Effect::NoSchedule),
                (false, true),
            ),
            (
                "NoExecute",
                json!({}),
                tainted("k", Effect::NoExecute),
                (false, false),
            ),
            (
                "PreferNoSchedule",
                json!({}),
                tainted("k", Effect::PreferNoSchedule),
                (true, true),
            ),
            (
                "tolerated without an operator",
                tolerates(json!({"key": "k", "value": "v", "effect": "NoSchedule"})),
                tainted("k", Effect::NoSchedule),
                (true, true),
            ),
            (
                "tolerated with another value",
                tolerates(json!({"key": "k", "value": "w", "effect": "NoSchedule"})),
                tainted("k", Effect::NoSchedule),
                (false, true),
            ),
            (
                "not ready",
                json!({}),
                tainted("node.kubernetes.io/not-ready", Effect::NoExecute),
                (true, true),
            ),
            (
                "unreachable",
                json!({}),
                tainted("node.kubernetes.io/unreachable", Effect::NoExecute),
                (true, true),
            ),
            (
                "no network",
                json!({}),
                tainted(ON_HOST_NETWORK.0, Effect::NoSchedule),
                (false, true),
            ),
            (
                "its network is the node's",
                json!({"hostNetwork": true}),
                tainted(ON_HOST_NETWORK.0, Effect::NoSchedule),
                (true, true),
            ),
        ];
        for (what, spec, node, expected) in cases {
            let host_network = spec["hostNetwork"] == true;
            let wish = with_automatic_tolerations(Placement::read(&spec), host_network);
            let found = should_run(&wish, "n", &node);
            assert_eq!((found.runs(), found.stays()), expected, "{what}");
        }
    }
}
