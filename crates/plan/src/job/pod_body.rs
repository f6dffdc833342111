//! A Job's template becomes a pod.

use serde_json::{Map, Value, json};

use super::action::NewPod;
use super::pod::FINALIZER_JOB_TRACKING;
use super::spec::Job;
use crate::name;
use crate::object::{NewObject, as_written, object};
use crate::pod_body::{self, containers, written};

/// Annotation and label of a pod that has a completion index.
pub const COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// Annotation: failures of its index before it.
pub const ANNOTATION_FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
/// Annotation: failures of its index before it that a failure policy ignores.
pub const ANNOTATION_IGNORED_FAILURES: &str = "batch.kubernetes.io/job-index-ignored-failure-count";
/// The variable that tells a container its index.
const INDEX_VARIABLE: &str = "JOB_COMPLETION_INDEX";

/// The template of the Job as written, plus: name (and what it would be generated from), namespace, owner and our finalizer; of a pod with an index
/// also the host name `<job>-<index>`, the index as label, annotation and variable, and what has
/// failed before it. Nothing else (upstream: `GetPodFromTemplate`, `indexed_job_utils.go`).
pub fn pod_body<'a>(job: &Job, template: &'a Value, pod: &NewPod) -> NewObject<'a> {
    let mut labels = written(template, "/metadata/labels");
    let mut annotations = written(template, "/metadata/annotations");
    let spec = template.get("spec").filter(|spec| spec.is_object());
    let mut spec = as_written(spec);
    if let Some(index) = pod.index {
        labels.insert(COMPLETION_INDEX.to_owned(), json!(index.to_string()));
        let hostname = format!("{}-{index}", job.meta.owner.name);
        if let Some(spec) = spec.to_mut().as_object_mut() {
            spec.insert("hostname".to_owned(), json!(hostname));
            tell_index(spec);
        }
    }
    for (key, count) in [
        (COMPLETION_INDEX, pod.index),
        (ANNOTATION_FAILURES, pod.failures),
        (ANNOTATION_IGNORED_FAILURES, pod.ignored_failures),
    ] {
        if let Some(count) = count {
            annotations.insert(key.to_owned(), json!(count.to_string()));
        }
    }
    let owner = &job.meta.owner;
    let prefix = name::job_pod_prefix(&owner.name, pod.index);
    let mut metadata = object([
        ("name", pod.name.as_str().into()),
        ("generateName", prefix.into()),
        ("namespace", owner.namespace.as_str().into()),
        ("labels", labels.into()),
        ("finalizers", finalizers(template).into()),
        ("ownerReferences", vec![owner.reference()].into()),
    ]);
    if !annotations.is_empty() {
        metadata["annotations"] = annotations.into();
    }
    NewObject {
        api_version: "v1",
        kind: "Pod",
        metadata,
        spec,
    }
}

/// The template may name ours itself, and no finalizer may be there twice.
fn finalizers(template: &Value) -> Vec<Value> {
    let mut finalizers = pod_body::finalizers(template);
    if !finalizers.iter().any(|one| one == FINALIZER_JOB_TRACKING) {
        finalizers.push(json!(FINALIZER_JOB_TRACKING));
    }
    finalizers
}

/// Gives each container its index, unless the user has given it something by that name.
fn tell_index(spec: &mut Map<String, Value>) {
    let path = format!("metadata.labels['{COMPLETION_INDEX}']");
    let variable = json!({"name": INDEX_VARIABLE, "valueFrom": {"fieldRef": {"fieldPath": path}}});
    for container in containers(spec) {
        let variables = container.entry("env").or_insert(Value::Null);
        if variables.is_null() {
            *variables = json!([]);
        }
        if let Some(variables) = variables.as_array_mut()
            && !variables.iter().any(|one| one["name"] == INDEX_VARIABLE)
        {
            variables.push(variable.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::action::Why;
    use crate::meta::Meta;
    use crate::object_key::{JOB, ObjectKey};

    const UID: &str = "4e0c5d6a-0b1c-4d2e-8f3a-5b6c7d8e9f00";

    fn job(template: &Value) -> Job {
        let meta = Meta::new(
            ObjectKey::of(JOB, "ops", "sum", UID.parse().unwrap()),
            jiff::Timestamp::UNIX_EPOCH,
        );
        Job::read(meta, &json!({"template": template}), &json!({}))
    }

    fn body(job: &Job, pod: &NewPod) -> Value {
        serde_json::to_value(pod_body(job, &job.template.value(), pod)).unwrap()
    }

    fn new_pod(index: Option<u32>) -> NewPod {
        NewPod {
            name: "sum-x".to_owned(),
            index,
            failures: None,
            ignored_failures: None,
            why: Why::New,
        }
    }

    #[test]
    fn a_template_passes_verbatim_with_fields_we_do_not_know() {
        let template = json!({
            "metadata": {
                "name": "ignored",
                "labels": {"app": "sum"},
                "annotations": {"a": "b"},
                "finalizers": ["example.com/x"],
            },
            "spec": {
                "fieldFromTheFuture": {"deep": [1, 2.5]},
                "hostname": "mine",
                "containers": [{"name": "c", "image": "i"}],
            },
        });
        let pod = body(&job(&template), &new_pod(None));
        assert_eq!(pod["spec"], template["spec"]);
        assert_eq!(
            pod["metadata"],
            json!({
                "name": "sum-x",
                "generateName": "sum-",
                "namespace": "ops",
                "labels": {"app": "sum"},
                "annotations": {"a": "b"},
                "finalizers": ["example.com/x", "batch.kubernetes.io/job-tracking"],
                "ownerReferences": [{
                    "apiVersion": "batch/v1", "kind": "Job", "name": "sum", "uid": UID,
                    "controller": true, "blockOwnerDeletion": true,
                }],
            })
        );
    }

    #[test]
    fn a_pod_with_an_index_has_it_as_label_annotation_host_name_and_variable() {
        let own = json!([{"name": "JOB_COMPLETION_INDEX", "value": "mine"}]);
        let template = json!({"spec": {
            "hostname": "replaced",
            "initContainers": [{"name": "i", "env": null}],
            "containers": [
                {"name": "c", "env": [{"name": "A", "value": "b"}]}, {"name": "d", "env": own}],
        }});
        let new = NewPod {
            failures: Some(0),
            ignored_failures: Some(2),
            ..new_pod(Some(7))
        };
        let pod = body(&job(&template), &new);
        assert_eq!(pod["metadata"]["labels"], json!({COMPLETION_INDEX: "7"}));
        assert_eq!(
            pod["metadata"]["annotations"],
            json!({
                COMPLETION_INDEX: "7", ANNOTATION_FAILURES: "0", ANNOTATION_IGNORED_FAILURES: "2",
            })
        );
        let spec = &pod["spec"];
        assert_eq!(spec["hostname"], "sum-7");
        let variable = json!({"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": {
            "fieldPath": "metadata.labels['batch.kubernetes.io/job-completion-index']"}}});
        assert_eq!(spec["initContainers"][0]["env"], json!([variable]));
        assert_eq!(spec["containers"][0]["env"][1], variable);
        assert_eq!(spec["containers"][1]["env"], own);
    }

    #[test]
    fn our_finalizer_is_there_once() {
        let template = json!({"metadata": {"finalizers": [FINALIZER_JOB_TRACKING]}});
        let pod = body(&job(&template), &new_pod(None));
        let finalizers = &pod["metadata"]["finalizers"];
        assert_eq!(*finalizers, json!([FINALIZER_JOB_TRACKING]));
    }

    #[test]
    fn a_malformed_template_makes_a_pod_the_api_server_will_refuse_and_no_panic() {
        for template in [
            json!(null),
            json!({"metadata": 1, "spec": []}),
            json!({"metadata": {"labels": [], "finalizers": {}}}),
            json!({"spec": {"containers": [1, null, {"env": 3}, {"env": [4]}]}}),
        ] {
            let pod = body(&job(&template), &new_pod(Some(1)));
            assert_eq!(pod["metadata"]["name"], "sum-x");
        }
    }
}
