//! Pods.

use serde_json::{Map, Value, json};

use super::pod_template;
use crate::status::Cause;

/// Seconds a deletion gives: none to a pod that no kubelet runs.
pub(super) fn grace(pod: &Value, asked: Option<i64>) -> i64 {
    let own = pod["spec"]["terminationGracePeriodSeconds"].as_i64();
    let bound = pod["spec"]["nodeName"]
        .as_str()
        .is_some_and(|node| !node.is_empty());
    let ended = ["Succeeded", "Failed"]
        .iter()
        .any(|phase| pod["status"]["phase"] == **phase);
    match asked.or(own).unwrap_or(0) {
        _ if !bound || ended => 0,
        seconds if seconds < 0 => 1,
        seconds => seconds,
    }
}

pub(super) fn fill(pod: &mut Value) {
    pod_template::fill(pod);
    if !pod["status"].is_object() {
        pod["status"] = json!({});
    }
    if pod["status"]["phase"].is_null() {
        pod["status"]["phase"] = json!("Pending");
    }
}

pub(super) fn begin(pod: &mut Value) {
    pod["status"] = json!({"phase": "Pending"});
    tolerate(&mut pod["spec"]);
}

/// What the admission plugin DefaultTolerationSeconds adds.
fn tolerate(spec: &mut Value) {
    let mut tolerations = spec["tolerations"].as_array().cloned().unwrap_or_default();
    for key in [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ] {
        let own = |toleration: &Value| {
            let (of, effect) = (&toleration["key"], &toleration["effect"]);
            let of = of.as_str().unwrap_or_default();
            let effect = effect.as_str().unwrap_or_default();
            (of == key || of.is_empty()) && (effect == "NoExecute" || effect.is_empty())
        };
        if !tolerations.iter().any(own) {
            tolerations.push(json!({
                "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300,
            }));
        }
    }
    spec["tolerations"] = json!(tolerations);
}

pub(super) fn keep(new: &mut Value, old: &Value, status: bool) {
    if !status {
        new["status"] = old["status"].clone();
        return;
    }
    new["spec"] = old["spec"].clone();
    // Old kubelets did not send them back as they were.
    for field in ["ownerReferences", "deletionTimestamp"] {
        let value = old["metadata"].get(field).cloned();
        if let Some(meta) = new["metadata"].as_object_mut() {
            meta.remove(field);
            meta.extend(value.map(|value| (field.to_owned(), value)));
        }
    }
}

pub(super) fn check(pod: &Value, old: Option<&Value>) -> Vec<Cause> {
    let spec = &pod["spec"];
    let mut causes = Vec::new();
    pod_template::check_containers(spec, "spec", &mut causes);
    if !["Always", "OnFailure", "Never"]
        .iter()
        .any(|policy| spec["restartPolicy"] == **policy)
    {
        let message = format!("Unsupported value: {}", spec["restartPolicy"]);
        causes.push(Cause::new(
            "FieldValueNotSupported",
            "spec.restartPolicy",
            message,
        ));
    }
    if let Some(old) = old
        && fixed(spec) != fixed(&old["spec"])
    {
        let why = "pod updates may not change fields other than `spec.containers[*].image`, \
                   `spec.initContainers[*].image`, `spec.activeDeadlineSeconds`, \
                   `spec.tolerations` (only additions to existing tolerations), \
                   `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was \
                   previously negative)";
        causes.push(Cause::forbidden("spec", why));
    }
    causes
}

/// The part of a spec that no update changes.
fn fixed(spec: &Value) -> Map<String, Value> {
    let mut spec = spec.as_object().cloned().unwrap_or_default();
    for list in ["containers", "initContainers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers
            .into_iter()
            .flatten()
            .filter_map(Value::as_object_mut)
        {
            container.remove("image");
        }
    }
    for field in ["activeDeadlineSeconds", "tolerations"] {
        spec.remove(field);
    }
    spec
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_running_pod_is_given_time() {
        let pod = |node: &str, phase: &str| json!({"spec": {"nodeName": node, "terminationGracePeriodSeconds": 30}, "status": {"phase": phase}});
        assert_eq!(grace(&pod("n", "Running"), None), 30);
        assert_eq!(grace(&pod("n", "Pending"), Some(5)), 5);
        assert_eq!(grace(&pod("n", "Running"), Some(-1)), 1);
        assert_eq!(grace(&pod("n", "Failed"), Some(5)), 0);
        assert_eq!(grace(&pod("", "Pending"), None), 0);
    }

    #[test]
    fn a_pod_tolerates_a_lost_node_for_five_minutes_unless_it_says_otherwise() {
        let keys = |tolerations: Value| {
            let mut spec = json!({"tolerations": tolerations});
            tolerate(&mut spec);
            spec["tolerations"].as_array().unwrap().len()
        };
        assert_eq!(keys(json!(null)), 2);
        assert_eq!(keys(json!([{"operator": "Exists"}])), 1);
        assert_eq!(
            keys(json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}])),
            2
        );
    }

    #[test]
    fn a_pods_spec_is_fixed_but_for_images() {
        let pod = |image: &str, node: &str| {
            json!({"spec": {
                "restartPolicy": "Never", "nodeName": node, "containers": [{"name": "a", "image": image}],
            }})
        };
        assert!(check(&pod("x", "n"), Some(&pod("y", "n"))).is_empty());
        assert_eq!(check(&pod("x", "n"), Some(&pod("x", "m"))).len(), 1);
    }
}
