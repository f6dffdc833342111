//! What a scenario begins with.

use carillon_plan::job::MANAGED_BY;
use carillon_sim::actors::JOB_FATE;
use serde_json::{Value, json};

use super::names::{CRON, JOB, NAMESPACE};
use super::subject::Subject;

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
    json!({
        "apiVersion": "carillon.dev/v1alpha1",
        "kind": "BroadcastJob",
        "metadata": {"name": JOB, "namespace": NAMESPACE},
        "spec": with_pods(spec),
    })
}

/// A Job of batch/v1 of this name and spec; of ours, unless it is `native`.
pub fn batch_job(name: &str, spec: &Value, native: bool) -> Value {
    let mut spec = with_pods(spec);
    if !native {
        spec["managedBy"] = json!(MANAGED_BY);
    }
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": spec,
    })
}

/// A CronJob of this spec, of the one kind or the other. It starts a Job that takes five seconds, unless
/// the spec has a template.
pub fn cron_job(subject: Subject, spec: &Value) -> Value {
    let mut spec = spec.clone();
    let field = if spec["broadcastJobTemplate"].is_object() {
        "broadcastJobTemplate"
    } else {
        "jobTemplate"
    };
    if let Some(fields) = spec.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    let template = &mut spec[field];
    if template["metadata"].is_null() && field == "jobTemplate" {
        template["metadata"] = json!({"annotations": {JOB_FATE: "5s"}});
    }
    template["spec"] = with_pods(&template["spec"]);
    let version = match subject {
        Subject::NativeCronJob => "batch/v1",
        _ => "carillon.dev/v1alpha1",
    };
    json!({
        "apiVersion": version,
        "kind": "CronJob",
        "metadata": {"name": CRON, "namespace": NAMESPACE},
        "spec": spec,
    })
}

/// The spec of a job, with a template for its pods.
fn with_pods(spec: &Value) -> Value {
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
    spec
}
