//! A job and its retries on a real control plane: a node is not run twice, whoever asks how often.

use std::collections::BTreeMap;

use carillon_tests::lab::{Bench, condition_of, lab};
use serde_json::{Value, json};

fn reason(job: &Value, condition: &str) -> String {
    let condition = condition_of(job, condition).cloned().unwrap_or_default();
    condition["reason"].as_str().unwrap_or_default().to_owned()
}

/// A retry as somebody writes it who has no plugin.
fn retry(bench: &Bench<'_>, (name, of): (&str, &Value), nodes: &[&str], fate: &Value) -> Value {
    let more = json!({
        "executionPolicy": "AtMostOnce",
        "nodeNames": nodes,
        "retryOf": {"name": of["metadata"]["name"], "uid": of["metadata"]["uid"]},
    });
    bench.job(name, &json!({"*": fate}), &more)
}

/// How many pods of jobs of this name were given each node.
fn runs(bench: &Bench<'_>, job: &str) -> BTreeMap<String, usize> {
    let mut runs = BTreeMap::new();
    for event in bench.requests() {
        let bound = event.subresource == "binding" && event.is_stored_write();
        if bound && event.name.starts_with(job) {
            let body = event.request_object.as_ref();
            let node = body.and_then(|body| body.pointer("/target/name"));
            let node = node.and_then(Value::as_str).expect("a node").to_owned();
            *runs.entry(node).or_default() += 1;
        }
    }
    runs
}

#[test]
fn a_retry_made_three_times_by_two_people_runs_its_node_once() {
    let bench = lab().bench("retried-thrice", 4);
    let failed = bench.nodes[2].as_str();
    let more = json!({"executionPolicy": "AtMostOnce", "failurePolicy": {"type": "Continue"}});
    bench.apply(&bench.job("vv", &json!({failed: {"exit-code": 3}}), &more));
    let first = bench.wait("vv", "Complete");
    assert_eq!(first["status"]["failed"], 1);

    // They run long enough for all three to be there at the same time.
    let fate = json!({"run-time": "8s"});
    let names = ["vv-retry-1", "vv-retry-2", "vv-retry-3"];
    for name in names {
        bench.apply(&retry(&bench, (name, &first), &[failed], &fate));
    }
    let waits = |name: &&str| {
        let job = bench.get(name);
        (reason(&job, "Reconciling") == "WaitingForJob").then_some(job)
    };
    bench.until("two wait for the third", || {
        (names.iter().filter_map(waits).count() == 2).then_some(())
    });
    let ended = names.map(|name| bench.wait(name, "Complete"));
    let mut reasons = ended.each_ref().map(|job| reason(job, "Complete"));
    reasons.sort();
    assert_eq!(
        reasons,
        ["AllNodesSucceeded", "AlreadySucceeded", "AlreadySucceeded"]
    );
    let runs = runs(&bench, "vv");
    assert_eq!(
        runs.get(failed),
        Some(&2),
        "once by vv, once by a retry: {runs:?}"
    );
    assert!(
        runs.iter().all(|(node, runs)| node == failed || *runs == 1),
        "{runs:?}"
    );
    let listed = bench.get("vv")["status"]["retries"].clone();
    assert_eq!(listed.as_array().map(Vec::len), Some(1), "{listed}");
}

#[test]
fn what_failed_again_is_tried_again_by_who_knew_and_nobody_else() {
    let bench = lab().bench("retried-knowing", 2);
    let failed = bench.nodes[0].as_str();
    let more = json!({"executionPolicy": "AtMostOnce", "failurePolicy": {"type": "Continue"}});
    bench.apply(&bench.job("vv", &json!({failed: {"exit-code": 3}}), &more));
    let first = bench.wait("vv", "Complete");

    let fails = json!({"exit-code": 3});
    bench.apply(&retry(&bench, ("vv-once", &first), &[failed], &fails));
    bench.wait("vv-once", "Failed");
    // What it has done stays when it is gone.
    bench.kubectl(&["delete", "cbj", "vv-once"]);
    bench.apply(&retry(&bench, ("vv-twice", &first), &[failed], &fails));
    let twice = bench.wait("vv-twice", "Complete");
    assert_eq!(reason(&twice, "Complete"), "AlreadyTried");
    assert_eq!(twice["status"]["refused"][0]["sample"], json!([failed]));
    assert_eq!(runs(&bench, "vv").get(failed), Some(&2));

    let mut knows = retry(&bench, ("vv-knows", &first), &[failed], &json!({}));
    knows["spec"]["retryOf"]["knownRetries"] = json!(1);
    bench.apply(&knows);
    let knows = bench.wait("vv-knows", "Complete");
    assert_eq!(reason(&knows, "Complete"), "AllNodesSucceeded");

    // A job that is gone has taken with it what it did.
    bench.kubectl(&["delete", "cbj", "vv"]);
    bench.apply(&retry(&bench, ("vv-orphan", &first), &[failed], &json!({})));
    let orphan = bench.wait("vv-orphan", "Stalled");
    assert_eq!(reason(&orphan, "Stalled"), "RetriedJobGone");
    assert!(bench.pods("vv-orphan").is_empty());
}
