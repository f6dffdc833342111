//! A pod template becomes a pod.

use carillon_api::names::{
    FINALIZER_RESULT_TRACKING, LABEL_BROADCAST_JOB_NAME, LABEL_BROADCAST_JOB_UID,
};
use serde_json::{Map, Value, json};

use crate::object::object;
use crate::object_key::ObjectKey;

/// How a pod gets to its node.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum PodPlacement {
    /// Required node affinity on the node's name; the scheduler binds it when there is room.
    #[default]
    Scheduler,
    /// `spec.nodeName` is set; the scheduler is not asked.
    NodeName,
}

/// The template as written, plus: name, namespace, owner, two labels, our finalizer, the node, and
/// `terminationMessagePolicy: FallbackToLogsOnError` where the user wrote none. Nothing else.
pub fn pod_body(
    template: &Value,
    owner: &ObjectKey,
    name: &str,
    node: &str,
    placement: PodPlacement,
) -> Value {
    let mut spec = written(template, "/spec");
    for container in containers(&mut spec) {
        let policy = container.entry("terminationMessagePolicy");
        policy.or_insert_with(|| json!("FallbackToLogsOnError"));
    }
    match placement {
        PodPlacement::Scheduler => pin_by_affinity(&mut spec, node),
        PodPlacement::NodeName => {
            spec.insert("nodeName".to_owned(), json!(node));
        }
    }
    object([
        ("apiVersion", "v1".into()),
        ("kind", "Pod".into()),
        ("metadata", metadata(template, owner, name)),
        ("spec", spec.into()),
    ])
}

fn metadata(template: &Value, owner: &ObjectKey, name: &str) -> Value {
    let mut labels = written(template, "/metadata/labels");
    let uid = owner.uid.to_string();
    labels.insert(LABEL_BROADCAST_JOB_NAME.to_owned(), json!(owner.name));
    labels.insert(LABEL_BROADCAST_JOB_UID.to_owned(), json!(uid));
    let mut finalizers = finalizers(template);
    finalizers.push(json!(FINALIZER_RESULT_TRACKING));
    let mut metadata = object([
        ("name", name.into()),
        ("namespace", owner.namespace.as_str().into()),
        ("labels", labels.into()),
        ("finalizers", finalizers.into()),
        ("ownerReferences", vec![owner.reference()].into()),
    ]);
    let annotations = template.pointer("/metadata/annotations");
    if let Some(annotations) = annotations.filter(|annotations| annotations.is_object()) {
        metadata["annotations"] = annotations.clone();
    }
    metadata
}

/// The object at this place of a template, such as its labels; empty where there is none.
pub(crate) fn written(template: &Value, path: &str) -> Map<String, Value> {
    let object = template.pointer(path).and_then(Value::as_object);
    object.cloned().unwrap_or_default()
}

/// The finalizers that a template has itself.
pub(crate) fn finalizers(template: &Value) -> Vec<Value> {
    let list = template.pointer("/metadata/finalizers");
    let list = list.and_then(Value::as_array);
    list.cloned().unwrap_or_default()
}

/// All containers of a pod's spec.
pub(crate) fn containers(
    spec: &mut Map<String, Value>,
) -> impl Iterator<Item = &mut Map<String, Value>> {
    let lists = spec.iter_mut();
    let lists = lists.filter(|(key, _)| matches!(&***key, "initContainers" | "containers"));
    let containers = lists.filter_map(|(_, list)| list.as_array_mut()).flatten();
    containers.filter_map(Value::as_object_mut)
}

/// The node's checks were made by us; the scheduler only has to bind. Preferred terms stay.
pub(crate) fn pin_by_affinity(spec: &mut Map<String, Value>, node: &str) {
    let required = json!({"nodeSelectorTerms": [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]});
    let node_affinity = object_at(object_at(spec, "affinity"), "nodeAffinity");
    let field = "requiredDuringSchedulingIgnoredDuringExecution";
    node_affinity.insert(field.to_owned(), required);
}

/// The object under `key`; anything else there is replaced, since the API would refuse it.
fn object_at<'a>(map: &'a mut Map<String, Value>, key: &str) -> &'a mut Map<String, Value> {
    let entry = map.entry(key.to_owned()).or_insert(Value::Null);
    if !entry.is_object() {
        *entry = Value::Object(Map::new());
    }
    match entry {
        Value::Object(object) => object,
        _ => unreachable!("made an object above"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object_key::BROADCAST_JOB;
    use std::sync::Arc;

    fn owner() -> Arc<ObjectKey> {
        let uid = "4e0c5d6a-0b1c-4d2e-8f3a-5b6c7d8e9f00".parse().unwrap();
        ObjectKey::of(BROADCAST_JOB, "ops", "fix", uid)
    }

    #[test]
    fn a_template_passes_verbatim_with_fields_we_do_not_know() {
        let template = json!({
            "metadata": {
                "name": "ignored",
                "labels": {"app": "fix"},
                "annotations": {"a": "b"},
                "finalizers": ["example.com/x"],
            },
            "spec": {
                "fieldFromTheFuture": {"deep": [1, 2.5]},
                "containers": [
                    {"name": "c", "image": "i", "terminationMessagePolicy": "File"},
                    {"name": "d", "image": "i"},
                ],
                "affinity": {"nodeAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}],
                    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []},
                }},
            },
        });
        let pod = pod_body(
            &template,
            &owner(),
            "fix-abc",
            "node-1",
            PodPlacement::Scheduler,
        );
        assert_eq!(
            pod["metadata"],
            json!({
                "name": "fix-abc",
                "namespace": "ops",
                "labels": {
                    "app": "fix",
                    "carillon.dev/broadcastjob-name": "fix",
                    "carillon.dev/broadcastjob-uid": "4e0c5d6a-0b1c-4d2e-8f3a-5b6c7d8e9f00",
                },
                "annotations": {"a": "b"},
                "finalizers": ["example.com/x", "carillon.dev/result-tracking"],
                "ownerReferences": [{
                    "apiVersion": "carillon.dev/v1alpha1", "kind": "BroadcastJob", "name": "fix",
                    "uid": "4e0c5d6a-0b1c-4d2e-8f3a-5b6c7d8e9f00",
                    "controller": true, "blockOwnerDeletion": true,
                }],
            })
        );
        assert_eq!(
            pod["spec"]["fieldFromTheFuture"],
            template["spec"]["fieldFromTheFuture"]
        );
        assert_eq!(
            pod["spec"]["containers"][0],
            template["spec"]["containers"][0]
        );
        assert_eq!(
            pod["spec"]["containers"][1]["terminationMessagePolicy"],
            "FallbackToLogsOnError"
        );
        let affinity = &pod["spec"]["affinity"]["nodeAffinity"];
        assert_eq!(
            affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"][0]["matchFields"]
                [0]["values"],
            json!(["node-1"])
        );
        assert!(affinity["preferredDuringSchedulingIgnoredDuringExecution"].is_array());
    }

    #[test]
    fn node_name_placement_sets_the_node_and_adds_no_affinity() {
        let pod = pod_body(
            &json!({"spec": {}}),
            &owner(),
            "p",
            "n",
            PodPlacement::NodeName,
        );
        assert_eq!(pod["spec"], json!({"nodeName": "n"}));
    }

    #[test]
    fn a_malformed_template_makes_a_pod_the_api_server_will_refuse_and_no_panic() {
        for template in [
            json!(null),
            json!({"metadata": 1, "spec": []}),
            json!({"spec": {"affinity": 3, "containers": [1, null]}}),
        ] {
            let pod = pod_body(&template, &owner(), "p", "n", PodPlacement::Scheduler);
            assert_eq!(pod["metadata"]["name"], "p");
        }
    }
}
