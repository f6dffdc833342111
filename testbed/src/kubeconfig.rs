//! kubeconfig files. JSON is YAML, and kubectl, client-go and kube-rs all read it.

use serde_json::json;

use crate::base64;

/// A kubeconfig for one cluster and one bearer token, with the CA inside.
pub(crate) fn render(name: &str, server: &str, ca_pem: &[u8], token: &str) -> String {
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {
            "server": server,
            "certificate-authority-data": base64::encode(ca_pem),
        }}],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    });
    format!("{config:#}\n")
}
