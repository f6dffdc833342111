//! What `kubectl apply` would do with a manifest. The API server is asked by dry run.

use anyhow::Result;
use carillon_api::path::Resource;
use serde::Serialize;
use serde_json::{Value, json};

use crate::client::{Answer, Api, code};
use crate::problem;

/// Where `kubectl apply` keeps the manifest that it has applied last.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// What an apply would do.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Effect {
    Created,
    Changed,
    Unchanged,
    Refused,
    /// Whoever asks may not create such an object.
    NotAllowed,
}

/// What the API server has said of a manifest.
pub(crate) struct Applied {
    pub(crate) effect: Effect,
    /// What would be changed of an object that is there.
    pub(crate) changes: Vec<Change>,
    /// The object as it would be stored; nothing if it is refused.
    pub(crate) stored: Option<Value>,
    /// Why it is refused, each reason apart.
    pub(crate) problems: Vec<String>,
}

/// A field that would have another value.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub(crate) struct Change {
    /// As in `spec.template.spec.containers[0].image`.
    pub(crate) field: String,
    /// What it is. Absent: it is not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) from: Option<Value>,
    /// What it would be. Absent: it would be removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) to: Option<Value>,
}

impl Change {
    /// `spec.parallelism: 3 -> 5`.
    pub(crate) fn line(&self) -> String {
        let text = |value: &Option<Value>| {
            let value = value.as_ref();
            value.map_or_else(|| "(none)".to_owned(), Value::to_string)
        };
        format!("{}: {} -> {}", self.field, text(&self.from), text(&self.to))
    }
}

/// Asks what an apply of `object` would do. `kind` is for errors.
pub(crate) async fn ask(api: &Api, of: Resource, kind: &str, object: &Value) -> Result<Applied> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let mut live = None;
    let mut asked = api.create(of, true, object).await;
    if let Err(error) = &asked
        && code(error) == Some(409)
    {
        let there = api.object(of, name).await;
        asked = match there {
            Ok(there) => {
                let changed = would_change(api, of, &there, object).await;
                live = Some(there);
                changed
            }
            Err(error) => Err(error),
        };
    }
    match asked {
        Ok(stored) => Ok(accepted(live.as_ref(), stored)),
        Err(kube::Error::Api(status)) if status.code == 404 => Err(api
            .explain(
                kube::Error::Api(status),
                &format!("asking about the {kind}"),
            )
            .await),
        Err(kube::Error::Api(status)) => {
            let may_not = status.code == 403 && status.message.contains("cannot create resource");
            Ok(Applied {
                effect: if may_not {
                    Effect::NotAllowed
                } else {
                    Effect::Refused
                },
                changes: Vec::new(),
                stored: None,
                problems: if may_not {
                    Vec::new()
                } else {
                    problem::refused(&status, object, "")
                },
            })
        }
        Err(error) => Err(api
            .explain(error, &format!("asking about the {kind}"))
            .await),
    }
}

fn accepted(live: Option<&Value>, stored: Value) -> Applied {
    let changes = live.map(|live| changes(live, &stored));
    let effect = match &changes {
        None => Effect::Created,
        Some(changes) if changes.is_empty() => Effect::Unchanged,
        Some(_) => Effect::Changed,
    };
    Applied {
        effect,
        changes: changes.unwrap_or_default(),
        stored: Some(stored),
        problems: Vec::new(),
    }
}

/// The object that is there as an apply would change it: on the server's side if it was applied so, and otherwise by a
/// patch that also removes what the manifest applied last had and this one has no more.
async fn would_change(api: &Api, of: Resource, live: &Value, object: &Value) -> Answer<Value> {
    let name = live["metadata"]["name"].as_str().unwrap_or_default();
    let last = live["metadata"]["annotations"][LAST_APPLIED].as_str();
    let last = last.and_then(|last| serde_json::from_str::<Value>(last).ok());
    let managers = live["metadata"]["managedFields"].as_array();
    let mut managers = managers.into_iter().flatten();
    let by_kubectl = |entry: &Value| entry["manager"] == "kubectl" && entry["operation"] == "Apply";
    if last.is_none() && managers.any(by_kubectl) {
        return api.dry_apply(of, name, "kubectl", object).await;
    }
    let mut patch = object.clone();
    if let Some(last) = last {
        // kubectl puts an annotation of its own into what it applies.
        let annotations = &mut patch["metadata"]["annotations"];
        if annotations.is_null() {
            *annotations = json!({});
        }
        remove_what_is_gone(&mut patch, &last);
    }
    api.dry_merge(of, name, &patch).await
}

/// Adds a null for each field of `last` that `patch` no longer has.
fn remove_what_is_gone(patch: &mut Value, last: &Value) {
    let (Value::Object(patch), Value::Object(last)) = (patch, last) else {
        return;
    };
    for (field, value) in last {
        match patch.get_mut(field) {
            Some(kept) => remove_what_is_gone(kept, value),
            None => drop(patch.insert(field.clone(), Value::Null)),
        }
    }
}

/// Where a template is.
pub(crate) const TEMPLATE: &str = "spec.template";

/// What differs of a part of an object that is called so.
pub(crate) fn differences(field: &str, old: &Value, new: &Value) -> Vec<Change> {
    let mut found = Vec::new();
    differ(field, Some(old), Some(new), &mut found);
    found
}

/// What differs in labels, annotations and spec.
fn changes(old: &Value, new: &Value) -> Vec<Change> {
    let mut found = Vec::new();
    for (field, part) in [
        ("metadata.labels", "/metadata/labels"),
        ("metadata.annotations", "/metadata/annotations"),
        ("spec", "/spec"),
    ] {
        differ(field, old.pointer(part), new.pointer(part), &mut found);
    }
    let bookkeeping = format!("metadata.annotations.{LAST_APPLIED}");
    found.retain(|change| change.field != bookkeeping);
    found
}

fn differ(field: &str, old: Option<&Value>, new: Option<&Value>, found: &mut Vec<Change>) {
    match (old, new) {
        _ if old == new => {}
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            let added = new.keys().filter(|key| !old.contains_key(*key));
            for key in old.keys().chain(added) {
                let inner = format!("{field}.{key}");
                differ(&inner, old.get(key), new.get(key), found);
            }
        }
        (Some(Value::Array(old)), Some(Value::Array(new))) if old.len() == new.len() => {
            for (at, (old, new)) in old.iter().zip(new).enumerate() {
                differ(&format!("{field}[{at}]"), Some(old), Some(new), found);
            }
        }
        _ => found.push(Change {
            field: field.to_owned(),
            from: old.cloned(),
            to: new.cloned(),
        }),
    }
}

/// The BroadcastJob that each run of a CronJob would be; nothing if its runs are Jobs, or it is no CronJob.
pub(crate) fn run_of(cron_job: &Value) -> Option<Value> {
    from_template(
        cron_job,
        "broadcastJobTemplate",
        (&cron_job["apiVersion"], "BroadcastJob"),
    )
}

/// The BroadcastJob or Job that each run of a CronJob would be; nothing if it is no CronJob.
pub(crate) fn any_run_of(cron_job: &Value) -> Option<Value> {
    let job = || from_template(cron_job, "jobTemplate", (&json!("batch/v1"), "Job"));
    run_of(cron_job).or_else(job)
}

fn from_template(cron_job: &Value, field: &str, (version, kind): (&Value, &str)) -> Option<Value> {
    let template = cron_job["spec"].get(field);
    let template = template.filter(|_| cron_job["kind"] == "CronJob")?;
    let mut run = json!({
        "apiVersion": version,
        "kind": kind,
        "metadata": template["metadata"],
        "spec": template["spec"],
    });
    for field in ["name", "namespace"] {
        run["metadata"][field] = cron_job["metadata"][field].clone();
    }
    Some(run)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_apply_would_change_is_told_field_by_field() {
        let old = json!({
            "metadata": {"labels": {"app": "a"}, "annotations": {LAST_APPLIED: "{}"}, "generation": 1},
            "spec": {"parallelism": 3, "paused": true, "template": {"containers": [{"image": "a"}]}},
        });
        let new = json!({
            "metadata": {"annotations": {LAST_APPLIED: "other"}, "generation": 2},
            "spec": {"parallelism": "50%", "template": {"containers": [{"image": "b"}]}},
        });
        let lines: Vec<String> = changes(&old, &new).iter().map(Change::line).collect();
        assert_eq!(
            lines,
            [
                r#"metadata.labels: {"app":"a"} -> (none)"#,
                r#"spec.parallelism: 3 -> "50%""#,
                "spec.paused: true -> (none)",
                r#"spec.template.containers[0].image: "a" -> "b""#,
            ]
        );
        assert_eq!(changes(&old, &old), []);
    }

    #[test]
    fn a_field_that_is_no_longer_in_the_manifest_is_removed() {
        let mut patch = json!({"metadata": {"name": "a"}, "spec": {"parallelism": 1}});
        let last = json!({"metadata": {"name": "a", "labels": {"b": "c"}}, "spec": {"parallelism": 2, "paused": true}});
        remove_what_is_gone(&mut patch, &last);
        let expected = json!({"metadata": {"name": "a", "labels": null}, "spec": {"parallelism": 1, "paused": null}});
        assert_eq!(patch, expected);
    }

    #[test]
    fn the_run_of_a_cron_job_is_its_template_under_its_name() {
        let cron_job = json!({"apiVersion": "carillon.dev/v1alpha1", "kind": "CronJob",
            "metadata": {"name": "nightly", "namespace": "ops"},
            "spec": {"broadcastJobTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": {"paused": true}}}});
        let run = run_of(&cron_job).unwrap();
        let expected = json!({"name": "nightly", "namespace": "ops", "labels": {"a": "b"}});
        assert_eq!(run["metadata"], expected);
        assert_eq!(run["spec"]["paused"], true);
        assert_eq!(run_of(&json!({"spec": {"jobTemplate": {}}})), None);
    }
}
