//! POST.

use serde_json::{Value, json};

use super::{Answer, State, object_of};
use crate::call::Call;
use crate::clock::seconds;
use crate::kind::Kind;
use crate::status::Status;

impl State {
    pub(super) fn create(&mut self, call: &Call, kind: &Kind) -> Result<Answer, Status> {
        let body = call.body.as_ref();
        let body = body.ok_or_else(|| Status::bad_request("the request has no body"))?;
        let object = object_of(call, kind, body)?;
        self.create_object(call, kind, object)
    }

    /// Creates what was read from a body.
    pub(super) fn create_object(
        &mut self,
        call: &Call,
        kind: &Kind,
        mut object: Value,
    ) -> Result<Answer, Status> {
        let written = object["metadata"]["resourceVersion"].clone();
        kind.decode(&mut object)?;
        let name = object["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        if kind.namespaced {
            self.check_namespace(call, &name)?;
        }
        if call.verb == "create"
            && let Some(meta) = object["metadata"].as_object_mut()
        {
            meta.remove("deletionTimestamp");
            meta.remove("deletionGracePeriodSeconds");
        }
        self.begin(kind, &mut object);
        if let Some(admission) = self.admission.clone() {
            admission(call, &mut object)?;
            kind.decode(&mut object)?;
        }
        let name = object["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let problems = kind.problems(&object, None);
        if !problems.is_empty() {
            return Err(Status::invalid(kind.group, kind.kind, &name, &problems));
        }
        let key = call.key(&name);
        let versioned = !["", "0"].contains(&written.as_str().unwrap_or_default());
        if versioned && !call.dry_run() && call.verb == "create" {
            let message = "resourceVersion should not be set on objects to be created";
            return Err(Status::new(500, "", message));
        }
        if self.store.get(&key).is_some() {
            return Err(Status::already_exists(&key.resource, &name));
        }
        if call.dry_run() {
            if versioned {
                object["metadata"]["resourceVersion"] = written;
            }
            return Ok(Answer::Object(201, object.into()));
        }
        let object = self.store.put(self.now, &key, object, &call.request());
        Ok(Answer::Object(201, object))
    }

    /// Gives a new object what the server decides.
    fn begin(&mut self, kind: &Kind, object: &mut Value) {
        if kind.status
            && kind.schema.is_some()
            && let Some(root) = object.as_object_mut()
        {
            root.remove("status");
            // Defaults come with each reading of what is stored, also those of the status.
            kind.fill_in(object);
        }
        let uid = self.store.uid();
        let meta = &mut object["metadata"];
        if let (None, Some(prefix)) = (meta["name"].as_str(), meta["generateName"].as_str()) {
            meta["name"] = json!(format!("{prefix}{}", &uid[..5]));
        }
        if let Some(meta) = meta.as_object_mut() {
            for field in ["resourceVersion", "selfLink"] {
                meta.remove(field);
            }
            meta.insert("uid".into(), json!(uid));
            meta.insert("creationTimestamp".into(), json!(seconds(self.now)));
            if kind.generation {
                meta.insert("generation".into(), json!(1));
            }
        }
        (kind.begin)(object);
    }

    fn check_namespace(&self, call: &Call, name: &str) -> Result<(), Status> {
        let mut key = call.key(&call.namespace);
        (key.resource, key.namespace) = ("namespaces".into(), "".into());
        let namespace = self.store.get(&key);
        let namespace =
            namespace.ok_or_else(|| Status::not_found("namespaces", &call.namespace))?;
        if namespace["metadata"]["deletionTimestamp"].is_null() {
            return Ok(());
        }
        let why = format!(
            "unable to create new content in namespace {} because it is being terminated",
            call.namespace
        );
        let mut status = Status::forbidden(&call.resource(), name, &why);
        status.details["causes"] = json!([{
            "reason": "NamespaceTerminating",
            "message": format!("namespace {} is being terminated", call.namespace),
            "field": "metadata.namespace",
        }]);
        Err(status)
    }
}
