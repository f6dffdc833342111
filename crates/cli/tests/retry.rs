//! `retry` and `results` of a job whose retries were deleted or paused.

// The functions that tests share are tests too.
#![allow(clippy::unwrap_used)]

mod http;

use std::process::Output;
use std::sync::{Arc, Mutex};

use http::list;
use serde_json::{Value, json};

const FIRST: &str = "4e0c5d6a-0b1c-4d2e-8f3a-000000000001";
const RETRY: &str = "4e0c5d6a-0b1c-4d2e-8f3a-000000000002";
const NODE: &str = "4e0c5d6a-0b1c-4d2e-8f3a-000000000009";

fn job(name: &str, uid: &str, spec: &Value, status: &Value) -> Value {
    let mut object = json!({
        "metadata": {"name": name, "namespace": "ops", "uid": uid, "resourceVersion": "7",
            "creationTimestamp": "2026-01-01T00:00:00Z", "generation": 1},
        "spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}},
        "status": status,
    });
    for (key, value) in spec.as_object().unwrap() {
        object["spec"][key] = value.clone();
    }
    object
}

/// The first job, which has ended; its retry has had its turn.
fn first() -> Value {
    let complete = json!([{"type": "Complete", "status": "True", "reason": "AllNodesDone", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    let retries = json!([{"name": "fix-retry-1", "uid": RETRY}]);
    let status = json!({"conditions": complete, "retries": retries});
    job("fix", FIRST, &json!({}), &status)
}

fn slice(uid: &str, result: Value) -> Value {
    let mut result = result;
    result["nodeUID"] = NODE.into();
    json!({
        "metadata": {"name": format!("s-{uid}"), "namespace": "ops", "uid": NODE, "resourceVersion": "8",
            "labels": {"carillon.dev/broadcastjob-uid": uid, "carillon.dev/slice-index": "0"},
            "ownerReferences": [{"apiVersion": "carillon.dev/v1alpha1", "kind": "BroadcastJob",
                "name": "fix", "uid": uid, "controller": true}]},
        "results": [result],
    })
}

/// A cluster with these jobs and slices.
struct Cluster {
    port: u16,
    created: Arc<Mutex<Vec<Value>>>,
}

impl Cluster {
    fn new(jobs: Vec<Value>, slices: Vec<Value>) -> Self {
        let created = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&created);
        let port = http::serve(Arc::new(move |method, uri, body| {
            let path = uri.split('?').next().unwrap();
            if method == "POST" {
                seen.lock().unwrap().push(body.clone());
                return (201, body.clone());
            }
            let of_job = |slice: &&Value| {
                let uid = slice["metadata"]["labels"]["carillon.dev/broadcastjob-uid"].as_str();
                uri.contains(uid.unwrap())
            };
            let found = match path.rsplit('/').next().unwrap() {
                "noderesultslices" => {
                    list(&slices.iter().filter(of_job).cloned().collect::<Vec<_>>())
                }
                "broadcastjobs" => list(&jobs),
                _ => jobs[0].clone(),
            };
            (200, found)
        }));
        Self { port, created }
    }

    fn run(&self, args: &[&str]) -> Output {
        http::run(self.port, args)
    }
}

fn failed() -> Value {
    slice(
        FIRST,
        json!({"node": "n1", "attempt": 1, "state": "Failed", "pod": "fix-x",
            "reason": "NonZeroExitCode", "exitCode": 1}),
    )
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn for_a_node_that_a_deleted_retry_may_have_done_nothing_is_made_and_it_is_told_what_to_do() {
    let open = json!({"node": "n1", "attempt": 1, "state": "Started", "pod": "fix-y"});
    let mut closed = open.clone();
    closed["state"] = "Unknown".into();
    closed["reason"] = "JobDeleted".into();
    for left in [open, closed] {
        let cluster = Cluster::new(vec![first()], vec![failed(), slice(RETRY, left)]);
        for which in [&["--failed"][..], &["--node", "n1"]] {
            let output = cluster.run(&[&["retry", "fix"], which].concat());
            assert_eq!(output.status.code(), Some(1), "{output:?}");
            let said = text(&output.stderr);
            let expected =
                "error: node n1 may have succeeded in fix-retry-1, which was deleted at work";
            assert!(said.starts_with(expected), "{said}");
            assert!(said.contains("create a job without spec.retryOf"), "{said}");
        }
        assert!(cluster.created.lock().unwrap().is_empty());
        let output = cluster.run(&["results", "fix", "--failed"]);
        assert!(
            text(&output.stdout).contains("Unknown: JobDeleted"),
            "{output:?}"
        );
        let output = cluster.run(&["results", "fix", "--failed", "-o", "name"]);
        assert_eq!(text(&output.stdout), "node/n1\n");
    }
}

#[test]
fn a_retry_that_is_paused_is_named_with_what_resumes_it() {
    let spec =
        json!({"paused": true, "nodeNames": ["n1"], "retryOf": {"name": "fix", "uid": FIRST}});
    let retry = job("fix-retry-1", RETRY, &spec, &json!({}));
    let cluster = Cluster::new(vec![first(), retry], vec![failed()]);
    let output = cluster.run(&["retry", "fix", "--failed"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let expected = "broadcastjob.carillon.dev/fix-retry-1 tries already 1 node: n1\n";
    assert_eq!(text(&output.stdout), expected);
    let expected = "It is paused: kubectl carillon resume fix-retry-1\n";
    assert_eq!(text(&output.stderr), expected);
    assert!(cluster.created.lock().unwrap().is_empty());
}
