//! What the API server accepts as a BroadcastJob or NodeResultSlice, and what it says otherwise.
//!
//! The rules are in the CRDs, so nothing but the API server takes part.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use carillon_tests::admission::wait_established;
use carillon_tests::{Answer, kubectl, namespace};

/// The files of `tests/manifests/<folder>`, in order.
fn manifests(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("manifests")
        .join(folder);
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files
}

fn kubectl_on(args: &[&str], object: &Value) -> Answer {
    kubectl(args, Some(&object.to_string()))
}

/// A small valid job, paused so that nobody acts on it.
fn job(name: &str) -> Value {
    json!({
        "apiVersion": "carillon.dev/v1alpha1",
        "kind": "BroadcastJob",
        "metadata": {"name": name},
        "spec": {"paused": true, "template": {
            "metadata": {"labels": {"app": "a"}},
            "spec": {
                "restartPolicy": "OnFailure",
                "futureField": {"depth": 1},
                "initContainers": [
                    {"name": "first", "image": "busybox"},
                    {"name": "second", "image": "busybox"},
                ],
                "containers": [{
                    "name": "main",
                    "image": "busybox",
                    "futureList": [1, 2],
                    "resources": {"limits": {"cpu": "1"}},
                    "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)"}],
                }],
            },
        }},
    })
}

/// Tries a JSON patch without storing the result.
fn try_patch(kind: &str, name: &str, namespace: &str, patch: &Value) -> Answer {
    let patch = patch.to_string();
    kubectl(
        &[
            "patch",
            kind,
            name,
            "-n",
            namespace,
            "--dry-run=server",
            "--type=json",
            "-p",
            &patch,
        ],
        None,
    )
}

#[test]
fn each_refused_manifest_is_refused_with_the_field_and_the_remedy() {
    let files = manifests("refused");
    assert!(files.len() >= 35, "only {} manifests", files.len());
    let mut wrong = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let expected = text
            .lines()
            .next()
            .unwrap()
            .trim_start_matches("# ")
            .to_owned();
        let answer = kubectl(&["create", "--dry-run=server", "-f", "-"], Some(&text));
        if answer.ok || !answer.stderr.contains(&expected) {
            let name = file.file_name().unwrap().display();
            wrong.push(format!(
                "{name}\n  expected: {expected}\n  answered: {}",
                answer.text()
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_accepted_manifest_is_accepted_and_stays_the_same_when_applied_again() {
    let namespace = namespace("admit-accepted");
    for file in manifests("accepted") {
        let text = fs::read_to_string(&file).unwrap();
        let apply = ["apply", "--server-side", "-n", &namespace, "-f", "-"];
        for round in ["created", "applied again"] {
            let answer = kubectl(&apply, Some(&text));
            assert!(answer.ok, "{} {round}: {}", file.display(), answer.text());
        }
    }
    let generations = kubectl(
        &[
            "get",
            "cbj",
            "-n",
            &namespace,
            "-o",
            "jsonpath={.items[*].metadata.generation}",
        ],
        None,
    );
    let generations = generations.stdout;
    assert!(
        generations.split(' ').all(|generation| generation == "1"),
        "{generations}"
    );
    kubectl(
        &["delete", "cbj", "--all", "-n", &namespace, "--wait=false"],
        None,
    )
    .succeeded();
}

#[test]
fn defaults_are_stored_and_those_openkruise_has_are_the_same() {
    let mut job = job("defaults");
    job["spec"]["paused"].take();
    let stored = kubectl_on(
        &["create", "--dry-run=server", "-o", "json", "-f", "-"],
        &job,
    )
    .json();
    let mut spec = stored["spec"].clone();
    spec.as_object_mut().unwrap().remove("template");
    assert_eq!(
        spec,
        json!({
            "paused": false,
            "completionPolicy": {"type": "Always"},
            "failurePolicy": {"type": "FailFast", "maxFailedNodes": 0},
            "executionPolicy": "AtLeastOnce",
            "backoffLimitPerNode": 0,
            "nodeLostTimeoutSeconds": 300,
            "podTerminationTimeoutSeconds": 300,
            "noEligibleNodesPolicy": "Wait",
        })
    );
}

#[test]
fn the_template_is_stored_as_written_unknown_fields_included() {
    let job = job("as-written");
    let stored = kubectl_on(
        &["create", "--dry-run=server", "-o", "json", "-f", "-"],
        &job,
    )
    .json();
    assert_eq!(stored["spec"]["template"], job["spec"]["template"]);
}

#[test]
fn no_part_of_the_template_can_change() {
    let namespace = namespace("admit-template");
    kubectl_on(&["create", "-n", &namespace, "-f", "-"], &job("fixed")).succeeded();
    let pod = "/spec/template/spec";
    let main = "/spec/template/spec/containers/0";
    let changes = [
        json!([{"op": "replace", "path": format!("{main}/image"), "value": "other"}]),
        json!([{"op": "replace", "path": format!("{main}/resources/limits/cpu"), "value": "2"}]),
        json!([{"op": "replace", "path": "/spec/template/metadata/labels/app", "value": "b"}]),
        json!([{"op": "remove", "path": "/spec/template/metadata"}]),
        json!([{"op": "replace", "path": format!("{pod}/restartPolicy"), "value": "Never"}]),
        json!([{"op": "add", "path": format!("{pod}/nodeSelector"), "value": {"a": "b"}}]),
        json!([{"op": "add", "path": format!("{pod}/containers/-"),
            "value": {"name": "more", "image": "busybox"}}]),
        json!([{"op": "remove", "path": format!("{pod}/initContainers/0")}]),
        // Order matters where it decides what happens.
        json!([{"op": "move", "from": format!("{pod}/initContainers/0"),
            "path": format!("{pod}/initContainers/1")}]),
        json!([{"op": "move", "from": format!("{main}/env/0"), "path": format!("{main}/env/1")}]),
        // Fields this version does not know.
        json!([{"op": "replace", "path": format!("{pod}/futureField/depth"), "value": 2}]),
        json!([{"op": "replace", "path": format!("{main}/futureList/1"), "value": 3}]),
        json!([{"op": "remove", "path": format!("{pod}/futureField")}]),
        json!([{"op": "add", "path": format!("{pod}/otherField"), "value": true}]),
    ];
    for change in changes {
        let answer = try_patch("cbj", "fixed", &namespace, &change);
        assert!(!answer.ok, "accepted: {change}");
        assert!(
            answer.stderr.contains("is immutable"),
            "{change}: {}",
            answer.text()
        );
        assert!(
            answer.stderr.contains("create a new BroadcastJob"),
            "{}",
            answer.text()
        );
    }
}

/// The API server compares the fields its schema lists, and the number of the others, and the
/// others that both versions have. Should this test fail, it has learned to see the rest.
#[test]
fn one_unknown_field_put_in_place_of_another_is_not_noticed() {
    let namespace = namespace("admit-swap");
    kubectl_on(&["create", "-n", &namespace, "-f", "-"], &job("swap")).succeeded();
    let swap = json!([
        {"op": "remove", "path": "/spec/template/spec/futureField"},
        {"op": "add", "path": "/spec/template/spec/otherField", "value": true},
    ]);
    try_patch("cbj", "swap", &namespace, &swap).succeeded();
}

#[test]
fn the_completion_type_cannot_change_and_the_other_settings_can() {
    let namespace = namespace("admit-settings");
    kubectl_on(&["create", "-n", &namespace, "-f", "-"], &job("settings")).succeeded();
    let never = json!([{"op": "replace", "path": "/spec/completionPolicy/type", "value": "Never"}]);
    let answer = try_patch("cbj", "settings", &namespace, &never);
    let expected = "spec.completionPolicy.type: Invalid value: \"Never\": is immutable: \
                    create a new BroadcastJob with the other type";
    assert!(answer.stderr.contains(expected), "{}", answer.text());
    for (path, value) in [
        ("/spec/parallelism", json!("10%")),
        ("/spec/parallelism", json!(3)),
        ("/spec/paused", json!(false)),
        ("/spec/failurePolicy/type", json!("Continue")),
        ("/spec/failurePolicy/restartLimit", json!(2)),
        ("/spec/completionPolicy/activeDeadlineSeconds", json!(60)),
        ("/spec/completionPolicy/ttlSecondsAfterFinished", json!(60)),
        ("/spec/failurePolicy/maxFailedNodes", json!("5%")),
        ("/spec/backoffLimitPerNode", json!(2)),
        ("/spec/podStartDeadlineSeconds", json!(60)),
        ("/spec/nodeLostTimeoutSeconds", json!(60)),
        ("/spec/podTerminationTimeoutSeconds", json!(60)),
        ("/spec/noEligibleNodesPolicy", json!("Fail")),
        // Absent means the default, which is what is stored.
        ("/spec/completionPolicy", json!(null)),
    ] {
        let change = json!([{"op": "add", "path": path, "value": value}]);
        try_patch("cbj", "settings", &namespace, &change).succeeded();
    }
}

#[test]
fn which_nodes_are_served_and_how_often_cannot_change() {
    let namespace = namespace("admit-fixed");
    let mut listed = job("listed");
    listed["spec"]["nodeNames"] = json!(["node-a", "node-b"]);
    for job in [job("all"), listed] {
        kubectl_on(&["create", "-n", &namespace, "-f", "-"], &job).succeeded();
    }
    let set = |path: &str, value: Value| json!([{"op": "add", "path": path, "value": value}]);
    for (name, change, field) in [
        (
            "all",
            set("/spec/executionPolicy", json!("AtMostOnce")),
            "spec.executionPolicy",
        ),
        (
            "all",
            set("/spec/nodeNames", json!(["node-a"])),
            "spec.nodeNames",
        ),
        (
            "listed",
            set("/spec/nodeNames/-", json!("node-c")),
            "spec.nodeNames",
        ),
        (
            "listed",
            json!([{"op": "remove", "path": "/spec/nodeNames"}]),
            "spec.nodeNames",
        ),
    ] {
        let answer = try_patch("cbj", name, &namespace, &change);
        let expected = format!("{field}: Invalid value: is immutable: create a new BroadcastJob");
        let text = answer.stderr.replace("\"object\": ", "");
        assert!(!answer.ok && text.contains(&expected), "{}", answer.text());
    }
}

/// Objects from before a rule must stay workable: the operator writes their status, finalizers
/// come off, and settings that were fine can change.
#[test]
fn objects_stored_before_the_rules_can_be_reported_on_and_deleted() {
    let namespace = namespace("admit-legacy");
    let mut lenient = serde_json::to_value(&carillon_api::crds()[0]).unwrap();
    lenient["metadata"]["name"] = "broadcastjobs.legacy.example.com".into();
    lenient["spec"]["group"] = "legacy.example.com".into();
    lenient["spec"]["names"] = json!({
        "kind": "BroadcastJob", "plural": "broadcastjobs", "singular": "broadcastjob",
        "shortNames": ["legacybcj"],
    });
    let strict = lenient.clone();
    lenient["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] =
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    lenient["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["x-kubernetes-validations"].take();

    let apply = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
    kubectl_on(&apply, &lenient).succeeded();
    wait_established("broadcastjobs.legacy.example.com");
    let old = json!({
        "apiVersion": "legacy.example.com/v1alpha1",
        "kind": "BroadcastJob",
        "metadata": {"name": "old.name", "finalizers": ["example.com/hold"]},
        "spec": {
            "parallelism": "lots",
            "completionPolicy": {"type": "Sometimes"},
            "template": {
                "metadata": {"labels": {"broadcastjob-name": "x"}},
                "spec": {"nodeName": "n", "restartPolicy": "Always", "containers": [{"name": "A"}]},
            },
        },
    });
    kubectl_on(&["create", "-n", &namespace, "-f", "-"], &old).succeeded();
    let without_template = json!({
        "apiVersion": "legacy.example.com/v1alpha1",
        "kind": "BroadcastJob",
        "metadata": {"name": "empty", "finalizers": ["example.com/hold"]},
        "spec": {"paused": true},
    });
    kubectl_on(&["create", "-n", &namespace, "-f", "-"], &without_template).succeeded();

    kubectl_on(&apply, &strict).succeeded();
    carillon_tests::until("the rules are in force", || {
        let answer = kubectl_on(
            &["create", "-n", &namespace, "--dry-run=server", "-f", "-"],
            &json!({
                "apiVersion": "legacy.example.com/v1alpha1", "kind": "BroadcastJob",
                "metadata": {"name": "new"}, "spec": {},
            }),
        );
        answer.stderr.contains("spec.template: Required value")
    });
    for name in ["old.name", "empty"] {
        let patch = |more: &[&str]| {
            let mut args = vec!["patch", "legacybcj", name, "-n", &namespace, "--type=merge"];
            args.extend(more);
            kubectl(&args, None).succeeded();
        };
        patch(&["--subresource=status", "-p", r#"{"status":{"desired":1}}"#]);
        patch(&["-p", r#"{"metadata":{"annotations":{"a":"b"}}}"#]);
        patch(&["-p", r#"{"metadata":{"finalizers":null}}"#]);
        kubectl(&["delete", "legacybcj", name, "-n", &namespace], None).succeeded();
    }
    kubectl(
        &[
            "delete",
            "crd",
            "broadcastjobs.legacy.example.com",
            "--wait=false",
        ],
        None,
    )
    .succeeded();
}

#[test]
fn a_sealed_slice_takes_outcomes_but_no_further_nodes() {
    let namespace = namespace("admit-slice");
    let entry = |node: &str| json!({"nodeName": node, "nodeUID": "u", "attempt": 1, "state": "Started", "podName": node});
    let slice = json!({
        "apiVersion": "carillon.dev/v1alpha1",
        "kind": "NodeResultSlice",
        "metadata": {"name": "slice"},
        "sealed": true,
        "results": [entry("a")],
    });
    kubectl_on(&["create", "-n", &namespace, "-f", "-"], &slice).succeeded();
    let outcome = json!([{"op": "replace", "path": "/results/0/state", "value": "Failed"}]);
    try_patch("nrs", "slice", &namespace, &outcome).succeeded();

    let grown = json!([{"op": "add", "path": "/results/-", "value": entry("b")}]);
    let answer = try_patch("nrs", "slice", &namespace, &grown);
    let expected = "results: Forbidden: must not grow once sealed is true";
    assert!(answer.stderr.contains(expected), "{}", answer.text());
    for reopened in [
        json!([{"op": "replace", "path": "/sealed", "value": false}]),
        json!([{"op": "remove", "path": "/sealed"}]),
    ] {
        let answer = try_patch("nrs", "slice", &namespace, &reopened);
        assert!(
            answer.stderr.contains("sealed: Invalid value"),
            "{}",
            answer.text()
        );
    }
}

#[test]
fn a_slice_holds_at_most_its_bound() {
    let entry =
        json!({"nodeName": "a", "nodeUID": "u", "attempt": 1, "state": "Started", "podName": "p"});
    let slice = |entries: usize| {
        json!({
            "apiVersion": "carillon.dev/v1alpha1",
            "kind": "NodeResultSlice",
            "metadata": {"name": "bound"},
            "results": vec![entry.clone(); entries],
        })
    };
    let most = carillon_api::node_result_slice::MAX_RESULTS_PER_SLICE;
    let create = ["create", "--dry-run=server", "-f", "-"];
    kubectl_on(&create, &slice(most)).succeeded();
    let answer = kubectl_on(&create, &slice(most + 1));
    assert!(
        answer.stderr.contains("results: Too many: 251"),
        "{}",
        answer.text()
    );
}

#[test]
fn kubectl_explain_and_get_speak_of_the_fields() {
    let namespace = namespace("admit-explain");
    kubectl_on(&["create", "-n", &namespace, "-f", "-"], &job("explained")).succeeded();
    let status = json!({"status": {
        "phase": "running", "summary": "running", "done": "812/1000", "active": 3, "succeeded": 810, "failed": 2,
    }});
    kubectl(
        &[
            "patch",
            "cbj",
            "explained",
            "-n",
            &namespace,
            "--subresource=status",
            "--type=merge",
            "-p",
            &status.to_string(),
        ],
        None,
    )
    .succeeded();
    let table = kubectl(&["get", "carillon", "-n", &namespace], None).stdout;
    let words: Vec<Vec<&str>> = table
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        words[0],
        [
            "NAME",
            "STATUS",
            "DONE",
            "ACTIVE",
            "SUCCEEDED",
            "FAILED",
            "AGE"
        ]
    );
    assert_eq!(
        words[1][1..6],
        ["running", "812/1000", "3", "810", "2"],
        "{table}"
    );
    let selected = [
        "get",
        "cbj",
        "-n",
        &namespace,
        "--field-selector=status.phase=completed",
    ];
    assert!(!kubectl(&selected, None).stdout.contains("explained"));

    carillon_tests::until("kubectl explain knows parallelism", || {
        let text = kubectl(&["explain", "cbj.spec.parallelism"], None).stdout;
        text.contains("Most pods that may run at the same time")
    });
}
