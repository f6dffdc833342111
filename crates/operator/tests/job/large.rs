//! Templates that are too large to be kept, and are read again when pods are made of them.

use carillon_operator::kinds::job::SlimJob;
use carillon_plan::job::plan;
use http::Method;
use serde_json::{Value, json};

use super::objects::{job_of, stored};
use super::{PODS, Scene};

/// With a text of so many bytes in its template.
fn job_with(bytes: usize) -> Value {
    let text = "x".repeat(bytes);
    let template = json!({"spec": {"containers": [{"name": "c", "args": [text]}]}});
    let spec = json!({"parallelism": 3, "completions": 3, "template": template});
    job_of(13, &spec, &json!({}))
}

#[tokio::test]
async fn a_large_template_is_read_once_for_all_pods_that_are_created_side_by_side() {
    let mut reads = Vec::new();
    for bytes in [100, 20 << 10] {
        let job = job_with(bytes);
        let mut scene = Scene::new(plan, stored(&job));
        scene.see::<SlimJob>(&job);
        scene.work_until(|scene| scene.syncs("success") == 1).await;
        let pods = scene.sent(&Method::POST, PODS);
        assert_eq!(pods.len(), 3);
        for pod in pods {
            let written = &job["spec"]["template"]["spec"]["containers"];
            assert_eq!(pod["spec"]["containers"], *written);
        }
        reads.push(scene.sent(&Method::GET, "/jobs/sum").len());
    }
    let [small, large] = reads[..] else { panic!() };
    // One pod is created to see whether it can be, then two.
    assert_eq!(large, small + 2);
}

#[tokio::test]
async fn no_pod_is_made_of_a_template_that_is_another_one_by_now() {
    let job = job_with(20 << 10);
    let mut changed = job.clone();
    changed["metadata"]["generation"] = json!(2);
    let mut another = job.clone();
    another["metadata"]["uid"] = json!("4e0c5d6a-0b1c-4d2e-8f3a-5b6c7d8e9fff");
    for found in [changed, another] {
        let mut scene = Scene::new(plan, stored(&found));
        scene.see::<SlimJob>(&job);
        scene
            .work_until(|scene| scene.sent(&Method::GET, "/jobs/sum").len() > 1)
            .await;
        assert_eq!(scene.sent(&Method::POST, PODS), [] as [Value; 0]);
    }
}
