//! Names that tenants write into owner references, and the paths that are asked because of them.

use std::collections::BTreeSet;

use carillon_operator::kinds::job::SlimJob;
use carillon_operator::slim::SlimPod;
use carillon_plan::job::plan;
use http::Method;
use serde_json::json;

use super::objects::job_of;
use super::{Answers, Scene, pod, refusal};

#[tokio::test]
async fn the_name_of_an_owner_leads_to_no_request_outside_its_kind_and_namespace() {
    let jobs = "/apis/batch/v1/namespaces/ops/jobs/";
    let released = "/api/v1/namespaces/ops/pods/sum-a";
    for (name, asked) in [
        ("?watch=true", Some("%3Fwatch%3Dtrue")),
        ("sum#", Some("sum%23")),
        ("..", None),
        ("../../nodes", None),
        ("..%2F..%2Fnodes", None),
        ("sum/status", None),
    ] {
        let asked = asked.map(|segment| format!("{jobs}{segment}"));
        let none = refusal(404, "NotFound", "there is none");
        let path: &'static str = asked.clone().unwrap_or_default().leak();
        let answers: Answers = vec![(Method::GET, path, "", 404, none)];
        let mut scene = Scene::new(plan, answers);
        let job = job_of(13, &json!({}), &json!({}));
        let mut pod = pod();
        pod["metadata"]["ownerReferences"][0]["name"] = json!(name);
        scene.see::<SlimPod>(&pod);
        scene.see::<SlimJob>(&job);
        scene.lose::<SlimJob>(&job);
        // There can be no such Job, so that its pod is released.
        scene
            .work_until(|scene| !scene.sent(&Method::PATCH, "/sum-a").is_empty())
            .await;
        let requests = scene.requests.lock().unwrap();
        let paths: BTreeSet<&str> = requests.iter().map(|(_, path, _)| &**path).collect();
        let expected = asked.as_deref().into_iter().chain([released]).collect();
        assert_eq!(paths, expected, "{name}");
    }
}
