//! The DaemonSet of a scenario.

use carillon_sim::actors::{Fate, Work};
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::template::template;
use super::{edits, mischief};
use crate::scenario::{Ends, JOB, NAMESPACE, SECOND, Same, Scenario, Subject};

const OURS: Subject = Subject {
    kind: "DaemonSet",
    resource: "daemonsets.carillon.dev",
    native: false,
    flags: &["--controllers=daemonset"],
    manifest: |spec| manifest("carillon.dev/v1alpha1", spec),
    edit: edits::edit,
    mischief: mischief::mischief,
    can_pause: false,
    mend: mischief::mend,
    depends_on_time: true,
};

/// A DaemonSet of carillon.dev.
pub static SUBJECT: Subject = OURS;

/// One of apps/v1, in a cluster without another controller for it.
pub(super) static NATIVE: Subject = Subject {
    resource: "daemonsets.apps",
    native: true,
    flags: &["--controllers=daemonset", "--serve-native=daemonsets"],
    manifest: |spec| manifest("apps/v1", spec),
    edit: edits::edit_native,
    ..OURS
};

/// A DaemonSet on three nodes whose pods run for ever, watched for ten minutes.
pub fn scenario(name: &'static str) -> Scenario {
    Scenario {
        nodes: 3,
        fates: |_, _| runs(),
        same: Same::Condition,
        ends: Ends::After(SignedDuration::from_mins(10)),
        ..Scenario::new(name, &SUBJECT)
    }
}

/// A pod that is ready soon and runs until it is told to stop.
pub(super) fn runs() -> Fate {
    Fate {
        works: vec![Work::Hangs],
        ..Fate::ends(SECOND, 0)
    }
}

/// The same of apps/v1.
pub(super) fn native(name: &'static str) -> Scenario {
    Scenario {
        subject: &NATIVE,
        ..scenario(name)
    }
}

fn manifest(api: &str, spec: &Value) -> Value {
    let mut spec = spec.clone();
    if spec["template"].is_null() {
        spec["template"] = template("example.com/work:1");
    }
    spec["selector"] = json!({"matchLabels": {"app": "agent"}});
    json!({
        "apiVersion": api,
        "kind": "DaemonSet",
        "metadata": {"name": JOB, "namespace": NAMESPACE},
        "spec": spec,
    })
}
