//! Namespaces: emptied by a controller before they go.

use serde_json::{Value, json};

pub(super) fn fill(namespace: &mut Value) {
    let name = namespace["metadata"]["name"].clone();
    namespace["metadata"]["labels"]["kubernetes.io/metadata.name"] = name;
    if !namespace["spec"].is_object() {
        namespace["spec"] = json!({});
    }
    if namespace["status"]["phase"].is_null() {
        namespace["status"] = json!({"phase": "Active"});
    }
}

pub(super) fn begin(namespace: &mut Value) {
    namespace["status"] = json!({"phase": "Active"});
    namespace["spec"] = json!({"finalizers": ["kubernetes"]});
}

pub(super) fn keep(new: &mut Value, old: &Value, status: bool) {
    new["spec"] = old["spec"].clone();
    if !status {
        new["status"] = old["status"].clone();
    }
}
