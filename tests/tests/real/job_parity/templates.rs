//! What pods are made of, and whether they can be made.

use carillon_testbed::Fate;
use http::Method;
use serde_json::{Value, json};

use super::scenario::{Deed, QUOTAS, Scenario, all_pods, ends, fails, indexed, ready, runs};
use crate::parity::stage::PodDeed;

fn quota(pods: u32) -> Value {
    json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "pods"},
        "spec": {"hard": {"pods": pods.to_string()}}})
}

fn containers(names: &[&str]) -> Value {
    names
        .iter()
        .map(|name| json!({"name": name, "image": "busybox:1.37"}))
        .collect()
}

/// The conditions of a pod with Ready turned to something.
fn with_ready(pod: &Value, ready: &str) -> Value {
    let mut conditions = pod["status"]["conditions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    for condition in &mut conditions {
        if condition["type"] == "Ready" {
            condition["status"] = json!(ready);
        }
    }
    json!({"conditions": conditions})
}

fn any(_: &Value) -> bool {
    true
}

/// Scenarios.
pub(crate) fn all() -> Vec<Scenario> {
    let marked = json!({"template": {"metadata": {
        "labels": {"app": "report", "empty": ""},
        "annotations": {"note": "kept"},
    }}});
    let named = json!({"template": {"metadata": {"name": "ignored", "generateName": "ignored-"},
        "spec": {"hostname": "mine", "subdomain": "there", "priority": 0}}});
    let inits =
        json!({"template": {"spec": {"initContainers": containers(&["prepare", "fetch"])}}});
    let sidecar = json!({"template": {"spec": {"initContainers": [
        {"name": "proxy", "image": "busybox:1.37", "restartPolicy": "Always"}]}}});
    let finalizer = json!({"template": {"metadata": {"finalizers": ["example.com/kept"]}}});
    let two = json!({"completions": 2, "parallelism": 2});
    let long = "j-a-name-of-sixty-three-characters-which-is-the-longest-a-label";
    assert_eq!(long.len(), 63);
    let long_indexed = &long[..60];
    let hangs = all_pods(&Fate::hangs());
    vec![
        Scenario::of("labels-and-annotations", std::slice::from_ref(&marked)),
        Scenario::of("labels-of-the-job", &[marked])
            .job(&json!({"metadata": {"labels": {"team": "a"}, "annotations": {"b": "c"}}})),
        Scenario::of("names-in-the-template", std::slice::from_ref(&named)),
        Scenario::of("names-in-the-template-of-indexes", &[named, indexed(2, 2)]),
        Scenario::of("init-containers", std::slice::from_ref(&inits)),
        Scenario::of("init-containers-of-indexes", &[inits, indexed(2, 2)]),
        Scenario::of("sidecar", std::slice::from_ref(&sidecar)),
        Scenario::of("sidecar-fails-once", &[sidecar]).fates(&[fails(1), ends()]),
        Scenario::of(
            "two-containers",
            &[json!({"template": {"spec":
            {"containers": containers(&["main", "side"])}}})],
        ),
        Scenario::of("finalizer-in-the-template", &[finalizer]),
        Scenario::of("longest-name", &[]).job(&json!({"metadata": {"name": long}})),
        Scenario::of("long-name-of-indexes", &[indexed(2, 2)])
            .job(&json!({"metadata": {"name": long_indexed}})),
        Scenario::of("finalizer-of-the-job", &[])
            .job(&json!({"metadata": {"finalizers": ["example.com/kept"]}})),
        Scenario::of("no-room", std::slice::from_ref(&two))
            .before(QUOTAS, quota(0))
            .until(|here| here.told("FailedCreate")),
        Scenario::of("no-room-at-first", std::slice::from_ref(&two))
            .before(QUOTAS, quota(0))
            .when(
                |here| here.told("FailedCreate"),
                Deed::Request(Method::DELETE, "api/v1/resourcequotas/pods", Value::Null),
            ),
        Scenario::of("room-for-one", &[two.clone(), all_pods(&runs("4500ms"))])
            .before(QUOTAS, quota(1)),
        Scenario::of(
            "no-such-account",
            &[json!({"template": {"spec": {"serviceAccountName": "nobody"}}})],
        )
        .until(|here| here.told("FailedCreate")),
        Scenario::of(
            "never-starts",
            &[all_pods(&Fate::never_starts("ImagePullBackOff"))],
        )
        .until(|here| here.count("active") == 1),
        Scenario::of(
            "waits-for-a-node",
            &[json!({"template": {"spec":
            {"nodeSelector": {"no": "node"}}}})],
        )
        .until(|here| here.count("active") == 1),
        Scenario::of("ready-and-not", &[two, hangs])
            .pod(
                |here| here.count("ready") == 2,
                any,
                PodDeed::Status(|pod| with_ready(pod, "False")),
            )
            .pod(
                |here| here.count("ready") == 1,
                any,
                PodDeed::Status(|pod| with_ready(pod, "True")),
            )
            .until(|here| here.count("ready") == 2),
        Scenario::of(
            "starts-late",
            &[all_pods(&ends().with("start-delay", "3500ms"))],
        )
        .when(
            ready,
            Deed::Patch(json!({"metadata": {"annotations": {"seen": "running"}}})),
        ),
    ]
}
