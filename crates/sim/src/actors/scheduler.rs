//! Binds pods to the node they ask for, and the others to the one with the fewest.

use std::collections::BTreeMap;
use std::sync::Arc;

use carillon_oracle::Key;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::component::{Component, all, has_ended, patch_status, seconds, text, uid};
use super::pod_queue::PodQueue;
use crate::{Actor, Server};

/// How long a pod waits until the scheduler has looked at it.
const DELAY: SignedDuration = SignedDuration::from_millis(20);

/// kube-scheduler: of a pod's wishes it knows the node that the affinity names, and the node selector.
#[derive(Debug)]
pub struct Scheduler {
    actor: Actor,
    queue: PodQueue,
    /// The pods that are not bound: their uid, and when they are looked at.
    seen: BTreeMap<Key, (String, Timestamp)>,
}

impl Scheduler {
    /// A scheduler that has seen nothing yet.
    pub fn new(server: &Server) -> Self {
        Self {
            actor: server.actor("system:kube-scheduler"),
            queue: PodQueue::default(),
            seen: BTreeMap::new(),
        }
    }
}

impl Component for Scheduler {
    fn act(&mut self, now: Timestamp) -> Option<Timestamp> {
        for (key, pod) in self.queue.take(self.actor.server(), now) {
            let waits = |pod: &Arc<Value>| {
                let bound = !text(pod, "/spec/nodeName").is_empty();
                !bound && text(pod, "/metadata/deletionTimestamp").is_empty()
            };
            let Some(pod) = &pod.filter(waits) else {
                self.seen.remove(&key);
                continue;
            };
            let (of, due) = self.seen.entry(key.clone()).or_default();
            if of != uid(pod) {
                (*of, *due) = (uid(pod).to_owned(), now + DELAY);
            }
            if *due > now {
                self.queue.again(key, *due);
                continue;
            }
            self.queue.after_any_change(key);
            let (namespace, name) = (
                text(pod, "/metadata/namespace"),
                text(pod, "/metadata/name"),
            );
            match place(&self.actor, pod) {
                // Somebody was faster: the next look will tell.
                Ok(node) => drop(self.actor.bind(namespace, name, &node)),
                Err(message) => report(&self.actor, pod, &message, now),
            }
        }
        self.queue.next()
    }
}

/// The node that the pod's affinity names.
fn wanted(pod: &Value) -> Option<&str> {
    let terms = pod.pointer(
        "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms",
    )?;
    terms
        .as_array()?
        .iter()
        .flat_map(|term| term["matchFields"].as_array().into_iter().flatten())
        .find(|field| field["key"] == "metadata.name")?["values"][0]
        .as_str()
}

/// The node for a pod, or why it cannot be bound now.
fn place(actor: &Actor, pod: &Value) -> Result<String, String> {
    let refused = |why: &str| format!("0/1 nodes are available: 1 node(s) {why}.");
    let mut nodes: Vec<Arc<Value>> = match wanted(pod) {
        Some(name) => actor.get("nodes", "", name).into_iter().collect(),
        None => all(actor, "nodes"),
    };
    let labels = pod["spec"]["nodeSelector"].as_object();
    nodes.retain(|node| {
        let mut labels = labels.into_iter().flatten();
        labels.all(|(key, value)| node["metadata"]["labels"][key] == *value)
    });
    if nodes.is_empty() {
        return Err(refused("didn't match node affinity"));
    }
    let (free, tainted): (Vec<_>, Vec<_>) =
        nodes.iter().partition(|node| refusal(pod, node).is_none());
    if let [node] = &*free {
        return Ok(text(node, "/metadata/name").to_owned());
    }
    // Where a pod lands does not depend on other namespaces: runs with and without a tenant there are compared.
    let pods = actor.list("pods", text(pod, "/metadata/namespace"), "");
    let pods = pods.unwrap_or_default();
    let on = |node: &Value| {
        let name = &node["metadata"]["name"];
        let taken = pods.iter().filter(|pod| pod["spec"]["nodeName"] == *name);
        taken.filter(|pod| !has_ended(pod)).count()
    };
    let taint = tainted.iter().find_map(|node| refusal(pod, node));
    free.into_iter()
        .min_by_key(|node| (on(node), text(node, "/metadata/name").to_owned()))
        .map(|node| text(node, "/metadata/name").to_owned())
        .ok_or_else(|| refused(&taint.unwrap_or_default()))
}

/// Why the pod cannot be bound to a node.
fn refusal(pod: &Value, node: &Value) -> Option<String> {
    let cordoned = node["spec"]["unschedulable"] == true;
    let taint = json!({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"});
    let taints = node["spec"]["taints"].as_array().cloned();
    let taints = taints.unwrap_or_default().into_iter();
    taints
        .chain(cordoned.then_some(taint))
        .find(|taint| taint["effect"] != "PreferNoSchedule" && !is_tolerated(pod, taint))
        .map(|taint| format!("had untolerated taint {}", text(&taint, "/key")))
}

/// Whether a toleration of the pod covers the taint.
fn is_tolerated(pod: &Value, taint: &Value) -> bool {
    let tolerations = pod["spec"]["tolerations"].as_array();
    let mut tolerations = tolerations.into_iter().flatten();
    tolerations.any(|toleration| tolerates(toleration, taint))
}

/// Whether this toleration covers the taint.
pub(super) fn tolerates(toleration: &Value, taint: &Value) -> bool {
    let effect = text(toleration, "/effect");
    let key = text(toleration, "/key");
    let exists = text(toleration, "/operator") == "Exists";
    (effect.is_empty() || effect == text(taint, "/effect"))
        && (key.is_empty() && exists || key == text(taint, "/key"))
        && (exists || text(toleration, "/value") == text(taint, "/value"))
}

/// Says on the pod why it is not bound, once.
fn report(actor: &Actor, pod: &Value, message: &str, now: Timestamp) {
    let known = pod["status"]["conditions"].as_array().is_some_and(|all| {
        all.iter()
            .any(|c| c["type"] == "PodScheduled" && c["message"] == message)
    });
    if known {
        return;
    }
    let status = json!({"conditions": [{
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message,
        "lastTransitionTime": seconds(now),
    }]});
    patch_status(actor, pod, &status);
}
