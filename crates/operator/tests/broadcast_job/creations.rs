//! Creations that are refused, and API servers that are slow.

use std::time::Duration;

use carillon_api::node_result_slice::NodeResult;
use carillon_api::{condition::reasons, names};
use carillon_operator::kinds::broadcast_job::{SlimBroadcastJob, SlimSlice};
use carillon_operator::slim::SlimNode;
use carillon_plan::name;
use http::Method;
use serde_json::{Value, json};

use super::{Answer, JOB, Rules, Scene, Sent, job, owned, refuses_deletions, uid};

/// Whether a pod is for a node whose pods an admission webhook refuses.
fn is_refused(sent: &Sent<'_>) -> bool {
    sent.body.to_string().contains("refused-node")
}

pub(crate) fn wide_job(rv: u64, status: &Value) -> Value {
    let mut job = job(rv, status).1;
    job["spec"]["parallelism"] = json!("100%");
    job
}

/// As an API server with nothing but the job and its slices.
pub(crate) fn answer(method: &Method, path: &str, sent: &Sent<'_>) -> (u16, Value) {
    let not_found = json!({"kind": "Status", "code": 404, "reason": "NotFound", "status": "Failure",
        "message": "no"});
    match *method {
        Method::GET if path.ends_with("/fix") => (200, wide_job(13, &Value::Null)),
        Method::GET if path.contains("/pods/") => (404, not_found),
        Method::GET => (200, json!({"metadata": {"resourceVersion": "11"}})),
        Method::POST if path.ends_with("/pods") && !sent.dry_run && is_refused(sent) => {
            refuses_deletions(403)
        }
        // The cache has seen it at once.
        _ => (200, json!({"metadata": {"resourceVersion": "1"}})),
    }
}

fn node_uid(n: usize) -> String {
    format!("4e0c5d6a-0b1c-4d2e-8f3a-0000000000{n:02x}")
}

pub(crate) fn see_node(scene: &Scene, (n, node): (usize, &str)) {
    scene.see::<SlimNode>(&json!({
        "metadata": {"name": node, "uid": node_uid(n), "resourceVersion": "10"},
    }));
}

/// The record of a promise.
pub(crate) fn promise_of(n: usize, node: &str) -> NodeResult {
    NodeResult {
        node_name: node.to_owned(),
        node_uid: node_uid(n),
        attempt: 1,
        pod_name: pod_on(node),
        ..NodeResult::default()
    }
}

pub(crate) fn see_slice(scene: &Scene, index: usize, results: &[NodeResult]) {
    let slice = format!("4e0c5d6a-0b1c-4d2e-8f3a-0000000001{index:02x}");
    let mut meta = owned(&format!("fix-results-{index}"), &slice, 11);
    meta["labels"][names::LABEL_SLICE_INDEX] = json!(index.to_string());
    scene.see::<SlimSlice>(&json!({"metadata": meta, "results": results}));
}

/// Nodes with a slice that holds a promise for each, as after a crash.
pub(crate) fn promise(scene: &Scene, index: usize, nodes: &[(usize, String)]) {
    for (n, node) in nodes {
        see_node(scene, (*n, node));
    }
    let results = nodes.iter().map(|(n, node)| promise_of(*n, node));
    see_slice(scene, index, &results.collect::<Vec<_>>());
}

pub(crate) fn pod_on(node: &str) -> String {
    name::pod("fix", uid(JOB), node, 1)
}

/// Names of the pods that were sent to be created.
pub(crate) fn tried(scene: &Scene) -> Vec<String> {
    let sent = scene.sent(&Method::POST, "/namespaces/ops/pods");
    let name = |body: &Value| body["metadata"]["name"].as_str().unwrap().to_owned();
    sent.iter().map(name).collect()
}

#[tokio::test]
async fn a_pod_that_is_refused_for_ever_keeps_no_other_node_waiting() {
    let mut scene = Scene::answered(Rules::default(), answer);
    let nodes = ["refused-node", "n1", "n2", "n3"].map(str::to_owned);
    let nodes: Vec<_> = nodes.into_iter().enumerate().collect();
    promise(&scene, 0, &nodes);
    scene.see::<SlimBroadcastJob>(&wide_job(13, &Value::Null));
    let all = |scene: &Scene| {
        let tried = tried(scene);
        nodes.iter().all(|(_, node)| tried.contains(&pod_on(node)))
    };
    scene.work_until(all).await;
}

#[tokio::test]
async fn a_template_that_is_refused_on_one_node_is_not_refused() {
    let answer: Answer = |method, path, sent| match *method {
        Method::POST if path.ends_with("/pods") && is_refused(sent) => refuses_deletions(403),
        _ => answer(method, path, sent),
    };
    let mut scene = Scene::answered(Rules::default(), answer);
    for node in ["a-refused-node", "n1"].into_iter().enumerate() {
        see_node(&scene, node);
    }
    scene.see::<SlimBroadcastJob>(&wide_job(13, &Value::Null));
    scene
        .work_until(|scene| tried(scene).contains(&pod_on("a-refused-node")))
        .await;
    // Nor is it accepted when no node would have such a pod.
    let mut scene = Scene::answered(Rules::default(), answer);
    for node in ["a-refused-node", "b-refused-node"].into_iter().enumerate() {
        see_node(&scene, node);
    }
    scene.see::<SlimBroadcastJob>(&wide_job(13, &Value::Null));
    let stalled = |body: &Value| body.to_string().contains(reasons::POD_FORBIDDEN);
    let told = |scene: &Scene| scene.sent(&Method::PATCH, "/status").iter().any(stalled);
    scene.work_until(told).await;
}

#[tokio::test(start_paused = true)]
async fn of_a_job_that_was_edited_meanwhile_not_each_creation_asks() {
    let answer: Answer = |method, path, sent| match *method {
        Method::GET if path.ends_with("/fix") => (200, wide_job(14, &Value::Null)),
        _ => answer(method, path, sent),
    };
    let latency = Duration::from_millis(400);
    let mut scene = Scene::busy(Rules::default(), answer, 32, latency);
    let nodes = (0..200).map(|n| (n, format!("n{n:03}")));
    promise(&scene, 0, &nodes.collect::<Vec<_>>());
    scene.see::<SlimBroadcastJob>(&wide_job(13, &Value::Null));
    scene.work_until(|scene| scene.retries() == 1).await;
    let asked = scene.sent(&Method::GET, "/fix").len();
    assert!(asked <= 2, "{asked}");
}

#[tokio::test(start_paused = true)]
async fn a_template_that_is_refused_slowly_is_refused() {
    let answer: Answer = |method, path, sent| match *method {
        Method::POST if path.ends_with("/pods") => refuses_deletions(403),
        _ => answer(method, path, sent),
    };
    let latency = Duration::from_secs(6);
    let mut scene = Scene::busy(Rules::default(), answer, 32, latency);
    for node in ["n1", "n2", "n3"].into_iter().enumerate() {
        see_node(&scene, node);
    }
    scene.see::<SlimBroadcastJob>(&wide_job(13, &Value::Null));
    let stalled = |body: &Value| body.to_string().contains(reasons::POD_FORBIDDEN);
    let told = |scene: &Scene| scene.sent(&Method::PATCH, "/status").iter().any(stalled);
    scene.work_until(told).await;
}
