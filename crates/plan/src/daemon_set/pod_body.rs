//! The template of a DaemonSet becomes a pod.

use serde_json::{Map, Value, json};

use super::action::NewPod;
use super::pod::{LABEL_GENERATION, LABEL_REVISION};
use super::should_run::automatic_tolerations;
use super::spec::DaemonSet;
use crate::name::MAX_NAME;
use crate::object::object;
use crate::pod_body::{finalizers, pin_by_affinity, written};

/// The template as written, plus: name (and what it would be generated from), namespace, owner, the labels of its
/// revision, the node, and what every pod of a DaemonSet tolerates. Nothing else. Source: `CreatePodTemplate`,
/// `ReplaceDaemonSetPodNodeNameNodeAffinity`.
pub fn pod_body(set: &DaemonSet, template: &Value, pod: &NewPod) -> Value {
    let owner = &set.meta.owner;
    let mut labels = written(template, "/metadata/labels");
    labels.insert(LABEL_REVISION.to_owned(), json!(pod.hash));
    if let Some(generation) = set.template_generation {
        labels.insert(LABEL_GENERATION.to_owned(), json!(generation.to_string()));
    }
    // What a name would be generated from must be one itself.
    let dash = if owner.name.len() < MAX_NAME { "-" } else { "" };
    let mut metadata = object([
        ("name", pod.name.as_str().into()),
        ("generateName", format!("{}{dash}", owner.name).into()),
        ("namespace", owner.namespace.as_str().into()),
        ("labels", labels.into()),
        ("ownerReferences", vec![owner.reference()].into()),
    ]);
    let finalizers = finalizers(template);
    if !finalizers.is_empty() {
        metadata["finalizers"] = finalizers.into();
    }
    let annotations = template.pointer("/metadata/annotations");
    if let Some(annotations) = annotations.filter(|annotations| annotations.is_object()) {
        metadata["annotations"] = annotations.clone();
    }
    let mut spec = written(template, "/spec");
    tolerate(&mut spec);
    pin_by_affinity(&mut spec, &pod.node);
    object([
        ("apiVersion", "v1".into()),
        ("kind", "Pod".into()),
        ("metadata", metadata),
        ("spec", spec.into()),
    ])
}

/// Adds what every pod tolerates; what says the same for a limited time is replaced.
fn tolerate(spec: &mut Map<String, Value>) {
    let host_network = spec.get("hostNetwork") == Some(&Value::Bool(true));
    let tolerations = spec.entry("tolerations").or_insert(Value::Null);
    if !tolerations.is_array() {
        *tolerations = json!([]);
    }
    let Some(tolerations) = tolerations.as_array_mut() else {
        return;
    };
    for (key, effect) in automatic_tolerations(host_network) {
        let ours = json!({"key": key, "operator": "Exists", "effect": effect});
        let says_the_same = |known: &Value| {
            ["key", "operator", "effect"]
                .iter()
                .all(|field| known.get(*field) == ours.get(*field))
                && known.get("value").is_none_or(|value| value == "")
        };
        match tolerations.iter_mut().find(|known| says_the_same(known)) {
            Some(known) => *known = ours,
            None => tolerations.push(ours),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::Meta;
    use crate::object_key::{NATIVE_DAEMON_SET, ObjectKey};

    const UID: &str = "4e0c5d6a-0b1c-4d2e-8f3a-5b6c7d8e9f00";

    fn body(template: &Value, generation: Option<i64>) -> Value {
        let owner = ObjectKey::of(NATIVE_DAEMON_SET, "ops", "agent", UID.parse().unwrap());
        let meta = Meta::new(owner, jiff::Timestamp::UNIX_EPOCH);
        let spec = json!({"template": template});
        let set = DaemonSet::read(meta, generation, &spec, &json!({}));
        let pod = NewPod {
            name: "agent-x".to_owned(),
            node: "n1".to_owned(),
            hash: "h".to_owned(),
        };
        pod_body(&set, template, &pod)
    }

    #[test]
    fn a_template_passes_verbatim_with_its_revision_and_its_node() {
        let template = json!({
            "metadata": {"name": "ignored", "labels": {"app": "agent"}, "annotations": {"a": "b"},
                "finalizers": ["example.com/x"]},
            "spec": {
                "fieldFromTheFuture": {"deep": [1, 2.5]},
                "nodeSelector": {"pool": "test"},
                "affinity": {"podAffinity": {}, "nodeAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}],
                    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}, {}]},
                }},
            },
        });
        let pod = body(&template, Some(3));
        assert_eq!(
            pod["metadata"],
            json!({
                "name": "agent-x", "generateName": "agent-", "namespace": "ops",
                "labels": {"app": "agent", "controller-revision-hash": "h", "pod-template-generation": "3"},
                "annotations": {"a": "b"}, "finalizers": ["example.com/x"],
                "ownerReferences": [{
                    "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": UID,
                    "controller": true, "blockOwnerDeletion": true,
                }],
            })
        );
        let spec = &pod["spec"];
        for field in ["fieldFromTheFuture", "nodeSelector"] {
            assert_eq!(spec[field], template["spec"][field]);
        }
        assert_eq!(
            spec["affinity"],
            json!({"podAffinity": {}, "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}],
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]},
            }})
        );
        let unlabelled = body(&json!({}), None);
        let labels = json!({"controller-revision-hash": "h"});
        assert_eq!(unlabelled["metadata"]["labels"], labels);
    }

    #[test]
    fn what_every_pod_tolerates_takes_the_place_of_the_same_for_a_limited_time() {
        let own = json!({"key": "own", "operator": "Exists"});
        let limited = json!({"key": "node.kubernetes.io/not-ready", "operator": "Exists",
            "effect": "NoExecute", "tolerationSeconds": 30});
        for (host_network, count) in [(false, 7), (true, 8)] {
            let spec = json!({"tolerations": [own, limited], "hostNetwork": host_network});
            let pod = body(&json!({"spec": spec}), None);
            let tolerations = pod["spec"]["tolerations"].as_array().unwrap();
            assert_eq!((tolerations.len(), &tolerations[0]), (count, &own));
            assert_eq!(tolerations[1]["tolerationSeconds"], Value::Null);
        }
    }

    #[test]
    fn a_malformed_template_makes_a_pod_the_api_server_will_refuse_and_no_panic() {
        for template in [
            json!(null),
            json!({"metadata": 1, "spec": []}),
            json!({"spec": {"affinity": 3, "tolerations": {}}}),
        ] {
            assert_eq!(body(&template, None)["metadata"]["name"], "agent-x");
        }
    }
}
