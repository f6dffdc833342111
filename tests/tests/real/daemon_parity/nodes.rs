//! Nodes come and go, and change.

use carillon_testbed::Fate;
use serde_json::{Value, json};

use super::scenario::{Deed, Scenario, Whose, fate, labels, taints, template};
use crate::parity::stage::PodDeed;
use crate::parity::watched::Here;

const NO_SCHEDULE: [(&str, &str); 1] = [("example.com/key", "NoSchedule")];
const NO_EXECUTE: [(&str, &str); 1] = [("example.com/key", "NoExecute")];

/// A change of a node: Ready, and this condition.
fn with_condition(condition: &str) -> Value {
    json!({"status": {"conditions": [
        {"type": "Ready", "status": "True", "reason": "KubeletReady"},
        {"type": condition, "status": "True", "reason": "Test"},
    ]}})
}

fn one_is_misscheduled(here: &Here) -> bool {
    here.has(1) && here.number("numberMisscheduled") == 1
}

/// Scenarios.
#[allow(clippy::too_many_lines)] // a table
pub(crate) fn all() -> Vec<Scenario> {
    let two = |name| Scenario::of(name, 2, &[]);
    let tolerates = json!({"tolerations": [{"key": "example.com/key", "operator": "Exists"}]});
    let of_other = labels(json!({"scenario": "other"}));
    let ours = labels(json!({"scenario": "$NS"}));
    vec![
        Scenario::of("three-nodes", 3, &[]).created(|here| here.is_at(3)),
        Scenario::of("no-node", 0, &[]).created(|here| here.is_at(0)),
        two("node-joins").then_until(Deed::Join(2, json!({})), |here| here.is_at(3)),
        Scenario::of("first-node-joins", 0, &[])
            .created(|here| here.is_at(0))
            .then_until(Deed::Join(0, json!({})), |here| here.is_at(1)),
        two("node-joins-tainted")
            .then_until(Deed::Join(2, taints(&NO_SCHEDULE)), Here::is_rolled_out),
        // Its pod is removed by the garbage collector of pods.
        two("node-leaves").then_until(Deed::Leave(1), |here| {
            here.is_at(1) && here.pods().len() == 1
        }),
        // Nobody else removes a pod that waits for a node.
        Scenario::of(
            "node-leaves-a-pod-that-waits",
            2,
            &[template(does_not_fit())],
        )
        .created(|here| here.has(2))
        .then_until(Deed::Leave(1), |here| here.has(1) && here.pods().len() == 1),
        two("tainted-no-schedule")
            .then_noticed(Deed::Node(1, taints(&NO_SCHEDULE)), one_is_misscheduled)
            .then_until(Deed::Node(1, taints(&[])), |here| here.is_at(2)),
        two("tainted-and-its-pod-deleted")
            .then_noticed(Deed::Node(1, taints(&NO_SCHEDULE)), one_is_misscheduled)
            .then_until(Deed::Pods(Whose::On(1), PodDeed::Delete), |here| {
                here.is_at(1) && here.pods().len() == 1
            })
            .then_something_else(|here| here.is_at(1)),
        two("tainted-no-execute")
            .then_until(Deed::Node(1, taints(&NO_EXECUTE)), |here| here.is_at(1))
            .then_until(Deed::Node(1, taints(&[])), |here| here.is_at(2)),
        Scenario::of("tainted-and-tolerated", 2, &[template(tolerates)])
            .then_until(Deed::Node(1, taints(&NO_EXECUTE)), |here| here.is_at(2)),
        two("preferably-not").then_until(
            Deed::Node(1, taints(&[("example.com/key", "PreferNoSchedule")])),
            |here| here.is_at(2),
        ),
        two("tainted-before")
            .node(1, &taints(&NO_SCHEDULE))
            .created(|here| here.is_at(1))
            .then_until(Deed::Node(1, taints(&[])), |here| here.is_at(2)),
        two("tainted-both-ways")
            .then_until(
                Deed::Node(
                    1,
                    taints(&[NO_SCHEDULE[0], ("example.com/other", "NoExecute")]),
                ),
                |here| here.is_at(1),
            )
            .then_until(Deed::Node(1, taints(&NO_SCHEDULE)), |here| here.is_at(1)),
        two("labelled-later")
            .node(1, &of_other)
            .created(|here| here.is_at(1))
            .then_until(Deed::Node(1, ours.clone()), |here| here.is_at(2)),
        two("label-taken-off")
            .then_until(Deed::Node(1, of_other.clone()), |here| here.is_at(1))
            .then_until(Deed::Node(1, ours), |here| here.is_at(2)),
        two("labelled-without-effect")
            .then(Deed::Node(1, labels(json!({"example.com/note": "x"})))),
        Scenario::of(
            "label-taken-off-slowly",
            2,
            &[fate(&Fate::default().with("termination-time", "5s"))],
        )
        .then_until(Deed::Node(1, of_other), |here| here.is_at(1))
        .then_something_else(|here| here.is_at(1)),
        two("cordoned")
            .then(Deed::Node(1, json!({"spec": {"unschedulable": true}})))
            .then(Deed::Pods(Whose::On(1), PodDeed::Delete))
            .then(Deed::Node(1, json!({"spec": {"unschedulable": null}}))),
        two("not-ready")
            .then_noticed(Deed::NodeReady(1, false), one_is_misscheduled)
            .then_until(Deed::NodeReady(1, true), |here| here.has(2)),
        two("unreachable").then_until(Deed::StopKubelet(1), one_is_misscheduled),
        two("memory-pressure")
            .node(1, &with_condition("MemoryPressure"))
            .created(|here| here.is_at(2)),
        two("network-unavailable")
            .node(1, &with_condition("NetworkUnavailable"))
            .created(|here| here.is_at(1)),
        Scenario::of(
            "network-of-the-node",
            2,
            &[template(json!({"hostNetwork": true}))],
        )
        .node(1, &with_condition("NetworkUnavailable"))
        .created(|here| here.is_at(2)),
    ]
}

/// Fields of a pod for which no node has room.
pub(crate) fn does_not_fit() -> Value {
    let resources = json!({"requests": {"cpu": "1000"}});
    json!({"containers": [{"name": "main", "image": "busybox:1.36", "resources": resources}]})
}
