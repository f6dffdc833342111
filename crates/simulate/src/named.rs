//! The object that is simulated, under its name.

use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow, bail};
use carillon_plan::record::Slice;
use carillon_plan::view::read;
use carillon_sim::Actor;
use serde_json::{Value, json};

use crate::subject::Subject;

/// A job with more retries than that is not waited for until the last.
const PATIENCE: i64 = 20;
/// Objects without a namespace are put there.
const NAMESPACE: &str = "default";

fn remove(object: &mut Value, field: &str) {
    if let Some(fields) = object.as_object_mut() {
        fields.remove(field);
    }
}

/// The object without what a server has set. It does not remove itself either: it has to be there when it is looked at.
fn of_a_user(object: &Value) -> Value {
    let mut object = object.clone();
    remove(&mut object, "status");
    let set = [
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "managedFields",
    ];
    for field in set {
        remove(&mut object["metadata"], field);
    }
    for place in ["/spec", "/spec/completionPolicy"] {
        if let Some(place) = object.pointer_mut(place) {
            remove(place, "ttlSecondsAfterFinished");
        }
    }
    object
}

/// The largest number of seconds that an object names: for so long it may wait for something.
pub(crate) fn longest_wait(object: &Value) -> u64 {
    let of_field = |(name, value): (&String, &Value)| match value.as_u64() {
        Some(seconds) if name.ends_with("Seconds") => seconds,
        _ => longest_wait(value),
    };
    match object {
        Value::Object(fields) => fields.iter().map(of_field).max().unwrap_or(0),
        Value::Array(items) => items.iter().map(longest_wait).max().unwrap_or(0),
        _ => 0,
    }
}

/// The object under its name, in a namespace.
pub(crate) struct Named {
    pub(crate) subject: Subject,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) object: Value,
}

impl Named {
    pub(crate) fn of(object: &Value) -> Result<Self> {
        let subject = Subject::of(object)?;
        let mut object = of_a_user(object);
        if !object["spec"]["retryOf"].is_null() {
            bail!(
                "spec.retryOf: a retry cannot be simulated, as its job is not there: simulate that one"
            );
        }
        let meta = &mut object["metadata"];
        if meta["namespace"].is_null() {
            meta["namespace"] = json!(NAMESPACE);
        }
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let name = text(&meta["name"]).context("metadata.name is missing")?;
        let namespace = text(&meta["namespace"]).context("metadata.namespace is not a string")?;
        Ok(Self {
            subject,
            namespace,
            name,
            object,
        })
    }

    pub(crate) fn stored(&self, admin: &Actor) -> Result<Arc<Value>> {
        let (resource, namespace) = (self.subject.resource(), &self.namespace);
        let stored = admin.get(resource, namespace, &self.name);
        stored.map_err(|status| anyhow!("{} is gone: {}", self.name, status.message))
    }

    /// Whether its retries come to an end that is worth waiting for.
    pub(crate) fn retries_end(&self) -> bool {
        let limits = ["backoffLimitPerNode", "backoffLimit"];
        let mut limits = limits
            .iter()
            .filter_map(|field| self.object["spec"][field].as_i64());
        let ignores = self.object["spec"]["podFailurePolicy"].is_object();
        self.subject.pods_end() && !ignores && limits.all(|limit| limit <= PATIENCE)
    }

    /// Pods of a DaemonSet whose container has ended.
    pub(crate) fn failing(&self, admin: &Actor) -> usize {
        if self.subject.pods_end() {
            return 0;
        }
        let pods = admin.list("pods", &self.namespace, "").unwrap_or_default();
        let fails = |pod: &&Arc<Value>| {
            let restarts = &pod["status"]["containerStatuses"][0]["restartCount"];
            restarts.as_i64().unwrap_or(0) > 0 || pod["status"]["phase"] == "Failed"
        };
        pods.iter().filter(fails).count()
    }

    pub(crate) fn slices(&self, admin: &Actor) -> Vec<Slice> {
        let slices = admin.list("noderesultslices.carillon.dev", &self.namespace, "");
        let slices: Vec<Value> = slices
            .unwrap_or_default()
            .iter()
            .map(|slice| (**slice).clone())
            .collect();
        read::slices(&slices).unwrap_or_default()
    }
}
