//! Jobs of batch/v1.

mod spec;

use carillon_oracle::job::status_rules;
use serde_json::{Map, Value, json};

use super::pod_template;
use crate::status::Cause;

const NAME: [&str; 2] = ["job-name", "batch.kubernetes.io/job-name"];
const UID: [&str; 2] = ["controller-uid", "batch.kubernetes.io/controller-uid"];

pub(super) fn fill(job: &mut Value) {
    for part in ["spec", "status"] {
        if !job[part].is_object() {
            job[part] = json!({});
        }
    }
    let spec = &mut job["spec"];
    fill_template(&mut spec["template"]);
    if let Some(spec) = spec.as_object_mut() {
        let replacement = if spec.contains_key("podFailurePolicy") {
            "Failed"
        } else {
            "TerminatingOrFailed"
        };
        if !spec.contains_key("parallelism") {
            spec.entry("completions").or_insert(json!(1));
        }
        // A limit for each index is enough of a limit.
        let limit = if spec.contains_key("backoffLimitPerIndex") {
            i32::MAX
        } else {
            6
        };
        for (field, value) in [
            ("parallelism", json!(1)),
            ("backoffLimit", json!(limit)),
            ("completionMode", json!("NonIndexed")),
            ("suspend", json!(false)),
            ("manualSelector", json!(false)),
            ("podReplacementPolicy", json!(replacement)),
        ] {
            spec.entry(field).or_insert(value);
        }
    }
    label(job);
    if let Some(status) = job["status"].as_object_mut() {
        // Go leaves out a count of nothing.
        for count in ["active", "succeeded", "failed"] {
            if status.get(count) == Some(&json!(0)) {
                status.remove(count);
            }
        }
        for (field, nothing) in [("conditions", json!([])), ("completedIndexes", json!(""))] {
            if status.get(field) == Some(&nothing) {
                status.remove(field);
            }
        }
        let uncounted = status.get_mut("uncountedTerminatedPods");
        if let Some(uncounted) = uncounted.and_then(Value::as_object_mut) {
            uncounted.retain(|_, uids| *uids != json!([]));
        }
    }
}

fn fill_template(template: &mut Value) {
    if !template.is_object() {
        *template = json!({});
    }
    pod_template::fill(template);
}

/// A Job without labels has those of its pods.
fn label(job: &mut Value) {
    let labels = job["spec"]["template"]["metadata"]["labels"].clone();
    if labels.as_object().is_some_and(|labels| !labels.is_empty())
        && job["metadata"]["labels"].is_null()
    {
        job["metadata"]["labels"] = labels;
    }
}

pub(super) fn begin(job: &mut Value) {
    job["status"] = json!({});
    if job["spec"]["manualSelector"] == true {
        return;
    }
    let (name, uid) = (
        job["metadata"]["name"].clone(),
        job["metadata"]["uid"].clone(),
    );
    let template = job["spec"]["template"].as_object_mut();
    let labels = template
        .and_then(|template| object_in(template, "metadata"))
        .and_then(|meta| object_in(meta, "labels"));
    let Some(labels) = labels else { return };
    let shared = json!(labels) == job["metadata"]["labels"];
    let Some(labels) = job["spec"]["template"]["metadata"]["labels"].as_object_mut() else {
        return;
    };
    for (keys, value) in [(NAME, &name), (UID, &uid)] {
        for key in keys {
            labels.entry(key).or_insert_with(|| value.clone());
        }
    }
    let labels = labels.clone();
    if shared || job["metadata"]["labels"].is_null() {
        job["metadata"]["labels"] = json!(labels);
    }
    job["spec"]["selector"]["matchLabels"][UID[1]] = uid;
}

fn object_in<'a>(
    parent: &'a mut Map<String, Value>,
    key: &str,
) -> Option<&'a mut Map<String, Value>> {
    let child = parent.entry(key).or_insert_with(|| json!({}));
    child.as_object_mut()
}

pub(super) fn check(job: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    spec::check(job, &mut causes);
    let Some(old) = old else { return causes };
    spec::check_change(job, old, &mut causes);
    let refused = status_rules::refused(old, job).into_iter();
    causes.extend(refused.map(|refused| {
        let found = job.pointer(&format!("/{}", refused.field.replace('.', "/")));
        Cause::invalid(refused.field, found.unwrap_or(&Value::Null), &refused.why)
    }));
    causes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> Value {
        json!({
            "metadata": {"name": "a", "uid": "u"},
            "spec": {"template": {"spec": {
                "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}],
            }}},
        })
    }

    /// A Job that was created with these fields.
    pub(super) fn created(fields: &Value) -> Value {
        let mut job = job();
        for (field, value) in fields.as_object().unwrap() {
            job["spec"][field] = value.clone();
        }
        let spec = job["spec"].as_object_mut().unwrap();
        spec.retain(|_, value| !value.is_null());
        fill(&mut job);
        begin(&mut job);
        job
    }

    #[test]
    fn a_job_selects_its_pods_by_its_uid() {
        let job = created(&json!({}));
        let labels = &job["spec"]["template"]["metadata"]["labels"];
        for (key, value) in [(NAME, "a"), (UID, "u")] {
            assert_eq!(
                (&labels[key[0]], &labels[key[1]]),
                (&json!(value), &json!(value))
            );
        }
        assert_eq!(job["spec"]["selector"]["matchLabels"][UID[1]], "u");
        assert_eq!(job["metadata"]["labels"], *labels);
        assert_eq!(check(&job, Some(&job)), []);
    }

    #[test]
    fn what_a_job_runs_does_not_change_and_how_much_does() {
        let old = created(&json!({}));
        let mut new = old.clone();
        new["spec"]["parallelism"] = json!(3);
        new["spec"]["suspend"] = json!(true);
        assert_eq!(check(&new, Some(&old)), []);
        new["spec"]["parallelism"] = json!(-1);
        new["spec"]["template"]["spec"]["restartPolicy"] = json!("OnFailure");
        let fields: Vec<String> = check(&new, Some(&old))
            .into_iter()
            .map(|c| c.field)
            .collect();
        assert_eq!(fields, ["spec.parallelism", "spec.template"]);
    }

    #[test]
    fn a_limit_for_each_index_takes_the_place_of_the_common_one() {
        let fields =
            json!({"completionMode": "Indexed", "completions": 2, "backoffLimitPerIndex": 1});
        assert_eq!(created(&fields)["spec"]["backoffLimit"], i32::MAX);
        assert_eq!(created(&json!({}))["spec"]["backoffLimit"], 6);
    }

    #[test]
    fn a_status_is_judged_by_what_has_changed() {
        let old = created(&json!({}));
        let mut new = old.clone();
        new["status"] = json!({"active": 1, "ready": 2, "uncountedTerminatedPods": {"failed": []}});
        fill(&mut new);
        assert_eq!(new["status"]["uncountedTerminatedPods"], json!({}));
        let causes = check(&new, Some(&old));
        assert_eq!(causes.len(), 1, "{causes:?}");
        assert_eq!(causes[0].field, "status.ready");
    }
}
