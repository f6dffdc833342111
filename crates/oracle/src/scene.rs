//! Small histories, told step by step, for tests of the invariants.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::broadcast_job::world::State;
use crate::check::check;
use crate::history::{History, Key, Request, Step};
use crate::invariant::Invariant;
use crate::object::{EVENTS, FINALIZER, JOBS, NODES, PODS, SLICES};
use crate::verdict::{Assumptions, Checked, Violation};

/// Uid of the job of every scene.
pub(crate) const JOB: &str = "job-uid";
const SLICE: &str = "fix-results-0";

/// A history of one job, `fix` in namespace `ops`, that is being written.
#[derive(Clone)]
pub(crate) struct Scene {
    steps: Vec<Step>,
    state: State,
    now: Timestamp,
    author: Option<Arc<Request>>,
}

/// Name of the pod of an attempt.
pub(crate) fn pod_name(node: &str, attempt: i64) -> String {
    format!("fix-{node}-{attempt}")
}

fn request(agent: &str, verb: &str, key: &Key, body: Option<Value>) -> Arc<Request> {
    let (plural, group) = key.resource.split_once('.').unwrap_or((&key.resource, ""));
    let base = match group {
        "" => "/api/v1".to_owned(),
        group => format!("/apis/{group}/v1alpha1"),
    };
    let status = if body
        .as_ref()
        .is_some_and(|body| body.get("status").is_some())
    {
        "/status"
    } else {
        ""
    };
    let name = &key.name;
    Arc::new(Request {
        user: agent.to_owned(),
        agent: format!("{agent}/1"),
        verb: verb.to_owned(),
        uri: format!(
            "{base}/namespaces/{}/{plural}/{name}{status}",
            key.namespace
        ),
        body,
    })
}

impl Scene {
    pub(crate) fn new() -> Self {
        Self {
            steps: Vec::new(),
            state: State::new(),
            now: "2026-01-01T00:00:00Z".parse().unwrap(),
            author: None,
        }
    }

    /// The next step is this client's, with this verb and no body.
    pub(crate) fn by(mut self, agent: &str, verb: &str) -> Self {
        let key = Key {
            resource: "unknown".into(),
            namespace: "ops".into(),
            name: "unknown".into(),
        };
        self.author = Some(request(agent, verb, &key, None));
        self
    }

    /// Time passes.
    pub(crate) fn later(mut self, seconds: i64) -> Self {
        self.now += SignedDuration::from_secs(seconds);
        self
    }

    /// It is this time of the first day, or later.
    pub(crate) fn at(mut self, time: &str) -> Self {
        let time: Timestamp = format!("2026-01-01T{time}Z").parse().unwrap();
        self.now = self.now.max(time - SignedDuration::from_secs(1));
        self
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.now
    }

    pub(crate) fn history(&self) -> History {
        History {
            steps: self.steps.clone(),
        }
    }

    fn key(resource: &str, name: &str) -> Key {
        let namespace = if resource == NODES { "" } else { "ops" };
        Key {
            resource: resource.into(),
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// The object as it is, to be changed.
    pub(crate) fn object(&self, resource: &str, name: &str) -> Value {
        let object = self.state.get(&Self::key(resource, name));
        object.map_or(Value::Null, |object| (**object).clone())
    }

    /// One step.
    pub(crate) fn step(
        mut self,
        agent: &str,
        verb: &str,
        (resource, name): (&str, &str),
        new: Option<Value>,
        body: Option<Value>,
    ) -> Self {
        let key = Self::key(resource, name);
        self.now += SignedDuration::from_secs(1);
        let new = new.map(Arc::new);
        let old = match &new {
            Some(object) => self.state.insert(key.clone(), object.clone()),
            None => self.state.remove(&key),
        };
        let by = self.author.take();
        self.steps.push(Step {
            rev: self.steps.len() as u64 + 1,
            at: self.now,
            old,
            new,
            by: Some(by.unwrap_or_else(|| request(agent, verb, &key, body))),
            key,
        });
        self
    }

    /// An object of another namespace is made.
    pub(crate) fn in_namespace(mut self, namespace: &str, agent: &str, object: Value) -> Self {
        self.now += SignedDuration::from_secs(1);
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
        let key = Key {
            resource: PODS.into(),
            namespace: namespace.into(),
            name: text("name").into(),
        };
        self.steps.push(Step {
            rev: self.steps.len() as u64 + 1,
            at: self.now,
            old: None,
            by: Some(request(agent, "create", &key, None)),
            key,
            new: Some(object.into()),
        });
        self
    }

    /// One step by nobody knows whom.
    pub(crate) fn nobody(mut self) -> Self {
        self.steps.last_mut().unwrap().by = None;
        self
    }

    /// Changes an object.
    pub(crate) fn edit(
        self,
        agent: &str,
        (resource, name): (&str, &str),
        change: impl FnOnce(&mut Value),
    ) -> Self {
        let mut object = self.object(resource, name);
        change(&mut object);
        self.step(agent, "patch", (resource, name), Some(object), None)
    }

    /// Removes an object.
    pub(crate) fn remove(self, agent: &str, (resource, name): (&str, &str)) -> Self {
        self.step(agent, "delete", (resource, name), None, None)
    }

    pub(crate) fn node(self, name: &str) -> Self {
        self.node_with_uid(name, &format!("uid-{name}"))
    }

    pub(crate) fn node_with_uid(self, name: &str, uid: &str) -> Self {
        let node = json!({"metadata": {"name": name, "uid": uid}, "spec": {},
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi"}}});
        self.step("kubelet", "create", (NODES, name), Some(node), None)
    }

    pub(crate) fn cordon(self, name: &str, on: bool) -> Self {
        self.edit("kubectl", (NODES, name), |node| {
            node["spec"]["unschedulable"] = json!(on);
        })
    }

    /// The job, with these fields besides the template.
    #[allow(clippy::needless_pass_by_value)] // reads better with json!
    pub(crate) fn job(self, fields: Value) -> Self {
        let mut spec = json!({"template": {
            "metadata": {"labels": {"app": "fix"}, "annotations": {"why": "patch"}},
            "spec": {"restartPolicy": "OnFailure", "containers": [
                {"name": "c", "image": "fix:1", "env": [{"name": "TOKEN", "value": "hunter2-secret"}]}]}}});
        for (key, value) in fields.as_object().unwrap() {
            spec[key] = value.clone();
        }
        let job = json!({
            "apiVersion": "carillon.dev/v1alpha1", "kind": "BroadcastJob",
            "metadata": {"name": "fix", "namespace": "ops", "uid": JOB, "generation": 1},
            "spec": spec,
        });
        self.step("kubectl", "create", (JOBS, "fix"), Some(job), None)
    }

    fn owned(name: &str, uid: &str) -> Value {
        json!({"name": name, "namespace": "ops", "uid": uid,
            "labels": {"carillon.dev/broadcastjob-name": "fix", "carillon.dev/broadcastjob-uid": JOB},
            "ownerReferences": [{"apiVersion": "carillon.dev/v1alpha1", "kind": "BroadcastJob",
                "name": "fix", "uid": JOB, "controller": true}]})
    }

    /// Changes the slice, as the operator does.
    pub(crate) fn slice(self, change: impl FnOnce(&mut Value)) -> Self {
        let mut slice = self.object(SLICES, SLICE);
        let verb = if slice.is_null() {
            slice = json!({"metadata": Self::owned(SLICE, "slice-uid"), "sealed": false, "results": []});
            slice["metadata"]["labels"]["carillon.dev/slice-index"] = json!("0");
            "create"
        } else {
            "patch"
        };
        change(&mut slice);
        let body = json!({"metadata": {"resourceVersion": "7"}, "results": slice["results"]});
        self.step("carillon", verb, (SLICES, SLICE), Some(slice), Some(body))
    }

    pub(crate) fn reserve(self, node: &str, attempt: i64) -> Self {
        let uid = &self.object(NODES, node)["metadata"]["uid"];
        let record = json!({"nodeName": node, "nodeUID": uid, "attempt": attempt, "state": "Started",
            "podName": pod_name(node, attempt)});
        self.slice(|slice| slice["results"].as_array_mut().unwrap().push(record))
    }

    /// Changes the record of an attempt.
    pub(crate) fn record(self, node: &str, attempt: i64, change: impl FnOnce(&mut Value)) -> Self {
        self.slice(|slice| {
            let records = slice["results"].as_array_mut().unwrap();
            let record = records
                .iter_mut()
                .find(|r| r["podName"] == pod_name(node, attempt));
            change(record.unwrap());
        })
    }

    /// The end of an attempt is recorded, with the uid of its pod.
    pub(crate) fn ended(self, node: &str, attempt: i64, state: &str, reason: &str) -> Self {
        self.record(node, attempt, |record| {
            record["state"] = json!(state);
            record["podUID"] = json!(format!("pod-{node}-{attempt}"));
            record["reason"] = json!(reason);
        })
    }

    /// The pod the operator creates.
    pub(crate) fn pod(&self, node: &str, attempt: i64) -> Value {
        let mut metadata = Self::owned(&pod_name(node, attempt), &format!("pod-{node}-{attempt}"));
        metadata["finalizers"] = json!([FINALIZER]);
        metadata["creationTimestamp"] = json!(self.now.to_string());
        metadata["labels"]["app"] = json!("fix");
        metadata["annotations"] = json!({"why": "patch"});
        let mut spec = self.object(JOBS, "fix")["spec"]["template"]["spec"].clone();
        spec["affinity"] = json!({"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]}}});
        spec["containers"][0]["terminationMessagePolicy"] = json!("FallbackToLogsOnError");
        json!({"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}})
    }

    pub(crate) fn create(self, node: &str, attempt: i64) -> Self {
        let pod = self.pod(node, attempt);
        self.create_pod(pod)
    }

    pub(crate) fn create_pod(self, pod: Value) -> Self {
        let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
        self.step("carillon", "create", (PODS, &name), Some(pod), None)
    }

    pub(crate) fn bind(self, node: &str, attempt: i64) -> Self {
        let name = pod_name(node, attempt);
        self.edit("scheduler", (PODS, &name), |pod| {
            pod["spec"]["nodeName"] = json!(node);
        })
    }

    pub(crate) fn phase(self, node: &str, attempt: i64, phase: &str) -> Self {
        let name = pod_name(node, attempt);
        self.edit("kubelet", (PODS, &name), |pod| {
            pod["status"]["phase"] = json!(phase);
        })
    }

    /// Somebody deletes the pod; its finalizer keeps it.
    pub(crate) fn delete_pod(self, agent: &str, node: &str, attempt: i64) -> Self {
        let name = pod_name(node, attempt);
        let mut pod = self.object(PODS, &name);
        pod["metadata"]["deletionTimestamp"] = json!(self.now.to_string());
        let body = json!({"preconditions": {
            "uid": pod["metadata"]["uid"], "resourceVersion": "7"}});
        self.step(agent, "delete", (PODS, &name), Some(pod), Some(body))
    }

    /// The operator takes its finalizer off; a pod that is being deleted goes.
    pub(crate) fn release(self, node: &str, attempt: i64) -> Self {
        let name = pod_name(node, attempt);
        let mut pod = self.object(PODS, &name);
        pod["metadata"]["finalizers"] = json!([]);
        let body = json!({"metadata": {"uid": pod["metadata"]["uid"]}});
        let new = pod["metadata"]
            .get("deletionTimestamp")
            .is_none()
            .then_some(pod);
        self.step("carillon", "patch", (PODS, &name), new, Some(body))
    }

    /// Writes the job's status.
    pub(crate) fn status(self, change: impl FnOnce(&mut Value)) -> Self {
        let mut job = self.object(JOBS, "fix");
        change(&mut job["status"]);
        let body = json!({"metadata": {"resourceVersion": "7"}, "status": job["status"]});
        self.step("carillon", "patch", (JOBS, "fix"), Some(job), Some(body))
    }

    /// Counts, as a status has them.
    pub(crate) fn counts(self, succeeded: i64, failed: i64) -> Self {
        let now = self.now.to_string();
        self.status(|status| {
            status["succeeded"] = json!(succeeded);
            status["failed"] = json!(failed);
            if status["startTime"].is_null() {
                status["startTime"] = json!(now);
            }
        })
    }

    pub(crate) fn seal(self) -> Self {
        self.slice(|slice| slice["sealed"] = json!(true))
    }

    /// The job ends, with these counts.
    pub(crate) fn end(self, condition: &str, reason: &str, succeeded: i64, failed: i64) -> Self {
        let now = self.now.to_string();
        self.status(|status| {
            status["succeeded"] = json!(succeeded);
            status["failed"] = json!(failed);
            if status["startTime"].is_null() {
                status["startTime"] = json!(now);
            }
            status["completionTime"] = json!(now);
            let mut conditions = status["conditions"].as_array().cloned().unwrap_or_default();
            conditions.push(json!({"type": condition, "status": "True", "reason": reason}));
            if condition == "Failed" {
                conditions.retain(|condition| condition["type"] != "Stalled");
                conditions.push(json!({"type": "Stalled", "status": "True", "reason": reason}));
            }
            status["conditions"] = json!(conditions);
        })
    }

    /// A condition is set.
    pub(crate) fn condition(self, type_: &str, status: &str, reason: &str) -> Self {
        self.status(|of| {
            let mut conditions = of["conditions"].as_array().cloned().unwrap_or_default();
            conditions.retain(|condition| condition["type"] != type_);
            conditions.push(json!({"type": type_, "status": status, "reason": reason}));
            of["conditions"] = json!(conditions);
        })
    }

    /// An attempt from its reservation to the release of its pod.
    pub(crate) fn succeed(self, node: &str, attempt: i64) -> Self {
        self.reserve(node, attempt)
            .create(node, attempt)
            .bind(node, attempt)
            .phase(node, attempt, "Running")
            .phase(node, attempt, "Succeeded")
            .ended(node, attempt, "Succeeded", "")
            .release(node, attempt)
    }

    /// An event of the operator.
    pub(crate) fn event(self, note: &str) -> Self {
        let event = json!({"metadata": {"name": "e", "uid": "e-uid"}, "note": note,
            "reportingController": "carillon.dev/broadcastjob-controller",
            "regarding": {"kind": "BroadcastJob", "name": "fix", "uid": JOB}});
        self.step("carillon", "create", (EVENTS[0], "e"), Some(event), None)
    }

    /// Two nodes, one after the other, without a fault.
    pub(crate) fn good() -> Self {
        Self::new()
            .node("n1")
            .node("n2")
            .job(json!({"parallelism": 1}))
            .succeed("n1", 1)
            .counts(1, 0)
            .succeed("n2", 1)
            .seal()
            .end("Complete", "AllNodesSucceeded", 2, 0)
            .status(|status| status["observedGeneration"] = json!(1))
    }
}

/// Nothing is put up with.
pub(crate) fn strict() -> Assumptions {
    Assumptions::default()
}

/// The run is over: what was to come to pass must have.
pub(crate) fn over() -> Assumptions {
    Assumptions {
        over: true,
        ..Assumptions::default()
    }
}

/// The invariant holds, and was put to the test.
#[track_caller]
pub(crate) fn holds(invariant: Invariant, scene: &Scene, assumptions: &Assumptions) -> Checked {
    let checked = check(invariant, &scene.history(), assumptions).unwrap_or_else(|v| panic!("{v}"));
    assert!(checked.evaluations > 0, "{invariant:?} was not evaluated");
    checked
}

/// The invariant does not hold, first at the last step, for a reason that contains `what`.
#[track_caller]
pub(crate) fn breaks(
    invariant: Invariant,
    scene: &Scene,
    assumptions: &Assumptions,
    what: &str,
) -> Violation {
    let history = scene.history();
    let verdict = check(invariant, &history, assumptions);
    let violation = *verdict.expect_err("the invariant should not hold");
    let last = history.steps.last().unwrap();
    assert_eq!(violation.rev, last.rev, "{violation}");
    assert!(violation.what.contains(what), "{violation}");
    violation
}
