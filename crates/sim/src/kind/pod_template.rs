//! What a pod and the template of one have in common.

use serde_json::{Value, json};

use crate::status::Cause;

/// The defaults that others rely on; the rest of a pod's many are left out.
pub(super) fn fill(template: &mut Value) {
    if !template["spec"].is_object() {
        template["spec"] = json!({});
    }
    let Some(spec) = template["spec"].as_object_mut() else {
        return;
    };
    for (field, value) in [
        ("restartPolicy", json!("Always")),
        ("terminationGracePeriodSeconds", json!(30)),
        ("schedulerName", json!("default-scheduler")),
    ] {
        spec.entry(field).or_insert(value);
    }
}

/// The template of a Job, at `path`.
pub(super) fn check(template: &Value, path: &str, causes: &mut Vec<Cause>) {
    let spec = format!("{path}.spec");
    check_containers(&template["spec"], &spec, causes);
    let policy = &template["spec"]["restartPolicy"];
    if !["OnFailure", "Never"].iter().any(|known| policy == *known) {
        let message = format!("Unsupported value: {policy}");
        let field = format!("{spec}.restartPolicy");
        causes.push(Cause::new("FieldValueNotSupported", field, message));
    }
}

/// The containers of a spec, at `path`.
pub(super) fn check_containers(spec: &Value, path: &str, causes: &mut Vec<Cause>) {
    let containers = spec["containers"].as_array().map_or(&[][..], Vec::as_slice);
    if containers.is_empty() {
        causes.push(Cause::required(format!("{path}.containers")));
    }
    for (index, container) in containers.iter().enumerate() {
        let field = |name: &str| format!("{path}.containers[{index}].{name}");
        for name in ["name", "image"] {
            if container[name].as_str().is_none_or(str::is_empty) {
                causes.push(Cause::required(field(name)));
            }
        }
        if containers[..index]
            .iter()
            .any(|other| other["name"] == container["name"])
        {
            let message = format!("Duplicate value: {}", container["name"]);
            causes.push(Cause::new("FieldValueDuplicate", field("name"), message));
        }
    }
}
