//! What the role `edit` of one namespace allows, and nothing else.

use std::sync::Arc;

use carillon_sim::{Actor, Delete};
use jiff::Timestamp;
use serde_json::Value;

use crate::scenario::View;

/// The user that the tenant's requests come from.
pub const USER: &str = "tenant";
/// What it may write. `edit` has pods, Jobs and CronJobs, and our kinds where `rbac.aggregate.edit` is on.
/// NodeResultSlices and the status of a job nobody may write but the operator.
pub(super) const RESOURCES: [&str; 5] = [
    "pods",
    "jobs.batch",
    "cronjobs.batch",
    "broadcastjobs.carillon.dev",
    "cronjobs.carillon.dev",
];

/// A user with these rights. What the API server refuses is as if it had not been asked for.
#[derive(Debug)]
pub struct Rights {
    actor: Actor,
    namespace: &'static str,
}

impl Rights {
    /// The rights of a user in one namespace.
    pub fn new(actor: Actor, namespace: &'static str) -> Self {
        Self { actor, namespace }
    }

    /// What it sees of the scenario: more than `edit` allows, as if all of it had been guessed.
    pub(super) fn view(&self) -> View<'_> {
        View::new(&self.actor)
    }

    pub(super) fn now(&self) -> Timestamp {
        self.actor.server().now()
    }

    pub(super) fn list(&self, resource: &str) -> Vec<Arc<Value>> {
        let all = self.actor.list(resource, self.namespace, "");
        all.unwrap_or_default()
    }

    pub(super) fn create(&self, resource: &str, object: &Value) {
        if RESOURCES.contains(&resource) {
            let mut object = object.clone();
            object["metadata"]["namespace"] = self.namespace.into();
            drop(self.actor.create(resource, self.namespace, &object));
        }
    }

    pub(super) fn patch(&self, resource: &str, name: &str, patch: &Value) {
        if RESOURCES.contains(&resource) {
            let patched = self
                .actor
                .patch_merge(resource, self.namespace, name, patch);
            drop(patched);
        }
    }

    pub(super) fn delete(&self, resource: &str, name: &str, how: &Delete) {
        if RESOURCES.contains(&resource) {
            drop(self.actor.delete(resource, self.namespace, name, how));
        }
    }

    /// `pods/status`, which the role has besides.
    pub(super) fn pod_status(&self, name: &str, status: &Value) {
        let patched = self
            .actor
            .patch_status("pods", self.namespace, name, status);
        drop(patched);
    }
}

/// The resource of an object that says what it is.
pub(super) fn resource(object: &Value) -> &'static str {
    let (version, kind) = (&object["apiVersion"], &object["kind"]);
    match (version.as_str(), kind.as_str()) {
        (Some("batch/v1"), Some("Job")) => "jobs.batch",
        (Some("batch/v1"), Some("CronJob")) => "cronjobs.batch",
        (_, Some("BroadcastJob")) => "broadcastjobs.carillon.dev",
        (_, Some("CronJob")) => "cronjobs.carillon.dev",
        _ => "pods",
    }
}
