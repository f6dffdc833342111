//! What differs between two objects that are the same, made equal.

use std::collections::BTreeMap;

use serde_json::Value;

/// What names end in that are not written by hand: five characters that the API server has chosen,
/// or ten that Carillon has.
const ENDINGS: [(usize, &str); 2] = [
    (5, "bcdfghjklmnpqrstvwxz2456789"),
    (10, "bcdfghjklmnpqrstvwxz245678901367"),
];

/// What generated names begin with: a Job is `j` here, a DaemonSet `d`.
const OWNERS: [&str; 3] = ["j-", "d-", "kube-api-access-"];
/// Not a controller's to set, or different for each object.
const METADATA: [&str; 6] = [
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "managedFields",
    "namespace",
    "selfLink",
];

/// An object without what is different for each.
pub(crate) fn without_chance(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.retain(|key, _| !METADATA.contains(&&**key));
    }
    object
}

/// A text without the name of the namespace, uids and generated names.
pub(crate) fn plain(text: &str, namespace: &str) -> String {
    let text = text.replace(namespace, "NAMESPACE");
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let mut out = String::new();
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let word = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        out += &word_without_chance(&rest[..word]);
        rest = &rest[word..];
        let gap = rest.find(is_name).unwrap_or(rest.len());
        out += &rest[..gap];
        rest = &rest[gap..];
    }
    out
}

fn word_without_chance(word: &str) -> String {
    if is_uid(word) {
        return "UID".to_owned();
    }
    let has_generated_name = OWNERS.iter().any(|owner| word.starts_with(owner));
    let is_made = |end: &str| {
        let fits = |(length, alphabet): &(usize, &str)| {
            end.len() == *length && end.chars().all(|c| alphabet.contains(c))
        };
        ENDINGS.iter().any(fits)
    };
    match word.rsplit_once('-') {
        Some((name, end)) if has_generated_name && is_made(end) => format!("{name}-*"),
        _ => word.to_owned(),
    }
}

fn is_uid(word: &str) -> bool {
    let parts: Vec<usize> = word.split('-').map(str::len).collect();
    parts == [8, 4, 4, 4, 12] && word.chars().all(|c| c == '-' || c.is_ascii_hexdigit())
}

/// Whether a text is a time, as the API writes it.
pub(crate) fn is_time(text: &str) -> bool {
    text.len() >= 20 && text.parse::<jiff::Timestamp>().is_ok()
}

/// All values of an object by their paths, made equal.
pub(crate) fn leaves(value: &Value, namespace: &str) -> BTreeMap<String, String> {
    let mut leaves = BTreeMap::new();
    collect(value, "", namespace, &mut leaves);
    leaves
}

fn collect(value: &Value, path: &str, namespace: &str, leaves: &mut BTreeMap<String, String>) {
    let below = |key: &str| {
        if path.is_empty() {
            key.to_owned()
        } else {
            format!("{path}/{key}")
        }
    };
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (key, value) in fields {
                collect(value, &below(key), namespace, leaves);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (at, item) in items.iter().enumerate() {
                collect(item, &below(&at.to_string()), namespace, leaves);
            }
        }
        Value::String(text) if is_time(text) => {
            leaves.insert(path.to_owned(), "a time".to_owned());
        }
        other => {
            leaves.insert(path.to_owned(), plain(&other.to_string(), namespace));
        }
    }
}

#[test]
fn generated_names_and_uids_are_made_equal_and_no_others() {
    let text = "pods \"j-0-x7k2b\" of here/j-w4q9tn659t, j-bcdfgh, job-tracking 01234567-89ab-cdef-0123-456789abcdef";
    assert_eq!(
        plain(text, "here"),
        "pods \"j-0-*\" of NAMESPACE/j-*, j-bcdfgh, job-tracking UID"
    );
}
