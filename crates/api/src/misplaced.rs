//! Fields that a Job has in its spec and a BroadcastJob elsewhere.
//!
//! The API server drops unknown fields in silence for whoever does not ask for strict validation. A deadline or a
//! `suspend` that vanishes is found out too late, so these are in the schema, and refused.

use kube::core::{Message, Reason, Rule};
use serde_json::{Value, json};

use crate::open_schema::with_rules;

/// The field, its type in a Job, and what to write here.
const FIELDS: [(&str, &str, &str); 4] = [
    (
        "activeDeadlineSeconds",
        "integer",
        "completionPolicy.activeDeadlineSeconds",
    ),
    ("backoffLimit", "integer", "backoffLimitPerNode"),
    ("suspend", "boolean", "paused"),
    (
        "ttlSecondsAfterFinished",
        "integer",
        "completionPolicy.ttlSecondsAfterFinished",
    ),
];

/// Adds them to the schema of a spec of a BroadcastJob. `path`: where that is in its object.
pub(crate) fn refuse(spec: &mut Value, path: &str) {
    let mut rules = Vec::new();
    for (field, type_, here) in FIELDS {
        spec["properties"][field] = json!({
            "type": type_,
            "description": format!("Of Jobs. Not of BroadcastJobs, which have {path}.{here}."),
        });
        let rule = Rule::new(format!("!has(self.{field})"))
            .message(Message::Message(format!(
                "is a field of Jobs: remove it and write {path}.{here}"
            )))
            .field_path(format!(".{field}"))
            .reason(Reason::FieldValueForbidden);
        rules.push(rule);
    }
    with_rules(spec, &rules);
}
