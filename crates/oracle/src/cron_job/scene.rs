//! Small histories of a CronJob, told step by step, for tests of the invariants.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::object::{CRONS, HOLD, JOBS_OF_BATCH, RUN_NOW, SCHEDULED, name_for};
use crate::object::JOBS;
use crate::scene::Scene;

/// Uid of the CronJob of every scene.
pub(crate) const CRON: &str = "cron-uid";
/// Its name.
pub(crate) const NIGHT: &str = "night";

/// A minute of the first day, as a tick.
pub(crate) fn tick(minute: i64) -> Timestamp {
    let begin: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    Timestamp::from_second(begin.as_second() + 60 * minute).unwrap()
}

/// Name of the child for a minute.
pub(crate) fn run_name(minute: i64) -> String {
    name_for(NIGHT, tick(minute))
}

fn run_uid(minute: i64) -> String {
    format!("run-{minute}")
}

fn clock(minute: i64) -> String {
    tick(minute).to_string()[11..19].to_owned()
}

fn template() -> Value {
    json!({
        "metadata": {"labels": {"app": "tidy"}, "annotations": {"why": "dust"}},
        "spec": {"backoffLimit": 2, "template": {"spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "c", "image": "tidy:1",
                "env": [{"name": "TOKEN", "value": "hunter2-secret"}]}]}}},
    })
}

impl Scene {
    /// The CronJob `night`, of our own kind: every five minutes, with these fields besides.
    #[allow(clippy::needless_pass_by_value)] // reads better with json!
    pub(crate) fn cron(self, fields: Value) -> Self {
        self.cron_of(CRONS[0], &fields)
    }

    /// The same, of a kind.
    pub(crate) fn cron_of(self, resource: &str, fields: &Value) -> Self {
        let mut spec = json!({
            "schedule": "*/5 * * * *", "concurrencyPolicy": "Allow",
            "successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1,
            "jobTemplate": template(),
        });
        for (key, value) in fields.as_object().unwrap() {
            spec[key] = value.clone();
        }
        let version = if resource == CRONS[0] {
            "carillon.dev/v1alpha1"
        } else {
            "batch/v1"
        };
        let cron = json!({
            "apiVersion": version, "kind": "CronJob",
            "metadata": {"name": NIGHT, "namespace": "ops", "uid": CRON, "generation": 1,
                "creationTimestamp": self.now().to_string()},
            "spec": spec,
        });
        self.step("kubectl", "create", (resource, NIGHT), Some(cron), None)
    }

    /// The resource of the CronJob that is there.
    fn cron_resource(&self) -> &'static str {
        let there = |resource: &&&str| !self.object(resource, NIGHT).is_null();
        CRONS.iter().find(there).unwrap_or(&CRONS[0])
    }

    /// Changes the CronJob as a user does.
    pub(crate) fn edit_cron(self, change: impl FnOnce(&mut Value)) -> Self {
        let resource = self.cron_resource();
        self.edit("kubectl", (resource, NIGHT), change)
    }

    pub(crate) fn remove_cron(self, agent: &str) -> Self {
        let resource = self.cron_resource();
        self.remove(agent, (resource, NIGHT))
    }

    /// Writes its status, as the operator does.
    pub(crate) fn cron_status(self, change: impl FnOnce(&mut Value)) -> Self {
        let resource = self.cron_resource();
        let mut cron = self.object(resource, NIGHT);
        change(&mut cron["status"]);
        let body = json!({"metadata": {"resourceVersion": "7"}, "status": cron["status"]});
        self.step(
            "carillon",
            "patch",
            (resource, NIGHT),
            Some(cron),
            Some(body),
        )
    }

    /// The status names a child that is to be created.
    pub(crate) fn promise_name(self, name: &str) -> Self {
        let reference =
            json!({"apiVersion": "batch/v1", "kind": "Job", "namespace": "ops", "name": name});
        self.cron_status(|status| {
            if status["active"].is_null() {
                status["active"] = json!([]);
            }
            status["active"].as_array_mut().unwrap().push(reference);
        })
    }

    /// The time of a minute comes, and its run is promised.
    pub(crate) fn promise(self, minute: i64) -> Self {
        self.at(&clock(minute)).promise_name(&run_name(minute))
    }

    /// The child for a minute.
    pub(crate) fn run(&self, minute: i64) -> Value {
        let cron = self.object(self.cron_resource(), NIGHT);
        let template = &cron["spec"]["jobTemplate"];
        let mut meta = template["metadata"].clone();
        meta["name"] = json!(run_name(minute));
        meta["namespace"] = json!("ops");
        meta["uid"] = json!(run_uid(minute));
        meta["finalizers"] = json!([HOLD]);
        meta["annotations"][SCHEDULED] = json!(tick(minute).to_string());
        meta["ownerReferences"] = json!([{
            "apiVersion": cron["apiVersion"], "kind": "CronJob", "name": NIGHT, "uid": CRON,
            "controller": true, "blockOwnerDeletion": true,
        }]);
        let mut spec = template["spec"].clone();
        if self.cron_resource() == CRONS[0] {
            spec["template"]["metadata"]["annotations"][SCHEDULED] =
                json!(tick(minute).to_string());
        }
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec})
    }

    /// The child for a request, which says when that was seen.
    pub(crate) fn asked_run(&self, request: &str) -> Value {
        let mut run = self.run(0);
        let meta = &mut run["metadata"];
        meta["name"] = json!(format!("{NIGHT}-r{request}"));
        meta["uid"] = json!(format!("run-{request}"));
        let annotations = meta["annotations"].as_object_mut().unwrap();
        annotations.insert(RUN_NOW.to_owned(), json!(request));
        run
    }

    /// A user asks for a run, which is promised.
    pub(crate) fn ask(self, request: &str) -> Self {
        let asked = self.edit_cron(|cron| {
            let value = format!("{}/{request}", cron["metadata"]["uid"].as_str().unwrap());
            cron["metadata"]["annotations"] = json!({RUN_NOW: value});
        });
        asked.promise_name(&format!("{NIGHT}-r{request}"))
    }

    pub(crate) fn create_run(self, run: Value) -> Self {
        let name = run["metadata"]["name"].as_str().unwrap().to_owned();
        let place = (JOBS_OF_BATCH, &*name);
        self.step("carillon", "create", place, Some(run.clone()), Some(run))
    }

    /// The promised child is created.
    pub(crate) fn start(self, minute: i64) -> Self {
        let run = self.run(minute);
        self.create_run(run)
    }

    /// The status gets the uid of the child.
    pub(crate) fn confirm(self, minute: i64) -> Self {
        self.cron_status(|status| {
            let active = status["active"].as_array_mut().unwrap();
            let reference = active.iter_mut().find(|r| r["name"] == run_name(minute));
            reference.unwrap()["uid"] = json!(run_uid(minute));
            status["lastScheduleTime"] = json!(tick(minute).to_string());
        })
    }

    /// The child is no longer held; one that is being deleted goes.
    pub(crate) fn release_run(self, minute: i64) -> Self {
        let name = run_name(minute);
        let mut run = self.object(JOBS_OF_BATCH, &name);
        run["metadata"]["finalizers"] = json!([]);
        let body = json!({"metadata": {"uid": run["metadata"]["uid"]}});
        let stays = run["metadata"].get("deletionTimestamp").is_none();
        let new = stays.then_some(run);
        self.step("carillon", "patch", (JOBS_OF_BATCH, &name), new, Some(body))
    }

    /// The child ends.
    pub(crate) fn end_run(self, minute: i64, condition: &str) -> Self {
        let now = self.now().to_string();
        self.edit(
            "kube-controller-manager",
            (JOBS_OF_BATCH, &run_name(minute)),
            |run| {
                run["status"] = json!({"conditions": [{"type": condition, "status": "True"}]});
                if condition == "Complete" {
                    run["status"]["completionTime"] = json!(now);
                }
            },
        )
    }

    /// The status no longer has a child that has ended.
    pub(crate) fn settle(self, minute: i64) -> Self {
        let run = self.object(JOBS_OF_BATCH, &run_name(minute));
        self.cron_status(|status| {
            let active = status["active"].as_array_mut().unwrap();
            active.retain(|reference| reference["name"] != run_name(minute));
            let completed = &run["status"]["completionTime"];
            if completed.is_string() {
                status["lastSuccessfulTime"] = completed.clone();
            }
        })
    }

    /// A run whose child exists and is noted.
    pub(crate) fn running(self, minute: i64) -> Self {
        let created = self.promise(minute).start(minute);
        created.confirm(minute).release_run(minute)
    }

    /// A whole run.
    pub(crate) fn ran(self, minute: i64) -> Self {
        self.running(minute)
            .end_run(minute, "Complete")
            .settle(minute)
    }

    /// Deletes a child, which goes at once unless it is held.
    pub(crate) fn delete_run(self, agent: &str, minute: i64) -> Self {
        let name = run_name(minute);
        let mut run = self.object(JOBS_OF_BATCH, &name);
        let body = json!({"preconditions": {
            "uid": run["metadata"]["uid"], "resourceVersion": "7"}});
        let held = run["metadata"]["finalizers"]
            .as_array()
            .is_some_and(|f| !f.is_empty());
        run["metadata"]["deletionTimestamp"] = json!(self.now().to_string());
        let new = held.then_some(run);
        self.step(agent, "delete", (JOBS_OF_BATCH, &name), new, Some(body))
    }

    /// Two runs, one after the other, without a fault.
    pub(crate) fn two_runs() -> Self {
        Self::new().cron(json!({})).ran(5).ran(10)
    }
}

/// A CronJob that has created a BroadcastJob, which has no node to run on; with the place of that.
pub(crate) fn broadcast(fields: &Value) -> (Scene, (&'static str, String)) {
    let mut fields = fields.clone();
    fields["broadcastJobTemplate"] = json!({
        "metadata": {"labels": {"app": "tidy"}},
        "spec": {"template": {"spec": {"restartPolicy": "Never",
            "containers": [{"name": "c", "image": "tidy:1"}]}}},
    });
    fields["jobTemplate"] = Value::Null;
    let scene = Scene::new().cron(fields).promise(5);
    let scene = scene.cron_status(|status| status["active"][0]["kind"] = json!("BroadcastJob"));
    let template = &scene.object(CRONS[0], NIGHT)["spec"]["broadcastJobTemplate"];
    let mut run = scene.run(5);
    run["apiVersion"] = json!("carillon.dev/v1alpha1");
    run["kind"] = json!("BroadcastJob");
    run["metadata"]["labels"] = template["metadata"]["labels"].clone();
    run["metadata"]["generation"] = json!(1);
    run["spec"] = template["spec"].clone();
    run["spec"]["template"]["metadata"]["annotations"][SCHEDULED] = json!(tick(5).to_string());
    // What the API server fills in.
    run["spec"]["paused"] = json!(false);
    run["spec"]["completionPolicy"] = json!({"type": "Always"});
    let place = (JOBS, run_name(5));
    let created = scene.step("carillon", "create", (place.0, &place.1), Some(run), None);
    (created, place)
}
