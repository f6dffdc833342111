//! Small histories of a Job of batch/v1, told step by step, for tests of the invariants.

use serde_json::{Value, json};

use super::object::{INDEX, JOBS, TRACKING};
use crate::object::PODS;
use crate::scene::Scene;

/// Uid of the Job of every scene.
const SUM_UID: &str = "sum-uid";
/// Its name.
const SUM: &str = "sum";

fn pod_name(n: i64) -> String {
    format!("sum-{n}")
}

/// Uid of the n-th pod.
pub(crate) fn pod_uid(n: i64) -> String {
    format!("sum-pod-{n}")
}

/// The Job, and its first pod.
pub(crate) fn begun() -> Scene {
    Scene::new().sum(json!({})).sum_starts(1)
}

impl Scene {
    /// The Job `sum` of two pods, with these fields besides.
    #[allow(clippy::needless_pass_by_value)] // reads better with json!
    pub(crate) fn sum(self, fields: Value) -> Self {
        let mut spec = json!({
            "parallelism": 2, "completions": 2, "backoffLimit": 6, "completionMode": "NonIndexed",
            "managedBy": "carillon.dev/job-controller",
            "template": {
                "metadata": {"labels": {"app": "sum"}, "annotations": {"why": "add"}},
                "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "sum:1",
                    "env": [{"name": "TOKEN", "value": "hunter2-secret"}]}]},
            },
        });
        for (key, value) in fields.as_object().unwrap() {
            spec[key] = value.clone();
        }
        let job = json!({
            "apiVersion": "batch/v1", "kind": "Job", "spec": spec, "status": {},
            "metadata": {"name": SUM, "namespace": "ops", "uid": SUM_UID, "generation": 1},
        });
        let user = self.step("kubectl", "create", (JOBS, SUM), Some(job), None);
        let now = user.now().to_string();
        user.sum_status(|status| status["startTime"] = json!(now))
    }

    /// Its user changes it.
    pub(crate) fn edit_sum(self, change: impl FnOnce(&mut Value)) -> Self {
        self.edit("kubectl", (JOBS, SUM), change)
    }

    pub(crate) fn remove_sum(self, agent: &str) -> Self {
        let body = json!({"preconditions": {"uid": SUM_UID}});
        self.step(agent, "delete", (JOBS, SUM), None, Some(body))
    }

    /// Writes its status, as the operator does.
    pub(crate) fn sum_status(self, change: impl FnOnce(&mut Value)) -> Self {
        let mut job = self.object(JOBS, SUM);
        change(&mut job["status"]);
        let body = json!({"metadata": {"resourceVersion": "7"}, "status": job["status"]});
        self.step("carillon", "patch", (JOBS, SUM), Some(job), Some(body))
    }

    /// The n-th pod, as the operator creates it.
    pub(crate) fn sum_pod(&self, n: i64, index: Option<i64>) -> Value {
        let job = self.object(JOBS, SUM);
        let template = &job["spec"]["template"];
        let mut meta = template["metadata"].clone();
        meta["name"] = json!(pod_name(n));
        meta["namespace"] = json!("ops");
        meta["uid"] = json!(pod_uid(n));
        meta["finalizers"] = json!([TRACKING]);
        meta["ownerReferences"] = json!([{"apiVersion": "batch/v1", "kind": "Job", "name": SUM,
            "uid": SUM_UID, "controller": true, "blockOwnerDeletion": true}]);
        let mut spec = template["spec"].clone();
        if let Some(index) = index {
            meta["labels"][INDEX] = json!(index.to_string());
            meta["annotations"][INDEX] = json!(index.to_string());
            spec["hostname"] = json!(format!("{SUM}-{index}"));
            let path = format!("metadata.labels['{INDEX}']");
            let variable = json!({"name": "JOB_COMPLETION_INDEX",
                "valueFrom": {"fieldRef": {"fieldPath": path}}});
            let variables = spec["containers"][0]["env"].as_array_mut();
            variables.unwrap().push(variable);
        }
        json!({"metadata": meta, "spec": spec, "status": {"phase": "Pending"}})
    }

    pub(crate) fn make_sum_pod(self, pod: Value) -> Self {
        let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
        self.step("carillon", "create", (PODS, &name), Some(pod), None)
    }

    /// The n-th pod is created.
    pub(crate) fn sum_starts(self, n: i64) -> Self {
        let pod = self.sum_pod(n, None);
        self.make_sum_pod(pod)
    }

    /// The n-th pod is created, for an index.
    pub(crate) fn sum_starts_index(self, n: i64, index: i64) -> Self {
        let pod = self.sum_pod(n, Some(index));
        self.make_sum_pod(pod)
    }

    /// The n-th pod comes to a phase.
    pub(crate) fn sum_phase(self, n: i64, phase: &str) -> Self {
        let now = self.now().to_string();
        self.edit("kubelet", (PODS, &pod_name(n)), |pod| {
            pod["status"]["phase"] = json!(phase);
            let code = i64::from(phase != "Succeeded");
            if phase != "Running" {
                pod["status"]["containerStatuses"] = json!([{"name": "c", "state": {
                    "terminated": {"exitCode": code, "finishedAt": now}}}]);
            }
        })
    }

    /// Somebody tells the n-th pod to stop.
    pub(crate) fn sum_stops(self, agent: &str, n: i64) -> Self {
        let mut pod = self.object(PODS, &pod_name(n));
        pod["metadata"]["deletionTimestamp"] = json!(self.now().to_string());
        let body = json!({"preconditions": {"uid": pod_uid(n)}});
        self.step(agent, "delete", (PODS, &pod_name(n)), Some(pod), Some(body))
    }

    /// The status lists the n-th pod.
    pub(crate) fn sum_lists(self, n: i64, list: &str) -> Self {
        self.sum_status(|status| {
            let uids = &mut status["uncountedTerminatedPods"][list];
            if uids.is_null() {
                *uids = json!([]);
            }
            uids.as_array_mut().unwrap().push(json!(pod_uid(n)));
        })
    }

    /// The n-th pod loses the finalizer, and goes if it was told to.
    pub(crate) fn sum_frees(self, n: i64) -> Self {
        let mut pod = self.object(PODS, &pod_name(n));
        pod["metadata"]["finalizers"] = json!([]);
        let body = json!({"metadata": {"uid": pod_uid(n)}});
        let stays = pod["metadata"].get("deletionTimestamp").is_none();
        let new = stays.then_some(pod);
        self.step("carillon", "patch", (PODS, &pod_name(n)), new, Some(body))
    }

    /// The uid of the n-th pod becomes a count.
    pub(crate) fn sum_counts(self, n: i64, list: &str) -> Self {
        self.sum_status(|status| {
            let uids = status["uncountedTerminatedPods"][list].as_array_mut();
            uids.unwrap().retain(|uid| *uid != pod_uid(n));
            status[list] = json!(status[list].as_i64().unwrap_or(0) + 1);
        })
    }

    /// The n-th pod from its creation to its count.
    pub(crate) fn sum_ran(self, n: i64) -> Self {
        self.sum_starts(n).sum_ended(n, "Succeeded", "succeeded")
    }

    /// The n-th pod runs, ends, and is counted.
    pub(crate) fn sum_ended(self, n: i64, phase: &str, list: &str) -> Self {
        let ended = self.sum_phase(n, "Running").sum_phase(n, phase);
        ended.sum_lists(n, list).sum_frees(n).sum_counts(n, list)
    }

    /// A pod for an index, from its creation to its count.
    pub(crate) fn sum_ran_index(self, n: i64, index: i64, all: &str) -> Self {
        let ended = self.sum_starts_index(n, index).sum_phase(n, "Succeeded");
        let listed = ended.sum_status(|status| {
            status["completedIndexes"] = json!(all);
            status["succeeded"] = json!(status["succeeded"].as_i64().unwrap_or(0) + 1);
        });
        listed.sum_frees(n)
    }

    /// The Job ends, with the condition that comes before.
    pub(crate) fn sum_is(self, interim: &str, end: &str, reason: &str) -> Self {
        let now = self.now().to_string();
        self.sum_status(|status| {
            let on = |type_: &str| {
                json!({"type": type_, "status": "True", "reason": reason, "lastTransitionTime": now})
            };
            let mut conditions = vec![on(interim)];
            if !end.is_empty() {
                conditions.push(on(end));
            }
            status["conditions"] = json!(conditions);
            if end == "Complete" {
                status["completionTime"] = json!(now);
            }
        })
    }

    pub(crate) fn sum_completes(self) -> Self {
        self.sum_is("SuccessCriteriaMet", "Complete", "CompletionsReached")
    }

    /// Two pods, one after the other, without a fault.
    pub(crate) fn summed() -> Self {
        let begun = Self::new().sum(json!({}));
        begun.sum_ran(1).sum_ran(2).sum_completes()
    }
}
