//! ControllerRevisions: what the template of a DaemonSet was, and how it is told that one is the same.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use super::pod::LABEL_REVISION;
use crate::node::Labels;
use crate::object::object;
use crate::object_key::{ObjectKey, REVISION};
use crate::pod_body::written;
use crate::selector::label;
use crate::uid::Uid;

/// A ControllerRevision.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Revision {
    /// Uid.
    pub uid: Uid,
    /// resourceVersion.
    pub rv: u64,
    /// `revision`: the highest is the newest.
    pub number: i64,
    /// What its data says.
    pub data: DataDigest,
    /// Labels, for the selector and the hash.
    pub labels: Labels,
    /// `metadata.creationTimestamp`.
    pub created: Timestamp,
    /// Somebody has deleted it.
    pub deleting: bool,
}

impl Revision {
    /// The hash that pods made from it carry. One that lost its label is known by its name.
    pub fn hash<'a>(&'a self, name: &'a str) -> &'a str {
        label(&self.labels, LABEL_REVISION).unwrap_or(name)
    }
}

/// The revisions that a DaemonSet controls, by name.
pub type Revisions = BTreeMap<Box<str>, Revision>;

/// Digests of the data of a revision.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct DataDigest {
    /// Of every byte: kube-controller-manager takes two revisions for the same only then.
    exact: u128,
    /// Of what it says, where null is as if it were not there.
    pub(super) meaning: u128,
}

impl DataDigest {
    /// That of data as it is stored.
    pub fn of_stored(data: &str) -> Self {
        let meaning = serde_json::from_str(data).map(without_nulls);
        Self {
            exact: digest(data),
            meaning: meaning.map_or(0, |meaning| digest(&go_json(&meaning))),
        }
    }

    /// That of the data which [`revision_data`] makes of a template.
    pub fn of_template(template: &Value) -> Self {
        Self::of_data(patch(template))
    }

    /// That of data which was read. What kube-controller-manager and we store is in these very bytes.
    pub(crate) fn of_data(data: Value) -> Self {
        Self {
            exact: digest(&go_json(&data)),
            meaning: digest(&go_json(&without_nulls(data))),
        }
    }

    /// Whether both are the same to who serves native DaemonSets, or ours.
    pub(crate) fn is(self, other: Self, native: bool) -> bool {
        if native {
            self.exact == other.exact
        } else {
            self.meaning == other.meaning
        }
    }
}

fn digest(text: &str) -> u128 {
    let digest = Sha256::digest(text.as_bytes());
    digest
        .first_chunk()
        .map_or(0, |first| u128::from_be_bytes(*first))
}

/// The data of the revision of a template: a patch, in the very bytes that kube-controller-manager writes.
/// Source: `getPatch`.
pub fn revision_data(template: &Value) -> String {
    go_json(&patch(template))
}

fn patch(template: &Value) -> Value {
    let mut template = template.clone();
    if let Some(template) = template.as_object_mut() {
        template.insert("$patch".to_owned(), "replace".into());
    }
    object([("spec", object([("template", template)]))])
}

/// JSON as Go writes it: keys in order, and what HTML gives a meaning escaped.
fn go_json(value: &Value) -> String {
    let text = value.to_string();
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' => escaped.push_str("\\u003c"),
            '>' => escaped.push_str("\\u003e"),
            '&' => escaped.push_str("\\u0026"),
            '\u{2028}' => escaped.push_str("\\u2028"),
            '\u{2029}' => escaped.push_str("\\u2029"),
            other => escaped.push(other),
        }
    }
    escaped
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().filter(|(_, value)| !value.is_null());
            let fields = fields.map(|(key, value)| (key, without_nulls(value)));
            Value::Object(fields.collect())
        }
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        other => other,
    }
}

/// A revision that is to be created.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RevisionBody {
    api_version: &'static str,
    kind: &'static str,
    metadata: Value,
    data: Box<RawValue>,
    revision: i64,
}

/// The revision of a template. `annotations` are those of the DaemonSet, one of which `kubectl rollout history` shows.
/// `None` for a template that is none.
pub fn revision_body(
    owner: &ObjectKey,
    (template, annotations): (&Value, Option<&Value>),
    (name, hash, number): (&str, &str, i64),
) -> Option<RevisionBody> {
    let mut labels = written(template, "/metadata/labels");
    labels.insert(LABEL_REVISION.to_owned(), hash.into());
    let mut metadata = object([
        ("name", name.into()),
        ("namespace", owner.namespace.as_str().into()),
        ("labels", labels.into()),
        ("ownerReferences", vec![owner.reference()].into()),
    ]);
    if let Some(annotations) = annotations.filter(|annotations| annotations.is_object()) {
        metadata["annotations"] = annotations.clone();
    }
    Some(RevisionBody {
        api_version: REVISION.0,
        kind: REVISION.1,
        metadata,
        // As text: parsed and written anew it would be other bytes.
        data: RawValue::from_string(revision_data(template)).ok()?,
        revision: number,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_data_of_a_revision_is_the_patch_that_kube_controller_manager_writes() {
        let template = json!({
            "spec": {"containers": [{"name": "c", "args": ["a<b>&\u{2028}ü\"\n"]}], "b": 2, "a": null},
            "metadata": {"labels": {"app": "x"}, "creationTimestamp": null},
        });
        let expected = "{\"spec\":{\"template\":{\"$patch\":\"replace\",\"metadata\":{\"creationTimestamp\":null,\
            \"labels\":{\"app\":\"x\"}},\"spec\":{\"a\":null,\"b\":2,\"containers\":[{\"args\":[\
            \"a\\u003cb\\u003e\\u0026\\u2028ü\\\"\\n\"],\"name\":\"c\"}]}}}}";
        assert_eq!(revision_data(&template), expected);
    }

    #[test]
    fn a_native_revision_is_the_same_by_its_bytes_and_one_of_ours_by_what_it_says() {
        let with = |created: Value| DataDigest::of_template(&json!({"metadata": created}));
        let (absent, null) = (with(json!({})), with(json!({"creationTimestamp": null})));
        let other = with(json!({"labels": {}}));
        assert!(absent.is(null, false) && !absent.is(null, true));
        for native in [true, false] {
            assert!(absent.is(absent, native) && !absent.is(other, native));
        }
    }
}
