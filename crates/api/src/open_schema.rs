//! Kubernetes' own types as schemas of ours: typed, without descriptions, open for fields this
//! version does not know.
//!
//! Wrong types and missing required fields are refused at admission with their path. Unknown
//! fields pass, because a template goes to the API server as the user wrote it and newer
//! servers know more fields than we do. Descriptions are left out: they are nine tenths of the
//! size, and what `kubectl apply` stores beside a CRD must stay under 256 KiB.

use kube::core::Rule;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

/// Where schemars puts the types it does not inline.
const REF_PREFIX: &str = "#/components/schemas/";

/// Lists whose items are identified by a key that every item must have, and that pods accept
/// only once. Others (`env`, `ports`, `tolerations`) may legally repeat their keys in a pod.
const KEYED_LISTS: [(&str, &str); 5] = [
    ("containers", "name"),
    ("initContainers", "name"),
    ("volumes", "name"),
    ("volumeDevices", "devicePath"),
    ("volumeMounts", "mountPath"),
];

/// Fields (type, name) that the published schema calls required and the API server does without:
/// it takes an absent one for the empty value, which it accepts.
const NOT_REQUIRED: [(&str, &str); 9] = [
    ("io.k8s.api.batch.v1.PodFailurePolicy", "rules"),
    ("io.k8s.api.core.v1.ClusterTrustBundleProjection", "path"),
    ("io.k8s.api.core.v1.HTTPHeader", "value"),
    ("io.k8s.api.core.v1.ISCSIVolumeSource", "lun"),
    ("io.k8s.api.core.v1.LocalObjectReference", "name"),
    ("io.k8s.api.core.v1.PreferredSchedulingTerm", "preference"),
    ("io.k8s.api.core.v1.ScaleIOVolumeSource", "secretRef"),
    ("io.k8s.api.core.v1.SleepAction", "seconds"),
    ("io.k8s.api.core.v1.Sysctl", "value"),
];

/// Types of which an item of a list may be empty, and so may be null. Of others the API server
/// refuses the empty item; the empty text and number it takes in every list.
const EMPTY_ITEMS: [&str; 3] = [
    "io.k8s.api.core.v1.LocalObjectReference",
    "io.k8s.api.core.v1.NodeSelectorTerm",
    "io.k8s.api.core.v1.VolumeProjection",
];

/// k8s-openapi's `T` as a structural schema of ours.
pub(crate) fn open_schema<T: JsonSchema>() -> Value {
    let mut generator = SchemaSettings::openapi3().into_generator();
    let root = generator.subschema_for::<T>().to_value();
    let definitions = generator.take_definitions(true);
    open(&root, &definitions)
}

/// Resolves references, drops descriptions, lets unknown fields and nulls pass.
fn open(schema: &Value, definitions: &Map<String, Value>) -> Value {
    // A reference with a description of its own is wrapped.
    if let Some([only]) = schema["allOf"].as_array().map(Vec::as_slice) {
        return open(only, definitions);
    }
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.strip_prefix(REF_PREFIX).unwrap_or(reference);
        return match name {
            "io.k8s.apimachinery.pkg.api.resource.Quantity" => quantity(),
            "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta" => metadata(),
            _ => open(&without_needless(name, &definitions[name]), definitions),
        };
    }
    let mut out = Map::new();
    for key in ["type", "format", "required", "x-kubernetes-int-or-string"] {
        if let Some(value) = schema.get(key).filter(|value| **value != json!([])) {
            out.insert(key.into(), value.clone());
        }
    }
    if let Some(items) = schema.get("items") {
        out.insert("items".into(), open_items(items, definitions));
        out.insert("x-kubernetes-list-type".into(), "atomic".into());
    }
    if let Some(values) = schema.get("additionalProperties") {
        out.insert(
            "additionalProperties".into(),
            nullable(open(values, definitions)),
        );
    }
    if let Some(properties) = schema["properties"].as_object() {
        let properties = properties
            .iter()
            .map(|(name, property)| {
                let required = is_required(schema, name);
                (
                    name.clone(),
                    open_property(name, property, required, definitions),
                )
            })
            .collect();
        out.insert("properties".into(), Value::Object(properties));
        out.insert("x-kubernetes-preserve-unknown-fields".into(), true.into());
    }
    Value::Object(out)
}

fn open_items(items: &Value, definitions: &Map<String, Value>) -> Value {
    let out = open(items, definitions);
    let may_be_empty = match items["$ref"].as_str() {
        Some(name) => EMPTY_ITEMS.iter().any(|empty| name.ends_with(empty)),
        None => true,
    };
    if may_be_empty { nullable(out) } else { out }
}

/// Takes [`NOT_REQUIRED`] off the required fields of a type.
fn without_needless(type_name: &str, definition: &Value) -> Value {
    let mut definition = definition.clone();
    let needless = |field: &Value| {
        NOT_REQUIRED
            .iter()
            .any(|(of, name)| *of == type_name && field == name)
    };
    if let Some(Value::Array(required)) = definition.get_mut("required") {
        required.retain(|field| !needless(field));
    }
    definition
}

fn open_property(
    name: &str,
    property: &Value,
    required: bool,
    definitions: &Map<String, Value>,
) -> Value {
    let mut out = open(property, definitions);
    if !required {
        out = nullable(out);
    }
    if let Some((_, key)) = KEYED_LISTS.iter().find(|(list, _)| *list == name) {
        out["x-kubernetes-list-type"] = "map".into();
        out["x-kubernetes-list-map-keys"] = json!([key]);
    }
    out
}

/// Native kinds read null as absent, and templating tools write it. It is stored, because nulls
/// that the server prunes come back with each server-side apply and look like a change.
pub(crate) fn nullable(mut schema: Value) -> Value {
    schema["nullable"] = true.into();
    schema
}

fn is_required(schema: &Value, name: &str) -> bool {
    schema["required"]
        .as_array()
        .is_some_and(|required| required.iter().any(|field| field == name))
}

/// `500m`, `1Gi`, `2` and `0.5`. No schema type admits both strings and fractions, so the type is
/// left open and what else JSON could hold there is excluded by its own keyword.
fn quantity() -> Value {
    json!({
        "maxItems": 0,
        "maxProperties": 0,
        "pattern": r"^\s*([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)\s*$",
        "x-kubernetes-preserve-unknown-fields": true,
    })
}

/// Key of a label, as the API server checks it.
pub(crate) const LABEL_KEY: &str = "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?\
     ([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]$";

/// That the keys of a map are keys of labels.
pub(crate) fn label_keys() -> Rule {
    Rule::new(format!("self.all(key, key.matches(r'{LABEL_KEY}'))")).message(
        "must have keys such as app or example.com/app: letters, digits, '-', '_' and '.', at most 63, after an \
         optional DNS subdomain and '/'",
    )
}

/// Value of a label, as the API server checks it.
pub(crate) fn label_value() -> Value {
    json!({
        "type": "string",
        "nullable": true,
        "maxLength": 63,
        "pattern": "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$",
    })
}

/// The part of ObjectMeta that a template can mean.
pub(crate) fn metadata() -> Value {
    json!({
        "type": "object",
        "nullable": true,
        "properties": {
            "annotations": {
                "type": "object", "nullable": true,
                "additionalProperties": {"type": "string", "nullable": true},
            },
            // `kubectl create --dry-run` writes `creationTimestamp: null`.
            "creationTimestamp": {"type": "string", "nullable": true},
            "finalizers": {
                "type": "array", "nullable": true, "x-kubernetes-list-type": "atomic",
                "items": {"type": "string", "nullable": true},
            },
            "generateName": {"type": "string", "nullable": true},
            "labels": {
                "type": "object", "nullable": true,
                "additionalProperties": label_value(),
            },
            "name": {"type": "string", "nullable": true},
            "namespace": {"type": "string", "nullable": true},
        },
        "x-kubernetes-preserve-unknown-fields": true,
    })
}

/// [`metadata`] with rules on some of its labels, annotations and finalizers.
pub(crate) fn metadata_with(rules_of: &[(&str, &[Rule])]) -> Value {
    let mut metadata = metadata();
    for (field, rules) in rules_of {
        let field_schema = &mut metadata["properties"][*field];
        // Bounds the cost of the rules, far above what anybody writes.
        if *field == "finalizers" {
            field_schema["maxItems"] = 100.into();
            field_schema["items"] = json!({"type": "string", "maxLength": 317});
        } else {
            field_schema["maxProperties"] = 1000.into();
        }
        with_rules(field_schema, rules);
    }
    metadata
}

pub(crate) fn with_rules(schema: &mut Value, rules: &[Rule]) {
    let all = schema["x-kubernetes-validations"].take();
    let mut all = all.as_array().cloned().unwrap_or_default();
    all.extend(rules.iter().map(|rule| json!(rule)));
    schema["x-kubernetes-validations"] = all.into();
}
