//! Runs that were started: recorded, replaced, released and deleted.

use std::time::Duration;

use carillon_api::names::FINALIZER_RUN_TRACKING;
use carillon_operator::kinds::cron_job::SlimNativeJob;
use http::Method;
use serde_json::{Value, json};

use super::support::refusal;
use super::{AT_ELEVEN, Ours, Scene, WRITTEN, active, cron, hourly, not_found, run, run_uid, with};

/// The run of 10:00.
const AT_TEN: &str = "report-29454360";

fn complete() -> Value {
    json!({"startTime": "2026-01-01T10:00:01Z", "completionTime": "2026-01-01T10:40:00Z",
        "conditions": [{"type": "Complete", "status": "True",
            "lastTransitionTime": "2026-01-01T10:40:00Z"}]})
}

/// Its run of 10:00 is active, and nothing is due.
fn after_ten(spec: &Value) -> Value {
    let status = json!({"active": [active(Some(1), AT_TEN)],
        "lastScheduleTime": "2026-01-01T11:00:00Z"});
    cron(13, spec, &status)
}

/// The same, and the run of 11:00 is due.
fn with_one_due(spec: &Value) -> Value {
    let status = json!({"active": [active(Some(1), AT_TEN)],
        "lastScheduleTime": "2026-01-01T10:00:00Z"});
    cron(13, spec, &status)
}

#[tokio::test(start_paused = true)]
async fn a_run_that_has_ended_is_recorded_before_it_is_released() {
    let cron = after_ten(&json!({}));
    let scene = Scene::new(with(&cron));
    scene.see::<SlimNativeJob>(&run(1, AT_TEN, &complete()));
    scene.see::<Ours>(&cron);
    scene.work_for(Duration::from_secs(5)).await;
    let patch = |path: &str| (Method::PATCH, path.to_owned());
    assert_eq!(scene.writes(), [patch("status"), patch(AT_TEN)]);
    let status = &scene.statuses()[0];
    assert_eq!(status["lastSuccessfulTime"], "2026-01-01T10:40:00Z");
    let release = &scene.sent(&Method::PATCH, AT_TEN)[0]["metadata"];
    assert_eq!(release["uid"], run_uid(1));
    assert_eq!(
        release["$deleteFromPrimitiveList/finalizers"],
        json!([FINALIZER_RUN_TRACKING])
    );
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_record_is_refused_is_not_released() {
    let cron = after_ten(&json!({}));
    let others = with(&cron);
    let scene = Scene::new(move |method, path, sent| match *method {
        Method::PATCH if path.ends_with("/status") => (409, refusal(409, "Conflict", "not now")),
        _ => others(method, path, sent),
    });
    scene.see::<SlimNativeJob>(&run(1, AT_TEN, &complete()));
    scene.see::<Ours>(&cron);
    scene.work_for(Duration::from_secs(5)).await;
    assert!(!scene.statuses().is_empty());
    assert_eq!(scene.sent(&Method::PATCH, AT_TEN), [] as [Value; 0]);
}

#[tokio::test(start_paused = true)]
async fn what_is_replaced_is_deleted_as_it_was_judged_before_its_successor_is_created() {
    for is_refused in [false, true] {
        let cron = with_one_due(&json!({"concurrencyPolicy": "Replace"}));
        let others = with(&cron);
        let scene = Scene::new(move |method, path, sent| match *method {
            Method::DELETE if is_refused => (403, refusal(403, "Forbidden", "not this one")),
            _ => others(method, path, sent),
        });
        scene.see::<SlimNativeJob>(&run(1, AT_TEN, &json!({})));
        scene.see::<Ours>(&cron);
        scene.work_for(Duration::from_secs(5)).await;
        let deletion = &scene.sent(&Method::DELETE, AT_TEN)[0]["preconditions"];
        assert_eq!(
            [&deletion["uid"], &deletion["resourceVersion"]],
            [&run_uid(1), "20"]
        );
        let made: &[&str] = if is_refused { &[] } else { &[AT_ELEVEN] };
        assert_eq!(scene.made(), made);
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_started_beside_a_run_that_must_be_alone() {
    let cron = with_one_due(&json!({"concurrencyPolicy": "Forbid"}));
    let scene = Scene::new(with(&cron));
    scene.see::<SlimNativeJob>(&run(1, AT_TEN, &json!({})));
    scene.see::<Ours>(&cron);
    scene.work_for(Duration::from_secs(5)).await;
    assert!(scene.decisions() > 0);
    assert_eq!(scene.made(), [""; 0]);
    assert_eq!(scene.sent(&Method::DELETE, ""), [] as [Value; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_the_cache_has_lost_is_asked_about_before_it_is_forgotten() {
    for is_there in [true, false] {
        let after_ten = after_ten(&json!({}));
        let others = with(&after_ten);
        let scene = Scene::new(move |method, path, sent| match *method {
            Method::GET if path.ends_with(AT_TEN) && is_there => (200, run(1, AT_TEN, &json!({}))),
            _ => others(method, path, sent),
        });
        scene.see::<Ours>(&after_ten);
        scene.work_for(Duration::from_secs(5)).await;
        assert!(!scene.sent(&Method::GET, AT_TEN).is_empty());
        // What was written before the answer comes back through the watch.
        let [status] = &scene.statuses()[..] else {
            panic!("{:?}", scene.writes());
        };
        assert_eq!(status["active"], json!([active(Some(1), AT_TEN)]));
        scene.see::<Ours>(&cron(WRITTEN, &json!({}), status));
        scene.work_for(Duration::from_secs(5)).await;
        let forgets = |status: &Value| {
            let active = status.get("active");
            active.is_some_and(|active| active.as_array().is_none_or(Vec::is_empty))
        };
        let statuses = scene.statuses();
        assert_eq!(statuses.iter().any(forgets), !is_there, "{statuses:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn runs_of_a_cron_job_are_released_when_it_is_really_gone() {
    for is_gone in [true, false] {
        let scene = Scene::new(move |method, path, sent| match *method {
            Method::GET if is_gone => not_found(),
            _ => with(&hourly())(method, path, sent),
        });
        scene.see::<SlimNativeJob>(&run(1, AT_TEN, &json!({})));
        scene.work_for(Duration::from_secs(5)).await;
        assert!(!scene.sent(&Method::GET, "/cronjobs/report").is_empty());
        assert_eq!(
            scene.sent(&Method::PATCH, AT_TEN).len(),
            usize::from(is_gone)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_history_does_not_keep_is_deleted_as_it_was_judged() {
    let status = json!({"lastScheduleTime": "2026-01-01T11:00:00Z",
        "lastSuccessfulTime": "2026-01-01T10:40:00Z"});
    let cron = cron(13, &json!({"successfulJobsHistoryLimit": 1}), &status);
    let scene = Scene::new(with(&cron));
    for (n, name) in [(1, "report-29454300"), (2, AT_TEN)] {
        let mut job = run(n, name, &complete());
        job["metadata"]["finalizers"] = json!([]);
        job["status"]["startTime"] = json!(format!("2026-01-01T{:02}:00:01Z", 8 + n));
        scene.see::<SlimNativeJob>(&job);
    }
    scene.see::<Ours>(&cron);
    scene.work_for(Duration::from_secs(5)).await;
    let deleted: Vec<_> = scene.sent(&Method::DELETE, "");
    assert_eq!(deleted.len(), 1, "{:?}", scene.writes());
    let preconditions = &deleted[0]["preconditions"];
    assert_eq!(
        [&preconditions["uid"], &preconditions["resourceVersion"]],
        [&run_uid(1), "20"]
    );
}
