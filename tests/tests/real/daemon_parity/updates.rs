//! Another template, node by node.

use carillon_testbed::Fate;
use serde_json::{Value, json};

use super::pods::{not_ready, ready_again};
use super::scenario::{
    Deed, Scenario, Whose, fate, on_delete, spec, surge, taints, template, to, to_broken, to_whole,
    unavailable,
};
use crate::parity::stage::PodDeed;
use crate::parity::watched::Here;

/// One node of so many has the new pod, which never becomes ready, and nothing more happens.
fn stuck_at(here: &Here, updated: i64) -> bool {
    here.is_observed()
        && here.number("updatedNumberScheduled") == updated
        && here.number("numberUnavailable") == updated
        && here.leaving() == 0
}

fn one_stuck(here: &Here) -> bool {
    stuck_at(here, 1)
}

/// One node has a second pod, which never becomes ready.
fn surge_stuck(here: &Here) -> bool {
    here.is_observed() && here.pods().len() == 4 && here.phase("Pending") == 1
}

/// The template of the DaemonSet becomes one that is neither the broken one nor that before it.
fn to_another() -> Deed {
    spec(&json!({"template": {
        "metadata": {"annotations": null},
        "spec": {"containers": [{"name": "main", "image": "busybox:1.37"}]},
    }}))
}

fn min_ready(seconds: i32) -> Value {
    json!({"minReadySeconds": seconds})
}

/// Scenarios.
#[allow(clippy::too_many_lines)] // a table
pub(crate) fn all() -> Vec<Scenario> {
    let of = |name, nodes, specs: &[Value]| Scenario::of(name, nodes, specs);
    let broken = fate(&Fate::never_starts("ImagePullBackOff"));
    vec![
        of("template-changed", 3, &[]).then(to("busybox:1.37")),
        of("three-at-a-time", 4, &[unavailable(3)]).then(to("busybox:1.37")),
        of("half-at-a-time", 3, &[unavailable("50%")]).then(to("busybox:1.37")),
        of("all-at-once", 3, &[unavailable("100%")]).then(to("busybox:1.37")),
        of("one-percent", 3, &[unavailable("1%")]).then(to("busybox:1.37")),
        of("surge-one", 3, &[surge(1)]).then(to("busybox:1.37")),
        of("surge-all", 3, &[surge("100%")]).then(to("busybox:1.37")),
        of("surge-a-third", 4, &[surge("33%")]).then(to("busybox:1.37")),
        of("min-ready", 2, &[min_ready(3)]).then(to("busybox:1.37")),
        // With more nodes kube-controller-manager may never see that a new pod is available: of two times at
        // which it wants to look again, its queue keeps the earlier one.
        of("surge-min-ready", 1, &[surge(1), min_ready(3)]).then(to("busybox:1.37")),
        of("min-ready-lowered", 2, &[min_ready(3600)])
            .created(|here| here.has(2) && here.number("numberReady") == 2)
            .then(spec(&min_ready(0)))
            .then_until(spec(&min_ready(3600)), |here| {
                here.is_observed() && here.number("numberUnavailable") == 2
            }),
        of("on-delete", 2, &[on_delete()])
            .then_until(to("busybox:1.37"), |here| here.has(2))
            .then_until(Deed::Pods(Whose::On(0), PodDeed::Delete), |here| {
                here.has(2) && here.number("numberAvailable") == 2
            })
            .then(Deed::Pods(Whose::On(1), PodDeed::Delete)),
        of("on-delete-no-longer", 2, &[on_delete()])
            .then_until(to("busybox:1.37"), |here| here.has(2))
            .then(spec(&json!({"updateStrategy": {"type": "RollingUpdate"}}))),
        of("rolled-back-in-the-middle", 3, &[])
            .then_until(to_broken(), one_stuck)
            .then(to_whole())
            .any_node(),
        of("changed-in-the-middle", 3, &[])
            .then_until(to_broken(), one_stuck)
            .then(to_another())
            .then(to_whole())
            .any_node(),
        of("surge-rolled-back-in-the-middle", 3, &[surge(1)])
            .then_until(to_broken(), surge_stuck)
            .then(to_whole())
            .any_node(),
        of("surge-changed-in-the-middle", 3, &[surge(1)])
            .then_until(to_broken(), surge_stuck)
            .then(to_another())
            .any_node(),
        of("budget-raised-in-the-middle", 3, &[])
            .then_until(to_broken(), one_stuck)
            .then_until(spec(&unavailable(2)), |here| stuck_at(here, 2))
            .then_until(spec(&unavailable("100%")), |here| stuck_at(here, 3))
            .any_node(),
        of("surge-ends-in-the-middle", 3, &[surge(1)])
            .then_until(to_broken(), surge_stuck)
            .then_until(
                spec(&json!({"updateStrategy": {"rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}})),
                |here| one_stuck(here) && here.pods().len() == 3,
            )
            .any_node(),
        of("surge-begins-in-the-middle", 3, &[])
            .then_until(to_broken(), one_stuck)
            .then_until(spec(&surge(1)), |here| {
                here.is_observed() && here.pods().len() == 4
            })
            .any_node(),
        of("on-delete-in-the-middle", 3, &[])
            .then_until(to_broken(), one_stuck)
            .then_until(spec(&on_delete()), one_stuck)
            .any_node(),
        of("old-pods-never-ready", 3, std::slice::from_ref(&broken))
            .created(|here| here.has(3) && here.phase("Pending") == 3)
            .then(to_whole()),
        of("surge-old-pods-never-ready", 3, &[broken, surge(1)])
            .created(|here| here.has(3) && here.phase("Pending") == 3)
            .then(to_whole()),
        of("unready-one-first", 3, &[])
            .then_until(Deed::Pods(Whose::On(1), not_ready()), |here| {
                here.number("numberReady") == 2
            })
            .then_until(to_broken(), one_stuck),
        of("unready-one-uses-no-budget", 3, &[unavailable(2)])
            .then_until(Deed::Pods(Whose::On(1), not_ready()), |here| {
                here.number("numberReady") == 2
            })
            .then_until(to_broken(), |here| stuck_at(here, 2))
            .any_node(),
        of("surge-unready-one", 3, &[surge(1)])
            .then_until(Deed::Pods(Whose::On(1), not_ready()), |here| {
                here.number("numberReady") == 2
            })
            .then(to("busybox:1.37")),
        of("surge-old-one-becomes-unready", 1, &[surge(1)])
            .then_until(to_broken(), |here| here.pods().len() == 2)
            .then_until(Deed::Pods(Whose::On(0), not_ready()), |here| {
                here.pods().len() == 1 && one_stuck(here)
            }),
        of("unready-and-ready-again", 2, &[min_ready(2)])
            .then_until(Deed::Pods(Whose::On(1), not_ready()), |here| {
                here.number("numberAvailable") == 1
            })
            .then(Deed::Pods(Whose::On(1), ready_again())),
        of("strategy-changed-only", 2, &[])
            .then(spec(&unavailable(2)))
            .then(spec(&surge(1))),
        // The node keeps its pod until another one is available elsewhere.
        of(
            "surge-leaves-a-node",
            2,
            &[surge(1), template(json!({"tolerations": [{"operator": "Exists"}]}))],
        )
        .node(1, &taints(&[("example.com/key", "NoSchedule")]))
        .then_until(spec(&template(json!({"tolerations": null}))), |here| {
            here.has(1) && here.number("updatedNumberScheduled") == 1 && here.pods().len() == 1
        }),
        of("update-beside-a-tainted-node", 3, &[])
            .then_noticed(Deed::Node(1, taints(&[("example.com/key", "NoSchedule")])), |here| {
                here.has(2)
            })
            .then_until(to("busybox:1.37"), |here| {
                here.has(2)
                    && here.number("updatedNumberScheduled") == 2
                    && here.number("numberAvailable") == 2
                    && here.leaving() == 0
            }),
        of("node-joins-in-the-middle", 2, &[])
            .then_until(to_broken(), one_stuck)
            .then_until(Deed::Join(2, json!({})), |here| stuck_at(here, 2))
            .any_node(),
    ]
}
