//! Requests that the API server refuses.

use carillon_operator::kinds::job::SlimJob;
use carillon_operator::slim::SlimPod;
use carillon_plan::job::action::{Plan, Step};
use carillon_plan::job::{Snapshot, plan};
use carillon_plan::name::JobPods;
use http::Method;
use jiff::Timestamp;
use serde_json::json;

use super::objects::{STATUS_PATH, forbidden, job_of, no_creations, pod_of, pod_uid, stored};
use super::{JOB, PODS, REPORTER, Scene, create, refusal, status, uid, written};

#[tokio::test]
async fn a_creation_that_is_refused_changes_no_count_and_finalizers_are_tried_all_the_same() {
    let job = job_of(13, &json!({"parallelism": 2, "completions": 5}), &json!({}));
    let mut answers = stored(&job);
    let path = "/api/v1/namespaces/ops/pods/sum-2";
    answers.extend([no_creations(), forbidden(Method::PATCH, path)]);
    let mut scene = Scene::new(plan, answers);
    scene.see::<SlimPod>(&pod_of(1, 40, "Running"));
    scene.see::<SlimPod>(&pod_of(2, 41, "Succeeded"));
    scene.see::<SlimJob>(&job);
    scene.work_until(|scene| scene.syncs("error") == 1).await;
    let tried = |method, end| scene.sent(method, end).len();
    assert_eq!(tried(&Method::POST, PODS), 1);
    assert_eq!(tried(&Method::PATCH, "/sum-2"), 1);
    let status = written(&mut scene).await;
    assert_eq!(
        (&status["active"], &status["succeeded"]),
        (&json!(1), &json!(null))
    );
    let lists = &status["uncountedTerminatedPods"];
    assert_eq!(lists["succeeded"], json!([pod_uid(2)]));
}

#[tokio::test]
async fn a_pod_that_cannot_be_released_is_not_deleted_and_stays_active() {
    let spec = json!({"parallelism": 2, "completions": 5});
    // Among equals the first by name has to go.
    let path = "/api/v1/namespaces/ops/pods/sum-1";
    let mut scene = Scene::new(plan, vec![forbidden(Method::PATCH, path)]);
    for n in 1..=3 {
        scene.see::<SlimPod>(&pod_of(n, 40, "Running"));
    }
    scene.see::<SlimJob>(&job_of(13, &spec, &json!({})));
    scene.work_until(|scene| scene.syncs("error") == 1).await;
    let requests = scene.requests.lock().unwrap().clone();
    let to_pods = requests
        .iter()
        .filter(|(_, path, _)| path.starts_with(PODS));
    assert!(to_pods.map(|(method, ..)| method).eq([&Method::PATCH]));
    let status = written(&mut scene).await;
    assert_eq!(
        (&status["active"], &status["terminating"]),
        (&json!(3), &json!(0))
    );
}

/// A hundred pods, of which there is room for the first ten.
fn a_hundred_pods(_: &Snapshot<'_>, _: Timestamp) -> Plan {
    let name = |n| {
        let room = if n < 10 { "room" } else { "full" };
        create(&format!("sum-{room}-{n}"))
    };
    Plan {
        steps: vec![
            Step::slowly((0..100).map(name).collect()),
            Step::needed(vec![status(100, 100, 0)]),
        ],
        ..Plan::default()
    }
}

#[tokio::test]
async fn after_the_first_refusal_no_more_creations_are_begun() {
    let full = refusal(403, "Forbidden", "exceeded quota: q");
    let answers = vec![(Method::POST, PODS, "sum-full", 403, full)];
    let mut scene = Scene::new(a_hundred_pods, answers);
    let spec = json!({"parallelism": 100, "completions": 200});
    scene.see::<SlimJob>(&job_of(13, &spec, &json!({})));
    assert_eq!(written(&mut scene).await["active"], 10);
    // One, two, four and eight at a time.
    assert_eq!(scene.sent(&Method::POST, PODS).len(), 15);
}

#[tokio::test]
async fn a_status_that_is_refused_takes_no_finalizer_and_is_tried_again() {
    for (code, reason) in [
        (409, "Conflict"),
        (500, "InternalError"),
        (403, "Forbidden"),
    ] {
        let refused = refusal(code, reason, "not now");
        let answers = vec![(Method::PATCH, STATUS_PATH, "", code, refused)];
        let mut scene = Scene::new(plan, answers);
        for (n, phase) in [(1, "Succeeded"), (2, "Failed")] {
            scene.see::<SlimPod>(&pod_of(n, 40, phase));
        }
        let spec = json!({"parallelism": 0, "completions": 5});
        scene.see::<SlimJob>(&job_of(13, &spec, &json!({})));
        scene
            .work_until(|scene| scene.sent(&Method::PATCH, "/status").len() == 2)
            .await;
        let requests = scene.requests.lock().unwrap();
        let to_pods = requests
            .iter()
            .filter(|(_, path, _)| path.starts_with(PODS));
        assert_eq!(to_pods.count(), 0, "{reason}");
    }
}

#[tokio::test]
async fn a_creation_without_an_answer_delays_no_status_and_no_release() {
    for (code, reason) in [
        (403, "Forbidden"),
        (409, "AlreadyExists"),
        (500, "InternalError"),
    ] {
        let job = job_of(13, &json!({"parallelism": 2, "completions": 5}), &json!({}));
        let name = JobPods::new("sum", uid(JOB), None, [0, 0, 0]).name(0);
        let path: &'static str = Box::leak(format!("{PODS}/{name}").into_boxed_str());
        let mut answers = stored(&job);
        let refused = refusal(code, reason, "failed calling webhook \"w\"");
        answers.push((Method::POST, PODS, "", code, refused));
        answers.push((Method::GET, path, "", 404, refusal(404, "NotFound", "no")));
        let mut scene = Scene::new(plan, answers);
        scene.see::<SlimPod>(&pod_of(1, 40, "Running"));
        scene.see::<SlimPod>(&pod_of(2, 41, "Succeeded"));
        scene.see::<SlimJob>(&job);
        let events = scene.told(1, REPORTER).await;
        assert!(events[0].contains("failed calling webhook"), "{events:?}");
        let status = written(&mut scene).await;
        assert_eq!(status["active"], 1, "{code}");
        let lists = &status["uncountedTerminatedPods"];
        assert_eq!(lists["succeeded"], json!([pod_uid(2)]), "{code}");
        // Names follow from what the status counts: with this one no other pod is made for a while.
        let unanswered = scene.controller.memory.lock().unwrap();
        let unanswered = unanswered
            .values()
            .flat_map(|known| known.unanswered.keys());
        let may_come = if code == 403 { vec![] } else { vec![name] };
        assert!(unanswered.eq(&may_come), "{code}");
    }
}
