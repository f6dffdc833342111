//! What the API server of the shared cluster answers to manifests.

use std::sync::{Mutex, OnceLock, PoisonError};

use http::Method;
use serde_json::Value;

use crate::api::{Api, Refused};
use crate::{shared_cluster, until};

fn api() -> &'static Mutex<Api> {
    static API: OnceLock<Mutex<Api>> = OnceLock::new();
    API.get_or_init(|| Mutex::new(Api::of(shared_cluster())))
}

/// Sends a request of this test binary's client.
pub fn send(method: Method, path: &str, body: &Value) -> Result<Value, Refused> {
    let api = api().lock().unwrap_or_else(PoisonError::into_inner);
    api.send(method, path, body)
}

/// Waits until a CRD is served. `kubectl wait` of 1.37 fails as long as it has no condition.
pub fn wait_established(crd: &str) {
    let condition = r#"-o=jsonpath={.status.conditions[?(@.type=="Established")].status}"#;
    until(crd, || {
        let found = shared_cluster().kubectl_ok(["get", "crd", crd, condition]);
        found.is_ok_and(|found| found.trim() == "True")
    });
}

/// Tries to create it in the namespace `default`, without storing it.
pub fn try_create(object: &Value) -> Result<Value, Refused> {
    let text = |field: &str| object[field].as_str().expect("a kind of some version");
    let (version, plural) = (text("apiVersion"), text("kind").to_lowercase());
    let path =
        format!("/apis/{version}/namespaces/default/{plural}s?dryRun=All&fieldValidation=Strict");
    send(Method::POST, &path, object)
}

/// An object with `value` at `path`, a JSON pointer whose missing objects are made.
#[must_use]
pub fn with(mut object: Value, path: &str, value: Value) -> Value {
    let mut at = &mut object;
    for part in path.trim_start_matches('/').split('/') {
        at = match part.parse::<usize>() {
            Ok(place) => &mut at[place],
            Err(_) => &mut at[part],
        };
    }
    *at = value;
    object
}
