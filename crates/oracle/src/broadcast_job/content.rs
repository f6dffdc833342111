//! S16: a pod is its template, and little else.

use serde_json::{Value, json};

use super::world::{Job, World};
use crate::history::History;
use crate::invariant::Invariant::S16;
use crate::object::{self, FINALIZER, at, list};
use crate::template::differs;
use crate::verdict::{Assumptions, Checked, Verdict, Violation};

const JOB_NAME: &str = "carillon.dev/broadcastjob-name";

/// S16. Where a pod of a job is created (by us, or by nobody knows whom):
/// - its spec is `spec.template.spec` as written, with every field and value, plus what the API
///   server fills in, and required node affinity that names its node and no other (in place of what
///   the template requires), or `nodeName`;
/// - the node is the one it was reserved for;
/// - `terminationMessagePolicy` is `FallbackToLogsOnError` where the template says nothing;
/// - labels and annotations are those of the template, plus the job's name and uid;
/// - finalizers are those of the template and ours, and its job is the only owner.
///
/// With `admission_changes_pods` additions are not looked at, only what is missing.
pub fn pod_is_its_template(history: &History, assumptions: &Assumptions) -> Verdict {
    let mut checked = Checked::all_of(history);
    let mut world = World::new(assumptions);
    for step in &history.steps {
        if let Some((uid, pod)) = world.created_pod(step)
            && let Some(job) = world.jobs.get(uid)
        {
            let strict = !assumptions.admission_changes_pods;
            let wrong = metadata(job, pod, strict).or_else(|| spec(job, pod, strict));
            checked.require(wrong.is_none(), || {
                let wrong = wrong.unwrap_or_default();
                Violation::at(S16, step, format!("pod {}: {wrong}", object::name(pod)))
            })?;
        }
        world.apply(step);
    }
    Ok(checked)
}

fn metadata(job: &Job<'_>, pod: &Value, strict: bool) -> Option<String> {
    let template = &job.last["spec"]["template"]["metadata"];
    let found = &pod["metadata"];
    let mut labels = object_or_empty(&template["labels"]);
    labels[JOB_NAME] = json!(&*job.key.name);
    labels[object::UID_LABEL] = json!(object::uid(job.last));
    let mut finalizers = list(template, &["finalizers"]).to_vec();
    finalizers.push(json!(FINALIZER));
    let expected = [
        ("labels", labels, "topology.kubernetes.io/"),
        (
            "annotations",
            template["annotations"].clone(),
            "kubernetes.io/limit-ranger",
        ),
    ];
    for (field, wanted, filled_in) in expected {
        let keys = |of: &Value| {
            of.as_object()
                .into_iter()
                .flatten()
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect::<Vec<_>>()
        };
        let (wanted, found) = (keys(&wanted), keys(&found[field]));
        if let Some((key, value)) = wanted.iter().find(|entry| !found.contains(entry)) {
            return Some(format!("{field} lack {key}: {value}"));
        }
        let extra = found
            .iter()
            .find(|entry| !wanted.contains(entry) && !entry.0.starts_with(filled_in));
        if let Some((key, value)) = extra.filter(|_| strict) {
            return Some(format!(
                "{field} have {key}: {value}, which the template has not"
            ));
        }
    }
    let found = list(pod, &["metadata", "finalizers"]);
    if finalizers.iter().any(|f| !found.contains(f)) || strict && found.len() != finalizers.len() {
        return Some(format!(
            "finalizers are {found:?} and should be {finalizers:?}"
        ));
    }
    let owners = list(pod, &["metadata", "ownerReferences"]);
    (owners.len() != 1).then(|| format!("it has {} owners", owners.len()))
}

fn spec(job: &Job<'_>, pod: &Value, strict: bool) -> Option<String> {
    let template = &job.last["spec"]["template"]["spec"];
    let node = object::node_of(pod);
    let record = job.records.get(object::name(pod));
    if let Some(record) = record.filter(|record| record.node() != node) {
        return Some(format!(
            "it is for node {node:?} and reserved for {}",
            record.node()
        ));
    }
    if node.is_empty() {
        return Some("it is for no node".to_owned());
    }
    let mut wanted = object_or_empty(template);
    if !object::is_bound(pod) {
        let mut affinity = object_or_empty(&wanted["affinity"]);
        let mut node_affinity = object_or_empty(&affinity["nodeAffinity"]);
        node_affinity["requiredDuringSchedulingIgnoredDuringExecution"] = json!({
            "nodeSelectorTerms": [{"matchFields": [
                {"key": "metadata.name", "operator": "In", "values": [node]}]}]});
        affinity["nodeAffinity"] = node_affinity;
        wanted["affinity"] = affinity;
    }
    let difference = differs("spec", &wanted, &pod["spec"], strict);
    difference.or_else(|| {
        let containers = list(pod, &["spec", "containers"]).iter();
        let containers = containers.zip(list(template, &["containers"]));
        let silent = containers
            .filter(|(_, template)| at(template, &["terminationMessagePolicy"]).is_none());
        let mut policies = silent.map(|(found, _)| &found["terminationMessagePolicy"]);
        let other = policies.find(|policy| **policy != "FallbackToLogsOnError");
        other.map(|policy| format!("terminationMessagePolicy is {policy}"))
    })
}

fn object_or_empty(value: &Value) -> Value {
    if value.is_object() {
        value.clone()
    } else {
        json!({})
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::{Scene, breaks, holds, strict};

    fn start() -> Scene {
        Scene::new()
            .node("n1")
            .node("n2")
            .job(json!({}))
            .reserve("n1", 1)
    }

    /// The pod, with a change.
    fn with(change: impl FnOnce(&mut Value)) -> Scene {
        let scene = start();
        let mut pod = scene.pod("n1", 1);
        change(&mut pod);
        scene.create_pod(pod)
    }

    #[test]
    fn the_template_and_what_the_server_fills_in_is_accepted() {
        holds(S16, &start().create("n1", 1), &strict());
        let stored = with(|pod| {
            pod["spec"]["dnsPolicy"] = json!("ClusterFirst");
            pod["spec"]["schedulerName"] = json!("default-scheduler");
            pod["spec"]["volumes"] =
                json!([{"name": "kube-api-access-x2", "projected": {"defaultMode": 420}}]);
            pod["spec"]["tolerations"] =
                json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]);
            let container = &mut pod["spec"]["containers"][0];
            container["imagePullPolicy"] = json!("IfNotPresent");
            container["resources"] = json!({});
            container["volumeMounts"] = json!([{"name": "kube-api-access-x2",
                "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}]);
        });
        holds(S16, &stored, &strict());
        let placed = with(|pod| {
            pod["spec"]["nodeName"] = json!("n1");
            pod["spec"].as_object_mut().unwrap().remove("affinity");
        });
        holds(S16, &placed, &strict());
    }

    #[test]
    fn what_is_lost_changed_or_added_is_found() {
        type Change = fn(&mut Value);
        let changes: [(Change, &str); 13] = [
            (
                |pod| pod["spec"]["containers"][0]["image"] = json!("evil:1"),
                "image is",
            ),
            (
                |pod| pod["spec"]["containers"][0]["env"] = json!([]),
                "spec.containers[0].env[0] is missing",
            ),
            (
                |pod| pod["spec"]["hostNetwork"] = json!(true),
                "spec.hostNetwork is not in",
            ),
            (
                |pod| pod["spec"]["containers"][0]["stdin"] = json!(true),
                "stdin is not in",
            ),
            (
                |pod| {
                    pod["spec"]["containers"]
                        .as_array_mut()
                        .unwrap()
                        .push(json!({"name": "x"}));
                },
                "which the template has not",
            ),
            (
                |pod| pod["spec"]["volumes"] = json!([{"name": "x"}]),
                "spec.volumes is not",
            ),
            (
                |pod| pod["spec"]["tolerations"] = json!([{"operator": "Exists"}]),
                "spec.tolerations is not",
            ),
            (
                |pod| pod["metadata"]["labels"]["x"] = json!("y"),
                "labels have x",
            ),
            (
                |pod| pod["metadata"]["labels"]["app"] = json!("y"),
                "labels lack app",
            ),
            (
                |pod| pod["metadata"]["annotations"] = json!({}),
                "annotations lack why",
            ),
            (
                |pod| pod["metadata"]["finalizers"] = json!([]),
                "finalizers are",
            ),
            (
                |pod| {
                    pod["metadata"]["ownerReferences"]
                        .as_array_mut()
                        .unwrap()
                        .push(json!({}));
                },
                "2 owners",
            ),
            (
                |pod| pod["spec"]["containers"][0]["terminationMessagePolicy"] = json!("File"),
                "terminationMessagePolicy is",
            ),
        ];
        for (change, what) in changes {
            breaks(S16, &with(change), &strict(), what);
        }
    }

    #[test]
    fn a_pod_is_for_the_node_it_was_reserved_for() {
        let affinity = |pod: &mut Value, node: Value| {
            pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
                ["nodeSelectorTerms"][0]["matchFields"][0]["values"] = node;
        };
        let other = with(|pod| affinity(pod, json!(["n2"])));
        breaks(S16, &other, &strict(), "reserved for n1");
        let two = with(|pod| affinity(pod, json!(["n1", "n2"])));
        breaks(S16, &two, &strict(), "values");
        let scene = Scene::new().node("n1").job(json!({}));
        let mut pod = scene.pod("n1", 1);
        pod["spec"]["affinity"] = json!({});
        breaks(S16, &scene.create_pod(pod), &strict(), "for no node");
    }

    #[test]
    fn additions_of_admission_are_accepted_where_they_are_presumed() {
        let lenient = Assumptions {
            admission_changes_pods: true,
            ..strict()
        };
        let sidecar = with(|pod| {
            pod["spec"]["containers"]
                .as_array_mut()
                .unwrap()
                .push(json!({"name": "x"}));
        });
        holds(S16, &sidecar, &lenient);
        let lost = with(|pod| pod["spec"]["containers"] = json!([]));
        breaks(S16, &lost, &lenient, "is missing");
    }

    #[test]
    fn a_quantity_may_be_written_in_another_form() {
        assert_eq!(
            differs(
                "spec",
                &json!({"cpu": "0.5"}),
                &json!({"cpu": "500m"}),
                true
            ),
            None
        );
        assert!(differs("spec", &json!({"cpu": "0.5"}), &json!({"cpu": "1"}), true).is_some());
    }
}
