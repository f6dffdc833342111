//! Whatever was stored, a plan comes out, and a condition that says what is wrong.

use carillon_api::condition::{reasons, types};
use serde_json::{Value, json};

use super::world::World;
use crate::broadcast_job::plan;

#[test]
fn a_stored_spec_that_cannot_be_used_stalls_the_job_and_names_the_field() {
    for (field, value, named) in [
        ("parallelism", json!(-1), "spec.parallelism"),
        ("parallelism", json!("50%%"), "spec.parallelism"),
        (
            "completionPolicy",
            json!({"type": "Sometimes"}),
            "spec.completionPolicy.type",
        ),
        (
            "completionPolicy",
            json!({"activeDeadlineSeconds": "x"}),
            "activeDeadlineSeconds",
        ),
        (
            "completionPolicy",
            json!({"ttlSecondsAfterFinished": -1}),
            "ttlSecondsAfterFinished",
        ),
        (
            "failurePolicy",
            json!({"type": "fail-fast"}),
            "spec.failurePolicy.type",
        ),
        (
            "failurePolicy",
            json!({"restartLimit": 1e40}),
            "restartLimit",
        ),
        ("executionPolicy", json!("Once"), "spec.executionPolicy"),
        (
            "noEligibleNodesPolicy",
            json!(7),
            "spec.noEligibleNodesPolicy",
        ),
        ("backoffLimitPerNode", json!(-1), "spec.backoffLimitPerNode"),
        (
            "podStartDeadlineSeconds",
            json!("30s"),
            "spec.podStartDeadlineSeconds",
        ),
        (
            "nodeLostTimeoutSeconds",
            json!(-1),
            "spec.nodeLostTimeoutSeconds",
        ),
        (
            "failurePolicy",
            json!({"maxFailedNodes": "10 %"}),
            "spec.failurePolicy.maxFailedNodes",
        ),
        ("nodeNames", json!([]), "spec.nodeNames"),
        ("nodeNames", json!("n0000"), "spec.nodeNames"),
        ("podFailurePolicy", json!([]), "spec.podFailurePolicy"),
        (
            "podFailurePolicy",
            json!({"rules": [{"action": "Retry"}]}),
            "spec.podFailurePolicy",
        ),
        (
            "podFailurePolicy",
            json!({"rules": [{"action": "Count"}]}),
            "spec.podFailurePolicy.rules[0]",
        ),
        (
            "podFailurePolicy",
            json!({"rules": [
                {"action": "Count", "onExitCodes": {"operator": "In", "values": [0]}}]}),
            "spec.podFailurePolicy.rules[0]",
        ),
        ("template", json!(null), "spec.template.spec.containers"),
        (
            "template",
            json!({"spec": {"containers": [{}]}}),
            "restartPolicy",
        ),
        (
            "template",
            json!({"spec": {"containers": [{}], "restartPolicy": "Never", "nodeName": "n1"}}),
            "spec.template.spec.nodeName",
        ),
    ] {
        let mut world = World::new(2, json!({field: value}));
        world.settle();
        assert_eq!(
            world.condition(types::STALLED),
            Some((true, reasons::INVALID_SPEC.to_owned()))
        );
        assert_eq!(world.created.len(), 0, "{field} {value}");
        let message = world.status["conditions"].to_string();
        assert!(message.contains(named), "{named}: {message}");
    }
}

#[test]
fn a_stored_job_that_must_not_run_twice_and_would_is_stalled() {
    let restarts = json!({"spec": {"restartPolicy": "OnFailure", "containers": [{}]}});
    let ignore = json!({"rules": [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]});
    for (field, value, named) in [
        ("backoffLimitPerNode", json!(1), "backoffLimitPerNode"),
        ("template", restarts, "restartPolicy OnFailure"),
        ("podFailurePolicy", ignore, "action Ignore"),
    ] {
        let mut world = World::new(2, json!({"executionPolicy": "AtMostOnce", field: value}));
        world.settle();
        let stalled = Some((true, reasons::INVALID_SPEC.to_owned()));
        assert_eq!(world.condition(types::STALLED), stalled, "{named}");
        assert!(world.message(types::STALLED).contains(named));
        assert_eq!(world.created.len(), 0);
    }
}

#[test]
fn a_stored_end_stays_an_end_though_the_rest_of_the_status_is_unreadable() {
    let mut world = World::new(2, json!({}));
    world.run_to_the_end();
    world.status["desired"] = json!("many");
    world.status["phase"] = json!("hibernating");
    world.join("n0009");
    world.settle();
    assert_eq!(world.created.len(), 2);
}

#[test]
fn a_job_whose_results_were_deleted_keeps_its_counts_and_so_stays_stalled() {
    let mut world = World::new(2, json!({"completionPolicy": {"type": "Never"}}));
    world.run_to_the_end();
    world.slices.clear();
    world.status["disrupted"] = json!(1);
    // What the controller adds as a problem when the status counts more results than there are.
    world.spec["parallelism"] = json!(-1);
    world.settle();
    assert_eq!(
        (&world.status["succeeded"], world.created.len()),
        (&json!(2), 2)
    );
    assert_eq!(world.status["disrupted"], 1);
}

/// Values of every shape at every place of spec and status.
#[test]
fn no_stored_value_makes_the_planner_panic() {
    let odd = [
        json!(null),
        json!(true),
        json!(-1),
        json!(i64::MAX),
        json!(1e300),
        json!(""),
        json!("\u{202e}\u{0}ü"),
        json!([]),
        json!([null, 1, {}]),
        json!({}),
        json!({"a": {"b": []}}),
    ];
    let whole = json!({
        "parallelism": 1, "paused": false,
        "completionPolicy": {"type": "Always", "activeDeadlineSeconds": 1, "ttlSecondsAfterFinished": 1},
        "failurePolicy": {"type": "FailFast", "restartLimit": 1, "maxFailedNodes": "10%"},
        "executionPolicy": "AtLeastOnce", "backoffLimitPerNode": 1, "podStartDeadlineSeconds": 1,
        "nodeLostTimeoutSeconds": 1, "noEligibleNodesPolicy": "Wait", "nodeNames": ["n0000"],
        "podFailurePolicy": {"rules": [
            {"action": "Count", "onExitCodes": {"operator": "In", "values": [1]}},
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]},
        "template": {"metadata": {"labels": {}}, "spec": {
            "restartPolicy": "OnFailure", "nodeName": "", "nodeSelector": {"a": "b"},
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
                {"nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}]}]}}},
            "tolerations": [{"key": "k", "operator": "Exists"}],
            "overhead": {"cpu": "1"},
            "initContainers": [{"name": "i", "resources": {"requests": {"cpu": "1"}}}],
            "containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}}],
        }},
    });
    let mut ended = World::new(1, json!({}));
    ended.run_to_the_end();
    let mut tried = 0;
    for path in paths(&whole) {
        for value in &odd {
            let mut world = World::new(2, json!({}));
            world.spec = whole.clone();
            *world.spec.pointer_mut(&path).unwrap() = value.clone();
            world.crash_after(usize::MAX);
            world.crash_after(usize::MAX);
            tried += 1;
        }
    }
    for path in paths(&ended.status) {
        for value in &odd {
            let mut world = World::new(2, json!({}));
            world.status = ended.status.clone();
            *world.status.pointer_mut(&path).unwrap() = value.clone();
            // The records are lost, which the interlock may refuse to act on.
            let plan = world.snapshot(|snapshot| plan(snapshot, world.now));
            let _ = world.verify(&plan);
            tried += 1;
        }
    }
    assert!(tried > 500, "{tried}");
}

fn paths(value: &Value) -> Vec<String> {
    let mut found = vec![String::new()];
    let children: Vec<(String, &Value)> = match value {
        Value::Object(map) => map.iter().map(|(k, v)| (k.replace('/', "~1"), v)).collect(),
        Value::Array(list) => list
            .iter()
            .enumerate()
            .map(|(n, v)| (n.to_string(), v))
            .collect(),
        _ => vec![],
    };
    for (key, child) in children {
        found.extend(paths(child).into_iter().map(|path| format!("/{key}{path}")));
    }
    found
}

#[test]
fn a_job_that_is_stalled_is_told_of_by_one_event() {
    let mut world = World::new(2, json!({"parallelism": 0}));
    let told = |world: &World| {
        let notes = world.plan().notes.into_iter();
        let notes = notes.filter(|note| note.action == "Stalling");
        let notes = notes.map(|note| (note.warning, note.reason));
        notes.collect::<Vec<_>>()
    };
    assert_eq!(told(&world), [(true, reasons::INVALID_SPEC)]);
    world.settle();
    assert_eq!(told(&world), []);
}
