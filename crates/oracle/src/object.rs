//! Reading plain JSON objects, as the store holds them.

use jiff::Timestamp;
use serde_json::Value;

/// Name and uid of a node.
pub(crate) type Node<'h> = (&'h str, &'h str);

/// API group of the kinds that are judged.
pub(crate) const GROUP: &str = "carillon.dev";
/// The finalizer that keeps a pod until its outcome is stored.
pub(crate) const FINALIZER: &str = "carillon.dev/result-tracking";
/// The labels that say whose a pod is.
pub(crate) const JOB_LABELS: [&str; 2] = ["carillon.dev/broadcastjob-name", UID_LABEL];
/// The one of them by which pods and slices are watched.
pub(crate) const UID_LABEL: &str = "carillon.dev/broadcastjob-uid";
/// Resource of BroadcastJobs.
pub(crate) const JOBS: &str = "broadcastjobs.carillon.dev";
/// Resource of the results.
pub(crate) const SLICES: &str = "noderesultslices.carillon.dev";
/// Resource of pods.
pub(crate) const PODS: &str = "pods";
/// Resource of nodes.
pub(crate) const NODES: &str = "nodes";
/// Resource of leases.
pub(crate) const LEASES: &str = "leases.coordination.k8s.io";
/// Resources of events, as stored and as asked for.
pub(crate) const EVENTS: [&str; 2] = ["events", "events.events.k8s.io"];

/// The value at `path`.
pub(crate) fn at<'v>(value: &'v Value, path: &[&str]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, key| value.get(key))
}

/// The text at `path`; empty when there is none.
pub(crate) fn text<'v>(value: &'v Value, path: &[&str]) -> &'v str {
    at(value, path).and_then(Value::as_str).unwrap_or_default()
}

/// The list at `path`; empty when there is none.
pub(crate) fn list<'v>(value: &'v Value, path: &[&str]) -> &'v [Value] {
    at(value, path)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// The number at `path`; 0 when there is none.
pub(crate) fn number(value: &Value, path: &[&str]) -> i64 {
    at(value, path).and_then(Value::as_i64).unwrap_or_default()
}

/// The time at `path`.
pub(crate) fn time(value: &Value, path: &[&str]) -> Option<Timestamp> {
    text(value, path).parse().ok()
}

/// `metadata.uid`.
pub(crate) fn uid(object: &Value) -> &str {
    text(object, &["metadata", "uid"])
}

/// `metadata.name`.
pub(crate) fn name(object: &Value) -> &str {
    text(object, &["metadata", "name"])
}

/// Whether somebody has deleted the object.
pub(crate) fn is_deleting(object: &Value) -> bool {
    at(object, &["metadata", "deletionTimestamp"]).is_some()
}

/// The owner that controls the object.
pub(crate) fn controller(object: &Value) -> Option<&Value> {
    list(object, &["metadata", "ownerReferences"])
        .iter()
        .find(|owner| owner["controller"] == true)
}

/// Uid of the BroadcastJob that controls the object.
pub(crate) fn job_of(object: &Value) -> Option<&str> {
    let owner = controller(object)?;
    let group = text(owner, &["apiVersion"]).split('/').next();
    (text(owner, &["kind"]) == "BroadcastJob" && group == Some(GROUP))
        .then(|| text(owner, &["uid"]))
}

/// Uid of the BroadcastJob whose results a slice has: that controls it, or that of a retry which is gone,
/// by its label. Such a slice is owned by the first job of the family.
pub(crate) fn log_of(slice: &Value) -> Option<&str> {
    let left = || {
        let mut owners = list(slice, &["metadata", "ownerReferences"]).iter();
        let is_left = owners.any(|owner| owner["kind"] == "BroadcastJob");
        is_left.then(|| text(slice, &["metadata", "labels", UID_LABEL]))
    };
    match controller(slice) {
        Some(_) => job_of(slice),
        None => left().filter(|uid| !uid.is_empty()),
    }
}

/// Whether a pod carries our finalizer.
pub(crate) fn is_tracked(pod: &Value) -> bool {
    list(pod, &["metadata", "finalizers"])
        .iter()
        .any(|finalizer| finalizer == FINALIZER)
}

/// `status.phase`.
pub(crate) fn phase(pod: &Value) -> &str {
    text(pod, &["status", "phase"])
}

/// Whether a pod has ended: it takes no place any more.
pub(crate) fn has_ended(pod: &Value) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// Whether a pod is bound to a node, so that its containers may have run.
pub(crate) fn is_bound(pod: &Value) -> bool {
    !text(pod, &["spec", "nodeName"]).is_empty()
}

/// The terms of required node affinity.
pub(crate) const REQUIRED_TERMS: [&str; 5] = [
    "spec",
    "affinity",
    "nodeAffinity",
    "requiredDuringSchedulingIgnoredDuringExecution",
    "nodeSelectorTerms",
];

/// Name of the node a pod is for: the one it is bound to, else the one its affinity names.
pub(crate) fn node_of(pod: &Value) -> &str {
    if is_bound(pod) {
        return text(pod, &["spec", "nodeName"]);
    }
    list(pod, &REQUIRED_TERMS)
        .iter()
        .flat_map(|term| list(term, &["matchFields"]))
        .filter(|field| field["key"] == "metadata.name")
        .find_map(|field| list(field, &["values"]).first()?.as_str())
        .unwrap_or_default()
}

/// Restarts of all containers and init containers of a pod, sidecars left out.
pub(crate) fn restarts(pod: &Value) -> i64 {
    let is_sidecar = |name: &Value| {
        list(pod, &["spec", "initContainers"])
            .iter()
            .any(|container| container["name"] == *name && container["restartPolicy"] == "Always")
    };
    ["containerStatuses", "initContainerStatuses"]
        .iter()
        .flat_map(|field| list(pod, &["status", field]))
        .filter(|status| !is_sidecar(&status["name"]))
        .map(|status| number(status, &["restartCount"]))
        .sum()
}

/// Whether the cluster ended a pod: eviction, preemption, node shutdown, pod garbage collection.
pub(crate) fn is_disrupted(pod: &Value) -> bool {
    let told = |field: &str| !list(pod, &["status", field]).is_empty();
    is_true(pod, "DisruptionTarget")
        || match text(pod, &["status", "reason"]) {
            "NodeShutdown" | "Terminated" | "NodeLost" | "Preempting" => true,
            // Of a pod that has run it is about its own limits of disk.
            "Evicted" => !told("containerStatuses") && !told("initContainerStatuses"),
            _ => false,
        }
}

/// A condition of an object's status.
pub(crate) fn condition<'v>(object: &'v Value, type_: &str) -> Option<&'v Value> {
    list(object, &["status", "conditions"])
        .iter()
        .find(|condition| condition["type"] == type_)
}

/// Whether a condition is True.
pub(crate) fn is_true(object: &Value, type_: &str) -> bool {
    condition(object, type_).is_some_and(|condition| condition["status"] == "True")
}

/// The reason of a condition that is True.
pub(crate) fn reason<'v>(object: &'v Value, type_: &str) -> Option<&'v str> {
    let found = condition(object, type_).filter(|condition| condition["status"] == "True")?;
    Some(text(found, &["reason"]))
}

/// Whether a job is Complete or Failed.
pub(crate) fn is_terminal(job: &Value) -> bool {
    is_true(job, "Complete") || is_true(job, "Failed")
}

/// One attempt, as an entry of a slice has it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Record<'h>(pub(crate) &'h Value);

impl<'h> Record<'h> {
    /// Name of the node.
    pub(crate) fn node(self) -> &'h str {
        text(self.0, &["nodeName"])
    }

    /// Uid of the node object.
    pub(crate) fn node_uid(self) -> &'h str {
        text(self.0, &["nodeUID"])
    }

    /// 1 for the first.
    pub(crate) fn attempt(self) -> i64 {
        number(self.0, &["attempt"])
    }

    /// Started, or one of the final states.
    pub(crate) fn state(self) -> &'h str {
        text(self.0, &["state"])
    }

    /// Name of the pod.
    pub(crate) fn pod(self) -> &'h str {
        text(self.0, &["podName"])
    }

    /// Uid of the pod; empty until it was seen.
    pub(crate) fn pod_uid(self) -> &'h str {
        text(self.0, &["podUID"])
    }

    /// Why.
    pub(crate) fn reason(self) -> &'h str {
        text(self.0, &["reason"])
    }

    /// Whether it says that somebody has asked for the attempt.
    pub(crate) fn is_requested(self) -> bool {
        self.0["requested"] == true
    }

    /// Whether it says that a resume has accepted the failure.
    pub(crate) fn is_accepted(self) -> bool {
        self.0["accepted"] == true
    }

    /// Whether the attempt is over.
    pub(crate) fn is_final(self) -> bool {
        self.state() != "Started"
    }

    /// Whether the node may be tried again because the attempt said nothing about the work.
    pub(crate) fn is_interrupted(self) -> bool {
        matches!(self.state(), "Disrupted" | "Unknown")
    }

    /// Reserved: the pod is about to be created.
    pub(crate) fn is_reservation(self) -> bool {
        !self.is_final() && self.pod_uid().is_empty()
    }
}

/// Whether the kubelet has refused to run a pod: it has failed without a word of its containers.
pub(crate) fn was_rejected(pod: &Value) -> bool {
    let status = &pod["status"];
    let heard_of = |field: &str| status[field].as_array().is_some_and(|all| !all.is_empty());
    phase(pod) == "Failed"
        && !text(status, &["reason"]).is_empty()
        && !heard_of("containerStatuses")
        && !heard_of("initContainerStatuses")
        && condition(pod, "DisruptionTarget").is_none()
}

/// Whether a step takes our finalizer off a pod, or a pod that has it out of the store.
pub(crate) fn loses_finalizer(step: &crate::history::Step) -> bool {
    let tracked = |pod: &Option<std::sync::Arc<Value>>| pod.as_deref().is_some_and(is_tracked);
    &*step.key.resource == PODS && tracked(&step.old) && !tracked(&step.new)
}
