//! An API server whose every text was written by somebody who wants to mislead the reader.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::http::{list, serve};

/// Found in everything that it tells; what stands around it must not reach a screen.
pub(crate) const MARK: &str = "evil";

/// A text that moves the cursor, hides a part of itself, turns its direction and begins a line.
pub(crate) fn foreign() -> String {
    let hidden: String = HARMFUL.iter().collect();
    format!("{MARK}{hidden}\r\nerror: all is well\u{2028}\u{1b}[2J{MARK}")
}

/// At least one of each sort.
pub(crate) const HARMFUL: [char; 33] = [
    '\0',
    '\u{7}',
    '\u{8}',
    '\u{b}',
    '\u{1b}',
    '\u{7f}',
    '\u{85}',
    '\u{9b}',
    '\u{ad}',
    '\u{61c}',
    '\u{180e}',
    '\u{200b}',
    '\u{200c}',
    '\u{200d}',
    '\u{200e}',
    '\u{200f}',
    '\u{2028}',
    '\u{2029}',
    '\u{202a}',
    '\u{202b}',
    '\u{202c}',
    '\u{202d}',
    '\u{202e}',
    '\u{2060}',
    '\u{2066}',
    '\u{2067}',
    '\u{2068}',
    '\u{2069}',
    '\u{206f}',
    '\u{feff}',
    '\u{fff9}',
    '\u{e0001}',
    '\u{e0041}',
];

const JOB_UID: &str = "4e0c5d6a-0b1c-4d2e-8f3a-000000000001";
const NODE_UID: &str = "4e0c5d6a-0b1c-4d2e-8f3a-000000000009";
const CRON_UID: &str = "4e0c5d6a-0b1c-4d2e-8f3a-000000000002";
const SET_UID: &str = "4e0c5d6a-0b1c-4d2e-8f3a-000000000005";

/// Serves until the process ends; the port.
pub(crate) fn start() -> u16 {
    serve(Arc::new(|method, uri, _| {
        answer(method, uri.split('?').next().unwrap())
    }))
}

fn answer(method: &str, path: &str) -> (u16, Value) {
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let last = *parts.last().unwrap();
    let writes = method != "GET";
    if last.contains("forbidden") || path.contains("/namespaces/closed/") {
        return (403, refusal(403, "Forbidden"));
    }
    if last.contains("missing") {
        return (404, refusal(404, "NotFound"));
    }
    if method == "POST" {
        return (422, refusal(422, "Invalid"));
    }
    let object = match parts.iter().rev().take(2).collect::<Vec<_>>()[..] {
        [&"broadcastjobs", _] => list(&[job("open"), job("plain")]),
        [&"noderesultslices", _] => list(&[slice()]),
        [&"nodes", _] => list(&[node()]),
        [&"namespaces", _] => list(&[json!({"metadata": {"name": foreign()}})]),
        [&"cronjobs", _] => list(&[cron("cron")]),
        [&"jobs", _] => list(&[child(&[])]),
        [&"daemonsets", _] => list(&[set()]),
        [&"pods", _] => list(&[pod()]),
        [&"controllerrevisions", _] => list(&[revision()]),
        [&"agent", &"daemonsets"] if path.contains("carillon.dev") => set(),
        [_, &"daemonsets"] => return (404, refusal(404, "NotFound")),
        [&"leases", _] => list(&[lease()]),
        [name, &"broadcastjobs"] => job(name),
        [_, &"nodes"] => node(),
        [_, &"cronjobs"] if parts.contains(&"batch") && !writes => {
            return (404, refusal(404, "NotFound"));
        }
        [name, &"cronjobs"] => cron(name),
        [_, &"jobs"] => child(&["Failed"]),
        _ => json!({}),
    };
    (200, object)
}

fn refusal(code: u16, reason: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
        "message": foreign()})
}

fn conditions(types: &[&str]) -> Value {
    let condition = |type_: &&str| {
        json!({"type": type_, "status": "True", "reason": foreign(), "message": foreign(),
            "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    types.iter().map(condition).collect()
}

fn job(name: &str) -> Value {
    let (phase, types) = match name {
        "ended" => ("Failed", &["Failed"][..]),
        _ => ("Running", &["Stalled", "Reconciling"][..]),
    };
    let called = if name == "plain" {
        name.to_owned()
    } else {
        foreign()
    };
    json!({
        "apiVersion": "carillon.dev/v1alpha1", "kind": "BroadcastJob",
        "metadata": {"name": called, "namespace": foreign(), "uid": JOB_UID, "resourceVersion": "7",
            "creationTimestamp": "2026-01-01T00:00:00Z", "generation": 1},
        "spec": {"parallelism": foreign(), "template": {"spec": {
            "nodeSelector": {foreign(): foreign()},
            "containers": [{"name": foreign(), "image": foreign()}]}}},
        "status": {"phase": phase, "desired": 2, "active": 0, "succeeded": 0, "failed": 1,
            "conditions": conditions(types),
            "refused": [{"reason": foreign(), "count": 1, "nodes": [foreign()], "message": foreign()}],
            "failedNodes": [foreign()]},
    })
}

fn slice() -> Value {
    json!({
        "metadata": {"name": "s", "namespace": "ops", "uid": "4e0c5d6a-0b1c-4d2e-8f3a-000000000003",
            "resourceVersion": "8",
            "labels": {"carillon.dev/broadcastjob-uid": JOB_UID, "carillon.dev/slice-index": "0"},
            "ownerReferences": [{"apiVersion": "carillon.dev/v1alpha1", "kind": "BroadcastJob", "name": "open",
                "uid": JOB_UID, "controller": true}]},
        "results": [
            {"nodeName": foreign(), "nodeUID": NODE_UID, "attempt": 1, "state": "Failed", "podName": foreign(),
             "reason": foreign(), "exitCode": 1, "message": foreign()},
            {"nodeName": "node-1", "nodeUID": NODE_UID, "attempt": 1, "state": "Failed", "podName": foreign(),
             "reason": foreign(), "exitCode": 1, "message": foreign()},
        ],
    })
}

fn node() -> Value {
    json!({
        "metadata": {"name": foreign(), "uid": NODE_UID, "resourceVersion": "9", "labels": {foreign(): foreign()}},
        "spec": {"taints": [{"key": foreign(), "value": foreign(), "effect": "NoSchedule"}],
            "unschedulable": true},
        "status": {"conditions": [{"type": "Ready", "status": "False", "reason": foreign(),
            "message": foreign()}]},
    })
}

fn cron(name: &str) -> Value {
    let types: &[&str] = if name == "waits" { &[] } else { &["Stalled"] };
    json!({
        "apiVersion": "carillon.dev/v1alpha1", "kind": "CronJob",
        "metadata": {"name": foreign(), "namespace": "ops", "uid": CRON_UID, "resourceVersion": "7",
            "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"schedule": "0 3 * * *", "concurrencyPolicy": "Forbid",
            "jobTemplate": {"spec": {"template": {"spec": {}}}}},
        "status": {"active": [{"kind": "Job", "name": foreign(), "uid": "4e0c5d6a-0b1c-4d2e-8f3a-000000000004"}],
            "conditions": conditions(types)},
    })
}

fn child(types: &[&str]) -> Value {
    json!({
        "metadata": {"name": foreign(), "namespace": "ops", "uid": "4e0c5d6a-0b1c-4d2e-8f3a-000000000004",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "finalizers": [foreign(), "carillon.dev/run-tracking"],
            "labels": {"carillon.dev/cronjob-uid": CRON_UID},
            "ownerReferences": [{"apiVersion": "carillon.dev/v1alpha1", "kind": "CronJob", "name": "c",
                "uid": CRON_UID, "controller": true}]},
        "status": {"conditions": conditions(types)},
    })
}

fn set() -> Value {
    let nodes = json!([{"reason": foreign(), "count": 9, "sample": [foreign()]}]);
    json!({
        "apiVersion": "carillon.dev/v1alpha1", "kind": "DaemonSet",
        "metadata": {"name": foreign(), "namespace": foreign(), "uid": SET_UID, "resourceVersion": "7",
            "creationTimestamp": "2026-01-01T00:00:00Z", "generation": 1},
        "spec": {"selector": {"matchLabels": {foreign(): foreign()}}, "template": {
            "metadata": {"labels": {foreign(): foreign()}},
            "spec": {"containers": [{"name": foreign(), "image": foreign()}]}}},
        "status": {"observedGeneration": 1, "updateRevision": foreign(), "conditions": conditions(&["Stalled"]),
            "waitingFor": nodes, "excused": nodes, "refused": nodes},
    })
}

fn of_set(more: &Value) -> Value {
    let mut object = json!({"metadata": {
        "name": foreign(), "namespace": "ops", "uid": "4e0c5d6a-0b1c-4d2e-8f3a-000000000006",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "annotations": {"kubernetes.io/change-cause": foreign()},
        "labels": {"controller-revision-hash": foreign()},
        "ownerReferences": [{"apiVersion": "carillon.dev/v1alpha1", "kind": "DaemonSet", "name": "agent",
            "uid": SET_UID, "controller": true}]}});
    for (key, value) in more.as_object().into_iter().flatten() {
        object[key] = value.clone();
    }
    object
}

fn pod() -> Value {
    of_set(&json!({"spec": {"nodeName": foreign()}, "status": {"phase": foreign()}}))
}

fn revision() -> Value {
    let template =
        json!({"metadata": {"labels": {foreign(): foreign()}}, "spec": {foreign(): foreign()}});
    of_set(&json!({"revision": 1, "data": {"spec": {"template": template}}}))
}

/// Renewed at every look.
fn lease() -> Value {
    static LOOKS: AtomicUsize = AtomicUsize::new(0);
    let look = LOOKS.fetch_add(1, Ordering::Relaxed);
    json!({
        "metadata": {"name": format!("carillon{}", foreign()), "namespace": foreign()},
        "spec": {"holderIdentity": foreign(), "renewTime": look.to_string()},
    })
}
