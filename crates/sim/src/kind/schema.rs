//! Structural schemas: what a custom resource may hold.
//!
//! Patterns are not judged; CEL rules are written by hand beside each kind.

use serde_json::{Map, Value, json};

use crate::status::Cause;

/// Reads the schema of the only version of a CRD.
pub(super) fn of_crd(crd: &str) -> Value {
    let crd: Value = serde_saphyr::from_str(crd).unwrap_or_default();
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

/// Removes the fields a schema does not know.
pub(super) fn prune(object: &mut Value, schema: &Value) {
    let Some(root) = object.as_object_mut() else {
        return;
    };
    let properties = schema["properties"].as_object();
    root.retain(|key, _| {
        ["apiVersion", "kind", "metadata"].contains(&key.as_str())
            || properties.is_some_and(|properties| properties.contains_key(key))
    });
    for (key, value) in root.iter_mut() {
        if let Some(schema) = properties.and_then(|properties| properties.get(key)) {
            prune_value(value, schema);
        }
    }
}

fn prune_value(value: &mut Value, schema: &Value) {
    match value {
        Value::Object(map) => {
            let open = schema["x-kubernetes-preserve-unknown-fields"] == true;
            let properties = schema["properties"].as_object();
            let others = schema.get("additionalProperties");
            map.retain(|key, _| open || others.is_some() || known(properties, key).is_some());
            for (key, value) in map {
                if let Some(schema) = known(properties, key).or(others) {
                    prune_value(value, schema);
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                prune_value(item, &schema["items"]);
            }
        }
        _ => {}
    }
}

fn known<'a>(properties: Option<&'a Map<String, Value>>, key: &str) -> Option<&'a Value> {
    properties.and_then(|properties| properties.get(key))
}

/// Fills in defaults; a null that may not be one goes, or gives way to them.
pub(super) fn fill(value: &mut Value, schema: &Value) {
    match value {
        Value::Object(map) => {
            let properties = schema["properties"].as_object();
            let others = schema.get("additionalProperties");
            map.retain(|key, value| {
                let schema = known(properties, key).or(others);
                !value.is_null() || schema.is_none_or(|schema| schema["nullable"] == true)
            });
            for (key, schema) in properties.into_iter().flatten() {
                if let Some(default) = schema.get("default") {
                    map.entry(key).or_insert_with(|| default.clone());
                }
            }
            for (key, value) in map {
                if let Some(schema) = known(properties, key).or(others) {
                    fill(value, schema);
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                fill(item, &schema["items"]);
            }
        }
        _ => {}
    }
}

/// What does not fit the schema.
pub(super) fn check(object: &Value, schema: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    for field in strings(&schema["required"]) {
        if object.get(field).is_none() {
            causes.push(Cause::required(field));
        }
    }
    for (key, schema) in schema["properties"].as_object().into_iter().flatten() {
        if let Some(value) = object.get(key) {
            check_value(value, schema, key, &mut causes);
        }
    }
    causes
}

fn check_value(value: &Value, schema: &Value, path: &str, causes: &mut Vec<Cause>) {
    if value.is_null() && schema["nullable"] == true {
        return;
    }
    if !has_type(value, schema) {
        let wanted = schema["type"].as_str().unwrap_or("integer,string");
        let found = match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(number) if number.is_f64() => "number",
            Value::Number(_) => "integer",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        let message = format!(
            "Invalid value: \"{found}\": {path} in body must be of type {wanted}: \"{found}\""
        );
        causes.push(Cause::new("FieldValueTypeInvalid", path, message));
        return;
    }
    if let Some(allowed) = schema["enum"].as_array()
        && !allowed.contains(value)
    {
        let message = format!("Unsupported value: {value}: supported values: {allowed:?}");
        causes.push(Cause::new("FieldValueNotSupported", path, message));
    }
    let mut bound = |limit: &str, size: usize, over: bool| {
        let Some(limit) = schema[limit].as_u64() else {
            return;
        };
        if (over && size as u64 > limit) || (!over && (size as u64) < limit) {
            let (reason, word) = if over {
                ("FieldValueTooMany", "Too many")
            } else {
                ("FieldValueInvalid", "Invalid value")
            };
            let message = format!("{word}: {size}: must have {limit}");
            causes.push(Cause::new(reason, path, message));
        }
    };
    match value {
        Value::String(text) => {
            bound("maxLength", text.chars().count(), true);
            bound("minLength", text.chars().count(), false);
            if schema["format"] == "date-time" && text.parse::<jiff::Timestamp>().is_err() {
                let found = json!(text);
                causes.push(Cause::invalid(path, &found, "must be of type date-time"));
            }
        }
        Value::Array(items) => {
            bound("maxItems", items.len(), true);
            bound("minItems", items.len(), false);
            causes.extend(repeated(items, schema, path));
            for (index, item) in items.iter().enumerate() {
                check_value(item, &schema["items"], &format!("{path}[{index}]"), causes);
            }
        }
        Value::Object(map) => {
            bound("maxProperties", map.len(), true);
            for field in strings(&schema["required"]) {
                if !map.contains_key(field) {
                    causes.push(Cause::required(format!("{path}.{field}")));
                }
            }
            let properties = schema["properties"].as_object();
            let others = schema.get("additionalProperties");
            for (key, value) in map {
                if let Some(schema) = known(properties, key).or(others) {
                    check_value(value, schema, &format!("{path}.{key}"), causes);
                }
            }
        }
        _ => {}
    }
}

/// Items of a list that is a map, when two have the same keys.
fn repeated(items: &[Value], schema: &Value, path: &str) -> Option<Cause> {
    if schema["x-kubernetes-list-type"] != "map" {
        return None;
    }
    let keys: Vec<&str> = strings(&schema["x-kubernetes-list-map-keys"]).collect();
    let id = |item: &Value| -> Vec<Value> { keys.iter().map(|key| item[*key].clone()).collect() };
    let ids: Vec<_> = items.iter().map(id).collect();
    let second = (0..ids.len()).find(|at| ids[..*at].contains(&ids[*at]))?;
    let field = format!("{path}[{second}]");
    Some(Cause::new(
        "FieldValueDuplicate",
        field,
        format!("Duplicate value: {:?}", ids[second]),
    ))
}

fn has_type(value: &Value, schema: &Value) -> bool {
    if schema["x-kubernetes-int-or-string"] == true {
        return value.is_string() || is_integer(value);
    }
    match schema["type"].as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("number") => value.is_number(),
        Some("integer") => is_integer(value) && fits(value, schema),
        _ => true,
    }
}

fn is_integer(value: &Value) -> bool {
    value.is_i64() || value.as_f64().is_some_and(|number| number.fract() == 0.0)
}

fn fits(value: &Value, schema: &Value) -> bool {
    schema["format"] != "int32" || value.as_i64().is_none_or(|n| i32::try_from(n).is_ok())
}

fn strings(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema() -> Value {
        json!({
            "type": "object",
            "required": ["spec"],
            "properties": {
                "spec": {
                    "type": "object",
                    "required": ["name"],
                    "properties": {
                        "name": {"type": "string", "enum": ["a", "b"]},
                        "size": {"type": "integer", "format": "int32", "default": 3},
                        "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                        "list": {
                            "type": "array", "maxItems": 2, "x-kubernetes-list-type": "map",
                            "x-kubernetes-list-map-keys": ["k"],
                            "items": {"type": "object", "properties": {"k": {"type": "string"}}},
                        },
                        "late": {"type": "string", "nullable": true, "format": "date-time"},
                    },
                },
            },
        })
    }

    fn read(spec: &Value) -> (Value, Vec<String>) {
        let mut object = json!({"kind": "K", "metadata": {"name": "n"}, "more": 1, "spec": spec});
        prune(&mut object, &schema());
        fill(&mut object, &schema());
        let causes = check(&object, &schema());
        assert_eq!(object.get("more"), None);
        assert_eq!(object["metadata"]["name"], "n");
        let fields = causes.into_iter().map(|cause| cause.field).collect();
        (object["spec"].clone(), fields)
    }

    #[test]
    fn unknown_fields_go_and_defaults_come() {
        let (spec, causes) = read(&json!({
            "name": "a", "size": null, "odd": 1, "open": {"x": 1}, "late": null,
            "list": [{"k": "1", "v": 2}],
        }));
        assert_eq!(
            spec,
            json!({"name": "a", "size": 3, "open": {"x": 1}, "late": null, "list": [{"k": "1"}]})
        );
        assert!(causes.is_empty(), "{causes:?}");
    }

    #[test]
    fn what_does_not_fit_is_named_with_its_path() {
        for (spec, field) in [
            (json!({}), "spec.name"),
            (json!({"name": "c"}), "spec.name"),
            (json!({"name": 1}), "spec.name"),
            (json!({"name": "a", "size": "1"}), "spec.size"),
            (json!({"name": "a", "size": 3_000_000_000_u64}), "spec.size"),
            (json!({"name": "a", "late": "soon"}), "spec.late"),
            (
                json!({"name": "a", "list": [{"k": "1"}, {"k": "1"}]}),
                "spec.list[1]",
            ),
            (
                json!({"name": "a", "list": [{"k": "1"}, {"k": "2"}, {"k": "3"}]}),
                "spec.list",
            ),
            (json!(5), "spec"),
        ] {
            assert_eq!(read(&spec).1, [field], "{spec}");
        }
    }
}
