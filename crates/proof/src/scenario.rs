//! What is asked of the operator, and what the cluster and its users do meanwhile.

mod catalogue;

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use carillon_sim::Actor;
use carillon_sim::actors::{Component, Fate};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

pub use self::catalogue::all;

/// Namespace of every scenario.
pub const NAMESPACE: &str = "work";
/// Name of every scenario's job.
pub const JOB: &str = "job";

/// One job, the nodes it meets, and a script for its user.
#[derive(Clone)]
pub struct Scenario {
    /// Says what is going on; also its name in files.
    pub name: &'static str,
    /// How many nodes there are at first: `node-0`, `node-1`, ….
    pub nodes: usize,
    /// The job's spec; the template may be left out.
    pub spec: Value,
    /// What becomes of the n-th pod on a node.
    pub fates: fn(&str, usize) -> Fate,
    /// What users and the cluster do, in this order.
    pub script: Vec<Step>,
    /// What is the same at the end of every run, however it was disturbed.
    pub same: Same,
    /// How the run ends.
    pub ends: Ends,
}

/// When something is done, and what.
#[derive(Clone, Copy)]
pub struct Step {
    /// Looked at after every change. A step waits for the one before it.
    pub when: fn(&View<'_>) -> bool,
    /// How long after that.
    pub after: SignedDuration,
    /// What is done; errors are for the user to see.
    pub act: fn(&View<'_>),
}

/// What must be the same at the end of a disturbed run as at that of the clean one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Same {
    /// Every node's outcome, the counts and the condition.
    Everything,
    /// The condition only: which nodes were reached depends on the time.
    Condition,
}

/// How a run ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ends {
    /// The job is Complete or Failed.
    Finished,
    /// The job stays open and has served so many nodes.
    Served(i64),
    /// The job is gone and nothing of it is left.
    Gone,
}

impl fmt::Debug for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Scenario").field(&self.name).finish()
    }
}

/// The cluster, as a user sees it.
#[derive(Debug)]
pub struct View<'a>(&'a Actor);

impl<'a> View<'a> {
    /// What this user sees.
    pub fn new(actor: &'a Actor) -> Self {
        Self(actor)
    }

    /// The job.
    pub fn job(&self) -> Option<Arc<Value>> {
        self.0
            .get("broadcastjobs.carillon.dev", NAMESPACE, JOB)
            .ok()
    }

    /// A number in the job's status.
    pub fn count(&self, field: &str) -> i64 {
        self.job()
            .and_then(|job| job["status"][field].as_i64())
            .unwrap_or(0)
    }

    /// Whether a condition of the job is True.
    pub fn is(&self, type_: &str) -> bool {
        self.job().is_some_and(|job| {
            let conditions = job["status"]["conditions"].as_array();
            conditions
                .into_iter()
                .flatten()
                .any(|c| c["type"] == type_ && c["status"] == "True")
        })
    }

    /// All pods.
    pub fn pods(&self) -> Vec<Arc<Value>> {
        self.0.list("pods", NAMESPACE, "").unwrap_or_default()
    }

    /// All result slices.
    pub fn slices(&self) -> Vec<Arc<Value>> {
        let slices = self.0.list("noderesultslices.carillon.dev", NAMESPACE, "");
        slices.unwrap_or_default()
    }

    /// The pod bound to a node, of this phase.
    pub fn pod_on(&self, node: &str, phase: &str) -> Option<Arc<Value>> {
        self.pods()
            .into_iter()
            .find(|pod| pod["spec"]["nodeName"] == node && pod["status"]["phase"] == phase)
    }

    /// Changes the job.
    pub fn patch_job(&self, patch: &Value) {
        drop(
            self.0
                .patch_merge("broadcastjobs.carillon.dev", NAMESPACE, JOB, patch),
        );
    }

    /// Deletes the job.
    pub fn delete_job(&self, how: &carillon_sim::Delete) {
        drop(
            self.0
                .delete("broadcastjobs.carillon.dev", NAMESPACE, JOB, how),
        );
    }

    /// Deletes a pod as `kubectl delete pod` does.
    pub fn delete_pod(&self, pod: &Value) {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        drop(
            self.0
                .delete("pods", NAMESPACE, name, &carillon_sim::Delete::default()),
        );
    }

    /// Takes a pod out of the store, whoever still needs it.
    pub fn remove_pod(&self, pod: &Value) {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let bare = json!({"metadata": {"finalizers": null}});
        drop(self.0.patch_merge("pods", NAMESPACE, name, &bare));
        let now = carillon_sim::Delete::now();
        drop(self.0.delete("pods", NAMESPACE, name, &now));
    }

    /// Changes the status of a pod.
    pub fn patch_pod_status(&self, pod: &Value, status: &Value) {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        drop(self.0.patch_status("pods", NAMESPACE, name, status));
    }

    /// Changes a node.
    pub fn patch_node(&self, node: &str, patch: &Value) {
        drop(self.0.patch_merge("nodes", "", node, patch));
    }

    /// Adds a node.
    pub fn add_node(&self, node: &str) {
        drop(self.0.create("nodes", "", &ready_node(node)));
    }

    /// Removes a node.
    pub fn delete_node(&self, node: &str) {
        drop(
            self.0
                .delete("nodes", "", node, &carillon_sim::Delete::default()),
        );
    }

    /// The server.
    pub fn server(&self) -> &carillon_sim::Server {
        self.0.server()
    }
}

/// A node that takes pods.
pub fn ready_node(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {
            "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        },
    })
}

/// A job of this spec.
pub fn job(spec: &Value) -> Value {
    let mut spec = spec.clone();
    if spec["template"].is_null() {
        spec["template"] = json!({});
    }
    let template = &mut spec["template"]["spec"];
    if template["containers"].is_null() {
        template["containers"] = json!([{"name": "main", "image": "example.com/work:1"}]);
    }
    if template["restartPolicy"].is_null() {
        template["restartPolicy"] = json!("Never");
    }
    json!({
        "apiVersion": "carillon.dev/v1alpha1",
        "kind": "BroadcastJob",
        "metadata": {"name": JOB, "namespace": NAMESPACE},
        "spec": spec,
    })
}

/// The script's user, one step after the other.
pub struct User {
    actor: Actor,
    script: std::vec::IntoIter<Step>,
    next: Option<(Step, Option<Timestamp>)>,
    done: Rc<Cell<bool>>,
}

impl User {
    /// A user who follows `script`.
    pub fn new(actor: Actor, script: Vec<Step>) -> Self {
        let mut script = script.into_iter();
        let next = script.next().map(|step| (step, None));
        Self {
            actor,
            script,
            done: Rc::new(Cell::new(next.is_none())),
            next,
        }
    }

    /// Whether the script is at its end.
    pub fn done(&self) -> Rc<Cell<bool>> {
        self.done.clone()
    }
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("User").finish_non_exhaustive()
    }
}

impl Component for User {
    fn act(&mut self, now: Timestamp) -> Option<Timestamp> {
        loop {
            let (step, due) = self.next.as_mut()?;
            let view = View::new(&self.actor);
            let due = match due {
                Some(due) => *due,
                None if (step.when)(&view) => *due.insert(now + step.after),
                None => return None,
            };
            if due > now {
                return Some(due);
            }
            (step.act)(&view);
            self.next = self.script.next().map(|step| (step, None));
            self.done.set(self.next.is_none());
        }
    }
}
