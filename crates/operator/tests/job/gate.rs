//! The gate, which stands where upstream has expectations: a Job is planned when the caches have
//! seen what was last written for it.

use carillon_operator::gate::Kind;
use carillon_operator::kinds::job::CONTROLLER;
use carillon_operator::kinds::job::SlimJob;
use carillon_operator::slim::SlimPod;
use carillon_plan::job::plan;
use http::Method;
use serde_json::{Value, json};

use super::objects::{forbidden, job_of, pod_of, pod_uid, stored};
use super::{JOB, PODS, Scene, WRITTEN, job_key};

/// The Job was about to be planned, and had to wait.
fn waits(scene: &Scene) -> u64 {
    let waits = &scene.controller.core.metrics.gate_waits;
    waits.with_label_values(&[CONTROLLER]).get()
}

impl Scene {
    /// Until the Job has come to the closed gate some more times.
    async fn stand_at_the_gate(&mut self) {
        let before = waits(self);
        self.work_until(|scene| waits(scene) > before + 3).await;
    }
}

fn finalizers(pod: &mut Value, finalizers: &Value) {
    pod["metadata"]["finalizers"] = finalizers.clone();
}

#[tokio::test]
async fn pods_that_were_made_are_all_seen_before_they_are_counted() {
    let spec = json!({"parallelism": 2, "completions": 2});
    let job = job_of(13, &spec, &json!({}));
    let mut scene = Scene::new(plan, stored(&job));
    scene.see::<SlimJob>(&job);
    scene.work_until(|scene| scene.syncs("success") == 1).await;
    let made = scene.sent(&Method::POST, PODS);
    assert_eq!(made.len(), 2);
    let status = scene.sent(&Method::PATCH, "/status").remove(0)["status"].take();
    scene.see::<SlimJob>(&job_of(WRITTEN, &spec, &status));
    scene.stand_at_the_gate().await;
    for (n, (rv, pod)) in [WRITTEN - 1, WRITTEN].into_iter().zip(made).enumerate() {
        assert_eq!(scene.decisions(), 1, "one pod is not both");
        let mut pod = pod;
        pod["metadata"]["uid"] = json!(pod_uid(n as u8));
        pod["metadata"]["resourceVersion"] = json!(rv.to_string());
        scene.see::<SlimPod>(&pod);
    }
    scene.work_until(|scene| scene.decisions() == 2).await;
    assert_eq!(scene.sent(&Method::POST, PODS).len(), 2);
}

#[tokio::test]
async fn nothing_is_stopped_or_told_before_own_writes_are_seen() {
    let limit = json!({"parallelism": 2, "completions": 5, "backoffLimit": 0});
    let suspended = json!({"parallelism": 2, "completions": 4, "suspend": true});
    for (spec, phases, told) in [
        (limit, ["Failed", "Running"], "FailureTarget"),
        (suspended, ["Running", "Running"], "Suspended"),
    ] {
        let mut scene = Scene::new(plan, vec![]);
        let gate = &scene.controller.core.gate;
        gate.lock().unwrap().wrote(&job_key(JOB), Kind::Pod, 60);
        for (n, phase) in [1, 2].into_iter().zip(phases) {
            scene.see::<SlimPod>(&pod_of(n, 40, phase));
        }
        scene.see::<SlimJob>(&job_of(13, &spec, &json!({"active": 2, "ready": 0})));
        scene.stand_at_the_gate().await;
        assert_eq!(scene.requests.lock().unwrap().len(), 0, "{told}");
        scene.see::<SlimPod>(&pod_of(3, 60, "Succeeded"));
        scene
            .work_until(|scene| !scene.sent(&Method::PATCH, "/status").is_empty())
            .await;
        let status = &scene.sent(&Method::PATCH, "/status")[0]["status"];
        assert_eq!(status["conditions"][0]["type"], told);
        // What upstream counts at once, we count now.
        let lists = &status["uncountedTerminatedPods"];
        assert_eq!(lists["succeeded"], json!([pod_uid(3)]), "{told}");
        assert!(!scene.sent(&Method::DELETE, "/sum-2").is_empty(), "{told}");
    }
}

#[tokio::test]
async fn a_pod_that_was_released_counts_when_that_is_seen_and_not_before() {
    for is_deleted in [false, true] {
        let spec = json!({"parallelism": 0, "completions": 5});
        let mut scene = Scene::new(plan, vec![]);
        scene.see::<SlimPod>(&pod_of(1, 40, "Succeeded"));
        scene.see::<SlimJob>(&job_of(13, &spec, &json!({})));
        scene.work_until(|scene| scene.syncs("success") == 1).await;
        let status = scene.sent(&Method::PATCH, "/status").remove(0)["status"].take();
        let lists = &status["uncountedTerminatedPods"];
        assert_eq!(lists["succeeded"], json!([pod_uid(1)]));
        scene.see::<SlimJob>(&job_of(WRITTEN, &spec, &status));
        // The pod is told to stop before it has lost our finalizer.
        let mut pod = pod_of(1, WRITTEN - 1, "Succeeded");
        pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:09Z");
        scene.see::<SlimPod>(&pod);
        scene.stand_at_the_gate().await;
        assert_eq!(scene.decisions(), 1);
        pod["metadata"]["resourceVersion"] = json!(WRITTEN.to_string());
        finalizers(&mut pod, &json!([]));
        if is_deleted {
            scene.lose::<SlimPod>(&pod);
        } else {
            scene.see::<SlimPod>(&pod);
        }
        scene
            .work_until(|scene| scene.sent(&Method::PATCH, "/status").len() == 2)
            .await;
        let status = &scene.sent(&Method::PATCH, "/status")[1]["status"];
        assert_eq!(status["succeeded"], 1, "{is_deleted}");
        assert_eq!(scene.sent(&Method::PATCH, "/sum-1").len(), 1);
    }
}

#[tokio::test]
async fn a_finalizer_that_could_not_be_taken_is_not_waited_for() {
    let path = "/api/v1/namespaces/ops/pods/sum-1";
    let spec = json!({"parallelism": 0, "completions": 5});
    let mut scene = Scene::new(plan, vec![forbidden(Method::PATCH, path)]);
    scene.see::<SlimPod>(&pod_of(1, 40, "Succeeded"));
    scene.see::<SlimJob>(&job_of(13, &spec, &json!({})));
    scene.work_until(|scene| scene.syncs("error") == 1).await;
    let status = scene.sent(&Method::PATCH, "/status").remove(0)["status"].take();
    scene.see::<SlimJob>(&job_of(WRITTEN, &spec, &status));
    scene
        .work_until(|scene| scene.sent(&Method::PATCH, "/sum-1").len() == 2)
        .await;
    assert_eq!(scene.sent(&Method::PATCH, "/status").len(), 1, "it said so");
}

#[tokio::test]
async fn a_late_event_of_a_job_that_was_just_ended_makes_no_pod() {
    let spec = json!({"parallelism": 1, "completions": 1});
    let met =
        json!({"type": "SuccessCriteriaMet", "status": "True", "reason": "CompletionsReached"});
    let before = json!({"succeeded": 1, "ready": 0, "terminating": 0,
        "startTime": "2026-01-01T00:00:00Z", "uncountedTerminatedPods": {}, "conditions": [met]});
    let mut scene = Scene::new(plan, vec![]);
    scene.see::<SlimJob>(&job_of(13, &spec, &before));
    scene.work_until(|scene| scene.syncs("success") == 1).await;
    let written = &scene.sent(&Method::PATCH, "/status")[0]["status"];
    assert_eq!(written["conditions"][1]["type"], "Complete");
    // From before its success was counted, and its pod is gone.
    let early = json!({"active": 1, "ready": 1, "startTime": "2026-01-01T00:00:00Z"});
    let mut late = job_of(14, &spec, &early);
    late["metadata"]["generation"] = json!(2);
    scene.see::<SlimJob>(&late);
    scene.stand_at_the_gate().await;
    assert_eq!(
        (scene.decisions(), scene.sent(&Method::POST, PODS).len()),
        (1, 0)
    );
}

#[tokio::test]
async fn an_operator_that_has_written_nothing_itself_makes_no_pod_from_an_old_job() {
    let spec = json!({"parallelism": 1, "completions": 1});
    let of_today = job_of(60, &spec, &json!({"succeeded": 1}));
    let mut scene = Scene::new(plan, stored(&of_today));
    scene.see::<SlimJob>(&job_of(13, &spec, &json!({})));
    scene
        .work_until(|scene| scene.sent(&Method::GET, "/jobs/sum").len() == 2)
        .await;
    assert_eq!(scene.sent(&Method::POST, PODS).len(), 0);
}
