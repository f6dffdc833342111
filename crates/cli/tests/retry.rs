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
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}},
        "status": status,
    });
    for (key, value) in spec.as_object().unwrap() {
        object["spec"][key] = value.clone();
    }
    object
}

/// The first job, which has ended; its retry has had its turn.
fn first() -> Value {
    let complete = json!([{"type": "Complete", "status": "True", "reason": "AllNodesSucceeded", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    let retries = json!([{"name": "fix-retry-1", "uid": RETRY}]);
    let status = json!({"conditions": complete, "retries": retries});
    job("fix", FIRST, &json!({}), &status)
}

/// The first job before anybody has retried it.
fn first_without_retries() -> Value {
    let mut first = first();
    first["status"]["retries"] = json!([]);
    first
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
    jobs: Arc<Mutex<Vec<Value>>>,
}

impl Cluster {
    fn new(jobs: Vec<Value>, slices: Vec<Value>) -> Self {
        Self::racing(jobs, slices, None)
    }

    /// `rival` makes a job at the moment in which one is to be created.
    fn racing(jobs: Vec<Value>, slices: Vec<Value>, rival: Option<Value>) -> Self {
        let rival = Mutex::new(rival);
        Self::creating(jobs, slices, move |_, jobs| {
            jobs.extend(rival.lock().unwrap().take());
            None
        })
    }

    /// `before` is called with URI and jobs before one is created, and may answer in place of that.
    fn creating(
        jobs: Vec<Value>,
        slices: Vec<Value>,
        before: impl Fn(&str, &mut Vec<Value>) -> Option<(u16, Value)> + Send + Sync + 'static,
    ) -> Self {
        let created = Arc::new(Mutex::new(Vec::new()));
        let jobs = Arc::new(Mutex::new(jobs));
        let (seen, shared) = (Arc::clone(&created), Arc::clone(&jobs));
        let port = http::serve(Arc::new(move |method, uri, body| {
            let path = uri.split('?').next().unwrap();
            let mut jobs = shared.lock().unwrap();
            let is = |job: &&Value, name: &str| job["metadata"]["name"] == name;
            if method == "POST" {
                if let Some(answer) = before(uri, &mut jobs) {
                    return answer;
                }
                let name = body["metadata"]["name"].as_str().unwrap();
                if jobs.iter().any(|job| is(&job, name)) {
                    return (409, refusal(409));
                }
                seen.lock().unwrap().push(body.clone());
                return (201, body.clone());
            }
            if method == "PATCH" {
                seen.lock().unwrap().push(body.clone());
                return (200, body.clone());
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
                "nodes" => list(&[node("n1"), cordoned("n2")]),
                "n1" => node("n1"),
                "n2" => cordoned("n2"),
                _ if path.contains("/nodes/") || path.contains("/daemonsets/") => {
                    return (404, refusal(404));
                }
                name => match jobs.iter().find(|job| is(job, name)) {
                    Some(job) => job.clone(),
                    None => return (404, refusal(404)),
                },
            };
            (200, found)
        }));
        Self {
            port,
            created,
            jobs,
        }
    }

    fn run(&self, args: &[&str]) -> Output {
        http::run(self.port, args)
    }
}

fn refusal(code: u16) -> Value {
    let reason = if code == 404 {
        "NotFound"
    } else {
        "AlreadyExists"
    };
    json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": "no"})
}

fn node(name: &str) -> Value {
    json!({"metadata": {"name": name, "uid": NODE}, "spec": {}, "status": {}})
}

fn cordoned(name: &str) -> Value {
    let mut node = node(name);
    node["spec"]["unschedulable"] = true.into();
    node
}

/// A retry of the first job for n1 that has not ended.
fn retry() -> Value {
    let spec = json!({"nodeNames": ["n1"], "retryOf": {"name": "fix", "uid": FIRST}});
    job("fix-retry-1", RETRY, &spec, &json!({}))
}

fn failed() -> Value {
    slice(
        FIRST,
        json!({"nodeName": "n1", "attempt": 1, "state": "Failed", "podName": "fix-x",
            "reason": "NonZeroExitCode", "exitCode": 1}),
    )
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn for_a_node_that_a_deleted_retry_may_have_done_nothing_is_made_and_it_is_told_what_to_do() {
    let open = json!({"nodeName": "n1", "attempt": 1, "state": "Started", "podName": "fix-y"});
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

#[test]
fn a_retry_at_work_on_the_failed_nodes_is_named_by_retry_and_results() {
    let started = json!({"nodeName": "n1", "attempt": 1, "state": "Started", "podName": "fix-y"});
    let cluster = Cluster::new(
        vec![first(), retry()],
        vec![failed(), slice(RETRY, started)],
    );
    for which in [&["--failed"][..], &["--node", "n1"]] {
        for job in ["fix", "fix-retry-1"] {
            let output = cluster.run(&[&["retry", job], which].concat());
            assert_eq!(output.status.code(), Some(0), "{output:?}");
            let expected = "broadcastjob.carillon.dev/fix-retry-1 tries already 1 node: n1\n";
            assert_eq!(text(&output.stdout), expected);
        }
    }
    let output = cluster.run(&["results", "fix", "--failed"]);
    assert_eq!(text(&output.stdout), "");
    let expected =
        "fix-retry-1 tries again 1 node: n1\nBroadcastJob fix has no other failed node.\n";
    assert_eq!(text(&output.stderr), expected);
    assert!(cluster.created.lock().unwrap().is_empty());
}

#[test]
fn of_two_who_ask_at_once_one_makes_a_retry_and_the_other_is_told_of_it() {
    let cluster = Cluster::racing(vec![first_without_retries()], vec![failed()], Some(retry()));
    let output = cluster.run(&["retry", "fix", "--failed"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let expected = "broadcastjob.carillon.dev/fix-retry-1 tries already 1 node: n1\n";
    assert_eq!(text(&output.stdout), expected);
    assert!(cluster.created.lock().unwrap().is_empty());
    assert_eq!(cluster.jobs.lock().unwrap().len(), 2);
}

/// They would drop these fields, and the retry would run on every node. That is why it is asked for strictly.
#[test]
fn crds_without_a_field_that_a_retry_relies_on_get_none_and_it_is_told_to_upgrade() {
    for field in ["spec.nodeNames", "spec.retryOf"] {
        let words = format!(
            "BroadcastJob in version \"v1alpha1\" cannot be handled as a BroadcastJob: strict decoding error: \
             unknown field \"{field}\""
        );
        let refusal = json!({"kind": "Status", "status": "Failure", "code": 400, "reason": "BadRequest",
            "message": words});
        let cluster = Cluster::creating(
            vec![first_without_retries()],
            vec![failed()],
            move |uri, _| {
                let strict = uri.contains("fieldValidation=Strict");
                strict.then(|| (400, refusal.clone()))
            },
        );
        for how in [
            &["--failed"][..],
            &["--node=n1"],
            &["--failed", "--dry-run"],
        ] {
            let output = cluster.run(&[&["retry", "fix"], how].concat());
            assert_eq!(output.status.code(), Some(1), "{output:?}");
            assert_eq!(text(&output.stdout), "", "{how:?}");
            let expected = format!(
                "error: the CRDs of the cluster are older than this program, and fix-retry-1 would run where it \
                 must not: upgrade Carillon first ({words})\n"
            );
            assert_eq!(text(&output.stderr), expected, "{how:?}");
        }
        assert!(cluster.created.lock().unwrap().is_empty(), "{field}");
    }
}

#[test]
fn a_name_that_a_deleted_retry_has_had_is_not_given_again() {
    let over = json!({"nodeName": "n1", "attempt": 1, "state": "Failed", "podName": "fix-y",
        "reason": "NonZeroExitCode", "exitCode": 1});
    let cluster = Cluster::new(vec![first()], vec![failed(), slice(RETRY, over)]);
    let output = cluster.run(&["retry", "fix", "--failed"]);
    let expected = "broadcastjob.carillon.dev/fix-retry-2 created for 1 node: n1\n";
    assert_eq!(text(&output.stdout), expected);
}

#[test]
fn a_node_that_does_not_exist_is_not_tried_and_a_cordoned_one_is_said_to_wait() {
    let mut open = first_without_retries();
    open["status"] = json!({});
    let fails = |node: &str| {
        let mut failed = failed();
        failed["results"][0]["nodeName"] = node.into();
        failed
    };
    for job in [first_without_retries(), open] {
        let cluster = Cluster::new(vec![job], vec![fails("n2")]);
        let output = cluster.run(&["retry", "fix", "--node", "nope"]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert_eq!(text(&output.stderr), "error: there is no node nope\n");
        assert!(cluster.created.lock().unwrap().is_empty());
        for which in [&["--failed"][..], &["--node", "n2"]] {
            let output = cluster.run(&[&["retry", "fix"], which].concat());
            assert_eq!(output.status.code(), Some(0), "{output:?}");
            let expected = "Nothing is started for now on 1 node: n2: the node is cordoned\n";
            assert_eq!(text(&output.stderr), expected);
        }
        assert_eq!(cluster.created.lock().unwrap().len(), 2);
    }
    let cluster = Cluster::new(vec![first_without_retries()], vec![fails("n3")]);
    let output = cluster.run(&["retry", "fix", "--node", "n3"]);
    assert!(
        text(&output.stderr).starts_with("error: node n3 is gone"),
        "{output:?}"
    );
}

#[test]
fn explain_of_a_node_tells_what_the_family_has_done_there_and_advises_no_retry_that_is_refused() {
    let done = json!({"nodeName": "n1", "attempt": 1, "state": "Succeeded", "podName": "fix-y", "exitCode": 0});
    let mut ended = retry();
    ended["status"] = json!({"conditions": first()["status"]["conditions"]});
    let mut later = retry();
    later["metadata"]["name"] = "fix-retry-2".into();
    later["metadata"]["uid"] = "4e0c5d6a-0b1c-4d2e-8f3a-000000000003".into();
    let cluster = Cluster::new(
        vec![first(), ended, later],
        vec![failed(), slice(RETRY, done)],
    );
    let explain = |job: &str, node: &str| cluster.run(&["explain", job, "--node", node]);
    let of_first = text(&explain("fix", "n1").stdout);
    assert!(of_first.contains("\n\nIn fix-retry-1:\nNODE"), "{of_first}");
    assert!(
        of_first.contains(
            "Next: nothing: node n1 has succeeded in fix-retry-1, and is never run again"
        ),
        "{of_first}"
    );
    let of_later = text(&explain("fix-retry-2", "n1").stdout);
    assert!(
        of_later.starts_with("n1 in fix-retry-2: Refused (AlreadySucceeded)\n"),
        "{of_later}"
    );
    assert!(
        of_later
            .contains("Next: nothing: it has succeeded in fix-retry-1, and is never run again."),
        "{of_later}"
    );
    let nowhere = explain("fix", "nope");
    assert_eq!(
        text(&nowhere.stderr),
        "error: there is no node nope. Did you mean n1, n2?\n"
    );
}

/// The manifest of a retry, planned against the cluster.
fn planned(cluster: &Cluster, uid: &str, more: &Value) -> Output {
    let mut manifest = retry();
    manifest["kind"] = "BroadcastJob".into();
    manifest["apiVersion"] = "carillon.dev/v1alpha1".into();
    manifest["metadata"] = json!({"name": "mine"});
    manifest["spec"]["retryOf"]["uid"] = uid.into();
    for (field, value) in more.as_object().unwrap() {
        manifest["spec"][field] = value.clone();
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.json");
    std::fs::write(&file, manifest.to_string()).unwrap();
    cluster.run(&["plan", "-f", file.to_str().unwrap()])
}

#[test]
fn plan_judges_the_manifest_of_a_retry_by_what_its_family_has_done() {
    let done = json!({"nodeName": "n1", "attempt": 1, "state": "Succeeded", "podName": "fix-y", "exitCode": 0});
    let mut ended = retry();
    ended["status"] = json!({"conditions": first()["status"]["conditions"]});
    let cluster = Cluster::new(
        vec![first(), ended.clone()],
        vec![failed(), slice(RETRY, done)],
    );
    for (names, reason) in [(json!(["n1"]), "refused"), (Value::Null, "not chosen")] {
        let output = planned(&cluster, FIRST, &json!({"nodeNames": names}));
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let said = text(&output.stdout);
        let row = said
            .lines()
            .find(|line| line.contains("AlreadySucceeded"))
            .unwrap_or(&said);
        assert!(row.contains(reason), "{said}");
        assert!(
            row.ends_with("n1: it has succeeded in fix-retry-1"),
            "{said}"
        );
        assert!(said.contains(": 0 of "), "{said}");
    }
    // It has failed in a retry that the manifest does not count.
    let again = json!({"nodeName": "n1", "attempt": 1, "state": "Failed", "podName": "fix-y", "exitCode": 1});
    let cluster = Cluster::new(vec![first(), ended], vec![failed(), slice(RETRY, again)]);
    let said = text(&planned(&cluster, FIRST, &json!({})).stdout);
    assert!(said.contains("AlreadyTried"), "{said}");
    let knows = json!({"retryOf": {"name": "fix", "uid": FIRST, "knownRetries": 1}});
    let output = planned(&cluster, FIRST, &knows);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let said = text(&planned(&cluster, RETRY, &json!({})).stdout);
    let expected = format!(
        "error: RetriedJobGone: spec.retryOf: BroadcastJob fix has uid {FIRST}, and not {RETRY}"
    );
    assert!(said.contains(&expected), "{said}");
    let of_retry = json!({"retryOf": {"name": "fix-retry-1", "uid": RETRY}});
    let said = text(&planned(&cluster, RETRY, &of_retry).stdout);
    let expected = format!(
        "fix-retry-1 is a retry itself; create the job again with name fix and uid {FIRST}"
    );
    assert!(said.contains(&expected), "{said}");
    let gone = json!({"retryOf": {"name": "gone", "uid": FIRST}});
    let said = text(&planned(&cluster, FIRST, &gone).stdout);
    assert!(
        said.contains("error: RetriedJobGone: there is no BroadcastJob gone with uid"),
        "{said}"
    );
}

#[test]
fn what_a_job_that_failed_fast_has_not_started_is_served_by_a_retry_of_what_is_unfinished() {
    let mut failed_fast = first_without_retries();
    failed_fast["status"]["conditions"][0]["type"] = "Failed".into();
    let fails = |node: &str| {
        let mut failed = failed();
        failed["results"][0]["nodeName"] = node.into();
        failed
    };
    // n1 was not started, and the cordoned n2 has failed.
    let cluster = Cluster::new(vec![failed_fast], vec![fails("n2")]);
    let output = cluster.run(&["explain", "fix"]);
    let expected = "Next: 1 node was not started; to run the job there and where it has failed: kubectl carillon \
                    retry fix --unfinished.\n";
    let said = text(&output.stdout);
    assert!(said.ends_with(expected), "{said}");
    let output = cluster.run(&["retry", "fix", "--unfinished"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let expected = "broadcastjob.carillon.dev/fix-retry-1 created for 2 nodes: n1, n2\n";
    assert_eq!(text(&output.stdout), expected);
    let created = cluster.created.lock().unwrap()[0].clone();
    assert_eq!(created["spec"]["nodeNames"], json!(["n1", "n2"]));
    assert_eq!(created["spec"]["retryOf"]["uid"], FIRST);
    let done = json!({"nodeName": "n1", "attempt": 1, "state": "Succeeded", "podName": "fix-x", "exitCode": 0});
    let cluster = Cluster::new(vec![first_without_retries()], vec![slice(FIRST, done)]);
    // The cordoned n2 was never started and is not eligible.
    let output = cluster.run(&["retry", "fix", "--unfinished"]);
    assert_eq!(text(&output.stderr), "error: fix has left nothing to do\n");
    let mut open = first_without_retries();
    open["status"] = json!({});
    let output = Cluster::new(vec![open], vec![]).run(&["retry", "fix", "--unfinished"]);
    assert!(
        text(&output.stderr).starts_with("error: fix has not ended"),
        "{output:?}"
    );
}
