//! S16: a pod of a DaemonSet is its template, and its hash says which.

use serde_json::{Value, json};

use super::world::{ALWAYS, Set, World, hash};
use crate::history::History;
use crate::invariant::Invariant::S16;
use crate::object::{PODS, list, node_of};
use crate::template::{differs, words};
use crate::verdict::{Assumptions, Checked, Verdict, Violation};

/// Labels that a pod has besides those of its template.
const LABELS: [&str; 2] = ["controller-revision-hash", "pod-template-generation"];

/// S16. Where a pod is created for a DaemonSet (by us, or by nobody knows whom), it is the template in one of the
/// versions that we may have seen, with the tolerations that each pod of a DaemonSet has, bound to one node by its
/// name and nothing else; and a revision of that template has the hash that it carries. Where we give a pod another
/// hash, that is one of the same template (kubernetes issue 111280).
///
/// With `admission_changes_pods` additions are not looked at, only what is missing.
pub fn pod_is_its_template(history: &History, assumptions: &Assumptions) -> Verdict {
    let mut checked = Checked::all_of(history);
    let mut world = World::new(assumptions);
    for step in &history.steps {
        let pod = step.new.as_deref();
        let pod = pod.filter(|_| &*step.key.resource == PODS && !assumptions.others(step));
        let set = pod.filter(|_| !(assumptions.late)(step));
        let set = set.and_then(|pod| world.of(pod));
        if let (Some(pod), Some(set)) = (pod, set) {
            let wrong = match step.old.as_deref() {
                None => {
                    let seen = set.seen(assumptions, step);
                    let wrong: Option<Vec<_>> = seen
                        .map(|version| unlike(version, set, pod, assumptions))
                        .collect();
                    // Of all that does not fit, what the newest says; one that fits is enough.
                    wrong.and_then(|mut wrong| wrong.pop())
                }
                Some(old) if hash(old) != hash(pod) => {
                    let of = |hash| set.templates.get(hash).into_iter().flatten();
                    let same = of(hash(old)).any(|old| of(hash(pod)).any(|new| old == new));
                    (!same).then(|| "it gets the hash of another template".to_owned())
                }
                Some(_) => None,
            };
            checked.require(wrong.is_none(), || {
                let what = format!("{}: {}", step.key, wrong.unwrap_or_default());
                Violation::at(S16, step, what)
            })?;
        }
        world.apply(step);
    }
    Ok(checked)
}

fn unlike(
    version: &Value,
    set: &Set<'_>,
    pod: &Value,
    assumptions: &Assumptions,
) -> Option<String> {
    let strict = !assumptions.admission_changes_pods;
    let template = &version["spec"]["template"];
    let mut spec = template["spec"].clone();
    spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = json!({
        "nodeSelectorTerms": [{"matchFields": [
            {"key": "metadata.name", "operator": "In", "values": [node_of(pod)]}]}]});
    let missing = ALWAYS.iter().find(|(key, effect)| {
        !list(pod, &["spec", "tolerations"])
            .iter()
            .any(|one| one["key"] == *key && one["effect"] == *effect)
    });
    let lacks = missing.map(|(key, _)| format!("it does not tolerate {key}"));
    let mut found = pod["spec"].clone();
    found["tolerations"] = Value::Null;
    spec["tolerations"] = Value::Null;
    let mut known = set.templates.get(hash(pod)).into_iter().flatten();
    let made = known.any(|data| same_template(data, template));
    words(template, pod, "labels", strict, &LABELS)
        .or_else(|| words(template, pod, "annotations", strict, &[]))
        .or_else(|| differs("spec", &spec, &found, strict))
        .or(lacks)
        .or_else(|| (!made).then(|| "no revision of its template has its hash".to_owned()))
}

/// The data of a revision is a patch.
fn same_template(data: &Value, template: &Value) -> bool {
    let mut data = data.clone();
    if let Some(data) = data.as_object_mut() {
        data.remove("$patch");
    }
    data == *template
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::{Scene, breaks, holds, strict};

    fn with(change: impl FnOnce(&mut Value)) -> Scene {
        let scene = Scene::agent(json!({})).revision(1, 1);
        let mut pod = scene.agent_pod("n1", 1);
        change(&mut pod);
        scene.make_agent_pod(pod)
    }

    #[test]
    fn a_pod_is_its_template() {
        holds(S16, &with(|_| {}), &strict());
        let bound = |pod: &mut Value| pod["spec"]["nodeName"] = json!("n1");
        holds(S16, &with(bound), &strict());
    }

    #[test]
    fn what_is_lost_changed_or_added_is_found() {
        type Change = fn(&mut Value);
        let changes: [(Change, &str); 6] = [
            (
                |pod| pod["metadata"]["annotations"] = json!({"x": "y"}),
                "annotations have x",
            ),
            (
                |pod| pod["spec"]["containers"][0]["image"] = json!("x"),
                "image is",
            ),
            (
                |pod| pod["spec"]["hostNetwork"] = json!(true),
                "hostNetwork",
            ),
            (
                |pod| pod["spec"]["affinity"]["podAffinity"] = json!({"x": 1}),
                "podAffinity",
            ),
            (
                |pod| {
                    pod["spec"]["tolerations"].as_array_mut().unwrap().remove(0);
                },
                "does not tolerate node.kubernetes.io/not-ready",
            ),
            (
                |pod| pod["metadata"]["labels"]["controller-revision-hash"] = json!("h9"),
                "no revision",
            ),
        ];
        for (change, what) in changes {
            breaks(S16, &with(change), &strict(), what);
        }
    }

    #[test]
    fn a_pod_gets_the_hash_of_another_revision_only_with_the_same_template() {
        let scene = Scene::agent(json!({})).revision(1, 1).pod_of("n1", 1);
        let copied = scene.clone().revision_named("copied", 1, 2);
        let relabelled = copied.relabel("carillon", "n1", "copied");
        holds(S16, &relabelled, &strict());
        let other = scene.image(2).revision(2, 2);
        breaks(
            S16,
            &other.clone().relabel("carillon", "n1", "h2"),
            &strict(),
            "another template",
        );
        holds(S16, &other.relabel("kubectl", "n1", "h2"), &strict());
    }
}
