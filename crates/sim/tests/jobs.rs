//! What becomes of Jobs: stored as a real API server does, and run as their script says.

#![allow(clippy::unwrap_used)] // a test may panic

use std::sync::Arc;
use std::time::Duration;

use carillon_sim::actors::{self, JOB_FATE, JobController, garbage_collector};
use carillon_sim::{Actor, Delete, Propagation, Server};
use serde_json::{Value, json};
use tokio::task::LocalSet;
use tokio::time::sleep;

fn job(name: &str, fate: &str, fields: &Value) -> Value {
    let mut job = json!({
        "metadata": {"name": name, "annotations": {JOB_FATE: fate}},
        "spec": {"template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}],
        }}},
    });
    for (key, value) in fields.as_object().unwrap() {
        job["spec"][key] = value.clone();
    }
    job
}

/// Lets the job controller and the garbage collector act while `then` does.
async fn running(then: impl AsyncFnOnce(&Actor)) {
    let server = Server::new("2026-01-01T00:00:00Z".parse().unwrap());
    let user = server.actor("user");
    let tasks = LocalSet::new();
    let controller = JobController::new(&server);
    let collect = garbage_collector::run(server.clone(), Duration::from_millis(20));
    tasks.spawn_local(collect);
    tasks.spawn_local(actors::run(server, vec![Box::new(controller)]));
    tasks.run_until(then(&user)).await;
}

fn get(user: &Actor, name: &str) -> Arc<Value> {
    user.get("jobs", "default", name).unwrap()
}

/// Types of the conditions that are true, in order.
fn conditions(job: &Value) -> Vec<&str> {
    let conditions = job["status"]["conditions"].as_array();
    let conditions = conditions.into_iter().flatten();
    conditions
        .filter(|condition| condition["status"] == "True")
        .map(|condition| condition["type"].as_str().unwrap())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_job_completes_after_its_time() {
    running(async |user: &Actor| {
        user.create("jobs", "default", &job("a", "5s", &json!({})))
            .unwrap();
        sleep(Duration::from_secs(4)).await;
        let active = get(user, "a");
        assert_eq!(active["status"]["startTime"], "2026-01-01T00:00:00Z");
        assert_eq!(active["status"]["active"], 1);
        assert_eq!(conditions(&active), [""; 0]);
        sleep(Duration::from_millis(1050)).await;
        assert_eq!(conditions(&get(user, "a")), ["SuccessCriteriaMet"]);
        sleep(Duration::from_secs(1)).await;
        let done = get(user, "a");
        assert_eq!(done["status"]["completionTime"], "2026-01-01T00:00:05Z");
        assert_eq!(done["status"]["active"], Value::Null);
        assert_eq!(done["status"]["succeeded"], 1);
        assert_eq!(done["metadata"]["generation"], 1);
        let mut ends = conditions(&done);
        ends.sort_unstable();
        assert_eq!(ends, ["Complete", "SuccessCriteriaMet"]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_job_fails_or_never_ends_if_its_script_says_so() {
    running(async |user: &Actor| {
        for (name, fate) in [("a", "2s fail"), ("b", "never")] {
            user.create("jobs", "default", &job(name, fate, &json!({})))
                .unwrap();
        }
        sleep(Duration::from_hours(1)).await;
        let failed = get(user, "a");
        let mut ends = conditions(&failed);
        ends.sort_unstable();
        assert_eq!(ends, ["Failed", "FailureTarget"]);
        assert_eq!(failed["status"]["completionTime"], Value::Null);
        assert_eq!(get(user, "b")["status"]["active"], 1);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_suspended_job_does_not_run_until_it_is_resumed() {
    running(async |user: &Actor| {
        let job = job("a", "5s", &json!({"suspend": true}));
        user.create("jobs", "default", &job).unwrap();
        sleep(Duration::from_mins(1)).await;
        assert_eq!(conditions(&get(user, "a")), ["Suspended"]);
        let suspend = |on: bool| json!({"spec": {"suspend": on}});
        user.patch_merge("jobs", "default", "a", &suspend(false))
            .unwrap();
        sleep(Duration::from_secs(4)).await;
        assert_eq!(
            get(user, "a")["status"]["startTime"],
            "2026-01-01T00:01:00Z"
        );
        // What it has done so far is done again.
        user.patch_merge("jobs", "default", "a", &suspend(true))
            .unwrap();
        sleep(Duration::from_secs(1)).await;
        assert_eq!(get(user, "a")["status"]["startTime"], Value::Null);
        user.patch_merge("jobs", "default", "a", &suspend(false))
            .unwrap();
        sleep(Duration::from_secs(4)).await;
        assert_eq!(conditions(&get(user, "a")), [""; 0]);
        sleep(Duration::from_secs(2)).await;
        assert!(conditions(&get(user, "a")).contains(&"Complete"));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_job_that_has_ended_goes_when_its_time_to_live_is_over() {
    running(async |user: &Actor| {
        let fields = json!({"ttlSecondsAfterFinished": 10});
        user.create("jobs", "default", &job("a", "1s", &fields))
            .unwrap();
        let mut held = job("b", "1s", &fields);
        held["metadata"]["finalizers"] = json!(["example.com/a"]);
        user.create("jobs", "default", &held).unwrap();
        sleep(Duration::from_secs(10)).await;
        assert_eq!(user.list("jobs", "default", "").unwrap().len(), 2);
        sleep(Duration::from_secs(3)).await;
        assert!(user.get("jobs", "default", "a").is_err());
        assert!(get(user, "b")["metadata"]["deletionTimestamp"].is_string());
        assert_eq!(
            get(user, "b")["metadata"]["finalizers"],
            json!(["example.com/a"])
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_being_deleted_is_left_alone() {
    running(async |user: &Actor| {
        let mut held = job("a", "5s", &json!({}));
        held["metadata"]["finalizers"] = json!(["example.com/a"]);
        user.create("jobs", "default", &held).unwrap();
        sleep(Duration::from_secs(1)).await;
        let how = Delete::with(Propagation::Background);
        user.delete("jobs", "default", "a", &how).unwrap();
        let before = get(user, "a");
        sleep(Duration::from_mins(1)).await;
        assert_eq!(get(user, "a"), before);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_delete_that_says_nothing_leaves_the_pods_of_a_job_and_takes_the_jobs_of_a_cron_job() {
    let server = Server::new("2026-01-01T00:00:00Z".parse().unwrap());
    let user = server.actor("user");
    user.create("jobs", "default", &job("a", "5s", &json!({})))
        .unwrap();
    user.delete("jobs", "default", "a", &Delete::default())
        .unwrap();
    assert_eq!(get(&user, "a")["metadata"]["finalizers"], json!(["orphan"]));
    let cron = json!({
        "metadata": {"name": "a"},
        "spec": {"schedule": "@daily", "jobTemplate": job("", "5s", &json!({}))},
    });
    user.create("cronjobs.batch", "default", &cron).unwrap();
    user.delete("cronjobs.batch", "default", "a", &Delete::default())
        .unwrap();
    assert!(user.get("cronjobs.batch", "default", "a").is_err());
}

#[tokio::test(start_paused = true)]
async fn the_generation_of_a_cron_job_counts_changes_of_its_spec_only() {
    let server = Server::new("2026-01-01T00:00:00Z".parse().unwrap());
    let user = server.actor("user");
    let cron = json!({
        "metadata": {"name": "a"},
        "spec": {"schedule": "@daily", "jobTemplate": job("", "5s", &json!({}))},
        "status": {"lastScheduleTime": "2026-01-01T00:00:00Z"},
    });
    let cron = user.create("cronjobs.batch", "default", &cron).unwrap();
    assert_eq!(cron["status"], json!({}));
    let ran = json!({"lastScheduleTime": "2026-01-01T00:00:00Z", "active": [{"name": "a-1"}]});
    let ran = user
        .patch_status("cronjobs.batch", "default", "a", &ran)
        .unwrap();
    assert_eq!(ran["metadata"]["generation"], 1);
    let patch = json!({"spec": {"suspend": true}, "status": {"active": []}});
    let suspended = user
        .patch_merge("cronjobs.batch", "default", "a", &patch)
        .unwrap();
    assert_eq!(suspended["metadata"]["generation"], 2);
    assert_eq!(suspended["status"], ran["status"]);
}
