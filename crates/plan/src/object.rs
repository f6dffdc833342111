//! JSON objects of parts that are there already.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;

/// Takes its fields, of which `json!` would make copies.
pub fn object<const N: usize>(fields: [(&str, Value); N]) -> Value {
    let fields = fields.map(|(key, value)| (key.to_owned(), value));
    Value::Object(fields.into_iter().collect())
}

/// A part of a template as it was written, or an empty one.
pub fn as_written(part: Option<&Value>) -> Cow<'_, Value> {
    part.map_or_else(|| Cow::Owned(object([])), Cow::Borrowed)
}

/// An object that is to be created. Its spec may be a template's, as it is.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NewObject<'a> {
    /// Such as `batch/v1`.
    pub api_version: &'static str,
    /// Such as Job.
    pub kind: &'static str,
    /// `metadata`.
    pub metadata: Value,
    /// `spec`.
    pub spec: Cow<'a, Value>,
}
