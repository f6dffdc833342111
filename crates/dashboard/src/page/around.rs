//! What every object has around it: metadata, conditions, events.

use serde_json::{Value, json};

use super::{ObjectAddress, Sources};
use crate::cluster::{Cluster, EVENTS, Selection};

/// Events that are shown, the last ones.
const EVENTS_SHOWN: usize = 30;

/// The part of a page's head that is the same for all kinds.
pub(super) fn head(
    cluster: &Cluster,
    at: &ObjectAddress,
    object: &Value,
    sources: &mut Sources,
) -> Value {
    let meta = &object["metadata"];
    let conditions = object["status"]["conditions"].as_array();
    let events = events(cluster, at, meta, sources);
    json!({
        "kind": object["kind"],
        "apiVersion": object["apiVersion"],
        "resource": at.resource.name(),
        "namespace": meta["namespace"],
        "name": meta["name"],
        "uid": meta["uid"],
        "command": cluster.command(&at.namespace),
        "generation": meta["generation"],
        "created": meta["creationTimestamp"],
        "deleting": meta["deletionTimestamp"].is_string(),
        "image": object["spec"]["template"]["spec"]["containers"][0]["image"],
        "conditions": conditions.into_iter().flatten().map(|one| json!({
            "type": one["type"], "status": one["status"], "reason": one["reason"],
            "message": one["message"], "since": one["lastTransitionTime"],
        })).collect::<Vec<_>>(),
        "events": events,
    })
}

fn events(
    cluster: &Cluster,
    at: &ObjectAddress,
    meta: &Value,
    sources: &mut Sources,
) -> Vec<Value> {
    let table = cluster.selected(Selection {
        resource: EVENTS,
        namespace: Some(at.namespace.clone()),
        labels: String::new(),
        fields: format!(
            "involvedObject.uid={}",
            meta["uid"].as_str().unwrap_or_default()
        ),
    });
    sources.add("events", table.reading());
    let mut events = table.map(|_, event| {
        let last = [
            &event["series"]["lastObservedTime"],
            &event["lastTimestamp"],
            &event["eventTime"],
            &event["metadata"]["creationTimestamp"],
        ];
        let last = last.into_iter().find(|time| time.is_string());
        let series = event["series"]["count"]
            .as_i64()
            .or_else(|| event["count"].as_i64());
        json!({
            "type": event["type"], "reason": event["reason"],
            "message": event["message"], "last": last, "count": series.unwrap_or(1),
        })
    });
    events.sort_by(|a, b| b["last"].as_str().cmp(&a["last"].as_str()));
    events.truncate(EVENTS_SHOWN);
    events
}

/// What may be done, as a button: whether it is offered, and why not.
pub(super) fn verb(verb: &str, label: &str, offered: Result<bool, String>) -> Value {
    match offered {
        Ok(offered) => json!({"verb": verb, "label": label, "offered": offered}),
        Err(why) => json!({"verb": verb, "label": label, "offered": false, "why": why}),
    }
}
