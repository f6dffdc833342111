//! The parts of a cluster that react to its state, one after the other, on the virtual clock.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{Actor, Delete, Server};

/// Annotation of a node: `true` stops its kubelet.
pub const KUBELET_STOPPED: &str = "sim.carillon.dev/kubelet-stopped";

/// Something that reacts to the state of the cluster.
pub trait Component {
    /// Does what is due. When it wants to be called again at the latest, changes apart.
    fn act(&mut self, now: Timestamp) -> Option<Timestamp>;
}

/// Lets the components act, for ever.
pub async fn run(server: Server, mut components: Vec<Box<dyn Component>>) {
    let mut changes = server.changes();
    loop {
        changes.see();
        let now = server.now();
        let wake = components
            .iter_mut()
            .filter_map(|component| component.act(now))
            .min();
        if changes.has_changed() {
            // They react to each other, a moment later.
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            continue;
        }
        let sleep = async {
            match wake {
                Some(wake) => {
                    let wait = wake.duration_since(server.now()).try_into();
                    tokio::time::sleep(wait.unwrap_or_default()).await;
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = changes.changed() => {}
            () = sleep => {}
        }
    }
}

/// All objects of a resource.
pub(super) fn all(actor: &Actor, resource: &str) -> Vec<Arc<Value>> {
    actor.list(resource, "", "").unwrap_or_default()
}

/// A string of an object, at a path such as `/metadata/name`, or nothing.
pub(super) fn text<'a>(object: &'a Value, path: &str) -> &'a str {
    // Not `Value::pointer`, which unescapes each segment into a new string: this is asked very often.
    let mut segments = path.split('/').skip(1);
    segments
        .try_fold(object, |value, segment| value.get(segment))
        .and_then(Value::as_str)
        .unwrap_or_default()
}

pub(super) fn uid(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

/// Whether a pod has ended.
pub fn has_ended(pod: &Value) -> bool {
    matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")
}

/// As the API writes times.
pub(super) fn seconds(time: Timestamp) -> Value {
    json!(crate::clock::seconds(time))
}

/// Merges into the status of a pod or node. One that is gone or was replaced needs none.
pub(super) fn patch_status(actor: &Actor, object: &Value, status: &Value) -> Option<u64> {
    let resource = if object["spec"]["containers"].is_null() {
        "nodes"
    } else {
        "pods"
    };
    let (namespace, name) = (
        text(object, "/metadata/namespace"),
        text(object, "/metadata/name"),
    );
    let patched = actor.patch_status(resource, namespace, name, status).ok()?;
    Some(version(&patched))
}

/// The resourceVersion of an object.
pub(super) fn version(object: &Value) -> u64 {
    let version = text(object, "/metadata/resourceVersion").parse();
    version.unwrap_or_default()
}

/// Deletes this very pod.
pub(super) fn delete(actor: &Actor, pod: &Value, grace: Option<i64>) {
    let how = Delete {
        grace,
        uid: Some(uid(pod).to_owned()),
        ..Delete::default()
    };
    let (namespace, name) = (
        text(pod, "/metadata/namespace"),
        text(pod, "/metadata/name"),
    );
    drop(actor.delete("pods", namespace, name, &how));
}
