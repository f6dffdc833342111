//! DaemonSets of apps/v1, and ControllerRevisions.

use serde_json::{Value, json};

use super::{node, non_negative, pod_template};
use crate::status::Cause;

/// Counts the templates; the API server keeps it.
const GENERATION: &str = "deprecated.daemonset.template.generation";

pub(super) fn fill(set: &mut Value) {
    for part in ["spec", "status"] {
        if !set[part].is_object() {
            set[part] = json!({});
        }
    }
    let spec = &mut set["spec"];
    if !spec["template"].is_object() {
        spec["template"] = json!({});
    }
    pod_template::fill(&mut spec["template"]);
    let strategy = &mut spec["updateStrategy"];
    if strategy["type"].is_null() {
        strategy["type"] = json!("RollingUpdate");
    }
    if strategy["type"] == "RollingUpdate" {
        let rolling = &mut strategy["rollingUpdate"];
        for (field, value) in [("maxUnavailable", 1), ("maxSurge", 0)] {
            if rolling[field].is_null() {
                rolling[field] = json!(value);
            }
        }
    }
    if spec["revisionHistoryLimit"].is_null() {
        spec["revisionHistoryLimit"] = json!(10);
    }
    let status = &mut set["status"];
    for count in [
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
    ] {
        if status[count].is_null() {
            status[count] = json!(0);
        }
    }
    if let Some(status) = status.as_object_mut() {
        // Go leaves out a count of nothing.
        for count in [
            "updatedNumberScheduled",
            "numberAvailable",
            "numberUnavailable",
            "observedGeneration",
        ] {
            if status.get(count) == Some(&json!(0)) {
                status.remove(count);
            }
        }
    }
}

pub(super) fn begin(set: &mut Value) {
    set["status"] = json!({});
    fill(set);
    set["metadata"]["annotations"][GENERATION] = json!("1");
}

pub(super) fn keep(new: &mut Value, old: &Value, status: bool) {
    node::keep(new, old, status);
    let known = &old["metadata"]["annotations"][GENERATION];
    let known: i64 = known.as_str().unwrap_or("1").parse().unwrap_or(1);
    let changed = new["spec"]["template"] != old["spec"]["template"];
    let generation = known + i64::from(changed);
    new["metadata"]["annotations"][GENERATION] = json!(generation.to_string());
}

pub(super) fn check(set: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = rules(set, old);
    pod_template::check_containers(
        &set["spec"]["template"]["spec"],
        "spec.template.spec",
        &mut causes,
    );
    let rolling = &set["spec"]["updateStrategy"]["rollingUpdate"];
    let none = |field: &str| rolling[field] == 0 || rolling[field] == "0%";
    let field = "spec.updateStrategy.rollingUpdate.maxUnavailable";
    if rolling.is_object() && none("maxUnavailable") == none("maxSurge") {
        causes.push(Cause::invalid(
            field,
            &rolling["maxUnavailable"],
            "one of both",
        ));
    }
    causes
}

/// What holds of DaemonSets of both APIs.
pub(super) fn rules(set: &Value, old: Option<&Value>) -> Vec<Cause> {
    let spec = &set["spec"];
    let mut causes = Vec::new();
    let counts = ["minReadySeconds", "revisionHistoryLimit"];
    non_negative::at_least_nothing(spec, "spec", &counts, &mut causes);
    let labels = &spec["template"]["metadata"]["labels"];
    let selected = spec["selector"]["matchLabels"].as_object();
    let selected = selected.filter(|selected| !selected.is_empty());
    if selected.is_none_or(|all| all.iter().any(|(key, value)| labels[key] != *value)) {
        let why = "`selector` does not match template `labels`";
        causes.push(Cause::invalid("spec.selector", &spec["selector"], why));
    }
    if old.is_some_and(|old| old["spec"]["selector"] != spec["selector"]) {
        let why = "field is immutable";
        causes.push(Cause::invalid("spec.selector", &spec["selector"], why));
    }
    let policy = &spec["template"]["spec"]["restartPolicy"];
    if !policy.is_null() && policy != "Always" {
        let why = "must be Always";
        causes.push(Cause::invalid(
            "spec.template.spec.restartPolicy",
            policy,
            why,
        ));
    }
    causes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(more: &Value) -> Value {
        let mut set = json!({"metadata": {"name": "a"}, "spec": {
            "selector": {"matchLabels": {"app": "a"}},
            "template": {"metadata": {"labels": {"app": "a"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]}},
        }});
        for (key, value) in more.as_object().unwrap() {
            set["spec"][key] = value.clone();
        }
        fill(&mut set);
        set
    }

    #[test]
    fn the_generation_of_the_template_counts_its_changes_and_nobody_else_writes_it() {
        let mut old = set(&json!({}));
        begin(&mut old);
        let generation = |set: &Value| set["metadata"]["annotations"][GENERATION].clone();
        assert_eq!(generation(&old), "1");
        let mut same = old.clone();
        same["spec"]["minReadySeconds"] = json!(3);
        same["metadata"]["annotations"][GENERATION] = json!("9");
        keep(&mut same, &old, false);
        assert_eq!(generation(&same), "1");
        let mut other = old.clone();
        other["spec"]["template"]["spec"]["containers"][0]["image"] = json!("j");
        keep(&mut other, &old, false);
        assert_eq!(generation(&other), "2");
    }

    #[test]
    fn a_selector_fits_the_template_and_stays() {
        let good = set(&json!({}));
        assert!(check(&good, None).is_empty());
        let other = set(&json!({"selector": {"matchLabels": {"app": "b"}}}));
        assert_eq!(check(&other, Some(&good)).len(), 2);
        let both = json!({"updateStrategy": {"rollingUpdate": {"maxSurge": 1}}});
        assert_eq!(check(&set(&both), None).len(), 1);
    }
}
