//! Writes that are refused for ever, by an API server whose other answers come back as events.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use carillon_api::NodeState;
use carillon_operator::controllers::core;
use carillon_operator::kinds::broadcast_job::SlimBroadcastJob;
use carillon_operator::slim::SlimPod;
use http::Method;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::creations::{answer, pod_on, promise, promise_of, see_node, see_slice, tried, wide_job};
use super::{Answer, Rules, Scene, Sent, owned, refuses_deletions};

thread_local! {
    /// The version of the job.
    static VERSION: Cell<u64> = const { Cell::new(13) };
}

fn merge(into: &mut Value, patch: &Value) {
    let Some(fields) = patch.as_object() else {
        *into = patch.clone();
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    for (field, value) in fields {
        if value.is_null() {
            into.as_object_mut().unwrap().remove(field);
        } else {
            merge(&mut into[field], value);
        }
    }
}

/// Lets the controller work until `done`, or for so long. What it writes of the job's status comes back; the
/// statuses that it wrote.
async fn live(scene: &Scene, limit: Duration, done: impl Fn() -> bool) -> Vec<Value> {
    let (begin, written) = (Instant::now(), RefCell::new(vec![Value::Null]));
    VERSION.set(13);
    scene.see::<SlimBroadcastJob>(&wide_job(VERSION.get(), &Value::Null));
    let come_back = || {
        let sent = scene.sent(&Method::PATCH, "/status");
        let mut written = written.borrow_mut();
        while let Some(patch) = sent.get(written.len() - 1) {
            let mut status = written.last().unwrap().clone();
            merge(&mut status, &patch["status"]);
            VERSION.set(VERSION.get() + 1);
            let job = wide_job(VERSION.get(), &status);
            written.push(status);
            scene.see_within::<SlimBroadcastJob>(&job, Duration::from_secs(1));
        }
    };
    let events = async {
        while begin.elapsed() < limit && !done() {
            come_back();
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::select! {
        () = core::work(scene.controller.clone()) => panic!("the controller stopped"),
        () = events => {}
    }
    written.into_inner()
}

/// As [`answer`], and the job is the one of now.
fn present(method: &Method, path: &str, sent: &Sent<'_>) -> (u16, Value) {
    match *method {
        Method::GET if path.ends_with("/fix") => (200, wide_job(VERSION.get(), &Value::Null)),
        // The version at which it comes back: until then the job is not looked at.
        Method::PATCH if path.ends_with("/status") => {
            let version = (VERSION.get() + 1).to_string();
            (200, json!({"metadata": {"resourceVersion": version}}))
        }
        _ => answer(method, path, sent),
    }
}

/// As an admission webhook that says which node it does not like.
fn in_words_of_the_node(method: &Method, path: &str, sent: &Sent<'_>) -> (u16, Value) {
    let (code, mut reply) = present(method, path, sent);
    if code == 403 {
        let affinity = sent.body["spec"]["affinity"].to_string();
        reply["message"] = json!(format!("denied the request: {affinity}"));
    }
    (code, reply)
}

#[tokio::test(start_paused = true)]
async fn nodes_that_are_refused_each_in_its_own_words_take_no_turns_in_the_status() {
    let busy = async |refused: usize| {
        let latency = Duration::from_millis(5);
        let scene = Scene::busy(Rules::default(), in_words_of_the_node, 32, latency);
        let nodes = (0..refused).map(|n| (n, format!("a-refused-node-{n}")));
        promise(&scene, 0, &nodes.collect::<Vec<_>>());
        let statuses = live(&scene, Duration::from_mins(1), || false).await;
        (tried(&scene).len(), statuses.len())
    };
    let (one, two) = (busy(1).await, busy(2).await);
    // A plan tries both.
    assert!(two.0 <= 2 * one.0 && two.1 <= one.1 + 1, "{one:?} {two:?}");
}

#[tokio::test(start_paused = true)]
async fn however_many_nodes_are_refused_the_others_are_tried_at_once() {
    let latency = Duration::from_millis(5);
    let scene = Scene::busy(Rules::default(), present, 32, latency);
    let nodes = (0..99).map(|n| (n, format!("a-refused-node-{n:02}")));
    let good = (99, "z".to_owned());
    promise(&scene, 0, &nodes.chain([good]).collect::<Vec<_>>());
    let begin = Instant::now();
    let done = || tried(&scene).contains(&pod_on("z"));
    live(&scene, Duration::from_mins(10), done).await;
    let took = begin.elapsed();
    assert!(took < Duration::from_secs(10), "{took:?}");
    // From then on each refusal has longer to wait.
    let before = tried(&scene).len();
    live(&scene, Duration::from_mins(10), || false).await;
    let more = tried(&scene).len() - before;
    assert!(more < 400, "{more} in ten minutes");
}

/// What each status that is written says of Stalled, while the release of a pod is answered so.
async fn stalled_while_releases_are(answer: Answer) -> Vec<String> {
    let scene = Scene::busy(Rules::default(), answer, 8, Duration::from_millis(5));
    for (n, node) in ["n1", "n2"].into_iter().enumerate() {
        see_node(&scene, (n, node));
        let phase = ["Succeeded", "Running"][n];
        let pod_uid = format!("4e0c5d6a-0b1c-4d2e-8f3a-0000000100{n:02x}");
        scene.see::<SlimPod>(&json!({
            "metadata": owned(&pod_on(node), &pod_uid, 12),
            "spec": {"nodeName": node}, "status": {"phase": phase},
        }));
    }
    let record = |n, node, state| {
        let mut record = promise_of(n, node);
        record.state = state;
        record.pod_uid = format!("4e0c5d6a-0b1c-4d2e-8f3a-0000000100{n:02x}");
        record
    };
    let results = [
        record(0, "n1", NodeState::Succeeded),
        record(1, "n2", NodeState::Started),
    ];
    see_slice(&scene, 0, &results);
    let statuses = live(&scene, Duration::from_mins(10), || false).await;
    let sent = scene.requests.lock().unwrap().len();
    assert!(sent < 100, "{sent} requests in ten minutes");
    let stalled = |status: &Value| {
        let conditions = status["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        let stalled = conditions.find(|condition| condition["type"] == "Stalled");
        stalled.map_or(String::new(), |stalled| {
            format!("{} {}", stalled["status"], stalled["reason"])
        })
    };
    statuses.iter().map(stalled).collect()
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_for_ever_is_told_once() {
    let refused: Answer = |method, path, sent| match *method {
        Method::PATCH if path.contains("/pods/") => refuses_deletions(403),
        _ => present(method, path, sent),
    };
    let outrun: Answer = |method, path, sent| match *method {
        Method::PATCH if path.contains("/pods/") => refuses_deletions(409),
        _ => present(method, path, sent),
    };
    for answer in [refused, outrun] {
        let mut told = stalled_while_releases_are(answer).await;
        told.dedup();
        let last = told.last().unwrap();
        assert_eq!(last, "\"True\" \"WriteRefused\"", "{told:?}");
        let times = told.iter().filter(|told| *told == last).count();
        assert_eq!(times, 1, "{told:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_slow_webhook_refuses_is_told_in_its_words() {
    let latency = Duration::from_millis(1500);
    let scene = Scene::busy(Rules::default(), present, 32, latency);
    let nodes = (0..9).map(|n| (n, format!("a-refused-node-{n}")));
    promise(&scene, 0, &nodes.collect::<Vec<_>>());
    let statuses = live(&scene, Duration::from_mins(10), || false).await;
    let last = statuses.last().unwrap().to_string();
    assert!(last.contains("PodCreationFailing"), "{last}");
    assert!(
        last.contains("webhook said no") && !last.contains("WriteRefused"),
        "{last}"
    );
}
