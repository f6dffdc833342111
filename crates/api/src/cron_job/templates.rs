//! `spec.jobTemplate` and `spec.broadcastJobTemplate` in the CRD.

use std::slice::from_ref;

use k8s_openapi::api::batch::v1::JobSpec;
use kube::CustomResourceExt;
use kube::core::{Reason, Rule};
use schemars::{Schema, SchemaGenerator};
use serde_json::{Value, json};

use crate::broadcast_job::BroadcastJob;
use crate::misplaced;
use crate::open_schema::{metadata_with, nullable, open_schema, with_rules};
use crate::pod_template::{not_our_prefix, of_job};

/// Counts and seconds of a JobSpec that must not be negative.
const NOT_NEGATIVE: [&str; 7] = [
    "activeDeadlineSeconds",
    "backoffLimit",
    "backoffLimitPerIndex",
    "completions",
    "maxFailedIndexes",
    "parallelism",
    "ttlSecondsAfterFinished",
];

/// The schema of `spec.jobTemplate`: refuses nothing that batch/v1 accepts.
pub(super) fn job(_: &mut SchemaGenerator) -> Schema {
    let mut spec = open_schema::<JobSpec>();
    let properties = &mut spec["properties"];
    properties["template"] = of_job();
    // Refused as a whole, so what is in there need not be described.
    properties["selector"] = json!({
        "type": "object", "nullable": true, "x-kubernetes-preserve-unknown-fields": true,
    });
    for field in NOT_NEGATIVE {
        properties[field]["minimum"] = 0.into();
    }
    with_rules(
        &mut spec,
        &[
            Rule::new("!has(self.selector)")
                .message("`selector` will be auto-generated: remove it")
                .field_path(".selector")
                .reason(Reason::FieldValueForbidden),
            Rule::new("!has(self.manualSelector) || !self.manualSelector")
                .message("must not be true, the selector will be auto-generated: remove it")
                .field_path(".manualSelector"),
        ],
    );
    template(spec, "Job")
}

/// The schema of `spec.broadcastJobTemplate`: that of a BroadcastJob, except that it may change, and that
/// what runs by schedule is nobody's retry and ends.
pub(super) fn broadcast_job(_: &mut SchemaGenerator) -> Schema {
    let crd = json!(BroadcastJob::crd());
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let mut spec = schema["properties"]["spec"].clone();
    let_change(&mut spec);
    misplaced::refuse(&mut spec, "spec.broadcastJobTemplate.spec");
    if let Some(Value::Object(properties)) = spec.get_mut("properties") {
        properties.remove("retryOf");
    }
    let ends = Rule::new("!has(self.completionPolicy) || self.completionPolicy.type != 'Never'")
        .message(
            "must not be Never in a CronJob, each run would stay open for ever: remove it or set \
             spec.broadcastJobTemplate.spec.completionPolicy.type: Always",
        )
        .field_path(".completionPolicy.type")
        .reason(Reason::FieldValueForbidden);
    if let Some(Value::Array(rules)) = spec.get_mut("x-kubernetes-validations") {
        rules.retain(|rule| !text(&rule["rule"]).contains("retryOf"));
        rules.push(json!(ends));
    }
    template(spec, "BroadcastJob")
}

/// The children get their name, owner and finalizers from us; labels and annotations are copied.
fn template(mut spec: Value, kind: &str) -> Schema {
    let not_ours = not_our_prefix();
    let mut metadata = metadata_with(&[
        ("labels", from_ref(&not_ours)),
        ("annotations", from_ref(&not_ours)),
    ]);
    metadata["description"] =
        format!("Labels and annotations of each {kind}; the rest is ignored.").into();
    spec["description"] = format!("Spec of each {kind}.").into();
    let template = nullable(json!({
        "type": "object",
        "required": ["spec"],
        "properties": {"metadata": metadata, "spec": spec},
    }));
    match template {
        Value::Object(object) => object.into(),
        _ => Schema::default(),
    }
}

/// Takes the rules off that compare with the old object, and makes those that name a field of the
/// BroadcastJob name it where it is in the CronJob.
fn let_change(schema: &mut Value) {
    let Some(schema) = schema.as_object_mut() else {
        return;
    };
    if let Some(Value::Array(rules)) = schema.get_mut("x-kubernetes-validations") {
        rules.retain(|rule| !text(&rule["rule"]).contains("oldSelf"));
        for rule in &mut *rules {
            rule["message"] = text(&rule["message"])
                .replace(" spec.", " spec.broadcastJobTemplate.spec.")
                .into();
        }
        if rules.is_empty() {
            schema.remove("x-kubernetes-validations");
        }
    }
    if let Some(description) = schema.get_mut("description") {
        *description = text(description)
            .replace(" Immutable.", "")
            .replace("\nImmutable.", "")
            .into();
    }
    for key in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get_mut(key) {
            let_change(inner);
        }
    }
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.values_mut().for_each(let_change);
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
