//! `rollout undo` at the moment in which somebody else edits the DaemonSet, and `rollout status` of an update that
//! stands still: what a real cluster shows only by chance, or after ten minutes.

// The functions that tests share are tests too.
#![allow(clippy::unwrap_used)]

mod http;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use http::{list, run};
use serde_json::{Value, json};

const UID: &str = "4e0c5d6a-0b1c-4d2e-8f3a-000000000001";

fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": [{"name": "c", "image": image}]}})
}

fn set(generation: i64, status: &Value) -> Value {
    json!({
        "apiVersion": "carillon.dev/v1alpha1", "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": "ops", "uid": UID, "generation": generation},
        "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": template("new")},
        "status": status,
    })
}

fn revision(number: i64, image: &str) -> Value {
    let mut template = template(image);
    template["$patch"] = json!("replace");
    json!({
        "metadata": {"name": format!("agent-{image}"), "uid": UID, "ownerReferences": [
            {"apiVersion": "carillon.dev/v1alpha1", "kind": "DaemonSet", "uid": UID, "controller": true}]},
        "revision": number, "data": {"spec": {"template": template}},
    })
}

fn refusal(code: u16) -> Value {
    json!({"kind": "Status", "status": "Failure", "code": code, "message": "the server rejected our request"})
}

/// A DaemonSet of generation 3 whose revision 1 can be put back. `rival` edits it just before the patch comes, which
/// the API server then refuses, as the generation that it tests is no longer that.
fn contested(rival: bool) -> u16 {
    let generation = AtomicI64::new(3);
    http::serve(Arc::new(move |method, uri, body| {
        let path = uri.split('?').next().unwrap();
        if method == "PATCH" {
            let now = generation.fetch_add(i64::from(rival), Ordering::SeqCst) + i64::from(rival);
            let tested = |at: &str| {
                let mut operations = body.as_array().into_iter().flatten();
                let found = operations.find(|one| one["op"] == "test" && one["path"] == at);
                found.map(|one| one["value"].clone())
            };
            let same = tested("/metadata/generation") == Some(json!(now))
                && tested("/metadata/uid") == Some(json!(UID));
            let code = if same { 200 } else { 422 };
            return (
                code,
                if same {
                    set(now, &json!({}))
                } else {
                    refusal(code)
                },
            );
        }
        match path.rsplit('/').next().unwrap() {
            "controllerrevisions" => (200, list(&[revision(1, "old"), revision(2, "new")])),
            "pods" => (200, list(&[])),
            "agent" if path.contains("carillon.dev") => {
                (200, set(generation.load(Ordering::SeqCst), &json!({})))
            }
            _ => (404, refusal(404)),
        }
    }))
}

#[test]
fn an_undo_is_not_done_over_an_edit_of_somebody_else() {
    let undo = |rival| run(contested(rival), &["rollout", "undo", "agent"]);
    let lost = undo(true);
    let said = String::from_utf8_lossy(&lost.stderr).into_owned();
    assert_eq!(lost.status.code(), Some(1), "{lost:?}");
    assert!(
        said.contains("agent was changed by somebody else"),
        "{said}"
    );
    let alone = undo(false);
    let said = String::from_utf8_lossy(&alone.stdout).into_owned();
    assert!(said.contains("rolled back to revision 1\n"), "{alone:?}");
}

#[test]
fn an_update_that_stands_still_has_an_exit_code_of_its_own() {
    for (reason, code) in [("ProgressDeadlineExceeded", 3), ("WriteRefused", 4)] {
        let condition = |type_: &str, is: &str, reason: &str| {
            json!({"type": type_, "status": is, "reason": reason, "message": "no node moves",
                   "lastTransitionTime": "2026-01-01T00:00:00Z"})
        };
        let status = json!({
            "observedGeneration": 3, "desiredNumberScheduled": 2, "updatedNumberScheduled": 1,
            "conditions": [condition("Stalled", "True", reason), condition("Ready", "False", "PodsUnavailable")],
            "waitingFor": [{"reason": "PodNotReady", "count": 1, "sample": ["n1"]}],
        });
        let port = http::serve(Arc::new(move |_, uri, _| {
            if uri.contains("carillon.dev") {
                (200, set(3, &status))
            } else {
                (404, refusal(404))
            }
        }));
        let output = run(port, &["rollout", "status", "agent"]);
        let expected = format!(
            "agent: 1/2 updated, 0 available, Stalled: {reason}: no node moves: 1 node PodNotReady (n1)\n"
        );
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
        assert_eq!(output.status.code(), Some(code), "{output:?}");
    }
}
