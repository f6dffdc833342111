//! The BroadcastJob of a scenario.

use serde_json::{Value, json};

use super::edits;
use crate::scenario::{JOB, NAMESPACE, Scenario, Subject, with_pods};

/// A BroadcastJob.
pub static SUBJECT: Subject = Subject {
    kind: "BroadcastJob",
    resource: "broadcastjobs.carillon.dev",
    native: false,
    flags: &["--controllers=broadcastjob"],
    manifest,
    edit: edits::edit,
    mischief: |_, _| false,
    can_pause: true,
    mend: edits::mend,
    depends_on_time: false,
};

/// A BroadcastJob on six nodes, each of which succeeds after two seconds.
pub fn scenario(name: &'static str) -> Scenario {
    Scenario {
        nodes: 6,
        spec: json!({"parallelism": 2}),
        ..Scenario::new(name, &SUBJECT)
    }
}

/// The BroadcastJob of a spec.
pub fn manifest(spec: &Value) -> Value {
    json!({
        "apiVersion": "carillon.dev/v1alpha1",
        "kind": "BroadcastJob",
        "metadata": {"name": JOB, "namespace": NAMESPACE},
        "spec": with_pods(spec),
    })
}
