//! DaemonSets, pods and nodes for the tests of the views.

use std::fmt::Debug;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::known::Known;
use super::read::{self, SetPods, SetRevisions};
use crate::view::groups::Group;
use crate::view::read::node;

pub(super) const UID: &str = "4e0c5d6a-0b1c-4d2e-8f3a-000000000500";

pub(in crate::view) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).unwrap()
}

/// A DaemonSet `agent` of generation 3; `spec` is laid over a usable one.
pub(in crate::view) fn object(api: &str, spec: &Value) -> Value {
    let mut object = json!({
        "apiVersion": api, "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": "ops", "uid": UID, "generation": 3,
                     "creationTimestamp": at(-60).to_string()},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": template("new"),
        },
    });
    for (key, value) in spec.as_object().into_iter().flatten() {
        object["spec"][key] = value.clone();
    }
    object
}

/// A template whose image tells it from others.
pub(super) fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": [{"name": "c", "image": image}]}})
}

pub(super) fn condition(type_: &str, is: bool, reason: &str) -> Value {
    let status = if is { "True" } else { "False" };
    json!({"type": type_, "status": status, "reason": reason, "message": "",
           "lastTransitionTime": at(0).to_string()})
}

/// The revision of [`template`], with the hash `hash-IMAGE`.
pub(in crate::view) fn revision(number: i64, image: &str) -> Value {
    let mut template = template(image);
    template["$patch"] = json!("replace");
    json!({
        "metadata": {"name": format!("agent-{image}"), "uid": format!("4e0c5d6a-0b1c-4d2e-8f3a-{number:012x}"),
                     "labels": {"app": "agent", "controller-revision-hash": format!("hash-{image}")},
                     "annotations": {"kubernetes.io/change-cause": format!("to {image}")},
                     "creationTimestamp": at(number).to_string(),
                     "ownerReferences": [owner()]},
        "revision": number,
        "data": {"spec": {"template": template}},
    })
}

fn owner() -> Value {
    json!({"apiVersion": "carillon.dev/v1alpha1", "kind": "DaemonSet", "name": "agent", "uid": UID, "controller": true})
}

/// A pod of the template of an image, on the node `n<number>`: created at second 10, ready at 20 if it is `ready`.
pub(in crate::view) fn pod(number: u32, image: &str, ready: bool) -> Value {
    let status = if ready { "True" } else { "False" };
    json!({
        "metadata": {"name": format!("agent-n{number}"), "uid": format!("4e0c5d6a-0b1c-4d2e-8f3b-{number:012x}"),
                     "labels": {"app": "agent", "controller-revision-hash": format!("hash-{image}")},
                     "creationTimestamp": at(10).to_string(), "ownerReferences": [owner()]},
        "spec": {"nodeName": format!("n{number}")},
        "status": {"phase": "Running", "conditions": [
            {"type": "Ready", "status": status, "lastTransitionTime": at(20).to_string()}]},
    })
}

/// A node `n<number>`; `more` is its `spec`.
fn a_node(number: u32, more: &Value) -> Value {
    json!({"metadata": {"name": format!("n{number}"), "uid": format!("4e0c5d6a-0b1c-4d2e-8f3c-{number:012x}")},
           "spec": more})
}

/// So many nodes, of which those from `tainted` on have a taint that nothing tolerates.
pub(in crate::view) fn nodes(count: u32, tainted: u32) -> Vec<Value> {
    let taint = json!({"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]});
    let spec = |n| if n < tainted { &Value::Null } else { &taint };
    (1..=count).map(|n| a_node(n, spec(n))).collect()
}

/// `PLACE REASON n1,n2` for each group.
pub(super) fn lines<P: Debug>(groups: &[Group<P>]) -> Vec<String> {
    let line = |group: &Group<P>| {
        let Group {
            place,
            reason,
            nodes,
            ..
        } = group;
        format!("{place:?} {reason} {}", nodes.join(","))
    };
    groups.iter().map(line).collect()
}

/// All of it, as whoever may read everything knows it.
pub(in crate::view) fn known(
    set: &Value,
    revisions: &[Value],
    pods: &[Value],
    nodes: &[Value],
) -> Known {
    let stored = read::set(set);
    let owner = stored.set.meta.owner.clone();
    let (mut all_pods, mut all_revisions) = (SetPods::default(), SetRevisions::default());
    for one in pods {
        all_pods.add(&owner, one);
    }
    for one in revisions {
        all_revisions.add(&owner, one);
    }
    let nodes = nodes.iter().filter_map(node).collect();
    Known::new(stored, Some(all_pods), Some(all_revisions), nodes)
}
