//! Pods of Jobs, as the API server has them.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::job::{FINALIZER_JOB_TRACKING, JobPod, JobPods, Restarts};
use crate::object_key::{JOB, ObjectKey};
use crate::pod::{Deletion, Failure, PodPhase};
use crate::uid::Uid;
use crate::view::read::{entries, list, text, version};

/// Annotations on the pods of a Job, as upstream has them.
const INDEX: &str = "batch.kubernetes.io/job-completion-index";
const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
const IGNORED_FAILURES: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

/// The pods of many Jobs. Those that something else controls are left out.
#[derive(Clone, Debug, Default)]
pub struct PodsOfJobs {
    owned: BTreeMap<(String, Uid), JobPods>,
    /// By namespace: those that nothing controls, which a Job adopts if it selects them.
    free: BTreeMap<String, JobPods>,
    none: JobPods,
}

impl PodsOfJobs {
    /// Adds a pod.
    pub fn add(&mut self, object: &Value) {
        let meta = &object["metadata"];
        let namespace = text(&meta["namespace"]).to_owned();
        let mut references = list(&meta["ownerReferences"]);
        let pods = match references.find(|one| one["controller"] == true) {
            None => self.free.entry(namespace).or_default(),
            Some(controller) => {
                let is_job = controller["apiVersion"] == JOB.0 && controller["kind"] == JOB.1;
                let Some(uid) = text(&controller["uid"]).parse().ok().filter(|_| is_job) else {
                    return;
                };
                self.owned.entry((namespace, uid)).or_default()
            }
        };
        if let Some(pod) = job_pod(object) {
            pods.insert(text(&meta["name"]).into(), pod);
        }
    }

    /// Those that a Job controls.
    pub fn owned(&self, job: &ObjectKey) -> &JobPods {
        let pods = self.owned.get(&(job.namespace.clone(), job.uid));
        pods.unwrap_or(&self.none)
    }

    /// Those of a namespace that nothing controls.
    pub fn free(&self, namespace: &str) -> &JobPods {
        self.free.get(namespace).unwrap_or(&self.none)
    }
}

/// Reads a pod as the operator does, whose tests compare the two. `None` without a uid.
pub fn job_pod(object: &Value) -> Option<JobPod> {
    let (meta, status) = (&object["metadata"], &object["status"]);
    let phase = PodPhase::read(text(&status["phase"]));
    let deleting = meta["deletionTimestamp"].is_string();
    let labels = entries(&meta["labels"]);
    let labels = labels.filter_map(|(key, value)| Some((key.into(), value.as_str()?.into())));
    let annotation = |key: &str| number(text(&meta["annotations"][key]));
    let count = |key| annotation(key).and_then(|count| i32::try_from(count).ok());
    let count = |key| count(key).map_or(0, i32::unsigned_abs);
    let mut finalizers = list(&meta["finalizers"]);
    let since = |ready: &Value| time(&ready["lastTransitionTime"]).unwrap_or(Timestamp::MAX);
    Some(JobPod {
        uid: text(&meta["uid"]).parse().ok()?,
        rv: version(meta),
        phase,
        tracked: finalizers.any(|finalizer| finalizer == FINALIZER_JOB_TRACKING),
        deleting,
        assigned: !text(&object["spec"]["nodeName"]).is_empty(),
        ready: ready(status)
            .filter(|ready| ready["status"] == "True")
            .map(since),
        created: time(&meta["creationTimestamp"]).unwrap_or_default(),
        index: annotation(INDEX).and_then(|index| index.try_into().ok()),
        failures: count(FAILURES),
        ignored_failures: count(IGNORED_FAILURES),
        restarts: restarts(object),
        finished: (phase.has_ended() || deleting).then(|| finished(object)),
        labels: labels.collect(),
        failure: (phase == PodPhase::Failed).then(|| Arc::new(failure(status))),
    })
}

fn number(text: &str) -> Option<i64> {
    text.parse().ok().filter(|number| *number >= 0)
}

fn time(value: &Value) -> Option<Timestamp> {
    text(value).parse().ok()
}

fn ready(status: &Value) -> Option<&Value> {
    let mut conditions = list(&status["conditions"]);
    conditions.find(|condition| condition["type"] == "Ready")
}

/// Init containers that go on beside the others.
fn sidecars(object: &Value) -> impl Iterator<Item = &Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    list(&status["initContainerStatuses"]).filter(|container| {
        let mut all = list(&spec["initContainers"]);
        all.any(|one| one["name"] == container["name"] && one["restartPolicy"] == "Always")
    })
}

fn restarts(object: &Value) -> Restarts {
    let status = &object["status"];
    let of = |container: &Value| {
        let count = container["restartCount"].as_i64().unwrap_or(0);
        i32::try_from(count).unwrap_or(i32::MAX)
    };
    let containers = || list(&status["containerStatuses"]);
    let all = containers().chain(list(&status["initContainerStatuses"]));
    Restarts {
        most: containers().map(of).max().unwrap_or(0),
        most_of_sidecars: sidecars(object).map(of).max().unwrap_or(0),
        sum: all.map(|container| i64::from(of(container))).sum(),
    }
}

/// When it ended, or as near as can be told: its last container, or it was no longer ready, or it was deleted, or it
/// was created.
fn finished(object: &Value) -> Timestamp {
    let (meta, status) = (&object["metadata"], &object["status"]);
    let containers = latest(None, list(&status["containerStatuses"]));
    let containers = latest(containers, sidecars(object));
    let unready = || {
        let ready = ready(status).filter(|ready| ready["status"] == "False")?;
        time(&ready["lastTransitionTime"])
    };
    let deleted = || {
        let due = time(&meta["deletionTimestamp"])?;
        let grace_seconds = meta["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
        Some(Deletion { due, grace_seconds }.asked())
    };
    let found = containers.or_else(unready).or_else(deleted);
    found
        .or_else(|| time(&meta["creationTimestamp"]))
        .unwrap_or_default()
}

/// The latest end of `containers` and of those before; `None` where one has not ended.
fn latest<'a>(
    before: Option<Timestamp>,
    mut containers: impl Iterator<Item = &'a Value>,
) -> Option<Timestamp> {
    containers.try_fold(before, |latest, container| {
        let end = time(&container["state"]["terminated"]["finishedAt"]);
        end.map(|end| latest.max(Some(end)))
    })?
}

/// What the rules of a pod failure policy judge.
fn failure(status: &Value) -> Failure {
    let containers = list(&status["containerStatuses"]);
    let exits = containers.chain(list(&status["initContainerStatuses"]));
    let exits = exits.filter_map(|container| {
        let ended = container["state"]["terminated"].as_object()?;
        let code = ended.get("exitCode").and_then(Value::as_i64).unwrap_or(0);
        Some((
            text(&container["name"]).into(),
            i32::try_from(code).unwrap_or(i32::MAX),
        ))
    });
    let conditions = list(&status["conditions"]);
    let conditions = conditions.map(|one| (text(&one["type"]).into(), text(&one["status"]).into()));
    Failure {
        exits: exits.collect(),
        conditions: conditions.collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pods_are_known_by_the_job_that_controls_them_or_by_their_namespace_when_nothing_does() {
        let uid = |n: u32| format!("4e0c5d6a-0b1c-4d2e-8f3a-{n:012x}");
        let pod = |name: &str, owner: &Value| json!({"metadata": {"namespace": "ops", "name": name, "uid": uid(9), "ownerReferences": [owner]}});
        let job =
            json!({"apiVersion": "batch/v1", "kind": "Job", "uid": uid(1), "controller": true});
        let mut other = job.clone();
        other["apiVersion"] = json!("batch.example.com/v1");
        let mut mentioned = job.clone();
        mentioned["controller"] = json!(false);
        let mut pods = PodsOfJobs::default();
        for (name, owner) in [("own", &job), ("others", &other), ("free", &mentioned)] {
            pods.add(&pod(name, owner));
        }
        let names = |pods: &JobPods| pods.keys().map(ToString::to_string).collect::<Vec<_>>();
        let key = |namespace: &str| ObjectKey::of(JOB, namespace, "sum", uid(1).parse().unwrap());
        assert_eq!(names(pods.owned(&key("ops"))), ["own"]);
        assert_eq!(names(pods.owned(&key("elsewhere"))), [""; 0]);
        assert_eq!(names(pods.free("ops")), ["free"]);
    }
}
