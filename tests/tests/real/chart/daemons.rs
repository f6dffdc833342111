//! A DaemonSet that needs every right the chart grants for it.

use anyhow::Result;
use carillon_testbed::Cluster;
use serde_json::{Value, json};

use super::story::get;
use super::work::until;

const NODE: &str = "node-0000";
const ANOTHER: &str = "node-0001";

fn apply(cluster: &Cluster, object: &Value) -> Result<()> {
    cluster.kubectl_stdin(["apply", "-f", "-"], &object.to_string())?;
    Ok(())
}

fn daemon_set(namespace: &str, image: &str, node: &str) -> Value {
    json!({
        "apiVersion": "carillon.dev/v1alpha1", "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "revisionHistoryLimit": 1,
            "template": {
                "metadata": {"labels": {"app": "agent"}},
                "spec": {"nodeName": node, "containers": [{"name": "work", "image": image}]},
            },
        },
    })
}

/// A pod is adopted and replaced, an old template comes back, its revisions grow beyond the limit, and it moves to
/// another node.
pub(super) fn daemon_sets(cluster: &Cluster, namespace: &str) -> Result<()> {
    let orphan = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "orphan", "namespace": namespace, "labels": {"app": "agent"}},
        "spec": {"nodeName": NODE, "containers": [{"name": "work", "image": "busybox:1"}]},
    });
    apply(cluster, &orphan)?;
    for (image, node) in [
        ("busybox:1", NODE),
        ("busybox:2", NODE),
        ("busybox:1", NODE),
        ("busybox:3", ANOTHER),
    ] {
        apply(cluster, &daemon_set(namespace, image, node))?;
        until(cluster, &format!("agent runs {image}"), || {
            let set = get(cluster, "cds", namespace, &["agent"])?;
            let observed = set["status"]["observedGeneration"] == set["metadata"]["generation"];
            let pods = get(cluster, "pods", namespace, &["--selector=app=agent"])?;
            let runs = pods["items"][0]["spec"]["containers"][0]["image"] == image;
            Ok(observed && runs && set["status"]["summary"] == "Complete")
        })?;
    }
    until(cluster, "one old revision is kept", || {
        let all = get(cluster, "controllerrevisions", namespace, &[])?;
        Ok(all["items"].as_array().map(Vec::len) == Some(2))
    })?;
    cluster.kubectl_ok(["delete", "cds", "agent", "--namespace", namespace])?;
    Ok(())
}
