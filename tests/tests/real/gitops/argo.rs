//! The snippet for Argo CD, and what Argo CD does with it.

use std::fs;

use carillon_testbed::carillon::workspace;
use serde_json::{Map, Value};

use super::run;

const FILE: &str = "docs/argocd/argocd-cm.yaml";

fn key(what: &str, kind: &str) -> String {
    let text = fs::read_to_string(workspace().join(FILE)).unwrap();
    let map: Value = serde_saphyr::from_str(&text).unwrap();
    let key = format!("resource.customizations.{what}.carillon.dev_{kind}");
    let value = map["data"][&key].as_str();
    value
        .unwrap_or_else(|| panic!("{FILE} has no {key}"))
        .to_owned()
}

/// The health check of a kind.
pub(super) fn health(kind: &str) -> String {
    key("health", kind)
}

fn actions(kind: &str) -> Value {
    serde_saphyr::from_str(&key("actions", kind)).unwrap()
}

/// Names of the actions of a kind that are defined.
pub(super) fn defined(kind: &str) -> Vec<String> {
    let actions = actions(kind);
    let definitions = actions["definitions"].as_array().unwrap().iter();
    let names = definitions.map(|one| one["name"].as_str().unwrap().to_owned());
    names.collect()
}

/// Names of the actions that may be taken on an object, in order.
pub(super) fn offered(kind: &str, object: &Value) -> Vec<String> {
    let script = actions(kind)["discovery.lua"].as_str().unwrap().to_owned();
    let found = run(&script, object);
    // An empty table is an empty list.
    let empty = Map::new();
    let found = found.as_object().unwrap_or(&empty);
    let mut names = Vec::new();
    for (name, action) in found {
        assert!(
            defined(kind).contains(name),
            "{kind}: {name} is not defined"
        );
        let disabled = action["disabled"].as_bool();
        if !disabled.unwrap_or_else(|| panic!("{kind}: {name}: {action}")) {
            names.push(name.clone());
        }
    }
    names.sort();
    names
}

/// What an action asks of the API server.
#[derive(Debug)]
pub(super) enum Asked {
    /// A merge patch of the object.
    Patch(Value),
    /// Another object.
    Create(Value),
}

/// Takes an action on an object.
pub(super) fn act(kind: &str, name: &str, object: &Value) -> Asked {
    let actions = actions(kind);
    let definitions = actions["definitions"].as_array().unwrap();
    let definition = definitions.iter().find(|one| one["name"] == name).unwrap();
    let answer = run(definition["action.lua"].as_str().unwrap(), object);
    match answer.as_array().map(Vec::as_slice) {
        Some([one]) => {
            assert_eq!(one["operation"], "create", "{one}");
            Asked::Create(one["resource"].clone())
        }
        Some(several) => panic!("{kind}: {name}: {several:?}"),
        None => Asked::Patch(merge_patch(object, &mended(&answer, object))),
    }
}

/// Lua makes a list of an empty map; Argo CD puts back what was there.
fn mended(new: &Value, old: &Value) -> Value {
    match (new, old) {
        (Value::Array(items), Value::Object(_)) if items.is_empty() => old.clone(),
        (Value::Object(new), Value::Object(old)) => {
            let mended_field = |(key, value): (&String, &Value)| {
                let value = old
                    .get(key)
                    .map_or_else(|| value.clone(), |old| mended(value, old));
                (key.clone(), value)
            };
            Value::Object(new.iter().map(mended_field).collect())
        }
        (Value::Array(new), Value::Array(old)) if new.len() == old.len() => new
            .iter()
            .zip(old)
            .map(|(new, old)| mended(new, old))
            .collect(),
        _ => new.clone(),
    }
}

/// The JSON merge patch that makes `new` of `old`.
fn merge_patch(old: &Value, new: &Value) -> Value {
    let (Value::Object(old), Value::Object(new)) = (old, new) else {
        return new.clone();
    };
    let mut patch = Map::new();
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    for (key, value) in new {
        match old.get(key) {
            Some(same) if equal(same, value) => {}
            Some(other) => drop(patch.insert(key.clone(), merge_patch(other, value))),
            None => drop(patch.insert(key.clone(), value.clone())),
        }
    }
    Value::Object(patch)
}

/// Lua knows one kind of number.
fn equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(a, b)| equal(a, b))
        }
        (Value::Object(one), Value::Object(other)) => {
            let same = |(key, value): (&String, &Value)| {
                other.get(key).is_some_and(|other| equal(value, other))
            };
            one.len() == other.len() && one.iter().all(same)
        }
        _ => one == other,
    }
}
