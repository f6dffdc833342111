//! Nodes.

use serde_json::{Value, json};

pub(super) fn fill(node: &mut Value) {
    for part in ["spec", "status"] {
        if !node[part].is_object() {
            node[part] = json!({});
        }
    }
}

/// A status write may touch the metadata too, as for every built-in kind.
pub(super) fn keep(new: &mut Value, old: &Value, status: bool) {
    let part = if status { "spec" } else { "status" };
    new[part] = old[part].clone();
}
