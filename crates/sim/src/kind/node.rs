//! Nodes.

use serde_json::{Value, json};

pub(super) fn fill(node: &mut Value) {
    for part in ["spec", "status"] {
        if !node[part].is_object() {
            node[part] = json!({});
        }
    }
    // Go leaves out what is false.
    if node["spec"]["unschedulable"] == false
        && let Some(spec) = node["spec"].as_object_mut()
    {
        spec.remove("unschedulable");
    }
}

/// A status write may touch the metadata too, as for every built-in kind.
pub(super) fn keep(new: &mut Value, old: &Value, status: bool) {
    let part = if status { "spec" } else { "status" };
    new[part] = old[part].clone();
}
