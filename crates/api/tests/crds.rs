//! Properties of the generated CRDs that need no API server.

#![allow(clippy::unwrap_used)] // a test may panic

use carillon_api::crds;
use serde_json::{Value, json};

fn schema_of(kind: &str) -> Value {
    let crd = crds()
        .into_iter()
        .find(|crd| crd.spec.names.kind == kind)
        .unwrap();
    let schema = crd.spec.versions[0]
        .schema
        .clone()
        .unwrap()
        .open_api_v3_schema;
    serde_json::to_value(schema).unwrap()
}

fn template() -> Value {
    schema_of("BroadcastJob")["properties"]["spec"]["properties"]["template"].clone()
}

/// Calls `look` with every schema below and including this one, and its path.
fn each(path: &str, schema: &Value, look: &mut dyn FnMut(&str, &Value)) {
    look(path, schema);
    if let Some(properties) = schema["properties"].as_object() {
        for (name, property) in properties {
            each(&format!("{path}.{name}"), property, look);
        }
    }
    for key in ["items", "additionalProperties"] {
        if schema[key].is_object() {
            each(&format!("{path}.{key}"), &schema[key], look);
        }
    }
}

#[test]
fn what_kubectl_apply_stores_beside_the_object_fits_its_limit() {
    for crd in crds() {
        let size = serde_json::to_string(&crd).unwrap().len();
        assert!(size < 256 * 1024, "{}: {size} bytes", crd.spec.names.kind);
    }
}

#[test]
fn the_template_describes_nothing_and_lets_unknown_fields_pass() {
    each("template", &template(), &mut |path, schema| {
        if path != "template" {
            assert_eq!(schema.get("description"), None, "{path}");
        }
        if schema.get("properties").is_some() {
            assert_eq!(
                schema["x-kubernetes-preserve-unknown-fields"], true,
                "{path}"
            );
        }
    });
}

#[test]
fn the_template_takes_null_for_every_field_a_pod_can_do_without() {
    each("template", &template(), &mut |path, schema| {
        let empty = Vec::new();
        let required = schema["required"].as_array().unwrap_or(&empty);
        let Some(properties) = schema["properties"].as_object() else {
            return;
        };
        for (name, property) in properties {
            let nullable = property.get("nullable").is_some();
            assert_ne!(nullable, required.contains(&json!(name)), "{path}.{name}");
        }
    });
}

#[test]
fn every_field_outside_the_template_is_described() {
    for (kind, part) in [
        ("BroadcastJob", "spec"),
        ("BroadcastJob", "status"),
        ("NodeResultSlice", "results"),
    ] {
        each(
            part,
            &schema_of(kind)["properties"][part],
            &mut |path, schema| {
                if !path.contains("template.") && !path.contains(".items") {
                    assert!(schema["description"].is_string(), "{kind} {path}");
                }
            },
        );
    }
}

#[test]
fn each_rule_says_what_to_do() {
    for kind in ["BroadcastJob", "NodeResultSlice"] {
        each(kind, &schema_of(kind), &mut |path, schema| {
            for rule in schema["x-kubernetes-validations"]
                .as_array()
                .into_iter()
                .flatten()
            {
                assert!(rule["message"].is_string(), "{path}: {}", rule["rule"]);
            }
        });
    }
}

#[test]
fn the_enums_of_the_schema_are_those_of_the_types() {
    let spec = schema_of("BroadcastJob")["properties"]["spec"]["properties"].clone();
    let completion = &spec["completionPolicy"]["properties"]["type"]["enum"];
    assert_eq!(*completion, json!(["Always", "Never"]));
    let failure = &spec["failurePolicy"]["properties"]["type"]["enum"];
    assert_eq!(*failure, json!(["FailFast", "Continue", "Pause"]));
}
