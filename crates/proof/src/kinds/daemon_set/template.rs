//! The template of a DaemonSet.

use serde_json::{Value, json};

/// The template with this image.
pub(super) fn template(image: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": "agent"}},
        "spec": {"containers": [{"name": "main", "image": image}]},
    })
}
