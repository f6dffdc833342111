//! What scenarios begin with.

use serde_json::{Value, json};

/// A node that takes pods.
pub fn ready_node(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {
            "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        },
    })
}

/// The spec of a job, with a template for its pods.
pub fn with_pods(spec: &Value) -> Value {
    let mut spec = spec.clone();
    if spec["template"].is_null() {
        spec["template"] = json!({});
    }
    let template = &mut spec["template"]["spec"];
    if template["containers"].is_null() {
        template["containers"] = json!([{"name": "main", "image": "example.com/work:1"}]);
    }
    if template["restartPolicy"].is_null() {
        template["restartPolicy"] = json!("Never");
    }
    spec
}
