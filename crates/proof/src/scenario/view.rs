//! The cluster as its users see it, and what they may do to it.

use std::sync::Arc;

use carillon_sim::Actor;
use carillon_sim::actors::KUBELET_STOPPED;
use serde_json::{Value, json};

use super::names::{JOB, NAMESPACE};
use super::objects::ready_node;

/// Resources of jobs.
const JOBS: [&str; 4] = [
    "broadcastjobs.carillon.dev",
    "jobs.batch",
    "daemonsets.carillon.dev",
    "daemonsets.apps",
];

/// The cluster, as a user sees it.
#[derive(Debug)]
pub struct View<'a>(&'a Actor);

impl<'a> View<'a> {
    /// What this user sees.
    pub fn new(actor: &'a Actor) -> Self {
        Self(actor)
    }

    pub(crate) fn actor(&self) -> &'a Actor {
        self.0
    }

    /// The job, of whichever kind; or the DaemonSet.
    pub fn job(&self) -> Option<Arc<Value>> {
        let mut kinds = JOBS.into_iter();
        kinds.find_map(|resource| self.0.get(resource, NAMESPACE, JOB).ok())
    }

    fn job_resource(&self) -> &'static str {
        let is_there = |resource: &&str| self.0.get(resource, NAMESPACE, JOB).is_ok();
        JOBS.into_iter().find(is_there).unwrap_or(JOBS[0])
    }

    /// A number in the job's status.
    pub fn count(&self, field: &str) -> i64 {
        self.job()
            .and_then(|job| job["status"][field].as_i64())
            .unwrap_or(0)
    }

    /// Whether a condition of the job is True.
    pub fn is(&self, type_: &str) -> bool {
        self.job().is_some_and(|job| is_true(&job, type_))
    }

    /// Whether the job is gone or has ended.
    pub fn has_ended(&self) -> bool {
        self.job().is_none() || self.is("Complete") || self.is("Failed")
    }

    /// Resumes the job with a value that was not used before.
    pub fn resume(&self, value: &str) {
        self.patch_job(&json!({"metadata": {"annotations": {"carillon.dev/resume": value}}}));
    }

    /// Asks for one more attempt after those of these pods.
    pub fn retry(&self, pods: &str) {
        self.patch_job(&json!({"metadata": {"annotations": {"carillon.dev/retry": pods}}}));
    }

    /// All pods.
    pub fn pods(&self) -> Vec<Arc<Value>> {
        self.0.list("pods", NAMESPACE, "").unwrap_or_default()
    }

    /// The first pod of a phase.
    pub fn pod_in(&self, phase: &str) -> Option<Arc<Value>> {
        let mut pods = self.pods().into_iter();
        pods.find(|pod| pod["status"]["phase"] == phase)
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

    /// Name of the pod of the last attempt on a node.
    pub fn last_pod(&self, node: &str) -> String {
        let slices = self.slices();
        let results = slices
            .iter()
            .filter_map(|slice| slice["results"].as_array());
        let of_node = results
            .flatten()
            .filter(|result| result["nodeName"] == node);
        let last = of_node.max_by_key(|result| result["attempt"].as_i64());
        last.map(|last| last["podName"].as_str().unwrap_or_default().to_owned())
            .unwrap_or_default()
    }

    /// Changes the spec of the job.
    #[allow(clippy::needless_pass_by_value)] // reads better with json!
    pub fn edit_job(&self, spec: Value) {
        self.patch_job(&json!({"spec": spec}));
    }

    /// Changes the job.
    pub fn patch_job(&self, patch: &Value) {
        let resource = self.job_resource();
        drop(self.0.patch_merge(resource, NAMESPACE, JOB, patch));
    }

    /// Deletes the job.
    pub fn delete_job(&self, how: &carillon_sim::Delete) {
        let resource = self.job_resource();
        drop(self.0.delete(resource, NAMESPACE, JOB, how));
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

    /// Makes a running copy of a pod, with its labels and its owner, on a node.
    pub fn copy_pod(&self, pod: &Value, node: &str) {
        let meta = &pod["metadata"];
        let copy = json!({
            "metadata": {
                "name": "copy", "namespace": NAMESPACE,
                "labels": meta["labels"], "ownerReferences": meta["ownerReferences"],
                "finalizers": meta["finalizers"],
            },
            "spec": {
                "nodeName": node, "restartPolicy": "Never",
                "containers": pod["spec"]["containers"],
            },
        });
        drop(self.0.create("pods", NAMESPACE, &copy));
    }

    /// A pod that is for a node, by its affinity, and not bound yet.
    pub fn unbound_for(&self, node: &str) -> Option<Arc<Value>> {
        const TERM: &str = "/spec/affinity/nodeAffinity/\
            requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/matchFields/0/values/0";
        let mut pods = self.pods().into_iter();
        pods.find(|pod| {
            let unbound = pod["spec"]["nodeName"].is_null();
            unbound && pod.pointer(TERM).is_some_and(|value| value == node)
        })
    }

    /// Binds a pod to a node, as one who has changed its affinity has it done.
    pub fn bind_pod(&self, pod: &Value, node: &str) {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        drop(self.0.bind(NAMESPACE, name, node));
    }

    /// Changes the pod that runs on a node.
    pub fn patch_running(&self, node: &str, patch: &Value) {
        if let Some(pod) = self.pod_on(node, "Running") {
            let name = pod["metadata"]["name"].as_str().unwrap_or_default();
            drop(self.0.patch_merge("pods", NAMESPACE, name, patch));
        }
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

    /// Stops the kubelet of a node, or lets it go on.
    pub fn stop_kubelet(&self, node: &str, stopped: bool) {
        let stopped = json!({KUBELET_STOPPED: stopped.to_string()});
        self.patch_node(node, &json!({"metadata": {"annotations": stopped}}));
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

/// Whether a condition of an object is True.
pub(crate) fn is_true(object: &Value, type_: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|one| one["type"] == type_ && one["status"] == "True")
}
