//! What a pod waits for before it is deleted.

use std::collections::BTreeMap;

use kube::KubeSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::open_schema::{label_keys, label_value, with_rules};

/// What is done around a pod. The fields are OpenKruise's; `inPlaceUpdate` is not there, as no pod is updated in place.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(self.inPlaceUpdate)")
        .message("is not there: Carillon replaces pods and does not update images in place; remove the field")
        .field_path(".inPlaceUpdate")
)]
pub struct Lifecycle {
    /// A pod with one of these labels or finalizers is not deleted. It gets the label
    /// lifecycle.apps.kruise.io/state=PreparingDelete, counts as unavailable, and is deleted when somebody has taken
    /// them from it. This is so whenever Carillon would delete it, and not when others do, or when the DaemonSet goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "PreDelete")]
    pub pre_delete: Option<PreDelete>,
    /// May not be set: no pod is updated in place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "anything")]
    pub in_place_update: Option<Value>,
}

/// What a pod waits for before it is deleted.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PreDelete {
    /// Labels with their values. A pod that has one of them, with that value, waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "labels")]
    pub labels_handler: Option<BTreeMap<String, String>>,
    /// Finalizers. A pod that has one of them waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "finalizers")]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub finalizers_handler: Option<Vec<String>>,
    /// May not be true: pods have no readiness gate by which they could be marked. Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(
        validation = Rule::new("!self").message(
            "may not be true: pods of Carillon have no readiness gate by which they could be marked; remove the field, \
             and let what reacts to the label take the pod out of service"
        )
    )]
    pub mark_pod_not_ready: Option<bool>,
}

/// More than anybody writes; bounds what the rules cost.
const MOST: u64 = 32;

fn labels(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let mut value = label_value();
    value["nullable"] = false.into();
    let mut labels = serde_json::json!({
        "type": "object", "maxProperties": MOST, "additionalProperties": value,
    });
    with_rules(&mut labels, &[label_keys()]);
    schema(labels)
}

fn finalizers(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "array",
        "maxItems": MOST,
        "items": {"type": "string", "minLength": 1, "maxLength": 317},
    })
}

fn anything(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

fn schema(schema: Value) -> schemars::Schema {
    match schema {
        Value::Object(object) => object.into(),
        _ => schemars::Schema::default(),
    }
}
