//! How a pod or a run differs from the template that it is made of.

use serde_json::{Map, Value};

use crate::quantity::quantity;

/// Fields of a pod's spec that the API server, or admission that is always on, fills in.
const FILLED_IN: [&str; 17] = [
    "automountServiceAccountToken",
    "dnsPolicy",
    "enableServiceLinks",
    "nodeName",
    "overhead",
    "preemptionPolicy",
    "priority",
    "priorityClassName",
    "restartPolicy",
    "schedulerName",
    "securityContext",
    "serviceAccount",
    "serviceAccountName",
    "shareProcessNamespace",
    "terminationGracePeriodSeconds",
    "tolerations",
    "volumes",
];

/// Fields below it: of containers, ports, probes, volumes and references.
const FILLED_IN_BELOW: [&str; 19] = [
    "apiVersion",
    "defaultMode",
    "divisor",
    "failureThreshold",
    "fieldPath",
    "grpc",
    "imagePullPolicy",
    "optional",
    "periodSeconds",
    "protocol",
    "requests",
    "resources",
    "scheme",
    "successThreshold",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "timeoutSeconds",
    "type",
    "volumeMounts",
];

/// What is missing or different in `found`, or is there in addition and not filled in by the server.
pub(crate) fn differs(path: &str, wanted: &Value, found: &Value, strict: bool) -> Option<String> {
    match (wanted, found) {
        (Value::Object(fields), Value::Object(have)) => {
            let missing = fields.iter().find_map(|(key, value)| {
                let path = format!("{path}.{key}");
                match have.get(key) {
                    Some(found) => differs(&path, value, found, strict),
                    None if is_empty(value) => None,
                    None => Some(format!("{path} is missing, the template has {value}")),
                }
            });
            let filled_in: &[&str] = if path == "spec" {
                &FILLED_IN
            } else {
                &FILLED_IN_BELOW
            };
            let extra = have.iter().find(|(key, value)| {
                let path = format!("{path}.{key}");
                let admitted = match value {
                    Value::Array(items) => items.iter().all(|item| is_admitted(&path, item)),
                    _ => true,
                };
                let known = filled_in.contains(&key.as_str()) && admitted;
                strict && !fields.contains_key(*key) && !known
            });
            missing.or_else(|| extra.map(|(key, _)| format!("{path}.{key} is not in the template")))
        }
        (Value::Array(items), Value::Array(have)) => {
            let mut rest = have.iter();
            let mut extra = Vec::new();
            for (at, item) in items.iter().enumerate() {
                let path = format!("{path}[{at}]");
                let mut first = None;
                // Order is kept; what was put in between is looked at below.
                let found = rest.by_ref().find(|found| {
                    let difference = differs(&path, item, found, strict);
                    let same = difference.is_none();
                    if !same {
                        extra.push(*found);
                        first = first.take().or(difference);
                    }
                    same
                });
                if found.is_none() {
                    return first.or_else(|| Some(format!("{path} is missing: {item}")));
                }
            }
            extra.extend(rest);
            let added = extra
                .into_iter()
                .find(|item| strict && !is_admitted(path, item));
            added.map(|item| format!("{path} has {item}, which the template has not"))
        }
        _ if wanted == found => None,
        // The API server writes quantities in their shortest form.
        _ if quantity(wanted).is_some() && quantity(wanted) == quantity(found) => None,
        _ => Some(format!("{path} is {found}, the template has {wanted}")),
    }
}

/// What labels or annotations lack, or have beyond those of the template and these.
pub(crate) fn words(
    template: &Value,
    pod: &Value,
    field: &str,
    strict: bool,
    also: &[&str],
) -> Option<String> {
    let none = Map::new();
    let of = |object: &'_ Value| object["metadata"][field].as_object().cloned();
    let (wanted, found) = (of(template).unwrap_or_default(), of(pod));
    let found = found.as_ref().unwrap_or(&none);
    let lacking = wanted
        .iter()
        .find(|(key, value)| found.get(*key) != Some(value));
    if let Some((key, value)) = lacking {
        return Some(format!("{field} lack {key}: {value}"));
    }
    let extra = found
        .iter()
        .find(|(key, _)| strict && !wanted.contains_key(*key) && !also.contains(&key.as_str()));
    extra.map(|(key, value)| format!("{field} have {key}: {value}, which the template has not"))
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(true) => false,
    }
}

/// What the ServiceAccount and DefaultTolerationSeconds admission plugins add.
fn is_admitted(path: &str, item: &Value) -> bool {
    let name = |field: &str| item[field].as_str().unwrap_or_default();
    match path.rsplit('.').next() {
        Some("volumes") => name("name").starts_with("kube-api-access-"),
        Some("volumeMounts") => name("mountPath").starts_with("/var/run/secrets/kubernetes.io/"),
        Some("tolerations") => matches!(
            name("key"),
            "node.kubernetes.io/not-ready"
                | "node.kubernetes.io/unreachable"
                | "node.kubernetes.io/memory-pressure"
        ),
        _ => false,
    }
}
