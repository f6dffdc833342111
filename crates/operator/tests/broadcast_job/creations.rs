//! Creations that are refused, and API servers that are slow.

use std::time::Duration;

use carillon_api::node_result_slice::NodeResult;
use carillon_api::{condition::reasons, names};
use carillon_operator::controllers::broadcast_job::{NAME, Rules};
use carillon_operator::slim::{SlimBroadcastJob, SlimNode, SlimSlice};
use carillon_plan::name;
use http::Method;
use serde_json::{Value, json};

use super::{Answer, JOB, Scene, Sent, job, owned, refuses_deletions, uid};

/// Whether a pod is for a node whose pods an admission webhook refuses.
fn is_refused(sent: &Sent<'_>) -> bool {
    sent.body.to_string().contains("refused-node")
}

fn wide_job() -> Value {
    let mut job = job(13, &Value::Null).1;
    job["spec"]["parallelism"] = json!("100%");
    job
}

/// As an API server with nothing but the job and its slices.
fn answer(method: &Method, path: &str, sent: &Sent<'_>) -> (u16, Value) {
    let not_found = json!({"kind": "Status", "code": 404, "reason": "NotFound", "status": "Failure",
        "message": "no"});
    match *method {
        Method::GET if path.ends_with("/fix") => (200, wide_job()),
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

fn see_node(scene: &Scene, (n, node): (usize, &str)) {
    scene.see::<SlimNode>(&json!({
        "metadata": {"name": node, "uid": node_uid(n), "resourceVersion": "10"},
    }));
}

/// Nodes with a slice that holds a promise for each, as after a crash.
fn promise(scene: &Scene, index: usize, nodes: &[(usize, String)]) {
    for (n, node) in nodes {
        see_node(scene, (*n, node));
    }
    let result = |(n, node): &(usize, String)| NodeResult {
        node: node.clone(),
        node_uid: node_uid(*n),
        attempt: 1,
        pod: pod_on(node),
        ..NodeResult::default()
    };
    let results: Vec<_> = nodes.iter().map(result).collect();
    let slice = format!("4e0c5d6a-0b1c-4d2e-8f3a-0000000001{index:02x}");
    let mut meta = owned(&format!("fix-results-{index}"), &slice, 11);
    meta["labels"][names::LABEL_SLICE_INDEX] = json!(index.to_string());
    scene.see::<SlimSlice>(&json!({"metadata": meta, "results": results}));
}

fn pod_on(node: &str) -> String {
    name::pod("fix", uid(JOB), node, 1)
}

/// Names of the pods that were sent to be created. Those of dry runs are others.
fn tried(scene: &Scene) -> Vec<String> {
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
    scene.see::<SlimBroadcastJob>(&wide_job());
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
    scene.see::<SlimBroadcastJob>(&wide_job());
    scene
        .work_until(|scene| tried(scene).contains(&pod_on("a-refused-node")))
        .await;
    // Nor is it accepted when no node would have such a pod.
    let mut scene = Scene::answered(Rules::default(), answer);
    for node in ["a-refused-node", "b-refused-node"].into_iter().enumerate() {
        see_node(&scene, node);
    }
    scene.see::<SlimBroadcastJob>(&wide_job());
    let stalled = |body: &Value| body.to_string().contains(reasons::POD_FORBIDDEN);
    let told = |scene: &Scene| scene.sent(&Method::PATCH, "/status").iter().any(stalled);
    scene.work_until(told).await;
}

/// However slow: each plan of ten seconds has its creations.
#[tokio::test(start_paused = true)]
async fn a_slow_api_server_has_pods_created() {
    for seconds in [2, 4] {
        let latency = Duration::from_secs(seconds);
        let mut scene = Scene::busy(Rules::default(), answer, 32, latency);
        for index in 0..3 {
            let nodes = (0..13).map(|n| 13 * index + n);
            let nodes: Vec<_> = nodes.map(|n| (n, format!("n{n:02}"))).collect();
            promise(&scene, index, &nodes);
        }
        scene.see::<SlimBroadcastJob>(&wide_job());
        scene.work_until(|scene| tried(scene).len() >= 2).await;
        let expired = &scene.controller.core.metrics.plans_expired;
        assert_eq!(expired.with_label_values(&[NAME]).get(), 0, "{seconds} s");
    }
}
