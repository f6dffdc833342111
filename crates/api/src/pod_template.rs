//! Pod templates in the CRDs: that of a BroadcastJob, run once per node, and that of a Job. Typed
//! as [`crate::open_schema`] says, plus the rules that pods which run to their end have.

use std::slice::from_ref;

use k8s_openapi::api::core::v1::PodSpec;
use kube::core::{Reason, Rule};
use schemars::{Schema, SchemaGenerator};
use serde_json::{Value, json};

use crate::open_schema::{label_keys, metadata, metadata_with, open_schema, with_rules};

/// The schema of a pod template that is run once per node.
pub(crate) fn schema(_: &mut SchemaGenerator) -> Schema {
    let mut template = template(&broadcast_metadata(), &broadcast_pod_spec());
    with_rules(
        &mut template,
        &[Rule::new("self == oldSelf")
            .message("is immutable: create a new BroadcastJob with the new template")],
    );
    match template {
        Value::Object(object) => object.into(),
        _ => Schema::default(),
    }
}

/// The pod template of a batch/v1 Job: takes all that the API server takes in a native one.
pub(crate) fn of_job() -> Value {
    let mut spec = run_once_pod_spec();
    with_rules(
        &mut spec,
        &[
            Rule::new("has(self.restartPolicy) && self.restartPolicy in ['OnFailure', 'Never']")
                .message(
                    "valid values: \"OnFailure\", \"Never\"; the pods of a Job run to their end",
                )
                .field_path(".restartPolicy")
                .reason(Reason::FieldValueRequired),
            no_ephemeral_containers(),
        ],
    );
    template(&metadata(), &spec)
}

/// The pod template of a DaemonSet: takes all that the API server takes in a native one.
pub(crate) fn of_daemon_set(_: &mut SchemaGenerator) -> Schema {
    let mut spec = run_once_pod_spec();
    with_rules(
        &mut spec,
        &[
            Rule::new("!has(self.restartPolicy) || self.restartPolicy in ['', 'Always']")
                .message("must be Always: remove it, or run what ends in a BroadcastJob")
                .field_path(".restartPolicy"),
            Rule::new("!has(self.activeDeadlineSeconds)")
                .message("must not be set: the pods of a DaemonSet have no end")
                .field_path(".activeDeadlineSeconds")
                .reason(Reason::FieldValueForbidden),
            no_ephemeral_containers(),
        ],
    );
    let metadata = metadata_with(&[("labels", &[label_keys()])]);
    match template(&metadata, &spec) {
        Value::Object(object) => object.into(),
        _ => Schema::default(),
    }
}

fn template(metadata: &Value, spec: &Value) -> Value {
    json!({
        "type": "object",
        "required": ["spec"],
        "properties": {"metadata": metadata, "spec": spec},
        "x-kubernetes-preserve-unknown-fields": true,
    })
}

/// What a run-once pod must and must not have, beyond what its types say.
fn broadcast_pod_spec() -> Value {
    let mut spec = run_once_pod_spec();
    for list in ["containers", "initContainers"] {
        // Bounds the cost of the rules over these lists, far above what a node could run.
        spec["properties"][list]["maxItems"] = 100.into();
    }
    with_rules(
        &mut spec,
        &[
            Rule::new("has(self.restartPolicy) && self.restartPolicy in ['OnFailure', 'Never']")
                .message("must be OnFailure or Never: each pod of a BroadcastJob runs to its end")
                .field_path(".restartPolicy"),
            Rule::new("!has(self.nodeName)")
                .message(
                    "must not be set: the job runs on every node that fits; choose nodes with \
                     nodeSelector or affinity",
                )
                .field_path(".nodeName")
                .reason(Reason::FieldValueForbidden),
            no_ephemeral_containers(),
            // Keyed lists compare as sets, but init containers run, and containers start, in order.
            order_is_immutable("initContainers"),
            order_is_immutable("containers"),
        ],
    );
    spec
}

fn run_once_pod_spec() -> Value {
    let mut spec = open_schema::<PodSpec>();
    spec["properties"]["containers"]["minItems"] = 1.into();
    for list in ["containers", "initContainers"] {
        run_once_container(&mut spec["properties"][list]["items"]);
    }
    // Refused as a whole, so what is in there need not be described.
    spec["properties"]["ephemeralContainers"]["items"] =
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    spec
}

/// What no kind of pod can go without, whatever version of Kubernetes runs it.
fn run_once_container(container: &mut Value) {
    container["required"] = json!(["name", "image"]);
    let properties = &mut container["properties"];
    properties["name"] = json!({
        "type": "string",
        "maxLength": 63,
        "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
    });
    properties["image"] = json!({"type": "string", "minLength": 1});
}

fn no_ephemeral_containers() -> Rule {
    Rule::new("!has(self.ephemeralContainers) || self.ephemeralContainers.size() == 0")
        .message(
            "must not be set: ephemeral containers are for running pods (kubectl debug); \
             use containers or initContainers",
        )
        .field_path(".ephemeralContainers")
        .reason(Reason::FieldValueForbidden)
}

fn order_is_immutable(list: &str) -> Rule {
    Rule::new(format!(
        "!has(self.{list}) || !has(oldSelf.{list}) \
         || self.{list}.map(c, c.name) == oldSelf.{list}.map(c, c.name)"
    ))
    .message("is immutable, and so is its order: create a new BroadcastJob with the new template")
    .field_path(format!(".{list}"))
}

/// Metadata of the pods: what is copied is typed and checked, the rest is accepted and ignored.
fn broadcast_metadata() -> Value {
    let not_ours = not_our_prefix();
    let not_kruise = Rule::new(
        "!('broadcastjob-name' in self) && !('broadcastjob-controller-uid' in self)",
    )
    .message(
        "must not have broadcastjob-name or broadcastjob-controller-uid, OpenKruise sets those: \
         remove them",
    )
    .reason(Reason::FieldValueForbidden);
    metadata_with(&[
        ("labels", &[not_ours.clone(), not_kruise]),
        ("annotations", from_ref(&not_ours)),
        ("finalizers", from_ref(&not_ours)),
    ])
}

/// For a map of labels or annotations, or a list of finalizers.
pub(crate) fn not_our_prefix() -> Rule {
    Rule::new("self.all(key, !key.startsWith('carillon.dev/'))")
        .message("must not use the prefix carillon.dev/, Carillon sets those: use one of your own")
        .reason(Reason::FieldValueForbidden)
}
