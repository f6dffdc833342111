//! Leases.

use serde_json::{Value, json};

use crate::status::Cause;

const FIELDS: [&str; 7] = [
    "acquireTime",
    "holderIdentity",
    "leaseDurationSeconds",
    "leaseTransitions",
    "preferredHolder",
    "renewTime",
    "strategy",
];

pub(super) fn fill(lease: &mut Value) {
    if !lease["spec"].is_object() {
        lease["spec"] = json!({});
    }
    if let Some(spec) = lease["spec"].as_object_mut() {
        spec.retain(|key, _| FIELDS.contains(&key.as_str()));
    }
}

pub(super) fn check(lease: &Value, _: Option<&Value>) -> Vec<Cause> {
    let spec = &lease["spec"];
    let mut causes = Vec::new();
    let duration = &spec["leaseDurationSeconds"];
    if duration.as_i64().is_some_and(|seconds| seconds <= 0) {
        causes.push(Cause::invalid(
            "spec.leaseDurationSeconds",
            duration,
            "must be greater than 0",
        ));
    }
    let transitions = &spec["leaseTransitions"];
    if transitions.as_i64().is_some_and(|count| count < 0) {
        let why = "must be greater than or equal to 0";
        causes.push(Cause::invalid("spec.leaseTransitions", transitions, why));
    }
    causes
}
