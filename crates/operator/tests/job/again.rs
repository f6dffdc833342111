//! Jobs that are gone, made again, or taken over, and pods that are left.

use std::time::Duration;

use carillon_operator::controllers::core;
use carillon_operator::kinds::job::Memory;
use carillon_operator::kinds::job::SlimJob;
use carillon_operator::kinds::job::orphan_controller::{OrphanPods, SERVED};
use carillon_operator::slim::SlimPod;
use carillon_operator::store::Queues;
use carillon_plan::job::backoff::BackoffRecord;
use carillon_plan::job::plan;
use http::Method;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::objects::{job_of, pod_of, pod_uid, stored};
use super::{JOB, PODS, Scene, job_key};

/// Uid of another Job of the same name.
const OTHER: u8 = 0xaa;

fn other(mut job: Value) -> Value {
    job["metadata"]["uid"] = json!(pod_uid(OTHER));
    job
}

/// Until what there is to do has been done, and longer.
async fn come_to_rest(scene: &Scene) {
    assert!(
        scene.controller.core.queue.depth() > 0,
        "nothing is to be done"
    );
    scene.work_for(Duration::from_mins(1)).await;
}

#[tokio::test(start_paused = true)]
async fn of_a_job_that_is_gone_nothing_is_asked_or_written() {
    let scene = Scene::new(plan, vec![]);
    let job = job_of(13, &json!({"parallelism": 2, "completions": 2}), &json!({}));
    scene.see::<SlimJob>(&job);
    scene.lose::<SlimJob>(&job);
    come_to_rest(&scene).await;
    assert_eq!(scene.requests.lock().unwrap().len(), 0);
    assert_eq!(scene.decisions(), 0);
}

#[tokio::test]
async fn a_job_that_is_made_again_does_not_wait_for_the_failures_of_the_one_before() {
    let spec = json!({"parallelism": 1, "completions": 1});
    let (old, new) = (
        job_of(13, &spec, &json!({})),
        other(job_of(20, &spec, &json!({}))),
    );
    let mut scene = Scene::new(plan, stored(&new));
    let backoff = BackoffRecord {
        failures: 3,
        last: Some(Timestamp::now()),
    };
    let memory = || scene.controller.memory.lock().unwrap();
    memory().insert(
        job_key(JOB),
        Memory {
            backoff,
            ..Memory::default()
        },
    );
    scene.see::<SlimJob>(&old);
    scene.lose::<SlimJob>(&old);
    scene.see::<SlimJob>(&new);
    scene
        .work_until(|scene| scene.sent(&Method::POST, PODS).len() == 1)
        .await;
    assert!(
        !scene
            .controller
            .memory
            .lock()
            .unwrap()
            .contains_key(&job_key(JOB))
    );
}

#[tokio::test(start_paused = true)]
async fn what_was_to_be_done_for_a_job_is_not_done_to_another_of_its_name() {
    let spec = json!({"parallelism": 1, "completions": 1});
    let mut foreign = other(job_of(20, &spec, &json!({})));
    foreign["spec"]["managedBy"] = json!("example.com/other");
    let old = job_of(13, &spec, &json!({}));
    let scene = Scene::new(plan, stored(&foreign));
    scene.see::<SlimJob>(&old);
    scene.lose::<SlimJob>(&old);
    scene.see::<SlimJob>(&foreign);
    come_to_rest(&scene).await;
    assert_eq!(scene.requests.lock().unwrap().len(), 0);
    let decisions = &scene.controller.core.flights;
    assert_eq!(decisions.decisions(&job_key(&pod_uid(OTHER))).len(), 0);
}

#[tokio::test]
async fn a_deadline_passes_without_any_event() {
    let start = Timestamp::now() - SignedDuration::from_millis(500);
    let start = Timestamp::from_second(start.as_second()).unwrap();
    let spec = json!({"parallelism": 0, "completions": 1, "activeDeadlineSeconds": 3});
    let status = json!({"startTime": start, "ready": 0, "terminating": 0,
        "uncountedTerminatedPods": {}});
    let mut scene = Scene::new(plan, vec![]);
    scene.see::<SlimJob>(&job_of(13, &spec, &status));
    scene.work_until(|scene| scene.decisions() == 1).await;
    assert_eq!(scene.requests.lock().unwrap().len(), 0);
    let statuses = |scene: &Scene| scene.sent(&Method::PATCH, "/status");
    scene.work_until(|scene| !statuses(scene).is_empty()).await;
    let condition = &statuses(&scene)[0]["status"]["conditions"][0];
    assert_eq!(condition["reason"], "DeadlineExceeded");
    let deadline = start + SignedDuration::from_secs(3);
    assert!(Timestamp::now() >= deadline);
}

#[tokio::test]
async fn a_pod_is_adopted_only_if_the_job_is_still_the_one_that_selects_it() {
    let spec = json!({
        "parallelism": 1, "completions": 1, "selector": {"matchLabels": {"app": "sum"}},
    });
    let job = job_of(13, &spec, &json!({}));
    let mut deleted = job_of(14, &spec, &json!({}));
    deleted["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let another = other(job.clone());
    for (today, adopted) in [(&job, 1), (&deleted, 0), (&another, 0)] {
        let mut scene = Scene::new(plan, stored(today));
        let mut pod = pod_of(1, 40, "Running");
        pod["metadata"]["ownerReferences"] = json!([]);
        pod["metadata"]["finalizers"] = json!([]);
        scene.see::<SlimJob>(&job);
        scene.see::<SlimPod>(&pod);
        let asked = if adopted > 0 { 1 } else { 2 };
        scene
            .work_until(|scene| {
                let patches = scene.sent(&Method::PATCH, "/sum-1").len();
                patches >= adopted && scene.sent(&Method::GET, "/jobs/sum").len() >= asked
            })
            .await;
        let patches = scene.sent(&Method::PATCH, "/sum-1");
        assert_eq!(patches.len(), adopted);
        for patch in patches {
            let meta = &patch["metadata"];
            assert_eq!(meta["ownerReferences"][0]["uid"], JOB);
            let finalizer = "batch.kubernetes.io/job-tracking";
            assert_eq!(meta["finalizers"], json!([finalizer]));
        }
    }
}

#[tokio::test]
async fn pods_of_a_job_that_has_ended_or_is_not_there_are_released_also_while_they_stop() {
    let spec = json!({"parallelism": 2, "completions": 2});
    let complete = json!({"conditions": [{"type": "Complete", "status": "True"}]});
    let gone = super::refusal(404, "NotFound", "jobs \"sum\" not found");
    let not_there = vec![(Method::GET, super::objects::JOB_PATH, "", 404, gone)];
    for (job, answers) in [
        (Some(job_of(13, &spec, &complete)), vec![]),
        (None, not_there),
    ] {
        let mut scene = Scene::new(plan, answers);
        let mut pod = pod_of(1, 40, "Running");
        pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        // A Job that has ended is known before, so that its own arrival asks for nothing.
        if let Some(job) = &job {
            scene.see::<SlimJob>(job);
        }
        scene.see::<SlimPod>(&pod);
        scene
            .work_until(|scene| scene.sent(&Method::PATCH, "/sum-1").len() == 1)
            .await;
        let patch = scene.sent(&Method::PATCH, "/sum-1").remove(0);
        let finalizers = &patch["metadata"]["$deleteFromPrimitiveList/finalizers"];
        assert_eq!(*finalizers, json!(["batch.kubernetes.io/job-tracking"]));
    }
}

#[tokio::test]
async fn pods_are_released_when_somebody_else_ends_their_job() {
    let spec = json!({"parallelism": 1, "completions": 1});
    let active = json!({"active": 1, "ready": 0, "terminating": 0,
        "startTime": "2026-01-01T00:00:00Z", "uncountedTerminatedPods": {}});
    let mut scene = Scene::new(plan, vec![]);
    scene.see::<SlimPod>(&pod_of(1, 40, "Running"));
    scene.see::<SlimJob>(&job_of(13, &spec, &active));
    scene.work_until(|scene| scene.decisions() == 1).await;
    assert_eq!(scene.requests.lock().unwrap().len(), 0, "all is well");
    let mut ended = active;
    ended["conditions"] = json!([{"type": "Complete", "status": "True"}]);
    scene.see::<SlimJob>(&job_of(14, &spec, &ended));
    scene
        .work_until(|scene| scene.sent(&Method::PATCH, "/sum-1").len() == 1)
        .await;
    assert_eq!(scene.sent(&Method::PATCH, "/status").len(), 0);
}

#[tokio::test]
async fn a_pod_of_no_job_is_released_as_it_was_seen() {
    let mut scene = Scene::new(plan, vec![]);
    let queue = scene.controller.core.queue.clone();
    scene.queues = Queues::open_to_all(SERVED.name, queue);
    let mut pod = pod_of(1, 40, "Running");
    pod["metadata"]["ownerReferences"] = json!([]);
    scene.see::<SlimPod>(&pod);
    let orphans = OrphanPods {
        core: scene.core_for(SERVED.name),
    };
    let done = async {
        while scene.sent(&Method::PATCH, "/sum-1").is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        () = core::work(std::sync::Arc::new(orphans)) => panic!("the controller stopped"),
        done = tokio::time::timeout(Duration::from_secs(30), done) => done.unwrap(),
    }
    let patch = scene.sent(&Method::PATCH, "/sum-1").remove(0);
    let meta = &patch["metadata"];
    assert_eq!(
        (&meta["uid"], &meta["resourceVersion"]),
        (&json!(pod_uid(1)), &json!("40"))
    );
}
