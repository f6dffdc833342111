//! A user without a connection: acts at once, by the same rules and into the same history.

use std::sync::Arc;

use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, Uri};
use serde_json::{Value, json};

use crate::call::Call;
use crate::kind::Kind;
use crate::server::{Answer, Server};
use crate::status::Status;

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// A user; resources are named as in [`Kind::named`], objects of the cluster have the namespace "".
#[derive(Clone, Debug)]
pub struct Actor {
    server: Server,
    user: Arc<str>,
}

/// How something is to be deleted. The default leaves all to the API server.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Delete {
    /// Seconds.
    pub grace: Option<i64>,
    /// Only the object of this uid.
    pub uid: Option<String>,
    /// Only at this resourceVersion.
    pub resource_version: Option<String>,
    /// What becomes of dependents.
    pub propagation: Option<Propagation>,
}

/// `propagationPolicy`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Propagation {
    /// Dependents go after their owner.
    Background,
    /// Dependents go before their owner.
    Foreground,
    /// Dependents stay.
    Orphan,
}

impl Delete {
    /// Without any time for containers to end.
    pub fn now() -> Self {
        Self {
            grace: Some(0),
            ..Self::default()
        }
    }

    /// With a policy for dependents.
    pub fn with(propagation: Propagation) -> Self {
        Self {
            propagation: Some(propagation),
            ..Self::default()
        }
    }

    fn body(&self) -> Value {
        let mut body = json!({"kind": "DeleteOptions", "apiVersion": "v1"});
        if let Some(seconds) = self.grace {
            body["gracePeriodSeconds"] = json!(seconds);
        }
        if let Some(uid) = &self.uid {
            body["preconditions"]["uid"] = json!(uid);
        }
        if let Some(version) = &self.resource_version {
            body["preconditions"]["resourceVersion"] = json!(version);
        }
        if let Some(propagation) = self.propagation {
            body["propagationPolicy"] = json!(format!("{propagation:?}"));
        }
        body
    }
}

impl Server {
    /// A user who acts at once, without a connection.
    pub fn actor(&self, user: &str) -> Actor {
        Actor {
            server: self.clone(),
            user: user.into(),
        }
    }
}

impl Actor {
    /// The server this user acts on.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Creates an object; `apiVersion` and `kind` may be left out.
    ///
    /// # Errors
    /// What the API server answers.
    pub fn create(
        &self,
        resource: &str,
        namespace: &str,
        object: &Value,
    ) -> Result<Arc<Value>, Status> {
        let kind = kind(resource)?;
        let path = kind.path(namespace, "");
        self.send(&Method::POST, &path, JSON, Some(&complete(kind, object)))
    }

    /// Reads an object.
    ///
    /// # Errors
    /// What the API server answers.
    pub fn get(&self, resource: &str, namespace: &str, name: &str) -> Result<Arc<Value>, Status> {
        let kind = kind(resource)?;
        if name.is_empty() {
            // The path would be that of a list.
            return Err(Status::not_found(&kind.resource(), name));
        }
        self.send(&Method::GET, &kind.path(namespace, name), JSON, None)
    }

    /// Reads all objects that have the labels; `namespace` and `labels` may be empty.
    ///
    /// # Errors
    /// What the API server answers.
    pub fn list(
        &self,
        resource: &str,
        namespace: &str,
        labels: &str,
    ) -> Result<Vec<Arc<Value>>, Status> {
        let kind = kind(resource)?;
        let selector = crate::selector::Selector::parse(labels)?;
        let mut objects = self.server.all(&kind.resource(), namespace);
        objects.retain(|object| selector.matches(object));
        Ok(objects)
    }

    /// Replaces an object; with a `resourceVersion` only if it is still at that.
    ///
    /// # Errors
    /// What the API server answers.
    pub fn update(&self, object: &Value) -> Result<Arc<Value>, Status> {
        let (kind, path) = place(object)?;
        self.send(&Method::PUT, &path, JSON, Some(&complete(kind, object)))
    }

    /// Replaces an object's status.
    ///
    /// # Errors
    /// What the API server answers.
    pub fn update_status(&self, object: &Value) -> Result<Arc<Value>, Status> {
        let (kind, place) = place(object)?;
        let status = place + "/status";
        self.send(&Method::PUT, &status, JSON, Some(&complete(kind, object)))
    }

    /// Merges `patch` into an object.
    ///
    /// # Errors
    /// What the API server answers.
    pub fn patch_merge(
        &self,
        resource: &str,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> Result<Arc<Value>, Status> {
        let object = kind(resource)?.path(namespace, name);
        self.send(&Method::PATCH, &object, MERGE, Some(patch))
    }

    /// Merges `patch` as a built-in kind's strategy says.
    ///
    /// # Errors
    /// What the API server answers.
    pub fn patch_strategic(
        &self,
        resource: &str,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> Result<Arc<Value>, Status> {
        let object = kind(resource)?.path(namespace, name);
        self.send(&Method::PATCH, &object, STRATEGIC, Some(patch))
    }

    /// Merges `status` into an object's status: strategically where the kind is a built-in one.
    ///
    /// # Errors
    /// What the API server answers.
    pub fn patch_status(
        &self,
        resource: &str,
        namespace: &str,
        name: &str,
        status: &Value,
    ) -> Result<Arc<Value>, Status> {
        let kind = kind(resource)?;
        let path = kind.path(namespace, name) + "/status";
        let content = if kind.schema.is_none() {
            STRATEGIC
        } else {
            MERGE
        };
        self.send(
            &Method::PATCH,
            &path,
            content,
            Some(&json!({"status": status})),
        )
    }

    /// Deletes an object; what the API server answers: the object, or a `Status`.
    ///
    /// # Errors
    /// What the API server answers.
    pub fn delete(
        &self,
        resource: &str,
        namespace: &str,
        name: &str,
        how: &Delete,
    ) -> Result<Arc<Value>, Status> {
        let path = kind(resource)?.path(namespace, name);
        self.send(&Method::DELETE, &path, JSON, Some(&how.body()))
    }

    /// Binds a pod to a node.
    ///
    /// # Errors
    /// What the API server answers.
    pub fn bind(&self, namespace: &str, pod: &str, node: &str) -> Result<Arc<Value>, Status> {
        let path = kind("pods")?.path(namespace, pod) + "/binding";
        let body = json!({
            "apiVersion": "v1", "kind": "Binding",
            "metadata": {"name": pod, "namespace": namespace},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        });
        self.send(&Method::POST, &path, JSON, Some(&body))
    }

    /// Lets go of a namespace that is empty.
    ///
    /// # Errors
    /// What the API server answers.
    pub fn finalize_namespace(&self, name: &str) -> Result<Arc<Value>, Status> {
        let path = kind("namespaces")?.path("", name) + "/finalize";
        let body = json!({"metadata": {"name": name}, "spec": {}});
        self.send(&Method::PUT, &path, JSON, Some(&body))
    }

    /// Sends any request.
    ///
    /// # Errors
    /// What the API server answers.
    pub fn send(
        &self,
        method: &Method,
        path: &str,
        content: &str,
        body: Option<&Value>,
    ) -> Result<Arc<Value>, Status> {
        let uri: Uri = path
            .parse()
            .map_err(|_| Status::bad_request(format!("not a path: {path}")))?;
        let mut headers = HeaderMap::new();
        if let Ok(content) = HeaderValue::from_str(content) {
            headers.insert(header::CONTENT_TYPE, content);
        }
        let body = body.map(Value::to_string).unwrap_or_default();
        let call = Call::read(
            &self.user,
            &self.user,
            method,
            &uri,
            &headers,
            body.as_bytes(),
        );
        match self.server.answer(&Arc::new(call), None)? {
            Answer::Object(_, object) => Ok(object),
            Answer::Watch(_) => Err(Status::bad_request(
                "an actor cannot watch: await Server::changes",
            )),
        }
    }
}

fn kind(resource: &str) -> Result<&'static Kind, Status> {
    Kind::named(resource).ok_or_else(Status::no_such_path)
}

/// Kind and path of an object that says what it is.
fn place(object: &Value) -> Result<(&'static Kind, String), Status> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let kind = Kind::of(&text(&object["apiVersion"]), &text(&object["kind"]));
    let kind = kind.ok_or_else(Status::no_such_path)?;
    let meta = &object["metadata"];
    Ok((
        kind,
        kind.path(&text(&meta["namespace"]), &text(&meta["name"])),
    ))
}

fn complete(kind: &Kind, object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(root) = object.as_object_mut() {
        root.entry("apiVersion")
            .or_insert_with(|| json!(kind.api_version()));
        root.entry("kind").or_insert_with(|| json!(kind.kind));
    }
    object
}
