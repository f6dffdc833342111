//! Messages as a real API server of Kubernetes 1.36 gives them, and what is made of them.

use serde_json::{Value, json};

use super::*;

/// The word of the same letters in another case, or that has one letter more or less.
fn nearest(word: &str, among: &[String]) -> Option<String> {
    let same = |other: &&String| other.eq_ignore_ascii_case(word);
    let without = |text: &str, at: usize| {
        let letters = text.chars().enumerate();
        letters
            .filter(|(n, _)| *n != at)
            .map(|(_, c)| c)
            .collect::<String>()
    };
    let near = |other: &&String| (0..other.len()).any(|at| without(other, at) == word);
    among
        .iter()
        .find(same)
        .or_else(|| among.iter().find(near))
        .cloned()
}

fn said(manifest: &Value, refusal: &Refusal) -> Vec<String> {
    problems(
        refusal,
        &Sent {
            manifest,
            place: "",
            nearest,
        },
    )
}

#[test]
#[allow(clippy::too_many_lines)] // a table
fn what_is_wrong_with_a_field_is_said_with_what_to_write() {
    for (reason, message, (field, value), expected) in [
        (
            "FieldValueTypeInvalid",
            r#"Invalid value: "string": spec.ttlSecondsAfterFinished in body must be of type integer: "string""#,
            ("ttlSecondsAfterFinished", json!("10m")),
            r#"spec.ttlSecondsAfterFinished: "10m" is a string: write seconds: 600"#,
        ),
        (
            "FieldValueTypeInvalid",
            r#"Invalid value: "string": spec.backoffLimitPerNode in body must be of type integer: "string""#,
            ("backoffLimitPerNode", json!("3")),
            r#"spec.backoffLimitPerNode: "3" is a string: remove the quotes: 3"#,
        ),
        (
            "FieldValueTypeInvalid",
            r#"Invalid value: "string": spec.paused in body must be of type boolean: "string""#,
            ("paused", json!("yes")),
            r#"spec.paused: "yes" is a string: write true"#,
        ),
        (
            "FieldValueTypeInvalid",
            r#"Invalid value: "integer": spec.schedule in body must be of type string: "integer""#,
            ("schedule", json!(5)),
            r#"spec.schedule: 5 is a number: write it in quotes: "5""#,
        ),
        (
            "FieldValueTypeInvalid",
            r#"Invalid value: "number": spec.schedule in body must be of type string: "number""#,
            ("schedule", json!(1.1)),
            "spec.schedule: it is a number: write it in quotes, digit by digit as it stands in your file",
        ),
        (
            "FieldValueTypeInvalid",
            r#"Invalid value: "string": spec.nodeNames in body must be of type array: "string""#,
            ("nodeNames", json!("a")),
            r#"spec.nodeNames: "a" is a string: write a list: each item on a line of its own that begins with "- ""#,
        ),
        (
            "FieldValueTypeInvalid",
            r#"Invalid value: "array": spec.failurePolicy in body must be of type object: "array""#,
            ("failurePolicy", json!([{"type": "Pause"}])),
            r#"spec.failurePolicy: it is a list: write fields, without "- " before them"#,
        ),
        (
            "FieldValueTypeInvalid",
            r#"Invalid value: "number": spec.parallelism in body must be of type integer: "number""#,
            ("parallelism", json!(1.5)),
            "spec.parallelism: 1.5 is a number: write a whole number",
        ),
        (
            "FieldValueNotSupported",
            r#"Unsupported value: "failfast": supported values: "FailFast", "Continue", "Pause""#,
            ("type", json!("failfast")),
            r#"spec.type: "failfast" is none of FailFast, Continue, Pause; did you mean FailFast?"#,
        ),
        (
            "FieldValueNotSupported",
            r#"Unsupported value: "x": supported values: "FailFast", "Pause""#,
            ("type", json!("x")),
            r#"spec.type: "x" is none of FailFast, Pause"#,
        ),
        (
            "FieldValueInvalid",
            "Invalid value: -1: spec.backoffLimitPerNode in body should be greater than or equal to 0",
            ("backoffLimitPerNode", json!(-1)),
            "spec.backoffLimitPerNode: -1 is too small: write 0 or more",
        ),
        (
            "FieldValueInvalid",
            r#"Invalid value: "A_b": spec.name in body should match '^[a-z]$'"#,
            ("name", json!("A_b")),
            r#"spec.name: "A_b" does not match '^[a-z]$'"#,
        ),
        (
            "FieldValueInvalid",
            r#"Invalid value: "object": is immutable: create a new BroadcastJob with the new template"#,
            ("template", json!({})),
            "spec.template: is immutable: create a new BroadcastJob with the new template",
        ),
        (
            "FieldValueInvalid",
            r#"Invalid value: {"matchLabels":{"a":"b: c"}}: field is immutable"#,
            ("selector", json!({})),
            "spec.selector: it cannot be changed: delete the object, and create it anew with the new value",
        ),
        (
            "FieldValueRequired",
            "Required value",
            ("image", Value::Null),
            "spec.image: it is missing, and has to be there",
        ),
        (
            "FieldValueTooMany",
            "Too many: 101: must have at most 100 items",
            ("containers", json!([])),
            "spec.containers: Too many: 101: must have at most 100 items",
        ),
    ] {
        let manifest = json!({"kind": "BroadcastJob", "spec": {field: value}});
        let cause = Cause {
            reason: reason.to_owned(),
            field: format!("spec.{field}"),
            message: message.to_owned(),
        };
        let not_checked = Cause {
            field: "<nil>".to_owned(),
            message: "Invalid value: null: some validation rules were not checked because the object was invalid; \
                      correct the existing errors to complete validation"
                .to_owned(),
            ..Cause::default()
        };
        let refusal = Refusal {
            message: "whatever".to_owned(),
            causes: vec![cause, not_checked],
        };
        assert_eq!(said(&manifest, &refusal), [expected]);
    }
}

#[test]
fn what_cannot_be_read_is_said_field_by_field_with_the_name_that_was_meant() {
    for (manifest, message, expected) in [
        (
            json!({"kind": "BroadcastJob"}),
            r#"BroadcastJob in version "v1alpha1" cannot be handled as a BroadcastJob: strict decoding error: unknown field "spec.paralelism", unknown field "spec.template.spec.containers[0].imag", duplicate field "spec.paused""#,
            vec![
                "spec.paralelism: there is no such field; did you mean parallelism?",
                "spec.template.spec.containers[0].imag: there is no such field; did you mean image?",
                "spec.paused: it is written twice: remove one",
            ],
        ),
        (
            json!({"kind": "Pod"}),
            r#"Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field "spec.containers[0].comand""#,
            vec!["spec.containers[0].comand: there is no such field; did you mean command?"],
        ),
        (
            json!({"kind": "CronJob"}),
            r#"CronJob in version "v1" cannot be handled as a CronJob: strict decoding error: unknown field "spec.qqq""#,
            vec!["spec.qqq: there is no such field"],
        ),
        (
            json!({"kind": "Pod", "spec": {"containers": [{"ports": [{"containerPort": "80"}]}]}}),
            r#"Pod in version "v1" cannot be handled as a Pod: json: cannot unmarshal string into Go struct field ContainerPort.spec.containers.ports.containerPort of type int32"#,
            vec![r#"spec.containers.ports.containerPort: "80" is a string: remove the quotes: 80"#],
        ),
        (
            json!({"kind": "DaemonSet", "spec": {"minReadySeconds": "1m"}}),
            r#"DaemonSet in version "v1" cannot be handled as a DaemonSet: json: cannot unmarshal string into Go struct field DaemonSetSpec.spec.minReadySeconds of type int32"#,
            vec![r#"spec.minReadySeconds: "1m" is a string: write seconds: 60"#],
        ),
    ] {
        let refusal = Refusal {
            message: message.to_owned(),
            causes: Vec::new(),
        };
        assert_eq!(said(&manifest, &refusal), expected);
    }
}

#[test]
fn what_is_not_understood_stays_as_the_api_server_says_it() {
    for message in [
        "",
        "admission webhook \"x\" denied the request: no",
        "strict decoding error: odd: \u{202e}",
        "json: cannot unmarshal string into Go struct field",
        "pods \"a\" is forbidden: exceeded quota: q, requested: pods=1",
    ] {
        let refusal = Refusal {
            message: message.to_owned(),
            causes: Vec::new(),
        };
        let said = said(&json!({}), &refusal);
        assert_eq!(said.len(), 1);
        assert!(message.ends_with(&said[0]), "{message}: {said:?}");
    }
    for message in [
        "",
        "Invalid value: ",
        "Invalid value: {\"a\": : b",
        "Unsupported value: 3",
    ] {
        let cause = Cause {
            reason: "FieldValueInvalid".to_owned(),
            field: "spec.x".to_owned(),
            message: message.to_owned(),
        };
        let refusal = Refusal {
            message: String::new(),
            causes: vec![cause],
        };
        assert_eq!(said(&json!({}), &refusal), [format!("spec.x: {message}")]);
    }
}
