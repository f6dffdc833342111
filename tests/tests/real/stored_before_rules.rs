//! Objects stored before a rule existed: a condition, never a panic, never a blocked neighbour.

use carillon_testbed::{Operator, Options};
use carillon_tests::lab::{self, condition_of, is};
use serde_json::{Value, json};

/// Of objects with values that its rules cannot even read the API server takes no write, not even of
/// the status: an event has to say so.
const UNWRITABLE: &str = "";

/// The CRDs with every rule removed from BroadcastJob.
fn permissive(crd: &str) -> Value {
    let mut crd: Value = serde_json::from_str(crd).unwrap();
    let open = json!({"openAPIV3Schema": {
        "type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    crd["spec"]["versions"][0]["schema"] = open;
    crd["spec"]["versions"][0]["selectableFields"] = json!([]);
    for field in [
        "managedFields",
        "resourceVersion",
        "uid",
        "creationTimestamp",
        "generation",
    ] {
        crd["metadata"].as_object_mut().unwrap().remove(field);
    }
    crd.as_object_mut().unwrap().remove("status");
    crd
}

/// Jobs with one value each that today's rules refuse, and what their condition has to name.
const VALUES: [(&str, &str, &str, &str); 15] = [
    ("negative", "/parallelism", "-1", "spec.parallelism"),
    ("percent", "/parallelism", "\"50%%\"", "spec.parallelism"),
    (
        "huge",
        "/parallelism",
        "9223372036854775807",
        "spec.parallelism",
    ),
    (
        "policy",
        "/failurePolicy",
        r#"{"type": "Retry"}"#,
        "spec.failurePolicy.type",
    ),
    (
        "completion",
        "/completionPolicy",
        r#"{"type": "Often"}"#,
        "spec.completionPolicy.type",
    ),
    (
        "deadline",
        "/completionPolicy/activeDeadlineSeconds",
        "-5",
        "activeDeadlineSeconds",
    ),
    (
        "execution",
        "/executionPolicy",
        "\"Once\"",
        "spec.executionPolicy",
    ),
    (
        "budget",
        "/failurePolicy/maxFailedNodes",
        "-1",
        "spec.failurePolicy.maxFailedNodes",
    ),
    (
        "rules",
        "/podFailurePolicy",
        r#"{"rules": [{"action": "Count"}]}"#,
        "spec.podFailurePolicy.rules[0]",
    ),
    ("float", "/parallelism", "1.5", UNWRITABLE),
    ("number", "/completionPolicy/type", "7", UNWRITABLE),
    ("text", "/template", "\"a pod, please\"", UNWRITABLE),
    ("no-template", "/template", "null", "spec.template"),
    (
        "always",
        "/template/spec/restartPolicy",
        "\"Always\"",
        "restartPolicy",
    ),
    (
        "pinned",
        "/template/spec/nodeName",
        "\"node-0000\"",
        "nodeName",
    ),
];

fn corpus(good: impl Fn(&str) -> Value) -> Vec<(Value, &'static str)> {
    let broken = |&(name, field, value, said): &(&str, &str, &str, &'static str)| {
        let mut job = good(name);
        set(
            &mut job["spec"],
            field,
            serde_json::from_str(value).unwrap(),
        );
        (job, said)
    };
    let mut corpus: Vec<_> = VALUES.iter().map(broken).collect();
    let mut no_spec = good("no-spec");
    no_spec.as_object_mut().unwrap().remove("spec");
    corpus.push((no_spec, "spec.template"));
    corpus.push((good(&"a".repeat(253)), "metadata.name"));
    corpus
}

#[test]
fn what_was_stored_before_the_rules_stalls_alone() {
    let cluster = lab::cluster("stored", 3);
    let bench = lab::bench(&cluster, "stored");
    let name = "crd/broadcastjobs.carillon.dev";
    let strict = bench.kubectl(&["get", name, "-o", "json"]);
    let open = permissive(&strict).to_string();
    cluster
        .kubectl_stdin(["replace", "-f", "-"], &open)
        .unwrap();

    let good = |job: &str| bench.job(job, &json!({}), &json!({}));
    let corpus = corpus(good);
    for (job, _) in &corpus {
        cluster
            .kubectl_stdin(["create", "--validate=false", "-f", "-"], &job.to_string())
            .unwrap();
    }
    // Dots in the name and nulls can be served; they only break today's rules.
    let mut dotted = good("fix.the.kernel");
    dotted["metadata"]["annotations"] = json!({"carillon.dev/note": "späße \u{202e} \u{1F514}"});
    dotted["spec"]["completionPolicy"] = Value::Null;
    cluster
        .kubectl_stdin(
            ["create", "--validate=false", "-f", "-"],
            &dotted.to_string(),
        )
        .unwrap();

    let mut restored: Value = serde_json::from_str(&strict).unwrap();
    restored["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("resourceVersion");
    cluster
        .kubectl_stdin(["replace", "-f", "-"], &restored.to_string())
        .unwrap();
    let operator = Operator::start(&cluster, &Options::new("operator")).unwrap();
    bench.apply(&good("neighbour"));
    bench.wait("neighbour", "Complete");

    for (job, said) in &corpus {
        let name = job["metadata"]["name"].as_str().unwrap();
        if *said == UNWRITABLE {
            bench.until(&format!("an event about {name}"), || {
                let selector = format!("--field-selector=regarding.name={name},reason=FailedSync");
                let args = ["get", "events.v1.events.k8s.io", &selector, "-o", "name"];
                (!bench.kubectl(&args).trim().is_empty()).then_some(())
            });
            continue;
        }
        let job = bench.until(&format!("{name} is stalled"), || {
            let object = bench.get(name);
            is(&object, "Stalled").then_some(object)
        });
        let stalled = condition_of(&job, "Stalled").unwrap();
        assert_eq!(stalled["reason"], "InvalidSpec", "{name}");
        assert!(
            stalled["message"].as_str().unwrap().contains(said),
            "{name}: {stalled}"
        );
    }
    bench.wait("fix.the.kernel", "Complete");
    let pods = bench.kubectl(&["get", "pods", "-o", "name"]);
    assert_eq!(
        pods.lines().count(),
        6,
        "three nodes, two good jobs: {pods}"
    );
    assert!(operator.process.is_alive());
    assert!(
        operator
            .metric("carillon_panics_total{controller=\"broadcastjob\"}")
            .unwrap()
            < 1.0
    );
}

/// Sets the value at a JSON pointer, making objects on the way.
fn set(object: &mut Value, pointer: &str, value: Value) {
    let mut place = object;
    for key in pointer.split('/').skip(1) {
        if !place.is_object() {
            *place = json!({});
        }
        place = &mut place[key];
    }
    *place = value;
}
