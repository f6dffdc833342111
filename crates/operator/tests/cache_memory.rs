//! What the cache holds for an object, of objects as a large cluster has them.

// The functions that tests share are tests too.
#![allow(clippy::unwrap_used)]

use carillon_operator::gate::Kind;
use carillon_operator::kinds;
use carillon_operator::kinds::broadcast_job::SlimBroadcastJob;
use carillon_operator::slim::{SlimNode, SlimPod};
use carillon_operator::store::{Row, Tables};
use serde_json::{Value, json};

const OBJECTS: usize = 2_000;
const JOB: &str = "4e0c5d6a-0b1c-4d2e-8f3a-5b6c7d8e9f00";

fn uid(kind: u8, n: usize) -> String {
    format!("4e0c5d6a-0b1c-4d2e-8f{kind:02x}-{n:012x}")
}

fn node_name(n: usize) -> String {
    format!(
        "ip-10-{}-{}-17.eu-central-1.compute.internal",
        n / 250,
        n % 250
    )
}

/// A node of a managed cluster.
fn node(n: usize) -> Value {
    let name = node_name(n);
    let condition = |type_: &str, status: &str| {
        json!({"type": type_, "status": status, "reason": "Because", "message": "kubelet says so",
            "lastHeartbeatTime": "2026-01-01T00:00:10Z", "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let amounts = json!({"cpu": "15890m", "ephemeral-storage": "95551679124", "hugepages-1Gi": "0",
        "hugepages-2Mi": "0", "memory": "62144932Ki", "pods": "234"});
    json!({
        "metadata": {
            "name": name, "uid": uid(1, n), "resourceVersion": (n + 7).to_string(),
            "labels": {
                "beta.kubernetes.io/arch": "amd64",
                "beta.kubernetes.io/instance-type": "m6i.4xlarge",
                "beta.kubernetes.io/os": "linux",
                "example.com/capacity-type": "on-demand",
                "example.com/node-pool": format!("pool-{}", n % 8),
                "failure-domain.beta.kubernetes.io/region": "eu-central-1",
                "failure-domain.beta.kubernetes.io/zone": format!("eu-central-1{}", n % 3),
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "node.kubernetes.io/instance-type": "m6i.4xlarge",
                "topology.kubernetes.io/region": "eu-central-1",
                "topology.kubernetes.io/zone": format!("eu-central-1{}", n % 3),
            },
            "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:status": {"f:conditions": {}}}}],
        },
        "spec": {"providerID": format!("cloud:///zone/i-{n:017x}"),
            "taints": [{"key": "example.com/pool", "value": "batch", "effect": "NoSchedule"}]},
        "status": {
            "allocatable": amounts, "capacity": amounts,
            "conditions": [condition("MemoryPressure", "False"), condition("DiskPressure", "False"),
                condition("PIDPressure", "False"), condition("Ready", "True")],
            "images": [{"names": ["example.com/agent:1"], "sizeBytes": 1}],
        },
    })
}

/// A pod of a job, running or ended.
fn pod(n: usize, ended: bool) -> Value {
    let started = json!({"startedAt": "2026-01-01T00:00:05Z"});
    let state = if ended {
        json!({"terminated": {"exitCode": 3, "reason": "Error", "startedAt": "2026-01-01T00:00:05Z",
            "finishedAt": "2026-01-01T00:00:09Z", "message": "no space left on /var/lib/agent"}})
    } else {
        json!({"running": started})
    };
    json!({
        "metadata": {
            "name": format!("upgrade-agent-{n:010}"), "namespace": "ops", "uid": uid(2, n),
            "resourceVersion": (n + 900_007).to_string(),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "finalizers": ["carillon.dev/result-tracking"],
            "labels": {
                "carillon.dev/broadcastjob-name": "upgrade-agent",
                "carillon.dev/broadcastjob-uid": JOB,
            },
            "ownerReferences": [{"apiVersion": "carillon.dev/v1alpha1", "kind": "BroadcastJob",
                "name": "upgrade-agent", "uid": JOB, "controller": true, "blockOwnerDeletion": true}],
            "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:status": {"f:conditions": {}}}}],
        },
        "spec": {"nodeName": node_name(n), "containers": [{"name": "main", "image": "example.com/agent:1"}]},
        "status": {
            "phase": if ended { "Failed" } else { "Running" },
            "startTime": "2026-01-01T00:00:01Z",
            "conditions": [{"type": "Ready", "status": "True"}, {"type": "PodScheduled", "status": "True"}],
            "containerStatuses": [{"name": "main", "restartCount": 0, "state": state}],
        },
    })
}

fn enter<R: Row>(tables: &mut Tables, object: Value) {
    let object: R = serde_json::from_value(object).unwrap();
    object.enter(tables, &mut Vec::new());
}

/// Bytes held for each object of a kind.
fn bytes_each(tables: &Tables, kind: Kind) -> usize {
    let sizes = kinds::sizes(tables);
    let (_, rows, bytes) = sizes.iter().find(|(of, ..)| *of == kind).unwrap();
    assert_eq!(rows, OBJECTS);
    bytes / rows
}

#[test]
fn a_pod_takes_at_most_400_bytes_and_a_node_with_many_labels_600() {
    for ended in [false, true] {
        let mut tables = Tables::default();
        let template =
            json!({"spec": {"containers": [{"name": "main", "image": "example.com/agent:1"}]}});
        let job = json!({"metadata": {"name": "upgrade-agent", "namespace": "ops", "uid": JOB},
            "spec": {"template": template}});
        enter::<SlimBroadcastJob>(&mut tables, job);
        for n in 0..OBJECTS {
            enter::<SlimNode>(&mut tables, node(n));
            enter::<SlimPod>(&mut tables, pod(n, ended));
        }
        let (node, pod) = (
            bytes_each(&tables, Kind::Node),
            bytes_each(&tables, Kind::Pod),
        );
        let word = if ended { "failed" } else { "running" };
        println!("node {node}, {word} pod {pod}");
        assert!(node <= 600, "{node}");
        assert!(pod <= 400, "{word}: {pod}");
    }
}
