//! A JSON object of values that are there already.

use serde_json::Value;

/// Takes its fields, of which `json!` would make copies.
pub fn object<const N: usize>(fields: [(&str, Value); N]) -> Value {
    let fields = fields.map(|(key, value)| (key.to_owned(), value));
    Value::Object(fields.into_iter().collect())
}
