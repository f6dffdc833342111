//! The Job of a scenario.

use carillon_plan::job::MANAGED_BY;
use serde_json::{Value, json};

use super::{edits, mischief};
use crate::scenario::{JOB, NAMESPACE, Scenario, Subject, with_pods};

const OURS: Subject = Subject {
    kind: "Job",
    resource: "jobs.batch",
    native: false,
    flags: &["--controllers=job"],
    manifest: |spec| manifest(JOB, spec, false),
    edit: edits::edit,
    mischief: mischief::mischief,
    can_pause: false,
    mend: mischief::mend,
    depends_on_time: false,
};

/// A Job that names us as its controller.
pub static SUBJECT: Subject = OURS;

/// A Job that names nobody, in a cluster without another controller for it.
pub static NATIVE: Subject = Subject {
    native: true,
    flags: &["--controllers=job", "--serve-native=jobs"],
    manifest: |spec| manifest(JOB, spec, true),
    ..OURS
};

/// A Job that names us as its controller: four pods, two at a time, each of which succeeds after two
/// seconds.
pub fn scenario(name: &'static str) -> Scenario {
    Scenario {
        spec: json!({"completions": 4, "parallelism": 2}),
        ..Scenario::new(name, &SUBJECT)
    }
}

/// The Job of a name and a spec; it names us as its controller, unless it is `native`.
pub(super) fn manifest(name: &str, spec: &Value, native: bool) -> Value {
    let mut spec = with_pods(spec);
    if !native {
        spec["managedBy"] = json!(MANAGED_BY);
    }
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": spec,
    })
}
