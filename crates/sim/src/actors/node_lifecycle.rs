//! What kube-controller-manager does about nodes: notices the silent ones, evicts, collects the pods
//! of those that are gone.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::component::{
    Component, KUBELET_STOPPED, all, delete, has_ended, patch_status, seconds, text, uid,
};
use super::scheduler::tolerates;
use super::timers::Timers;
use crate::{Actor, Server};

/// `--node-monitor-grace-period`.
const SILENT_AFTER: SignedDuration = SignedDuration::from_secs(40);
/// How long a node must be gone before its pods are collected.
const COLLECT_AFTER: SignedDuration = SignedDuration::from_secs(40);
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// Node lifecycle, taint eviction and pod garbage collection.
#[derive(Debug)]
pub struct NodeLifecycle {
    actor: Actor,
    silent: Timers,
    orphaned: Timers,
    evicting: Timers,
}

impl Component for NodeLifecycle {
    fn act(&mut self, now: Timestamp) -> Option<Timestamp> {
        [self.watch_nodes(now), self.evict(now), self.collect(now)]
            .into_iter()
            .flatten()
            .min()
    }
}

impl NodeLifecycle {
    /// One that has seen nothing yet.
    pub fn new(server: &Server) -> Self {
        Self {
            actor: server.actor("system:kube-controller-manager"),
            silent: Timers::default(),
            orphaned: Timers::default(),
            evicting: Timers::default(),
        }
    }

    fn node(&self, name: &str) -> Option<Arc<Value>> {
        self.actor.get("nodes", "", name).ok()
    }

    fn watch_nodes(&mut self, now: Timestamp) -> Option<Timestamp> {
        let mut wake = Vec::new();
        for node in &all(&self.actor, "nodes") {
            let name = text(node, "/metadata/name");
            let stopped = node["metadata"]["annotations"][KUBELET_STOPPED] == "true";
            let tainted = has_taint(node);
            if !stopped {
                self.silent.stop(name);
                if tainted {
                    set_reachable(&self.actor, node, true, now);
                }
                continue;
            }
            if let Some(due) = self.silent.wait(name, SILENT_AFTER, now) {
                wake.push(due);
            } else if !tainted {
                set_reachable(&self.actor, node, false, now);
            }
        }
        wake.into_iter().min()
    }

    fn evict(&mut self, now: Timestamp) -> Option<Timestamp> {
        let mut wake = Vec::new();
        let pods = all(&self.actor, "pods");
        self.evicting.keep(&pods);
        for pod in &pods {
            let node = self.node(text(pod, "/spec/nodeName"));
            let unreachable = node.is_some_and(|node| has_taint(&node));
            let terminating = !text(pod, "/metadata/deletionTimestamp").is_empty();
            let tolerated = tolerated_for(pod).filter(|_| unreachable && !terminating);
            let Some(tolerated) = tolerated else {
                self.evicting.stop(uid(pod));
                continue;
            };
            if let Some(due) = self.evicting.wait(uid(pod), tolerated, now) {
                wake.push(due);
                continue;
            }
            disrupted(&self.actor, pod, "DeletionByTaintManager", json!({}), now);
            delete(&self.actor, pod, None);
        }
        wake.into_iter().min()
    }

    fn collect(&mut self, now: Timestamp) -> Option<Timestamp> {
        let mut wake = Vec::new();
        let pods = all(&self.actor, "pods");
        self.orphaned.keep(&pods);
        for pod in &pods {
            let node = text(pod, "/spec/nodeName");
            if node.is_empty() || self.node(node).is_some() {
                self.orphaned.stop(uid(pod));
                continue;
            }
            if let Some(due) = self.orphaned.wait(uid(pod), COLLECT_AFTER, now) {
                wake.push(due);
                continue;
            }
            if !has_ended(pod) {
                let failed = json!({"phase": "Failed"});
                disrupted(&self.actor, pod, "DeletionByPodGC", failed, now);
            }
            if pod["metadata"]["deletionGracePeriodSeconds"] != 0 {
                delete(&self.actor, pod, Some(0));
            }
        }
        wake.into_iter().min()
    }
}

/// How long the pod may stay on an unreachable node; for ever if `None`.
fn tolerated_for(pod: &Value) -> Option<SignedDuration> {
    let taint = json!({"key": UNREACHABLE, "effect": "NoExecute"});
    let tolerations = pod["spec"]["tolerations"].as_array();
    let tolerations = tolerations.into_iter().flatten();
    let seconds = tolerations
        .filter(|toleration| tolerates(toleration, &taint))
        .map(|toleration| toleration["tolerationSeconds"].as_i64())
        .min()
        .unwrap_or(Some(0));
    seconds.map(SignedDuration::from_secs)
}

fn has_taint(node: &Value) -> bool {
    let taints = node["spec"]["taints"].as_array();
    taints
        .into_iter()
        .flatten()
        .any(|taint| taint["key"] == UNREACHABLE)
}

fn set_reachable(actor: &Actor, node: &Value, reachable: bool, now: Timestamp) {
    let name = text(node, "/metadata/name");
    let status = if reachable { "True" } else { "Unknown" };
    let ready = json!({"conditions": [{
        "type": "Ready", "status": status, "lastTransitionTime": seconds(now),
    }]});
    patch_status(actor, node, &ready);
    let taints = node["spec"]["taints"].as_array().cloned();
    let mut taints: Vec<Value> = taints
        .unwrap_or_default()
        .into_iter()
        .filter(|taint| taint["key"] != UNREACHABLE)
        .collect();
    if !reachable {
        for effect in ["NoSchedule", "NoExecute"] {
            taints.push(json!({"key": UNREACHABLE, "effect": effect}));
        }
    }
    // A node that is gone by now needs no taint.
    drop(actor.patch_merge("nodes", "", name, &json!({"spec": {"taints": taints}})));
}

/// Adds the condition DisruptionTarget.
fn disrupted(actor: &Actor, pod: &Value, reason: &str, mut status: Value, now: Timestamp) {
    status["conditions"] = json!([{
        "type": "DisruptionTarget", "status": "True", "reason": reason,
        "lastTransitionTime": seconds(now),
    }]);
    patch_status(actor, pod, &status);
}
