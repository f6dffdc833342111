//! Which nodes a template may run on, from Kubernetes' documentation and not from our planner.

use serde_json::{Map, Value};

use crate::object::{at, is_deleting, list, name, text};
use crate::quantity::quantity;

/// Why a job with this spec may not run a pod on the node; `None`: it may.
pub(crate) fn refusal(job: &Value, node: &Value) -> Option<&'static str> {
    let listed = job["nodeNames"].as_array();
    if listed.is_some_and(|names| !names.iter().any(|listed| listed == name(node))) {
        return Some("nodeNames does not have it");
    }
    refused_by_template(&job["template"]["spec"], node)
}

fn refused_by_template(spec: &Value, node: &Value) -> Option<&'static str> {
    let tolerations = list(spec, &["tolerations"]);
    let cordoned = at(node, &["spec", "unschedulable"]) == Some(&Value::Bool(true));
    let unschedulable = ("node.kubernetes.io/unschedulable", "", "NoSchedule");
    if is_deleting(node) {
        Some("the node is being deleted")
    } else if let Some(why) = not_meant(spec, node) {
        Some(why)
    } else if cordoned && !tolerated(tolerations, unschedulable) {
        Some("the node is cordoned")
    } else if let Some(why) = untolerated(node, tolerations, &["NoSchedule", "NoExecute"]) {
        Some(why)
    } else if !fits(spec, node) {
        Some("the empty node is too small")
    } else {
        None
    }
}

/// Why a pod's spec does not mean a node, whatever state that is in.
pub(crate) fn not_meant(spec: &Value, node: &Value) -> Option<&'static str> {
    let wanted = text(spec, &["nodeName"]);
    let empty = Map::new();
    let labels = at(node, &["metadata", "labels"])
        .and_then(Value::as_object)
        .unwrap_or(&empty);
    let selector = spec["nodeSelector"].as_object();
    let terms = at(
        spec,
        &[
            "affinity",
            "nodeAffinity",
            "requiredDuringSchedulingIgnoredDuringExecution",
            "nodeSelectorTerms",
        ],
    );
    if !wanted.is_empty() && wanted != name(node) {
        Some("the template names another node")
    } else if !selector.is_none_or(|s| s.iter().all(|(key, value)| labels.get(key) == Some(value)))
    {
        Some("nodeSelector does not match")
    } else if !terms
        .and_then(Value::as_array)
        .is_none_or(|terms| terms.iter().any(|term| matches(term, name(node), labels)))
    {
        Some("no term of the required node affinity matches")
    } else {
        None
    }
}

/// A taint of a node of one of these effects that none of the tolerations covers.
pub(crate) fn untolerated(
    node: &Value,
    tolerations: &[Value],
    effects: &[&str],
) -> Option<&'static str> {
    let mut taints = list(node, &["spec", "taints"]).iter();
    let covered = |taint: &Value| {
        let (key, value) = (text(taint, &["key"]), text(taint, &["value"]));
        let effect = text(taint, &["effect"]);
        !effects.contains(&effect) || tolerated(tolerations, (key, value, effect))
    };
    (!taints.all(covered)).then_some("a taint is not tolerated")
}

fn tolerated(tolerations: &[Value], (key, value, effect): (&str, &str, &str)) -> bool {
    tolerations.iter().any(|toleration| {
        let exists = toleration["operator"] == "Exists";
        let wanted = text(toleration, &["key"]);
        let of_effect = text(toleration, &["effect"]);
        (of_effect.is_empty() || of_effect == effect)
            && (wanted == key || wanted.is_empty() && exists)
            && (exists || text(toleration, &["value"]) == value)
    })
}

/// A node selector term. One without requirements matches nothing.
fn matches(term: &Value, name: &str, labels: &Map<String, Value>) -> bool {
    let expressions = list(term, &["matchExpressions"]);
    let fields = list(term, &["matchFields"]);
    let label = |r: &Value| labels.get(text(r, &["key"])).and_then(Value::as_str);
    !(expressions.is_empty() && fields.is_empty())
        && expressions.iter().all(|r| requirement(r, label(r)))
        && fields
            .iter()
            .all(|r| r["key"] == "metadata.name" && requirement(r, Some(name)))
}

fn requirement(requirement: &Value, found: Option<&str>) -> bool {
    let values = list(requirement, &["values"]);
    let among = || found.is_some_and(|found| values.iter().any(|value| value == found));
    let compare = |holds: fn(i64, i64) -> bool| {
        let wanted = values.first().and_then(Value::as_str);
        let numbers = (
            found.and_then(|text| text.parse().ok()),
            wanted.and_then(|text| text.parse().ok()),
        );
        matches!(numbers, (Some(found), Some(wanted)) if holds(found, wanted))
    };
    match text(requirement, &["operator"]) {
        "In" => among(),
        "NotIn" => !among(),
        "Exists" => found.is_some(),
        "DoesNotExist" => found.is_none(),
        "Gt" => compare(|found, wanted| found > wanted),
        "Lt" => compare(|found, wanted| found < wanted),
        _ => false,
    }
}

/// Whether each resource the pod requests is there when nothing else runs on the node.
fn fits(spec: &Value, node: &Value) -> bool {
    let mut resources: Vec<&String> = ["containers", "initContainers"]
        .iter()
        .flat_map(|kind| list(spec, &[kind]))
        .chain([spec])
        .flat_map(|holder| {
            let of = |path: &[&str]| at(holder, path).and_then(Value::as_object);
            [
                of(&["resources", "requests"]),
                of(&["resources", "limits"]),
                of(&["overhead"]),
            ]
        })
        .flatten()
        .flat_map(Map::keys)
        .collect();
    resources.sort_unstable();
    resources.dedup();
    resources.into_iter().all(|resource| {
        let offered = at(node, &["status", "allocatable", resource]);
        requested(spec, resource) <= offered.and_then(quantity).unwrap_or(0.0)
    })
}

/// What the pod as a whole asks for, or else the larger of all containers with sidecars, and each init container
/// with the sidecars before it. A limit of the whole counts where no container asks for anything.
fn requested(spec: &Value, resource: &str) -> f64 {
    let of = |container: &Value| {
        ["requests", "limits"]
            .iter()
            .find_map(|kind| at(container, &["resources", kind, resource]))
            .and_then(quantity)
            .unwrap_or(0.0)
    };
    let mut sidecars = 0.0;
    let mut peak: f64 = 0.0;
    for container in list(spec, &["initContainers"]) {
        if container["restartPolicy"] == "Always" {
            sidecars += of(container);
            peak = peak.max(sidecars);
        } else {
            peak = peak.max(sidecars + of(container));
        }
    }
    let running: f64 = list(spec, &["containers"]).iter().map(of).sum();
    let overhead = at(spec, &["overhead", resource]).and_then(quantity);
    let whole = |kind| at(spec, &["resources", kind, resource]).and_then(quantity);
    let of_containers = Some(peak.max(running + sidecars)).filter(|sum| *sum > 0.0);
    let sum = whole("requests")
        .or(of_containers)
        .or_else(|| whole("limits"));
    sum.unwrap_or(0.0) + overhead.unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_check_refuses_what_it_is_for() {
        let node = json!({
            "metadata": {"name": "n1", "labels": {"zone": "a", "cores": "8"}},
            "spec": {"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"},
                                {"key": "soft", "effect": "PreferNoSchedule"}]},
            "status": {"allocatable": {"cpu": "2", "memory": "1Gi"}},
        });
        let gpu = json!([{"key": "gpu", "operator": "Equal", "value": "yes"}]);
        let with = |key: &str, value: Value| {
            let mut spec = json!({"tolerations": gpu});
            spec[key] = value;
            spec
        };
        let affinity = |operator: &str, key: &str, values: Value| {
            let requirement = json!({"key": key, "operator": operator, "values": values});
            with(
                "affinity",
                json!({"nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                    {"matchExpressions": [requirement]}]}}}),
            )
        };
        let request = |cpu: &str| {
            with(
                "containers",
                json!([{"resources": {"requests": {"cpu": cpu}}}]),
            )
        };
        // Its containers ask for 1, the pod as a whole for something else.
        let whole = |kind: &str, cpu: &str| {
            let mut spec = request("1");
            spec["resources"] = json!({kind: {"cpu": cpu}});
            spec
        };
        for (spec, fits) in [
            (with("x", json!(0)), true),
            (json!({}), false),
            (with("nodeName", json!("n2")), false),
            (with("nodeSelector", json!({"zone": "a"})), true),
            (with("nodeSelector", json!({"zone": "b"})), false),
            (affinity("In", "zone", json!(["a"])), true),
            (affinity("NotIn", "zone", json!(["a"])), false),
            (affinity("Exists", "disk", json!([])), false),
            (affinity("DoesNotExist", "disk", json!([])), true),
            (affinity("Gt", "cores", json!(["4"])), true),
            (affinity("Lt", "cores", json!(["4"])), false),
            (request("1500m"), true),
            (request("2001m"), false),
            (whole("requests", "1"), true),
            (whole("requests", "3"), false),
            (whole("limits", "3"), true),
        ] {
            assert_eq!(refused_by_template(&spec, &node).is_none(), fits, "{spec}");
        }
        let mut cordoned = node.clone();
        cordoned["spec"]["unschedulable"] = json!(true);
        assert_eq!(
            refused_by_template(&with("x", json!(0)), &cordoned),
            Some("the node is cordoned")
        );
        let all = json!({"tolerations": [{"operator": "Exists"}]});
        assert_eq!(refused_by_template(&all, &cordoned), None);
    }

    #[test]
    fn a_job_for_named_nodes_is_for_no_other() {
        let node = json!({"metadata": {"name": "n1"}});
        let named = |name: &str| json!({"nodeNames": [name], "template": {"spec": {}}});
        assert_eq!(refusal(&named("n1"), &node), None);
        assert_eq!(
            refusal(&named("n2"), &node),
            Some("nodeNames does not have it")
        );
    }

    #[test]
    fn quantities_of_every_kind_are_read() {
        for (text, value) in [
            (json!("500m"), 0.5),
            (json!("1Ki"), 1024.0),
            (json!(3), 3.0),
            (json!("1e3"), 1000.0),
            (json!("2M"), 2e6),
        ] {
            let read = quantity(&text).unwrap();
            assert!((read - value).abs() < 1e-9, "{text}: {read}");
        }
        assert_eq!(quantity(&json!("many")), None);
    }
}
