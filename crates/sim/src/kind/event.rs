//! Events.

use serde_json::Value;

use crate::status::Cause;

pub(super) const FIELDS: [&str; 14] = [
    "action",
    "deprecatedCount",
    "deprecatedFirstTimestamp",
    "deprecatedLastTimestamp",
    "deprecatedSource",
    "eventTime",
    "note",
    "reason",
    "regarding",
    "related",
    "reportingController",
    "reportingInstance",
    "series",
    "type",
];

pub(super) fn check(event: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    let text = |field: &str| event[field].as_str().unwrap_or_default();
    for (field, longest) in [
        ("reportingController", 128),
        ("reportingInstance", 128),
        ("action", 128),
        ("reason", 128),
    ] {
        if text(field).is_empty() {
            causes.push(Cause::required(field));
        } else if text(field).len() > longest {
            causes.push(Cause::invalid(field, &event[field], "is too long"));
        }
    }
    if text("note").len() > 1024 {
        causes.push(Cause::invalid("note", &event["note"], "is too long"));
    }
    if event["eventTime"].is_null() {
        causes.push(Cause::required("eventTime"));
    }
    if !["Normal", "Warning"].contains(&text("type")) {
        causes.push(Cause::invalid("type", &event["type"], "unknown event type"));
    }
    let about = event["regarding"]["namespace"].as_str().unwrap_or_default();
    let namespace = event["metadata"]["namespace"].as_str().unwrap_or_default();
    if about != namespace && !(about.is_empty() && ["default", "kube-system"].contains(&namespace))
    {
        let why = "does not match event.namespace";
        causes.push(Cause::invalid(
            "regarding.namespace",
            &event["regarding"],
            why,
        ));
    }
    // Of an event that is there only the series and the metadata change.
    for field in ["action", "reason", "note", "type", "regarding", "eventTime"] {
        if old.is_some_and(|old| old[field] != event[field]) {
            causes.push(Cause::invalid(field, &event[field], "field is immutable"));
        }
    }
    causes
}
