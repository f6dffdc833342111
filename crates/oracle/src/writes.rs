//! What a request of ours may not be, whatever it is about.

use serde_json::Value;

use crate::history::{Request, Step};

/// What is wrong with the way of a request, whatever it is about.
pub(crate) fn misdirected(step: &Step, by: &Request) -> Option<String> {
    if by.verb == "deletecollection" {
        return Some("deletecollection is never used".to_owned());
    }
    let namespace = &*step.key.namespace;
    let named = by.uri.split_once("/namespaces/").map(|(_, rest)| rest);
    let elsewhere = named.is_some_and(|rest| rest.split(['/', '?']).next() != Some(namespace));
    elsewhere.then(|| format!("the request went to {}", by.uri))
}

/// An object without bookkeeping and without one of its finalizers.
pub(crate) fn without(object: &Value, finalizer: &str) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for bookkeeping in ["managedFields", "resourceVersion", "generation"] {
            metadata.remove(bookkeeping);
        }
        let finalizers = metadata.remove("finalizers");
        let others = finalizers
            .iter()
            .flat_map(|list| list.as_array().into_iter().flatten());
        let others: Vec<Value> = others.filter(|f| *f != finalizer).cloned().collect();
        metadata.insert("finalizers".to_owned(), Value::from(others));
    }
    object
}
