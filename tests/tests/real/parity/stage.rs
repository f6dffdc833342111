//! Where scenarios are played: each in a namespace of its own.

use std::time::Duration;

use carillon_tests::api::Api;
use http::Method;
use serde_json::{Value, json};

use super::below;
use super::watched::{Here, Watched};

/// Nothing takes as long unless it is broken.
pub(crate) const LIMIT: Duration = Duration::from_mins(2);
/// Controllers gather events for a second, three times what the busiest machine takes for the rest.
pub(crate) const QUIET: Duration = Duration::from_secs(4);
/// What has not been told so long after everything else is not told at all.
pub(crate) const UNTOLD: Duration = Duration::from_secs(20);

/// A cluster on which scenarios are played.
pub(crate) struct Stage<'a> {
    /// A client.
    pub(crate) api: &'a Api,
    /// What has been seen.
    pub(crate) watched: &'a Watched,
}

/// What is done to a pod.
#[derive(Clone)]
pub(crate) enum PodDeed {
    /// It is deleted.
    Delete,
    /// It is deleted with no time left to its containers.
    DeleteNow,
    /// Fields are changed, by a merge patch.
    Patch(Value),
    /// Its status is changed, by a merge patch made from the pod.
    Status(fn(&Value) -> Value),
}

impl PodDeed {
    /// The request that does it, its path below the namespace.
    pub(crate) fn request(&self, pod: &Value) -> (Method, String, Value) {
        let name = pod["metadata"]["name"].as_str().expect("a name");
        let path = format!("api/v1/pods/{name}");
        match self {
            Self::Delete => (Method::DELETE, path, Value::Null),
            Self::DeleteNow => {
                let options = delete_options("gracePeriodSeconds", json!(0));
                (Method::DELETE, path, options)
            }
            Self::Patch(change) => (Method::PATCH, path, change.clone()),
            Self::Status(of) => {
                let status = json!({"status": of(pod)});
                (Method::PATCH, format!("{path}/status"), status)
            }
        }
    }
}

/// Options of a deletion.
pub(crate) fn delete_options(field: &str, value: impl Into<Value>) -> Value {
    json!({"kind": "DeleteOptions", "apiVersion": "v1", field: value.into()})
}

impl Stage<'_> {
    /// Makes a namespace, and waits until pods can be created in it.
    pub(crate) fn namespace(&self, namespace: &str) {
        let object =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        self.api.create("/api/v1/namespaces", &object);
        let account = below(namespace, "api/v1/serviceaccounts/default");
        carillon_tests::until("a namespace has its ServiceAccount", || {
            self.api.find(&account).is_some()
        });
    }

    /// Sends a request, its path below the namespace, and waits until what it changed has been seen.
    pub(crate) fn act(&self, namespace: &str, method: &Method, path: &str, body: &Value) {
        let path = below(namespace, path);
        let is_deletion = *method == Method::DELETE;
        let answer = self.api.send(method.clone(), &path, body);
        let answer = answer.unwrap_or_else(|refused| panic!("{method} {path}: {refused:?}"));
        let revision = answer["metadata"]["resourceVersion"].as_str();
        let revision = revision.and_then(|revision| revision.parse().ok());
        // What is waited for next is looked for in what was made of this.
        if let Some(revision) = revision
            && !is_deletion
        {
            let seen = |here: &Here| here.has_reached(revision).then_some(());
            self.watched.until(namespace, LIMIT, seen);
        }
    }

    /// Nothing that runs on is to keep the others from running. `owners`: those whose pods these are.
    pub(crate) fn clear(&self, namespace: &str, owners: &str) {
        let options = delete_options("propagationPolicy", "Background");
        for all in [owners, "api/v1/pods"] {
            let _ = self
                .api
                .send(Method::DELETE, &below(namespace, all), &options);
        }
    }
}
