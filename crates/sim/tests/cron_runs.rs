//! Runs of a CronJob, written by hand, in the simulated cluster: the oracle finds them right.

#![allow(clippy::unwrap_used)] // a test may panic

use std::time::Duration;

use carillon_oracle::{Assumptions, Invariant, Report, check_all};
use carillon_sim::actors::{self, JOB_FATE, JobController, garbage_collector};
use carillon_sim::{Actor, Delete, Propagation, Server};
use serde_json::{Value, json};
use tokio::task::LocalSet;
use tokio::time::sleep;

const CRONS: &str = "cronjobs.batch";
const HOLD: &str = "carillon.dev/run-tracking";

fn cron() -> Value {
    json!({
        "metadata": {"name": "night"},
        "spec": {
            "schedule": "*/5 * * * *", "timeZone": "Asia/Kolkata", "concurrencyPolicy": "Forbid",
            "successfulJobsHistoryLimit": 1,
            "jobTemplate": {
                "metadata": {"annotations": {JOB_FATE: "30s", "why": "dust"}},
                "spec": {"template": {
                    "metadata": {"labels": {"app": "tidy"}},
                    "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]},
                }},
            },
        },
    })
}

/// What an operator does for one time of the schedule.
struct Run<'a> {
    operator: &'a Actor,
    tick: jiff::Timestamp,
}

impl Run<'_> {
    fn name(&self) -> String {
        format!("night-{}", self.tick.as_second() / 60)
    }

    fn status(&self, status: &Value) {
        let mut cron = (*self.operator.get(CRONS, "default", "night").unwrap()).clone();
        for (field, value) in status.as_object().unwrap() {
            cron["status"][field] = value.clone();
        }
        self.operator.update_status(&cron).unwrap();
    }

    fn reference(&self, uid: Option<&Value>) -> Value {
        let mut reference = json!({
            "apiVersion": "batch/v1", "kind": "Job", "namespace": "default", "name": self.name(),
        });
        if let Some(uid) = uid {
            reference["uid"] = uid.clone();
        }
        json!([reference])
    }

    fn start(&self) {
        let cron = self.operator.get(CRONS, "default", "night").unwrap();
        let template = &cron["spec"]["jobTemplate"];
        let mut meta = template["metadata"].clone();
        meta["name"] = json!(self.name());
        meta["finalizers"] = json!([HOLD]);
        meta["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"] =
            json!(self.tick.to_string());
        meta["ownerReferences"] = json!([{
            "apiVersion": "batch/v1", "kind": "CronJob", "name": "night",
            "uid": cron["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true,
        }]);
        let job = json!({"metadata": meta, "spec": template["spec"]});
        let job = self.operator.create("jobs", "default", &job).unwrap();
        let uid = &job["metadata"]["uid"];
        let active = self.reference(Some(uid));
        let tick = self.tick.to_string();
        self.status(&json!({"active": active, "lastScheduleTime": tick}));
        let patch = json!({"metadata": {"uid": uid, "finalizers": null}});
        let name = self.name();
        self.operator
            .patch_merge("jobs", "default", &name, &patch)
            .unwrap();
    }

    /// Notes the end, once it has come.
    fn settle(&self) {
        let job = self.operator.get("jobs", "default", &self.name()).unwrap();
        let completed = &job["status"]["completionTime"];
        self.status(&json!({"active": [], "lastSuccessfulTime": completed}));
    }

    fn delete(&self) {
        let job = self.operator.get("jobs", "default", &self.name()).unwrap();
        let text = |field: &str| job["metadata"][field].as_str().map(str::to_owned);
        let how = Delete {
            uid: text("uid"),
            resource_version: text("resourceVersion"),
            ..Delete::with(Propagation::Background)
        };
        let name = self.name();
        self.operator
            .delete("jobs", "default", &name, &how)
            .unwrap();
    }
}

/// Lets `then` act as the operator, and judges what came of it.
async fn judged(promised: bool, then: impl AsyncFnOnce(&Server)) -> Report {
    let server = Server::new("2026-01-01T00:00:00Z".parse().unwrap());
    let tasks = LocalSet::new();
    let controller = JobController::new(&server);
    let collect = garbage_collector::run(server.clone(), Duration::from_millis(100));
    tasks.spawn_local(actors::run(server.clone(), vec![Box::new(controller)]));
    tasks.spawn_local(collect);
    let operator = server.actor("carillon");
    tasks
        .run_until(async {
            let user = server.actor("kubectl");
            user.create(CRONS, "default", &cron()).unwrap();
            for minute in [5, 10] {
                let tick = format!("2026-01-01T00:{minute:02}:00Z");
                let tick = tick.parse().unwrap();
                sleep(Duration::try_from(server.now().duration_until(tick)).unwrap()).await;
                let run = Run {
                    operator: &operator,
                    tick,
                };
                if promised {
                    run.status(&json!({"active": run.reference(None)}));
                }
                run.start();
                sleep(Duration::from_mins(1)).await;
                run.settle();
                if minute == 5 {
                    continue;
                }
                let tick = "2026-01-01T00:05:00Z".parse().unwrap();
                let earlier = Run {
                    operator: &operator,
                    tick,
                };
                earlier.delete();
            }
            then(&server).await;
        })
        .await;
    let over = Assumptions {
        over: true,
        ..Assumptions::default()
    };
    check_all(&server.history(), &over)
}

#[tokio::test(start_paused = true)]
async fn runs_that_are_promised_started_and_noted_are_right() {
    let report = judged(true, async |_: &Server| ()).await;
    assert_eq!(report.violations().count(), 0, "{report}");
    for (invariant, verdict) in &report.verdicts {
        if [Invariant::S7, Invariant::S8, Invariant::L1].contains(invariant) {
            assert!(verdict.as_ref().unwrap().evaluations > 0, "{report}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_of_a_cron_job_that_is_deleted() {
    let report = judged(true, async |server: &Server| {
        let user = server.actor("kubectl");
        user.delete(CRONS, "default", "night", &Delete::default())
            .unwrap();
        sleep(Duration::from_secs(1)).await;
        assert_eq!(user.list("jobs", "default", "").unwrap().len(), 0);
    })
    .await;
    assert_eq!(report.violations().count(), 0, "{report}");
}

#[tokio::test(start_paused = true)]
async fn a_run_without_a_promise_is_found() {
    let report = judged(false, async |_: &Server| ()).await;
    let broken: Vec<Invariant> = report.violations().map(|v| v.invariant).collect();
    assert_eq!(broken, [Invariant::S7], "{report}");
}
