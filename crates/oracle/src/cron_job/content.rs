//! S16: a child is the template of its CronJob, and little else.

use serde_json::{Map, Value, json};

use super::object::{self as of_cron, HOLD};
use super::world::{Cron, Crons};
use crate::history::{History, Key};
use crate::invariant::Invariant::S16;
use crate::object::{JOBS, list};
use crate::template::differs;
use crate::verdict::{Assumptions, Checked, Verdict, Violation};

/// Prefixes of the labels and annotations that are ours to set, or that the API server sets.
const OURS: [&str; 2] = ["carillon.dev/", of_cron::SCHEDULED];
/// What the API server labels the pods of a Job with, and the Job where it has no label.
const GENERATED: [&str; 4] = [
    "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-name",
    "controller-uid",
    "job-name",
];
/// Fields of the spec of a Job that the API server fills in.
const FILLED_IN_JOB: [&str; 8] = [
    "backoffLimit",
    "completionMode",
    "completions",
    "manualSelector",
    "parallelism",
    "podReplacementPolicy",
    "selector",
    "suspend",
];
/// Fields of the spec of a BroadcastJob that the API server fills in.
const FILLED_IN_BROADCAST_JOB: [&str; 8] = [
    "backoffLimitPerNode",
    "completionPolicy",
    "executionPolicy",
    "failurePolicy",
    "noEligibleNodesPolicy",
    "nodeLostTimeoutSeconds",
    "paused",
    "podTerminationTimeoutSeconds",
];

/// S16. Where a child of a CronJob is created (by us, or by nobody knows whom), it is the template for
/// its kind in one of the specs that we may have seen:
/// - its spec has every field and value of the template's, and no other field but what the API server
///   fills in;
/// - its labels and annotations are those of the template, plus those that begin with
///   `carillon.dev/`, the annotation with the scheduled time, and on a Job the labels that the API
///   server generates;
/// - the pods of a run of our own kind have the annotation with the scheduled time if the run has;
/// - its finalizer is `carillon.dev/run-tracking`, and it has one owner.
///
/// With `admission_changes_pods` additions are not looked at, only what is missing.
pub fn child_is_its_template(history: &History, assumptions: &Assumptions) -> Verdict {
    let mut checked = Checked::all_of(history);
    let mut crons = Crons::new(assumptions);
    let strict = !assumptions.admission_changes_pods;
    for step in &history.steps {
        if let Some((cron, child)) = crons.created(step) {
            let wrong = alone(child, strict).or_else(|| {
                let specs = crons.specs(cron, step);
                let wrong = specs.map(|spec| unlike(cron, spec, &step.key, child, strict));
                // Of all that does not fit, what the newest spec says; one that fits is enough.
                let wrong: Option<Vec<String>> = wrong.collect();
                wrong?.pop()
            });
            checked.require(wrong.is_none(), || {
                let what = format!("{}: {}", step.key, wrong.unwrap_or_default());
                Violation::at(S16, step, what)
            })?;
        }
        crons.apply(step);
    }
    Ok(checked)
}

fn alone(child: &Value, strict: bool) -> Option<String> {
    let finalizers = list(child, &["metadata", "finalizers"]);
    if strict && finalizers != [json!(HOLD)] {
        return Some(format!("its finalizers are {finalizers:?}"));
    }
    let owners = list(child, &["metadata", "ownerReferences"]).len();
    (owners != 1).then(|| format!("it has {owners} owners"))
}

fn unlike(cron: &Cron<'_>, spec: &Value, key: &Key, child: &Value, strict: bool) -> Option<String> {
    let kind = of_cron::kind_of(key);
    let Some(template) = of_cron::template_of(spec, kind) else {
        return Some(format!("{} has no template for a {kind}", cron.key));
    };
    let wanted = &template["metadata"];
    let extra = words(child, &wanted["annotations"], "annotations", strict, &[]).or_else(|| {
        words(
            child,
            &wanted["labels"],
            "labels",
            strict,
            &generated(child, wanted),
        )
    });
    extra.or_else(|| {
        let scheduled = &child["metadata"]["annotations"][of_cron::SCHEDULED];
        let told = cron.counts().then_some(scheduled);
        unlike_spec(&template["spec"], key, &child["spec"], told, strict)
    })
}

/// Labels that a Job has of the API server: without its own it has those of its pods.
fn generated<'v>(child: &'v Value, wanted: &Value) -> Vec<&'v str> {
    let mut known = GENERATED.to_vec();
    if wanted["labels"].as_object().is_none_or(Map::is_empty) {
        let pods = child["spec"]["template"]["metadata"]["labels"].as_object();
        known.extend(pods.into_iter().flat_map(Map::keys).map(String::as_str));
    }
    known
}

/// What labels or annotations lack, or have too much.
fn words(
    child: &Value,
    wanted: &Value,
    field: &str,
    strict: bool,
    generated: &[&str],
) -> Option<String> {
    let none = Map::new();
    let wanted = wanted.as_object().unwrap_or(&none);
    let found = child["metadata"][field].as_object().unwrap_or(&none);
    let lacking = wanted
        .iter()
        .find(|(key, value)| found.get(*key) != Some(value));
    if let Some((key, value)) = lacking {
        return Some(format!("{field} lack {key}: {value}"));
    }
    let known =
        |key: &str| OURS.iter().any(|ours| key.starts_with(ours)) || generated.contains(&key);
    let extra = found
        .iter()
        .find(|(key, _)| strict && !wanted.contains_key(*key) && !known(key));
    extra.map(|(key, value)| format!("{field} have {key}: {value}, which the template has not"))
}

fn unlike_spec(
    template: &Value,
    key: &Key,
    found: &Value,
    told: Option<&Value>,
    strict: bool,
) -> Option<String> {
    let (mut template, mut found) = (template.clone(), found.clone());
    let filled_in: &[&str] = if &*key.resource == JOBS {
        &FILLED_IN_BROADCAST_JOB
    } else {
        &FILLED_IN_JOB
    };
    let mut pods = [Value::Null, Value::Null];
    for (spec, pod) in [&mut template, &mut found].into_iter().zip(&mut pods) {
        if let Some(spec) = spec.as_object_mut() {
            *pod = spec.remove("template").unwrap_or_default();
        }
    }
    if let (Some(found), Some(template)) = (found.as_object_mut(), template.as_object()) {
        found.retain(|field, _| {
            template.contains_key(field) || strict && !filled_in.contains(&field.as_str())
        });
    }
    let [mut wanted, found_pod] = pods;
    if let Some(told) = told.filter(|told| told.is_string()) {
        wanted["metadata"]["annotations"][of_cron::SCHEDULED] = told.clone();
    }
    let filled = |wanted: &Value, found: &Value| differs_below(wanted, found, filled_in);
    filled(&template, &found)
        .or_else(|| differs("spec", &wanted["spec"], &found_pod["spec"], strict))
        .or_else(|| labels_of_pods(&wanted, &found_pod))
}

/// What is missing or different; fields may be added to those that the API server fills in.
fn differs_below(wanted: &Value, found: &Value, filled_in: &[&str]) -> Option<String> {
    let none = Map::new();
    let (wanted, found) = (
        wanted.as_object().unwrap_or(&none),
        found.as_object().unwrap_or(&none),
    );
    let extra = found.keys().find(|field| !wanted.contains_key(*field));
    if let Some(field) = extra {
        return Some(format!("spec.{field} is not in the template"));
    }
    wanted.iter().find_map(|(field, value)| {
        let found = found.get(field).unwrap_or(&Value::Null);
        let open = filled_in.contains(&field.as_str());
        let path = format!("spec.{field}");
        differs(&path, value, found, !open)
    })
}

/// Labels and annotations of the pods.
fn labels_of_pods(wanted: &Value, found: &Value) -> Option<String> {
    let none = Map::new();
    let of = |pod: &Value, field: &str| pod["metadata"][field].as_object().unwrap_or(&none).clone();
    ["labels", "annotations"].into_iter().find_map(|field| {
        let (wanted, mut found) = (of(wanted, field), of(found, field));
        found.retain(|key, _| wanted.contains_key(key) || !GENERATED.contains(&key.as_str()));
        (wanted != found).then(|| {
            let (wanted, found) = (json!(wanted), json!(found));
            format!("{field} of its pods are {found}, and the template has {wanted}")
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cron_job::scene;
    use crate::scene::{Scene, breaks, holds, strict};

    fn with(change: impl FnOnce(&mut Value)) -> Scene {
        let scene = Scene::new().cron(json!({})).promise(5);
        let mut run = scene.run(5);
        change(&mut run);
        scene.create_run(run)
    }

    #[test]
    fn the_template_and_what_the_server_fills_in_is_accepted() {
        holds(S16, &with(|_| ()), &strict());
        let stored = with(|run| {
            let uid = json!("run-5");
            let spec = &mut run["spec"];
            spec["completions"] = json!(1);
            spec["selector"] = json!({"matchLabels": {GENERATED[0]: uid}});
            spec["template"]["metadata"]["labels"] = json!({GENERATED[0]: uid, "job-name": "x"});
            spec["template"]["spec"]["dnsPolicy"] = json!("ClusterFirst");
            run["metadata"]["labels"][GENERATED[0]] = uid;
            run["metadata"]["annotations"]["carillon.dev/x"] = json!("y");
        });
        holds(S16, &stored, &strict());
        holds(S16, &scene::broadcast(&json!({})).0, &strict());
    }

    #[test]
    fn what_is_lost_changed_or_added_is_found() {
        type Change = fn(&mut Value);
        let changes: [(Change, &str); 13] = [
            (
                |run| run["spec"]["template"]["metadata"] = json!({}),
                "annotations of its pods",
            ),
            (
                |run| run["spec"]["backoffLimit"] = json!(6),
                "backoffLimit is",
            ),
            (
                |run| run["spec"]["ttlSecondsAfterFinished"] = json!(6),
                "is not in the template",
            ),
            (
                |run| run["spec"]["template"]["spec"]["containers"][0]["image"] = json!("x"),
                "image is",
            ),
            (
                |run| run["spec"]["template"]["spec"]["hostNetwork"] = json!(true),
                "hostNetwork",
            ),
            (
                |run| run["spec"]["template"]["spec"]["containers"] = json!([]),
                "is missing",
            ),
            (
                |run| run["spec"]["template"]["metadata"] = json!({"labels": {"a": "b"}}),
                "labels of its pods",
            ),
            (
                |run| run["metadata"]["labels"] = json!({}),
                "labels lack app",
            ),
            (
                |run| run["metadata"]["labels"]["x"] = json!("y"),
                "labels have x",
            ),
            (
                |run| run["metadata"]["annotations"]["x"] = json!("y"),
                "annotations have x",
            ),
            (
                |run| run["metadata"]["annotations"]["why"] = json!("y"),
                "annotations lack why",
            ),
            (
                |run| run["metadata"]["finalizers"] = json!([HOLD, "example.com/a"]),
                "its finalizers are",
            ),
            (
                |run| {
                    let owners = &mut run["metadata"]["ownerReferences"];
                    owners.as_array_mut().unwrap().push(json!({}));
                },
                "2 owners",
            ),
        ];
        for (change, what) in changes {
            breaks(S16, &with(change), &strict(), what);
        }
    }

    #[test]
    fn the_template_is_one_that_we_may_have_seen() {
        let scene = Scene::new().cron(json!({})).promise(5);
        let run = scene.run(5);
        let changed = scene.edit_cron(|cron| {
            cron["spec"]["jobTemplate"]["spec"]["backoffLimit"] = json!(3);
        });
        let old = changed.create_run(run);
        breaks(S16, &old, &strict(), "backoffLimit is");
        let lagging = Assumptions {
            lag_revisions: 2,
            ..strict()
        };
        holds(S16, &old, &lagging);
        let none = Scene::new().cron(json!({"jobTemplate": {}}));
        let none = none.edit_cron(|cron| {
            cron["spec"].as_object_mut().unwrap().remove("jobTemplate");
        });
        let run = with(|_| ()).object("jobs.batch", &scene::run_name(5));
        breaks(
            S16,
            &none.promise(5).create_run(run),
            &strict(),
            "has no template for a Job",
        );
    }

    #[test]
    fn additions_of_admission_are_accepted_where_they_are_presumed() {
        let lenient = Assumptions {
            admission_changes_pods: true,
            ..strict()
        };
        let added = with(|run| {
            run["metadata"]["labels"]["x"] = json!("y");
            run["spec"]["ttlSecondsAfterFinished"] = json!(6);
        });
        holds(S16, &added, &lenient);
        let lost = with(|run| run["metadata"]["labels"] = json!({}));
        breaks(S16, &lost, &lenient, "labels lack app");
    }
}
