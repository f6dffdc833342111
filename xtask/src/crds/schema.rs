//! Reads of a schema.

use serde_json::Value;

use crate::values::shown;

/// Where a schema has that of its items or values, and the mark of them in a path.
pub(super) const INSIDE: [(&str, &str); 2] = [("items", "[]"), ("additionalProperties", "{}")];

/// A rule of a schema, with the field that it is about.
#[derive(Debug)]
pub(super) struct Rule {
    /// From the object.
    pub(super) path: String,
    /// What the API server says after the field.
    pub(super) message: String,
    expression: String,
}

impl Rule {
    /// Whether it is what keeps a field as it was.
    pub(super) fn is_immutability(&self) -> bool {
        self.message.starts_with("is immutable")
    }

    /// Whether it lets no value of this field pass.
    pub(super) fn refuses(&self, path: &str) -> bool {
        let name = path.rsplit('.').next().unwrap_or(path);
        self.path == path && self.expression == format!("!has(self.{name})")
    }
}

/// All rules of a schema.
pub(super) fn rules(schema: &Value) -> Vec<Rule> {
    let mut found = Vec::new();
    each("", schema, &mut |path, schema| {
        let rules = schema["x-kubernetes-validations"].as_array();
        for rule in rules.into_iter().flatten() {
            let path = format!("{path}{}", text(&rule["fieldPath"]));
            found.push(Rule {
                path: path.trim_start_matches('.').to_owned(),
                message: text(&rule["message"]).to_owned(),
                expression: text(&rule["rule"]).to_owned(),
            });
        }
    });
    found
}

/// Calls `look` with each schema below and including this one, after its path.
pub(super) fn each(path: &str, schema: &Value, look: &mut dyn FnMut(&str, &Value)) {
    look(path, schema);
    for (name, property) in properties(schema) {
        each(&join(path, name), property, look);
    }
    for (key, mark) in INSIDE {
        if schema[key].is_object() {
            each(&format!("{path}{mark}"), &schema[key], look);
        }
    }
}

/// The fields of an object, by name.
pub(super) fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema["properties"].as_object().into_iter().flatten()
}

/// Whether an object must have a field of this name.
pub(super) fn requires(schema: &Value, name: &str) -> bool {
    let required = schema["required"].as_array();
    required.is_some_and(|names| names.iter().any(|required| required == name))
}

/// The path of a field.
pub(super) fn join(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

/// The text, or none.
pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A value as one writes it in YAML. Words that YAML would take for something else have quotes.
pub(super) fn yaml(value: &Value) -> String {
    match value {
        Value::String(word) if ["", "True", "False"].contains(&word.as_str()) => {
            format!("{word:?}")
        }
        Value::String(word) => word.clone(),
        other => shown(other),
    }
}
