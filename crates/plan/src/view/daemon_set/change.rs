//! What to write to undo, pause, resume or restart an update.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::short;
use crate::daemon_set::DaemonSet;
use crate::daemon_set::spec::Update;

/// Written into the template by `kubectl rollout restart`, too.
const RESTARTED_AT: &str = "kubectl.kubernetes.io/restartedAt";

/// The JSON patch that puts a template in place of the one that was read. It fails if anybody has changed the spec
/// since, and leaves writes of the status alone.
pub fn put_template(set: &DaemonSet, template: &Value) -> Value {
    let meta = &set.meta;
    json!([
        {"op": "test", "path": "/metadata/uid", "value": meta.owner.uid.to_string()},
        {"op": "test", "path": "/metadata/generation", "value": meta.generation},
        {"op": "replace", "path": "/spec/template", "value": template},
    ])
}

/// The merge patch that pauses an update; `None` when it is paused already.
pub fn pause(set: &DaemonSet) -> Result<Option<Value>, String> {
    may_be_paused(set)?;
    Ok((!set.spec.paused).then(|| paused(true)))
}

/// The merge patch that lets an update go on; `None` when it is not paused.
pub fn resume(set: &DaemonSet) -> Result<Option<Value>, String> {
    may_be_paused(set)?;
    Ok(set.spec.paused.then(|| paused(false)))
}

fn paused(paused: bool) -> Value {
    json!({"spec": {"updateStrategy": {"rollingUpdate": {"paused": paused}}}})
}

fn may_be_paused(set: &DaemonSet) -> Result<(), String> {
    let name = &set.meta.owner.name;
    if set.native {
        return Err(format!(
            "DaemonSet {name} is one of apps/v1, which has no field to pause an update: set \
             spec.updateStrategy.type to OnDelete, and back to RollingUpdate to go on"
        ));
    }
    if set.spec.update == Update::OnDelete {
        return Err(format!(
            "DaemonSet {name} has spec.updateStrategy.type OnDelete: its pods are replaced when somebody deletes \
             them, and there is no update to pause"
        ));
    }
    Ok(())
}

/// The merge patch that replaces all pods by others of the same template.
pub fn restart(set: &DaemonSet, now: Timestamp) -> Result<Value, String> {
    if set.spec.paused {
        return Err(format!(
            "the update of DaemonSet {} is paused: resume it first, with kubectl carillon rollout resume {}",
            set.meta.owner.name,
            short(set)
        ));
    }
    let now = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let annotations = json!({RESTARTED_AT: now});
    Ok(json!({"spec": {"template": {"metadata": {"annotations": annotations}}}}))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::daemon_set::read;
    use crate::view::daemon_set::samples::{UID, at, object, template};

    fn set(api: &str, strategy: &Value) -> DaemonSet {
        read::set(&object(api, &json!({"updateStrategy": strategy}))).set
    }

    const OURS: &str = "carillon.dev/v1alpha1";

    #[test]
    fn an_undo_is_for_the_very_spec_that_was_read() {
        let patch = put_template(&set(OURS, &json!({})), &template("old"));
        let tests: Vec<&Value> = patch.as_array().unwrap()[..2]
            .iter()
            .map(|op| &op["value"])
            .collect();
        assert_eq!(tests, [&json!(UID), &json!(3)]);
        assert_eq!(patch[2]["value"], template("old"));
    }

    #[test]
    fn pause_and_resume_write_one_field_and_only_if_it_says_something_else() {
        let (going, stopped) = (
            json!({}),
            json!({"rollingUpdate": {"paused": true, "maxSurge": 1}}),
        );
        let patch = |paused| {
            Ok(Some(
                json!({"spec": {"updateStrategy": {"rollingUpdate": {"paused": paused}}}}),
            ))
        };
        assert_eq!(pause(&set(OURS, &going)), patch(true));
        assert_eq!(resume(&set(OURS, &stopped)), patch(false));
        assert_eq!(pause(&set(OURS, &stopped)), Ok(None));
        assert_eq!(resume(&set(OURS, &going)), Ok(None));
        assert!(
            pause(&set("apps/v1", &going))
                .unwrap_err()
                .contains("OnDelete")
        );
        assert!(pause(&set(OURS, &json!({"type": "OnDelete"}))).is_err());
    }

    #[test]
    fn a_restart_writes_what_kubectl_writes_and_not_while_it_is_paused() {
        let patch = restart(&set("apps/v1", &json!({})), at(0)).unwrap();
        let written = &patch["spec"]["template"]["metadata"]["annotations"][RESTARTED_AT];
        assert_eq!(written, "2023-11-14T22:13:20Z");
        let paused = set(OURS, &json!({"rollingUpdate": {"paused": true}}));
        assert!(
            restart(&paused, at(0))
                .unwrap_err()
                .contains("rollout resume cds/agent")
        );
    }
}
