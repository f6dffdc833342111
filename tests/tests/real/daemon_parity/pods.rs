//! Pods are deleted, fail, succeed, and do not stop.

use carillon_testbed::Fate;
use serde_json::{Value, json};

use super::scenario::{Deed, Scenario, Whose, fate, surge, taints, to};
use crate::parity::stage::PodDeed;
use crate::parity::watched::Here;

/// A change of a spec: somebody has a finalizer on each pod.
fn held() -> Value {
    json!({"template": {"metadata": {"finalizers": ["example.com/kept"]}}})
}

fn let_go() -> PodDeed {
    PodDeed::Patch(json!({"metadata": {"finalizers": null}}))
}

/// The kubelet says how a pod has ended.
fn ends(phase: &'static str) -> PodDeed {
    match phase {
        "Failed" => PodDeed::Status(|_| json!({"phase": "Failed", "conditions": []})),
        _ => PodDeed::Status(|_| json!({"phase": "Succeeded", "conditions": []})),
    }
}

/// The kubelet says that a pod is not ready.
pub(crate) fn not_ready() -> PodDeed {
    PodDeed::Status(|pod| ready(pod, "False"))
}

/// The kubelet says that a pod is ready.
pub(crate) fn ready_again() -> PodDeed {
    PodDeed::Status(|pod| ready(pod, "True"))
}

fn ready(pod: &Value, status: &str) -> Value {
    let now = jiff::Timestamp::now();
    let now = jiff::Timestamp::from_second(now.as_second()).expect("a time");
    let mut conditions = pod["status"]["conditions"].clone();
    for condition in conditions.as_array_mut().into_iter().flatten() {
        if condition["type"] == "Ready" {
            condition["status"] = json!(status);
            condition["lastTransitionTime"] = json!(now.to_string());
        }
    }
    json!({"conditions": conditions})
}

/// Each of two nodes has an available pod; one more, or more, is left over.
fn left_over(here: &Here, pods: usize) -> bool {
    here.has(2) && here.number("numberAvailable") == 2 && here.pods().len() == pods
}

/// Scenarios.
#[allow(clippy::too_many_lines)] // a table
pub(crate) fn all() -> Vec<Scenario> {
    let two = |name, specs: &[Value]| Scenario::of(name, 2, specs);
    let first = |deed| Deed::Pods(Whose::On(0), deed);
    let slow = fate(&Fate::default().with("termination-time", "6s"));
    let never = fate(&Fate::default().with("termination-time", "never"));
    let one_leaves = |here: &Here| here.leaving() == 1 && here.number("numberReady") >= 1;
    vec![
        two("pod-deleted", &[]).then(first(PodDeed::Delete)),
        two("pod-deleted-at-once", &[]).then(first(PodDeed::DeleteNow)),
        two("all-pods-deleted", &[]).then(Deed::Pods(Whose::All, PodDeed::Delete)),
        two("slow-pod-deleted", std::slice::from_ref(&slow)).then(first(PodDeed::Delete)),
        two("slow-pod-updated", std::slice::from_ref(&slow)).then(to("busybox:1.37")),
        two("surge-slow-pod-deleted", &[slow.clone(), surge(1)]).then(first(PodDeed::Delete)),
        two("surge-slow-pod-updated", &[slow, surge(1)]).then(to("busybox:1.37")),
        two("pod-never-stops", std::slice::from_ref(&never))
            .then_until(first(PodDeed::Delete), one_leaves)
            .then(Deed::Pods(Whose::Leaving, PodDeed::DeleteNow)),
        two("surge-pod-never-stops", &[never.clone(), surge(1)])
            .then_until(first(PodDeed::Delete), |here| {
                here.leaving() == 1 && here.pods().len() == 3 && here.phase("Running") == 3
            })
            .then(Deed::Pods(Whose::Leaving, PodDeed::DeleteNow)),
        two("update-with-a-pod-that-never-stops", &[never])
            .then_until(to("busybox:1.37"), |here| here.leaving() == 1)
            .then_until(Deed::Pods(Whose::Leaving, PodDeed::DeleteNow), |here| {
                here.leaving() == 1 && here.number("updatedNumberScheduled") == 1
            })
            .then(Deed::Pods(Whose::Leaving, PodDeed::DeleteNow))
            .any_node(),
        two("finalizer-keeps-a-pod", &[held()])
            .then_until(first(PodDeed::Delete), |here| left_over(here, 3))
            .then_until(first(PodDeed::Delete), |here| left_over(here, 4))
            .then(Deed::Pods(Whose::Leaving, let_go())),
        two("finalizers-in-an-update", &[held()])
            .then_until(to("busybox:1.37"), |here| {
                left_over(here, 4) && here.number("updatedNumberScheduled") == 2
            })
            .then(Deed::Pods(Whose::Leaving, let_go())),
        two("pod-fails", &[]).then(first(ends("Failed"))),
        two("pod-fails-again", &[])
            .then(first(ends("Failed")))
            .then(first(ends("Failed"))),
        two("both-pods-fail", &[]).then(Deed::Pods(Whose::All, ends("Failed"))),
        two("pod-succeeds", &[]).then(first(ends("Succeeded"))),
        two("surge-pod-fails", &[surge(1)]).then(first(ends("Failed"))),
        two("surge-pod-succeeds", &[surge(1)]).then(first(ends("Succeeded"))),
        two("failed-pod-is-held", &[held()])
            .then_until(first(ends("Failed")), |here| left_over(here, 3))
            .then(Deed::Pods(Whose::Leaving, let_go())),
        two("pod-fails-on-a-tainted-node", &[])
            .then_noticed(
                Deed::Node(0, taints(&[("example.com/key", "NoSchedule")])),
                |here| here.has(1),
            )
            .then_until(first(ends("Failed")), |here| {
                here.is_at(1) && here.pods().len() == 1
            }),
        two("pod-unready", &[])
            .then_until(first(not_ready()), |here| here.number("numberReady") == 1)
            .then(first(ready_again())),
        two(
            "pods-never-start",
            &[fate(&Fate::never_starts("ErrImagePull"))],
        )
        .created(|here| here.has(2) && here.phase("Pending") == 2)
        .then_until(first(PodDeed::Delete), |here| {
            here.has(2) && here.phase("Pending") == 2 && here.leaving() == 0
        }),
    ]
}
