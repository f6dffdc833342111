//! Requests that the API server refuses.

use std::time::Duration;

use carillon_api::condition::reasons;
use http::Method;
use serde_json::{Value, json};

use super::support::{done, refusal};
use super::{
    AT_ELEVEN, JOBS, Ours, REPORTER, STATUS, Scene, WRITTEN, cron, hourly, not_found, run, run_uid,
    with,
};

#[tokio::test(start_paused = true)]
async fn without_its_promise_stored_no_run_is_created() {
    for (code, reason) in [
        (409, "Conflict"),
        (403, "Forbidden"),
        (500, "InternalError"),
    ] {
        let others = with(&hourly());
        let scene = Scene::new(move |method, path, sent| match *method {
            Method::PATCH if path.ends_with(STATUS) => (code, refusal(code, reason, "not now")),
            _ => others(method, path, sent),
        });
        scene.see::<Ours>(&hourly());
        scene.work_for(Duration::from_secs(10)).await;
        assert!(scene.statuses().len() > 1, "it is tried again: {reason}");
        assert_eq!(scene.made(), [""; 0], "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_there_already_is_ours_or_its_name_is_taken() {
    for ours in [true, false] {
        let others = with(&hourly());
        let scene = Scene::new(move |method, path, sent| {
            let mut job = run(1, AT_ELEVEN, &json!({}));
            if !ours {
                job["metadata"]["ownerReferences"] = json!([]);
            }
            match *method {
                Method::POST if path == JOBS => (409, refusal(409, "AlreadyExists", "it exists")),
                Method::GET if path.ends_with(AT_ELEVEN) => (200, job),
                _ => others(method, path, sent),
            }
        });
        scene.see::<Ours>(&hourly());
        scene.work_for(Duration::from_secs(5)).await;
        assert_eq!(scene.made(), [AT_ELEVEN]);
        let memory = scene.controller.memory.lock().unwrap();
        let known = format!("{memory:?}");
        let conflicts = if ours {
            "conflicts: {}"
        } else {
            "conflicts: {\"report-29454420\"}"
        };
        assert!(known.contains(conflicts), "{known}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_for_which_there_is_no_room_is_told_and_its_promise_taken_back() {
    for (message, reason) in [
        ("exceeded quota: q", reasons::QUOTA_EXCEEDED),
        ("admission webhook said no", reasons::JOB_FORBIDDEN),
    ] {
        let others = with(&hourly());
        let mut scene = Scene::new(move |method, path, sent| match *method {
            Method::POST if path == JOBS => (403, refusal(403, "Forbidden", message)),
            _ => others(method, path, sent),
        });
        scene.see::<Ours>(&hourly());
        let told = scene.told(1, REPORTER).await;
        assert_eq!(
            told,
            [format!("FailedCreate Error creating job: {message}")]
        );
        // The promise comes back through the watch.
        let promised = scene.statuses().remove(0);
        scene.see::<Ours>(&cron(WRITTEN, &json!({}), &promised));
        let stalled = |status: &Value| {
            let mut conditions = status["conditions"].as_array().into_iter().flatten();
            conditions.any(|of| of["type"] == "Stalled" && of["reason"] == reason)
        };
        scene
            .work_until(|scene| scene.statuses().iter().any(stalled))
            .await;
        assert!(scene.made().iter().all(|name| name == AT_ELEVEN));
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_is_told_of_runs_that_a_namespace_on_its_way_out_refuses() {
    let others = with(&hourly());
    let scene = Scene::new(move |method, path, sent| {
        let mut leaving = refusal(403, "Forbidden", "namespace ops is being terminated");
        leaving["details"] = json!({"causes": [{"reason": "NamespaceTerminating"}]});
        match *method {
            Method::POST if path == JOBS => (403, leaving),
            _ => others(method, path, sent),
        }
    });
    scene.see::<Ours>(&hourly());
    scene.work_for(Duration::from_secs(5)).await;
    assert!(!scene.made().is_empty());
    assert_eq!(scene.sent(&Method::POST, "/events"), [] as [Value; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_stored_promise_is_kept_only_if_the_cron_job_is_still_the_one_that_was_judged() {
    let before = Scene::new(with(&hourly()));
    before.see::<Ours>(&hourly());
    before.work_for(Duration::from_secs(5)).await;
    let promised = before.statuses().remove(0);
    // Whoever has stored it is gone, and nobody knows whether it was kept.
    let cron = cron(13, &json!({}), &promised);
    let mut edited = cron.clone();
    edited["metadata"]["resourceVersion"] = json!("14");
    let mut another = cron.clone();
    another["metadata"]["uid"] = json!(run_uid(9));
    for (found, many) in [
        (Some(cron.clone()), 1),
        (Some(edited), 0),
        (Some(another), 0),
        (None, 0),
    ] {
        let scene = Scene::new(move |method, path, _| match (method, &found) {
            (&Method::GET, Some(cron)) if path.ends_with("/cronjobs/report") => (200, cron.clone()),
            (&Method::GET, _) => not_found(),
            _ => done(),
        });
        scene.see::<Ours>(&cron);
        // It is not tried often enough to be told.
        scene.work_for(Duration::from_millis(500)).await;
        assert!(!scene.sent(&Method::GET, "/cronjobs/report").is_empty());
        assert_eq!(scene.made().len(), many);
        assert_eq!(scene.statuses(), [] as [Value; 0]);
    }
}
