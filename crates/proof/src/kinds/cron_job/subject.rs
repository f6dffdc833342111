//! The CronJob of a scenario.

use carillon_sim::actors::JOB_FATE;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::{edits, mischief};
use crate::scenario::{CRON, Ends, NAMESPACE, Scenario, Subject, with_pods};

const OURS: Subject = Subject {
    kind: "CronJob",
    resource: "cronjobs.carillon.dev",
    native: false,
    flags: &["--controllers=broadcastjob,cronjob"],
    manifest: |spec| manifest("carillon.dev/v1alpha1", spec),
    edit: edits::edit,
    mischief: mischief::mischief,
    can_pause: true,
    mend: mischief::mend,
    depends_on_time: true,
};

/// A CronJob of carillon.dev.
pub static SUBJECT: Subject = OURS;

/// A CronJob of batch/v1.
pub static NATIVE: Subject = Subject {
    resource: "cronjobs.batch",
    native: true,
    flags: &[
        "--controllers=broadcastjob,cronjob",
        "--serve-native=cronjobs",
    ],
    manifest: |spec| manifest("batch/v1", spec),
    ..OURS
};

/// A CronJob of carillon.dev with three ticks, after one, two and three minutes. The next would
/// come a day later: a run can become quiet.
pub fn scenario(name: &'static str) -> Scenario {
    Scenario {
        spec: json!({"schedule": "1-3 0 * * *"}),
        ends: Ends::After(SignedDuration::from_mins(4)),
        ..Scenario::new(name, &SUBJECT)
    }
}

/// It starts a Job that takes five seconds, unless the spec has a template.
fn manifest(version: &str, spec: &Value) -> Value {
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
    json!({
        "apiVersion": version,
        "kind": "CronJob",
        "metadata": {"name": CRON, "namespace": NAMESPACE},
        "spec": spec,
    })
}
