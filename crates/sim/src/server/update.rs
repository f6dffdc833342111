//! PUT and PATCH.

use serde_json::{Value, json};

use super::{Answer, State, check_place, object_of};
use crate::call::Call;
use crate::kind::Kind;
use crate::patch;
use crate::status::Status;

const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

impl State {
    pub(super) fn replace(&mut self, call: &Call, kind: &Kind) -> Result<Answer, Status> {
        let body = call.body.as_ref();
        let body = body.ok_or_else(|| Status::bad_request("the request has no body"))?;
        let object = object_of(call, kind, body)?;
        let key = call.key(&call.name);
        let Some(old) = self.store.get(&key).cloned() else {
            if kind.create_on_update && call.subresource.is_empty() {
                if let Some(uid) = object["metadata"]["uid"].as_str() {
                    return Err(wrong_uid(&key.resource, &key.name, uid, &Value::Null));
                }
                return self.create_object(call, kind, object);
            }
            return Err(Status::not_found(&key.resource, &key.name));
        };
        if let Some(uid) = object["metadata"]["uid"].as_str()
            && old["metadata"]["uid"] != uid
        {
            return Err(wrong_uid(&key.resource, &key.name, uid, &old));
        }
        self.update(call, kind, &old, object)
    }

    pub(super) fn patch(&mut self, call: &Call, kind: &Kind) -> Result<Answer, Status> {
        let media = call
            .content_type
            .split(';')
            .next()
            .unwrap_or_default()
            .trim();
        let strategic = match media {
            "application/merge-patch+json" => false,
            "application/strategic-merge-patch+json" if kind.schema.is_none() => true,
            other => return Err(Status::unsupported_media_type(other)),
        };
        let key = call.key(&call.name);
        let old = self.store.get(&key).cloned();
        let old = old.ok_or_else(|| Status::not_found(&key.resource, &key.name))?;
        let body = call.body.as_ref().filter(|body| body.is_object());
        let body = body.ok_or_else(|| Status::bad_request("the patch is not an object"))?;
        let mut object = (*old).clone();
        if strategic {
            patch::strategic(&mut object, body)?;
        } else {
            patch::merge(&mut object, body);
        }
        for field in ["apiVersion", "kind"] {
            if object[field] != old[field] {
                return Err(Status::bad_request(format!(
                    "the {field} in the data ({}) does not match the expected ({})",
                    object[field], old[field]
                )));
            }
        }
        crate::kind::normalize_meta(&mut object)?;
        check_place(call, &object, false)?;
        self.update(call, kind, &old, object)
    }

    /// Stores `new` over `old`, if that is allowed and changes anything.
    fn update(
        &mut self,
        call: &Call,
        kind: &Kind,
        old: &Value,
        mut new: Value,
    ) -> Result<Answer, Status> {
        let key = call.key(&call.name);
        let version = &new["metadata"]["resourceVersion"];
        if version.is_null() && !kind.unconditional_update {
            let cause = crate::status::Cause::invalid(
                "metadata.resourceVersion",
                &json!(0),
                "must be specified for an update",
            );
            return Err(Status::invalid(
                kind.group,
                kind.plural,
                &key.name,
                &[cause],
            ));
        }
        if !version.is_null() && *version != old["metadata"]["resourceVersion"] {
            return Err(Status::conflict(&key.resource, &key.name, MODIFIED));
        }
        kind.decode(&mut new)?;
        keep_meta(&mut new, old);
        keep_parts(kind, &mut new, old, call.subresource == "status");
        let problems = kind.problems(&new, Some(old));
        if !problems.is_empty() {
            return Err(Status::invalid(kind.group, kind.kind, &key.name, &problems));
        }
        if ends(&new, old) {
            if !call.dry_run() {
                self.store.remove(self.now, &key, &call.request());
            }
            return Ok(Answer::Object(200, new.into()));
        }
        // The API server compares with what is stored. The default of a status comes with reading, so that the first
        // update stores it, whatever else it changes.
        let is_stored = !kind.defaults_status() || !self.store.is_as_created(&key);
        if call.dry_run() || new == *old && is_stored {
            return Ok(Answer::Object(200, new.into()));
        }
        let stored = self.store.put(self.now, &key, new, &call.request());
        Ok(Answer::Object(200, stored))
    }
}

/// Keeps what no update changes.
fn keep_meta(new: &mut Value, old: &Value) {
    let old = &old["metadata"];
    let Some(meta) = new["metadata"].as_object_mut() else {
        return;
    };
    for field in ["resourceVersion", "generation", "creationTimestamp"] {
        meta.remove(field);
        if let Some(value) = old.get(field) {
            meta.insert(field.into(), value.clone());
        }
    }
    if let Some(value) = old.get("deletionTimestamp") {
        meta.insert("deletionTimestamp".into(), value.clone());
    }
    for field in ["uid", "deletionGracePeriodSeconds"] {
        if let Some(value) = old.get(field) {
            meta.entry(field).or_insert_with(|| value.clone());
        }
    }
}

/// Keeps what is written through another path, and counts changes of the rest.
fn keep_parts(kind: &Kind, new: &mut Value, old: &Value, status: bool) {
    if kind.schema.is_some() && kind.status {
        if status {
            let written = new.get("status").cloned();
            *new = old.clone();
            put_status(new, written);
        } else {
            put_status(new, old.get("status").cloned());
        }
    }
    (kind.keep)(new, old, status);
    if kind.generation && !same_content(kind, new, old) {
        let generation = old["metadata"]["generation"].as_i64().unwrap_or(0) + 1;
        new["metadata"]["generation"] = json!(generation);
    }
}

fn put_status(object: &mut Value, status: Option<Value>) {
    let Some(root) = object.as_object_mut() else {
        return;
    };
    match status {
        Some(status) => root.insert("status".into(), status),
        None => root.remove("status"),
    };
}

/// Whether nothing differs that a generation counts the changes of.
fn same_content(kind: &Kind, new: &Value, old: &Value) -> bool {
    let counts = |key: &str| key != "metadata" && !(kind.status && key == "status");
    let fields = |object: &Value| {
        let fields = object.as_object().into_iter().flatten();
        fields.filter(|(key, _)| counts(key)).count()
    };
    let differs = |(key, value): (&String, &Value)| counts(key) && old.get(key) != Some(value);
    let mut all = new.as_object().into_iter().flatten();
    fields(new) == fields(old) && !all.any(differs)
}

/// Whether an update releases the last thing that kept a deleted object.
fn ends(new: &Value, old: &Value) -> bool {
    let old = &old["metadata"];
    new["metadata"]["finalizers"].is_null()
        && !old["deletionTimestamp"].is_null()
        && old["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) == 0
}

fn wrong_uid(resource: &str, name: &str, uid: &str, old: &Value) -> Status {
    let found = old["metadata"]["uid"].as_str().unwrap_or_default();
    let why =
        format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {found}");
    Status::conflict(resource, name, &why)
}
