//! `spec.template` in the CRD: typed like a pod template, without descriptions, open for fields
//! this version does not know.
//!
//! Wrong types and missing required fields are refused at admission with their path. Unknown
//! fields pass, because the template goes to the API server as the user wrote it and newer
//! servers know more fields than we do. Descriptions are left out: they are nine tenths of the
//! size, and a CRD over 256 KiB cannot be handled by `kubectl apply`.

use std::slice::from_ref;

use k8s_openapi::api::core::v1::PodSpec;
use kube::core::{Reason, Rule};
use schemars::generate::SchemaSettings;
use schemars::{Schema, SchemaGenerator};
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

/// The schema of a pod template that is run once per node.
pub(crate) fn schema(_: &mut SchemaGenerator) -> Schema {
    let mut template = json!({
        "type": "object",
        "required": ["spec"],
        "properties": {"metadata": template_metadata(), "spec": run_once_pod_spec()},
        "x-kubernetes-preserve-unknown-fields": true,
    });
    with_rules(
        &mut template,
        &[Rule::new("self == oldSelf")
            .message("is immutable: create a new BroadcastJob with the new template")],
    );
    match template {
        Value::Object(object) => object.into(),
        _ => Schema::default(),
    }
}

/// What a run-once pod must and must not have, beyond what its types say.
fn run_once_pod_spec() -> Value {
    let mut spec = pod_spec();
    spec["properties"]["containers"]["minItems"] = 1.into();
    for list in ["containers", "initContainers"] {
        let list = &mut spec["properties"][list];
        // Bounds the cost of the rules over these lists, far above what a node could run.
        list["maxItems"] = 100.into();
        run_once_container(&mut list["items"]);
    }
    // Refused as a whole, so what is in there need not be described.
    spec["properties"]["ephemeralContainers"]["items"] =
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    with_rules(
        &mut spec,
        &[
            Rule::new("has(self.restartPolicy) && self.restartPolicy in ['OnFailure', 'Never']")
                .message("must be OnFailure or Never: each pod of a BroadcastJob runs to its end")
                .field_path(".restartPolicy"),
            Rule::new("!has(self.nodeName)")
                .message(
                    "must not be set: the job runs on every node that fits; choose nodes with \
                     nodeSelector or affinity",
                )
                .field_path(".nodeName")
                .reason(Reason::FieldValueForbidden),
            Rule::new("!has(self.ephemeralContainers) || self.ephemeralContainers.size() == 0")
                .message(
                    "must not be set: ephemeral containers are for running pods (kubectl debug); \
                     use containers or initContainers",
                )
                .field_path(".ephemeralContainers")
                .reason(Reason::FieldValueForbidden),
            // Keyed lists compare as sets, but init containers run, and containers start, in order.
            order_is_immutable("initContainers"),
            order_is_immutable("containers"),
        ],
    );
    spec
}

/// What no kind of pod can go without, whatever version of Kubernetes runs it.
fn run_once_container(container: &mut Value) {
    container["required"] = json!(["name", "image"]);
    let properties = &mut container["properties"];
    properties["name"] = json!({
        "type": "string",
        "maxLength": 63,
        "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
    });
    properties["image"] = json!({"type": "string", "minLength": 1});
}

fn order_is_immutable(list: &str) -> Rule {
    Rule::new(format!(
        "!has(self.{list}) || !has(oldSelf.{list}) \
         || self.{list}.map(c, c.name) == oldSelf.{list}.map(c, c.name)"
    ))
    .message("is immutable, and so is its order: create a new BroadcastJob with the new template")
    .field_path(format!(".{list}"))
}

/// Metadata of the pods: what is copied is typed and checked, the rest is accepted and ignored.
fn template_metadata() -> Value {
    let mut metadata = plain_metadata();
    let properties = &mut metadata["properties"];
    let not_ours = Rule::new("self.all(key, !key.startsWith('carillon.dev/'))")
        .message("must not use the prefix carillon.dev/, Carillon sets those: use one of your own")
        .reason(Reason::FieldValueForbidden);
    let not_kruise = Rule::new(
        "!('broadcastjob-name' in self) && !('broadcastjob-controller-uid' in self)",
    )
    .message(
        "must not have broadcastjob-name or broadcastjob-controller-uid, OpenKruise sets those: \
         remove them",
    )
    .reason(Reason::FieldValueForbidden);
    with_rules(&mut properties["labels"], &[not_ours.clone(), not_kruise]);
    with_rules(&mut properties["annotations"], from_ref(&not_ours));
    with_rules(&mut properties["finalizers"], &[not_ours]);
    metadata
}

/// The part of ObjectMeta that a template can mean.
fn plain_metadata() -> Value {
    // As the API server checks labels of a pod, which is where these end up.
    let label_value = json!({
        "type": "string",
        "nullable": true,
        "maxLength": 63,
        "pattern": "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$",
    });
    json!({
        "type": "object",
        "nullable": true,
        "properties": {
            "annotations": {
                "type": "object", "nullable": true, "maxProperties": 1000,
                "additionalProperties": {"type": "string", "nullable": true},
            },
            // `kubectl create --dry-run` writes `creationTimestamp: null`.
            "creationTimestamp": {"type": "string", "nullable": true},
            "finalizers": {
                "type": "array", "nullable": true, "maxItems": 100,
                "items": {"type": "string", "maxLength": 317},
            },
            "generateName": {"type": "string", "nullable": true},
            "labels": {
                "type": "object", "nullable": true, "maxProperties": 1000,
                "additionalProperties": label_value,
            },
            "name": {"type": "string", "nullable": true},
            "namespace": {"type": "string", "nullable": true},
        },
        "x-kubernetes-preserve-unknown-fields": true,
    })
}

/// k8s-openapi's PodSpec as a structural schema of ours.
fn pod_spec() -> Value {
    let mut generator = SchemaSettings::openapi3().into_generator();
    let root = generator.subschema_for::<PodSpec>().to_value();
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
            "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta" => plain_metadata(),
            _ => open(&definitions[name], definitions),
        };
    }
    let mut out = Map::new();
    for key in ["type", "format", "required", "x-kubernetes-int-or-string"] {
        if let Some(value) = schema.get(key) {
            out.insert(key.into(), value.clone());
        }
    }
    if let Some(items) = schema.get("items") {
        out.insert("items".into(), open(items, definitions));
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
fn nullable(mut schema: Value) -> Value {
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
        "pattern": "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$",
        "x-kubernetes-preserve-unknown-fields": true,
    })
}

fn with_rules(schema: &mut Value, rules: &[Rule]) {
    schema["x-kubernetes-validations"] = json!(rules);
}
