//! Metadata: read as the typed struct it is everywhere, and judged.

use serde_json::{Map, Value, json};

use crate::status::{Cause, Status};

const TEXTS: [&str; 8] = [
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
];
const NUMBERS: [&str; 2] = ["generation", "deletionGracePeriodSeconds"];
const MAPS: [&str; 2] = ["labels", "annotations"];
const LISTS: [&str; 2] = ["ownerReferences", "finalizers"];

/// Reads the metadata as a typed struct would: unknown, null and empty fields are gone.
pub(crate) fn normalize(object: &mut Value) -> Result<(), Status> {
    let Some(root) = object.as_object_mut() else {
        return Err(Status::bad_request(
            "couldn't get version/kind; json parse error",
        ));
    };
    let meta = match root.remove("metadata") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(meta)) => meta,
        Some(_) => return Err(unreadable("metadata")),
    };
    let mut read = Map::new();
    for (key, value) in meta {
        if let Some(value) = field(&key, value)? {
            read.insert(key, value);
        }
    }
    root.insert("metadata".into(), Value::Object(read));
    Ok(())
}

fn field(key: &str, value: Value) -> Result<Option<Value>, Status> {
    let is = |names: &[&str]| names.contains(&key);
    let (fits, kept) = match &value {
        Value::Null => return Ok(None),
        Value::String(text) => (is(&TEXTS), !text.is_empty()),
        Value::Number(number) => (
            is(&NUMBERS) && number.is_i64(),
            key != "generation" || number.as_i64() != Some(0),
        ),
        Value::Object(map) => (is(&MAPS) && map.values().all(text_or_null), !map.is_empty()),
        Value::Array(items) if key == "finalizers" => {
            (items.iter().all(Value::is_string), !items.is_empty())
        }
        Value::Array(items) => (
            is(&LISTS) && items.iter().all(Value::is_object),
            !items.is_empty(),
        ),
        Value::Bool(_) => (false, false),
    };
    if !TEXTS
        .iter()
        .chain(&NUMBERS)
        .chain(&MAPS)
        .chain(&LISTS)
        .any(|known| *known == key)
    {
        return Ok(None);
    }
    if !fits {
        return Err(unreadable(key));
    }
    Ok(kept.then(|| match value {
        // Go reads a null in a map of strings as the empty one.
        Value::Object(map) => Value::Object(
            map.into_iter()
                .map(|(key, value)| (key, if value.is_null() { json!("") } else { value }))
                .collect(),
        ),
        Value::Array(items) if key == "ownerReferences" => {
            Value::Array(items.into_iter().map(owner).collect())
        }
        value => value,
    }))
}

fn text_or_null(value: &Value) -> bool {
    value.is_string() || value.is_null()
}

fn owner(mut reference: Value) -> Value {
    if let Some(map) = reference.as_object_mut() {
        map.retain(|_, value| !value.is_null());
    }
    reference
}

fn unreadable(field: &str) -> Status {
    Status::bad_request(format!(
        "json: cannot unmarshal into field ObjectMeta.{field}"
    ))
}

/// What is wrong with the metadata of an object of a kind.
pub(super) fn check(group: &str, plural: &str, object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let meta = &object["metadata"];
    let mut causes = Vec::new();
    let name = meta["name"].as_str().unwrap_or_default();
    if name.is_empty() {
        let why = "name or generateName is required";
        causes.push(Cause::new("FieldValueRequired", "metadata.name", why));
    } else if !is_subdomain(name) || (plural == "namespaces" && name.contains('.')) {
        let why = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
                   characters, '-' or '.', and must start and end with an alphanumeric character";
        causes.push(Cause::invalid("metadata.name", &meta["name"], why));
    }
    for (key, value) in meta["labels"].as_object().into_iter().flatten() {
        let value = value.as_str().unwrap_or_default();
        if !is_qualified(key) || !(value.is_empty() || is_part(value)) {
            let why = "a valid label must be an empty string or consist of alphanumeric \
                       characters, '-', '_' or '.'";
            causes.push(Cause::invalid("metadata.labels", &json!(value), why));
        }
    }
    for key in meta["annotations"]
        .as_object()
        .into_iter()
        .flat_map(Map::keys)
    {
        if !is_qualified(&key.to_lowercase()) {
            let why = "name part must consist of alphanumeric characters, '-', '_' or '.'";
            causes.push(Cause::invalid("metadata.annotations", &json!(key), why));
        }
    }
    causes.extend(finalizers(group, meta));
    causes.extend(owners(meta));
    if let Some(old) = old {
        causes.extend(changes(meta, &old["metadata"]));
    }
    causes
}

fn finalizers(group: &str, meta: &Value) -> Vec<Cause> {
    let names = texts(&meta["finalizers"]);
    let wrong = |name: &&str| {
        let standard = ["orphan", "foregroundDeletion", "kubernetes"].contains(name);
        // Kinds of batch are judged by the rules of core.
        let core = ["", "batch"].contains(&group);
        !is_qualified(name) || (core && !standard && !name.contains('/'))
    };
    let why = "name is neither a standard finalizer name nor is it fully qualified";
    let cause = |name: &str| Cause::invalid("metadata.finalizers", &json!(name), why);
    let mut causes: Vec<Cause> = names.iter().copied().filter(wrong).map(cause).collect();
    if ["orphan", "foregroundDeletion"]
        .iter()
        .all(|name| names.contains(name))
    {
        let why = "finalizer orphan and foregroundDeletion cannot be both set";
        causes.push(Cause::invalid(
            "metadata.finalizers",
            &meta["finalizers"],
            why,
        ));
    }
    causes
}

fn owners(meta: &Value) -> Vec<Cause> {
    let owners = meta["ownerReferences"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let mut causes = Vec::new();
    for (index, owner) in owners.iter().enumerate() {
        for field in ["apiVersion", "kind", "name", "uid"] {
            if owner[field].as_str().is_none_or(str::is_empty) {
                let path = format!("metadata.ownerReferences[{index}].{field}");
                causes.push(Cause::invalid(path, &json!(""), "must not be empty"));
            }
        }
    }
    if owners
        .iter()
        .filter(|owner| owner["controller"] == true)
        .count()
        > 1
    {
        let why = "Only one reference can have Controller set to true";
        causes.push(Cause::invalid(
            "metadata.ownerReferences",
            &meta["ownerReferences"],
            why,
        ));
    }
    causes
}

/// What an update may not change.
fn changes(new: &Value, old: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    for field in [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        if new[field] != old[field] {
            let path = format!("metadata.{field}");
            causes.push(Cause::invalid(path, &new[field], "field is immutable"));
        }
    }
    if !old["deletionTimestamp"].is_null() {
        let before = texts(&old["finalizers"]);
        let added: Vec<&str> = texts(&new["finalizers"])
            .into_iter()
            .filter(|name| !before.contains(name))
            .collect();
        if !added.is_empty() {
            let why = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers {added:?}"
            );
            causes.push(Cause::forbidden("metadata.finalizers", &why));
        }
    }
    causes
}

pub(super) fn texts(list: &Value) -> Vec<&str> {
    list.as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

/// RFC 1123: labels with dots between them.
fn is_subdomain(name: &str) -> bool {
    name.len() <= 253 && name.split('.').all(is_dns_label_of_any_length)
}

fn is_dns_label_of_any_length(label: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    label.chars().all(|c| plain(c) || c == '-')
        && label.starts_with(plain)
        && label.ends_with(plain)
}

/// RFC 1123: one label.
pub(super) fn is_dns_label(name: &str) -> bool {
    name.len() <= 63 && is_dns_label_of_any_length(name)
}

fn is_part(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric();
    text.len() <= 63
        && text.chars().all(|c| plain(c) || "-_.".contains(c))
        && text.starts_with(plain)
        && text.ends_with(plain)
}

/// `name` or `prefix/name`.
fn is_qualified(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => is_subdomain(prefix) && is_part(name),
        None => is_part(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_read_as_the_struct_it_is() {
        let mut object = json!({"metadata": {
            "name": "a", "odd": 1, "labels": {}, "annotations": {"k": null}, "finalizers": [],
            "generation": 0, "deletionGracePeriodSeconds": 0, "managedFields": [{}],
        }});
        normalize(&mut object).unwrap();
        assert_eq!(
            object["metadata"],
            json!({"name": "a", "annotations": {"k": ""}, "deletionGracePeriodSeconds": 0})
        );
        for meta in [
            json!({"labels": {"a": 1}}),
            json!({"finalizers": "x"}),
            json!({"name": 1}),
            json!([]),
        ] {
            let mut object = json!({"metadata": meta});
            assert_eq!(normalize(&mut object).unwrap_err().code, 400);
        }
    }

    #[test]
    fn names_labels_finalizers_and_owners_are_judged() {
        let pod = ("", "pods");
        let job = ("carillon.dev", "broadcastjobs");
        let owner = |uid: &str| json!({"apiVersion": "v1", "kind": "K", "name": "n", "uid": uid, "controller": true});
        for ((group, plural), extra, good) in [
            (pod, json!({}), true),
            (pod, json!({"name": "A"}), false),
            (pod, json!({"name": "a..b"}), false),
            (pod, json!({"labels": {"a.io/b": "c"}}), true),
            (pod, json!({"labels": {"a b": "c"}}), false),
            (pod, json!({"labels": {"a": "-"}}), false),
            (pod, json!({"finalizers": ["plain"]}), false),
            (job, json!({"finalizers": ["plain"]}), true),
            (pod, json!({"finalizers": ["a.io/b"]}), true),
            (pod, json!({"ownerReferences": [owner("u")]}), true),
            (pod, json!({"ownerReferences": [owner("")]}), false),
            (
                pod,
                json!({"ownerReferences": [owner("u"), owner("v")]}),
                false,
            ),
        ] {
            let mut object = json!({"metadata": {"name": "a"}});
            for (key, value) in extra.as_object().unwrap() {
                object["metadata"][key] = value.clone();
            }
            assert_eq!(
                check(group, plural, &object, None).is_empty(),
                good,
                "{object}"
            );
        }
    }

    #[test]
    fn a_deleted_object_gets_no_new_finalizer() {
        let old = json!({"deletionTimestamp": "t", "finalizers": ["a/b", "a/c"]});
        let new = |names: &[&str]| json!({"deletionTimestamp": "t", "finalizers": names});
        assert!(changes(&new(&["a/c"]), &old).is_empty());
        assert_eq!(changes(&new(&["a/d"]), &old).len(), 1);
    }
}
