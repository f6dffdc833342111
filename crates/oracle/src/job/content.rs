//! S16: a pod is the template of its Job, and little else.

use serde_json::{Value, json};

use super::object::{self as of_job, INDEX, TRACKING, index_of};
use super::world::Jobs;
use crate::history::History;
use crate::invariant::Invariant::S16;
use crate::object::{list, name};
use crate::template::{differs, words};
use crate::verdict::{Assumptions, Checked, Verdict, Violation};

/// Annotations that tell how often an index has failed before.
const FAILURES: [&str; 2] = [
    "batch.kubernetes.io/job-index-failure-count",
    "batch.kubernetes.io/job-index-ignored-failure-count",
];
/// The variable that tells a container its index.
const VARIABLE: &str = "JOB_COMPLETION_INDEX";

/// S16. Where a pod is created for a Job (by us, or by nobody knows whom), it is the template in one of
/// the versions that we may have seen:
/// - its spec has every field and value of the template's, and no other but what the API server fills in;
///   with an index also the host name, and in each container the variable with the index;
/// - its labels and annotations are those of the template; with an index also this as label and
///   annotation, and the annotations that count failures where there is a limit for each index;
/// - its finalizers are those of the template and the tracking one, once, and it has one owner.
///
/// With `admission_changes_pods` additions are not looked at, only what is missing.
pub fn pod_is_its_template(history: &History, assumptions: &Assumptions) -> Verdict {
    let mut checked = Checked::all_of(history);
    let mut jobs = Jobs::new(assumptions);
    let strict = !assumptions.admission_changes_pods;
    for step in &history.steps {
        if let Some((job, pod)) = jobs.created(step) {
            let seen = jobs.seen(job, step);
            let wrong: Option<Vec<String>> = seen.map(|job| unlike(job, pod, strict)).collect();
            // Of all that does not fit, what the newest says; one that fits is enough.
            let wrong = wrong.and_then(|mut wrong| wrong.pop());
            checked.require(wrong.is_none(), || {
                let what = format!("{}: {}", step.key, wrong.unwrap_or_default());
                Violation::at(S16, step, what)
            })?;
        }
        jobs.apply(step);
    }
    Ok(checked)
}

fn unlike(job: &Value, pod: &Value, strict: bool) -> Option<String> {
    let index = index_of(pod);
    let indexed = of_job::is_indexed(job);
    if indexed != index.is_some() {
        return Some(format!("its index is {index:?}"));
    }
    let mut template = job["spec"]["template"].clone();
    if let Some(index) = index {
        let text = json!(index.to_string());
        for field in ["labels", "annotations"] {
            template["metadata"][field][INDEX] = text.clone();
        }
        template["spec"]["hostname"] = json!(format!("{}-{index}", name(job)));
        tell_index(&mut template["spec"]);
    }
    words(&template, pod, "labels", strict, &[])
        .or_else(|| words(&template, pod, "annotations", strict, &FAILURES))
        .or_else(|| held(&template, pod, strict))
        .or_else(|| differs("spec", &template["spec"], &pod["spec"], strict))
}

/// Gives each container its index.
fn tell_index(spec: &mut Value) {
    let path = format!("metadata.labels['{INDEX}']");
    let variable = json!({"name": VARIABLE, "valueFrom": {"fieldRef": {"fieldPath": path}}});
    for kind in ["containers", "initContainers"] {
        let containers = spec.get_mut(kind).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            if list(container, &["env"])
                .iter()
                .any(|one| one["name"] == VARIABLE)
            {
                continue;
            }
            let mut variables = list(container, &["env"]).to_vec();
            variables.push(variable.clone());
            container["env"] = json!(variables);
        }
    }
}

fn held(template: &Value, pod: &Value, strict: bool) -> Option<String> {
    let mut wanted = list(template, &["metadata", "finalizers"]).to_vec();
    if !wanted.iter().any(|finalizer| finalizer == TRACKING) {
        wanted.push(json!(TRACKING));
    }
    let found = list(pod, &["metadata", "finalizers"]);
    if wanted.iter().any(|f| !found.contains(f)) || strict && found.len() != wanted.len() {
        return Some(format!("finalizers are {found:?} and should be {wanted:?}"));
    }
    let owners = list(pod, &["metadata", "ownerReferences"]).len();
    (owners != 1).then(|| format!("it has {owners} owners"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::{Scene, breaks, holds, strict};
    use serde_json::json;

    fn with(index: Option<i64>, change: impl FnOnce(&mut Value)) -> Scene {
        let mode = if index.is_some() {
            "Indexed"
        } else {
            "NonIndexed"
        };
        let scene = Scene::new().sum(json!({"completionMode": mode}));
        let mut pod = scene.sum_pod(1, index);
        change(&mut pod);
        scene.make_sum_pod(pod)
    }

    #[test]
    fn a_pod_is_its_template() {
        for index in [None, Some(1)] {
            holds(S16, &with(index, |_| ()), &strict());
        }
        let counted = |pod: &mut Value| {
            pod["metadata"]["annotations"][FAILURES[0]] = json!("0");
            pod["spec"]["dnsPolicy"] = json!("ClusterFirst");
        };
        holds(S16, &with(Some(0), counted), &strict());
    }

    #[test]
    fn what_is_lost_changed_or_added_is_found() {
        type Change = fn(&mut Value);
        let changes: [(Option<i64>, Change, &str); 9] = [
            (
                None,
                |pod| pod["metadata"]["labels"] = json!({}),
                "labels lack app",
            ),
            (
                None,
                |pod| pod["metadata"]["annotations"]["x"] = json!("y"),
                "annotations have x",
            ),
            (
                None,
                |pod| pod["metadata"]["finalizers"] = json!([]),
                "finalizers are",
            ),
            (
                None,
                |pod| pod["spec"]["hostNetwork"] = json!(true),
                "hostNetwork",
            ),
            (
                None,
                |pod| pod["spec"]["containers"][0]["image"] = json!("x"),
                "image is",
            ),
            (
                None,
                |pod| pod["metadata"]["ownerReferences"] = json!([]),
                "owner",
            ),
            (
                Some(1),
                |pod| pod["spec"]["hostname"] = json!("sum-2"),
                "hostname is",
            ),
            (
                Some(1),
                |pod| {
                    pod["spec"]["containers"][0]["env"]
                        .as_array_mut()
                        .unwrap()
                        .pop();
                },
                "JOB_COMPLETION_INDEX",
            ),
            (
                Some(1),
                |pod| {
                    pod["metadata"]["annotations"]
                        .as_object_mut()
                        .unwrap()
                        .remove(INDEX);
                },
                "its index is None",
            ),
        ];
        for (index, change, what) in changes {
            let scene = with(index, change);
            if what == "owner" {
                // It is nobody's, and judged as such elsewhere.
                pod_is_its_template(&scene.history(), &strict()).unwrap();
                continue;
            }
            breaks(S16, &scene, &strict(), what);
        }
    }

    #[test]
    fn the_template_is_one_that_we_may_have_seen() {
        let scene = Scene::new().sum(json!({}));
        let pod = scene.sum_pod(1, None);
        let changed = scene.edit_sum(|job| {
            job["spec"]["template"]["metadata"]["labels"]["a"] = json!("b");
        });
        let old = changed.make_sum_pod(pod);
        breaks(S16, &old, &strict(), "labels lack a");
        let lagging = Assumptions {
            lag_revisions: 2,
            ..strict()
        };
        holds(S16, &old, &lagging);
    }
}
