//! Nodes of a cluster that does not exist.

use carillon_sim::actors::KUBELET_STOPPED;
use serde_json::{Map, Value, json};

/// Before any simulation begins.
const LONG_AGO: &str = "2025-12-01T00:00:00Z";
const ZONES: [&str; 3] = ["zone-a", "zone-b", "zone-c"];

/// So many equal nodes in three zones, with these labels besides the usual ones.
pub fn generate(count: usize, labels: &[(String, String)]) -> Vec<Value> {
    let digits = count.saturating_sub(1).to_string().len();
    let node = |n: usize| {
        let name = format!("node-{n:0digits$}");
        let mut all = Map::new();
        for (key, value) in [
            ("kubernetes.io/hostname", &*name),
            ("kubernetes.io/os", "linux"),
            ("kubernetes.io/arch", "amd64"),
            ("topology.kubernetes.io/zone", ZONES[n % ZONES.len()]),
        ] {
            all.insert(key.to_owned(), json!(value));
        }
        for (key, value) in labels {
            all.insert(key.clone(), json!(value));
        }
        json!({
            "metadata": {"name": name, "labels": all},
            "status": {
                "allocatable": {"cpu": "32", "memory": "128Gi", "ephemeral-storage": "500Gi", "pods": "110"},
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": LONG_AGO}],
            },
        })
    };
    (0..count).map(node).collect()
}

/// A node like one of a cluster, as far as the operator and a scheduler look at it.
pub fn like(node: &Value) -> Value {
    let (meta, status) = (&node["metadata"], &node["status"]);
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let mut ready = conditions.filter(|condition| condition["type"] == "Ready");
    let ready = ready.next().map_or(&Value::Null, |ready| &ready["status"]);
    // A node that is not ready runs nothing, and has not been ready for long.
    let silent = (ready != "True").then(|| json!({KUBELET_STOPPED: "true"}));
    let mut like = json!({
        "metadata": {"name": meta["name"], "labels": meta["labels"], "annotations": silent},
        "spec": {"taints": node["spec"]["taints"], "unschedulable": node["spec"]["unschedulable"]},
        "status": {
            "allocatable": status["allocatable"],
            "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": LONG_AGO}],
        },
    });
    for part in ["metadata", "spec", "status"] {
        if let Some(fields) = like[part].as_object_mut() {
            fields.retain(|_, value| !value.is_null());
        }
    }
    like
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_have_names_of_one_length_and_the_labels_that_were_asked_for() {
        let labels = [("pool".to_owned(), "gpu".to_owned())];
        let nodes = generate(11, &labels);
        let names: Vec<&str> = nodes
            .iter()
            .filter_map(|node| node["metadata"]["name"].as_str())
            .collect();
        assert_eq!((names[0], names[10]), ("node-00", "node-10"));
        let labels = &nodes[4]["metadata"]["labels"];
        assert_eq!(labels["pool"], "gpu");
        assert_eq!(labels["topology.kubernetes.io/zone"], "zone-b");
        assert!(generate(0, &[]).is_empty());
    }

    #[test]
    fn a_node_is_taken_over_without_what_only_its_own_cluster_knows() {
        let node = json!({
            "metadata": {"name": "a", "uid": "1", "resourceVersion": "7", "labels": {"pool": "gpu"}},
            "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}], "podCIDR": "10.0.0.0/24"},
            "status": {
                "allocatable": {"cpu": "4"}, "images": [],
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2030-01-01T00:00:00Z"}],
            },
        });
        let expected = json!({
            "metadata": {"name": "a", "labels": {"pool": "gpu"}},
            "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]},
            "status": {
                "allocatable": {"cpu": "4"},
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": LONG_AGO}],
            },
        });
        assert_eq!(like(&node), expected);
        let silent = like(
            &json!({"metadata": {"name": "a"}, "status": {"conditions": [
                {"type": "Ready", "status": "Unknown"},
            ]}}),
        );
        assert_eq!(silent["metadata"]["annotations"][KUBELET_STOPPED], "true");
        assert_eq!(silent["status"]["conditions"][0]["status"], "Unknown");
    }
}
