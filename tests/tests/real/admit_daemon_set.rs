//! What the API server takes as a DaemonSet of carillon.dev is what it takes as one of apps/v1: each manifest is tried
//! as both. What differs is listed, with its reason.

use carillon_tests::admission::{send, try_create, with};
use carillon_tests::{kubectl, namespace};
use http::Method;
use serde_json::{Value, json};

const OURS: &str = "carillon.dev/v1alpha1";
const NATIVE: &str = "apps/v1";

/// A small valid DaemonSet.
fn daemon_set(api_version: &str) -> Value {
    json!({
        "apiVersion": api_version,
        "kind": "DaemonSet",
        "metadata": {"name": "agent"},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": {
                "metadata": {"labels": {"app": "agent", "tier": "node"}},
                "spec": {"containers": [{"name": "main", "image": "busybox"}]},
            },
        },
    })
}

/// Words of the refusal, if it is refused.
fn answer(object: &Value) -> Option<String> {
    try_create(object).err().map(|refused| refused.message)
}

/// A path and what is written there.
type Change = (&'static str, Value);

const STRATEGY: &str = "/spec/updateStrategy";
const BUDGET: &str = "/spec/updateStrategy/rollingUpdate";
const SELECTOR: &str = "/spec/selector";
const POD: &str = "/spec/template/spec";
const LABELS: &str = "/spec/template/metadata/labels";

fn expressions(of: &Value) -> Change {
    (SELECTOR, json!({"matchExpressions": of}))
}

fn expression(operator: &str, key: &str, values: &Value) -> Change {
    let mut one = json!({"key": key, "operator": operator});
    if !values.is_null() {
        one["values"] = values.clone();
    }
    expressions(&json!([one]))
}

/// Labels and a selector of forty.
fn forty_labels() -> [Change; 2] {
    let labels: Value = (0..40)
        .map(|n| (format!("label-{n}"), json!("x")))
        .collect();
    [
        (LABELS, labels.clone()),
        (SELECTOR, json!({"matchLabels": labels})),
    ]
}

fn odd_budgets() -> Vec<Change> {
    let budgets = [
        json!({"maxUnavailable": 1, "maxSurge": 1}),
        json!({"maxUnavailable": 0, "maxSurge": 0}),
        json!({"maxUnavailable": "0%", "maxSurge": "00%"}),
        json!({"maxUnavailable": 0}),
        json!({"maxUnavailable": "05%"}),
        json!({"maxUnavailable": "0100%"}),
        json!({"maxUnavailable": "100%"}),
        json!({"maxUnavailable": "101%"}),
        json!({"maxUnavailable": "5"}),
        json!({"maxUnavailable": ""}),
        json!({"maxUnavailable": "+5%"}),
        json!({"maxUnavailable": "1.5%"}),
        json!({"maxUnavailable": -1}),
        json!({"maxUnavailable": i32::MAX}),
        json!({"maxUnavailable": 0, "maxSurge": "10%"}),
        json!({"maxUnavailable": "00%", "maxSurge": 2}),
        json!({"maxUnavailable": 0, "maxSurge": "110%"}),
        json!({"maxUnavailable": null, "maxSurge": 0}),
        json!({"maxUnavailable": 3, "maxSurge": null}),
        json!({}),
        json!(null),
    ];
    budgets.into_iter().map(|budget| (BUDGET, budget)).collect()
}

/// Manifests on which the two must be of one mind.
fn manifests() -> Vec<Vec<Change>> {
    let mut all: Vec<Vec<Change>> = vec![vec![]];
    for type_ in ["RollingUpdate", "OnDelete", ""] {
        let type_ = (STRATEGY, json!({"type": type_}));
        all.extend(
            odd_budgets()
                .into_iter()
                .map(|budget| vec![type_.clone(), budget]),
        );
    }
    all.extend(odd_budgets().into_iter().map(|budget| vec![budget]));
    all.push(forty_labels().into());
    let single = [
        (STRATEGY, json!({"type": "OnDelete"})),
        (STRATEGY, json!({"type": "Rolling"})),
        (STRATEGY, json!({"type": null})),
        (STRATEGY, json!({})),
        (STRATEGY, json!(null)),
        ("/spec/minReadySeconds", json!(30)),
        ("/spec/minReadySeconds", json!(-1)),
        ("/spec/minReadySeconds", json!(null)),
        ("/spec/revisionHistoryLimit", json!(0)),
        ("/spec/revisionHistoryLimit", json!(-1)),
        ("/spec/revisionHistoryLimit", json!(null)),
        (SELECTOR, json!(null)),
        (SELECTOR, json!({})),
        (SELECTOR, json!({"matchLabels": {}, "matchExpressions": []})),
        (SELECTOR, json!({"matchLabels": {"app": "other"}})),
        (
            SELECTOR,
            json!({"matchLabels": {"app": "agent"}, "matchExpressions": []}),
        ),
        (
            SELECTOR,
            json!({"matchLabels": {"app": "agent"}, "matchExpressions": null}),
        ),
        (
            SELECTOR,
            json!({"matchLabels": {"app": "agent", "absent": "x"}}),
        ),
        (SELECTOR, json!({"matchLabels": {"app": "agent!"}})),
        (SELECTOR, json!({"matchLabels": {"a b": "agent"}})),
        expression("In", "app", &json!(["agent", "other"])),
        expression("In", "app", &json!(["other"])),
        expression("In", "absent", &json!(["agent"])),
        expression("In", "app", &json!([])),
        expression("In", "app", &json!(null)),
        expression("In", "app", &json!(["not a label"])),
        expression("NotIn", "app", &json!(["other"])),
        expression("NotIn", "app", &json!(["agent"])),
        expression("NotIn", "absent", &json!(["agent"])),
        expression("NotIn", "app", &json!([])),
        expression("Exists", "app", &json!(null)),
        expression("Exists", "app", &json!([])),
        expression("Exists", "app", &json!(["agent"])),
        expression("Exists", "absent", &json!(null)),
        expression("Exists", "a/b/c", &json!(null)),
        expression("DoesNotExist", "absent", &json!(null)),
        expression("DoesNotExist", "app", &json!(null)),
        expression("Gt", "app", &json!(["1"])),
        (
            LABELS,
            json!({"app": "agent", "example.com/role": "x", "A.b_c-9": ""}),
        ),
        (LABELS, json!({"app": "agent", "-x": "y"})),
        (LABELS, json!({"app": "agent", "a/b/c": "y"})),
        (LABELS, json!({"app": "agent", "Example.com/x": "y"})),
        (LABELS, json!({"app": "agent", "x": "-y"})),
        (
            LABELS,
            json!({"app": "agent", "0123456789012345678901234567890123456789012345678901234567890123": "y"}),
        ),
        (LABELS, json!(null)),
        ("/spec/template/metadata", json!(null)),
        ("/spec/template/spec/restartPolicy", json!("Always")),
        ("/spec/template/spec/restartPolicy", json!("")),
        ("/spec/template/spec/restartPolicy", json!(null)),
        ("/spec/template/spec/restartPolicy", json!("OnFailure")),
        ("/spec/template/spec/activeDeadlineSeconds", json!(9)),
        ("/spec/template/spec/activeDeadlineSeconds", json!(null)),
        (POD, json!({"containers": []})),
        (POD, json!(null)),
    ];
    all.extend(single.map(|change| vec![change]));
    let mixed = json!([
        {"key": "app", "operator": "In", "values": ["agent"]},
        {"key": "tier", "operator": "NotIn", "values": ["web"]},
        {"key": "old", "operator": "DoesNotExist", "values": []},
    ]);
    all.push(vec![expressions(&mixed)]);
    all.push(vec![
        expression("In", "app", &json!(["agent"])),
        (LABELS, json!(null)),
    ]);
    all.push(vec![
        expression("DoesNotExist", "app", &json!(null)),
        (LABELS, json!(null)),
    ]);
    all
}

#[test]
fn what_is_taken_and_what_is_refused_is_what_apps_v1_takes_and_refuses() {
    let mut different = Vec::new();
    let (mut taken, mut refused) = (0, 0);
    for changes in manifests() {
        let [ours, native] = [OURS, NATIVE].map(|api| {
            let changed = changes.iter().cloned();
            answer(&changed.fold(daemon_set(api), |object, (path, value)| {
                with(object, path, value)
            }))
        });
        match native {
            None => taken += 1,
            Some(_) => refused += 1,
        }
        if ours.is_some() != native.is_some() {
            different.push(format!(
                "{changes:?}\n    ours: {ours:?}\n    native: {native:?}"
            ));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
    assert!(
        taken > 40 && refused > 40,
        "{taken} are taken, {refused} are refused"
    );
}

#[test]
fn what_is_refused_is_refused_with_the_field_and_the_remedy() {
    let mut wrong = Vec::new();
    for (path, value, words) in [
        (
            SELECTOR,
            json!({"matchLabels": {"app": "other"}}),
            &["spec.template", "does not match template `labels`"][..],
        ),
        (
            SELECTOR,
            json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["agent"]}]}),
            &["spec.template", "spec.selector.matchExpressions"],
        ),
        (SELECTOR, json!({}), &["spec.selector", "must not be empty"]),
        (
            BUDGET,
            json!({"maxSurge": 1, "maxUnavailable": 1}),
            &[
                "rollingUpdate.maxSurge",
                "may not be set when maxUnavailable is not 0",
            ],
        ),
        (
            BUDGET,
            json!({"maxUnavailable": "00%"}),
            &[
                "rollingUpdate.maxUnavailable",
                "cannot be 0 when maxSurge is 0",
            ],
        ),
        (
            BUDGET,
            json!({"maxUnavailable": "5"}),
            &[
                "rollingUpdate.maxUnavailable",
                "a percentage from 0% to 100%",
            ],
        ),
        (
            BUDGET,
            json!({"rollingUpdateType": "InPlaceIfPossible"}),
            &["rollingUpdate.rollingUpdateType", "remove the field"],
        ),
        (
            BUDGET,
            json!({"partition": -1}),
            &["rollingUpdate.partition", "a number from 0"],
        ),
        (
            BUDGET,
            json!({"selector": {"matchLabels": {"a b": "x"}}}),
            &["rollingUpdate.selector.matchLabels", "must have keys"],
        ),
        (
            "/spec/burstReplicas",
            json!(0),
            &["spec.burstReplicas", "from 1"],
        ),
        (
            "/spec/minReadySeconds",
            json!(-1),
            &["spec.minReadySeconds", "0 or more"],
        ),
        (
            "/spec/lifecycle",
            json!({"preDelete": {"markPodNotReady": true}}),
            &[
                "spec.lifecycle.preDelete.markPodNotReady",
                "remove the field",
            ],
        ),
        (
            "/spec/lifecycle",
            json!({"preDelete": {"labelsHandler": {"a b": "x"}}}),
            &["spec.lifecycle.preDelete.labelsHandler", "must have keys"],
        ),
        (
            "/spec/lifecycle",
            json!({"preDelete": {"finalizersHandler": [""]}}),
            &["spec.lifecycle.preDelete.finalizersHandler[0]"],
        ),
        (
            "/spec/lifecycle",
            json!({"inPlaceUpdate": {"labelsHandler": {"a": "b"}}}),
            &["spec.lifecycle.inPlaceUpdate", "in place"],
        ),
        (
            "/spec/template/spec/restartPolicy",
            json!("OnFailure"),
            &["restartPolicy", "must be Always"],
        ),
    ] {
        let said = answer(&with(daemon_set(OURS), path, value)).unwrap_or_default();
        if let Some(word) = words.iter().find(|word| !said.contains(**word)) {
            wrong.push(format!("{path}: no {word:?} in {said:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn fields_of_openkruise_that_mean_what_happens_anyway_are_taken() {
    for value in ["Standard", ""] {
        let object = with(
            daemon_set(OURS),
            BUDGET,
            json!({"rollingUpdateType": value}),
        );
        assert_eq!(answer(&object), None, "{value:?}");
    }
    let surge = with(daemon_set(OURS), BUDGET, json!({"maxSurge": "05%"}));
    assert_eq!(answer(&surge), None, "without maxUnavailable: 0");
    let hook = json!({"labelsHandler": {"example.com/hold": "yes"},
        "finalizersHandler": ["example.com/drain"], "markPodNotReady": false});
    let hook = with(
        daemon_set(OURS),
        "/spec/lifecycle",
        json!({"preDelete": hook}),
    );
    assert_eq!(answer(&hook), None, "a hook");
}

/// A change of the selector: is it taken?
#[test]
fn a_selector_is_immutable_as_in_apps_v1_where_an_empty_list_is_none() {
    let namespace = namespace("admit-ds-selector");
    let labels = json!({"app": "agent"});
    let in_agent = json!({"key": "app", "operator": "In", "values": ["agent"]});
    let exists = json!({"key": "app", "operator": "Exists"});
    let exists_too = json!({"key": "app", "operator": "Exists", "values": []});
    let selectors = [
        json!({"matchLabels": labels}),
        json!({"matchLabels": labels, "matchExpressions": []}),
        json!({"matchLabels": labels, "matchExpressions": null}),
        json!({"matchLabels": labels, "matchExpressions": [exists]}),
        json!({"matchLabels": labels, "matchExpressions": [exists_too]}),
        json!({"matchExpressions": [exists]}),
        json!({"matchLabels": {}, "matchExpressions": [exists]}),
        json!({"matchExpressions": [in_agent]}),
        json!({"matchExpressions": [exists, in_agent]}),
    ];
    let path = |api: &str| format!("/apis/{api}/namespaces/{namespace}/daemonsets");
    for (at, selector) in selectors.iter().enumerate() {
        for api in [OURS, NATIVE] {
            let mut object = with(daemon_set(api), SELECTOR, selector.clone());
            object["metadata"]["name"] = json!(format!("agent-{at}"));
            // Nobody acts on it.
            object["spec"]["template"]["spec"]["nodeSelector"] = json!({"no": "node"});
            send(Method::POST, &path(api), &object).unwrap();
        }
    }
    let mut different = Vec::new();
    for (at, _) in selectors.iter().enumerate() {
        for selector in &selectors {
            let [ours, native] = [OURS, NATIVE].map(|api| {
                let one = format!("{}/agent-{at}", path(api));
                let stored = send(Method::GET, &one, &Value::Null).unwrap();
                let mut changed = with(stored, SELECTOR, selector.clone());
                if api == NATIVE {
                    // Its status may be written meanwhile.
                    changed["metadata"]["resourceVersion"] = Value::Null;
                }
                let reply = send(Method::PUT, &format!("{one}?dryRun=All"), &changed);
                reply.err().map(|refused| refused.message)
            });
            if ours.is_some() != native.is_some() {
                let from = &selectors[at];
                different.push(format!(
                    "{from} to {selector}: ours: {ours:?}, native: {native:?}"
                ));
            }
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}

/// As it is stored: with all defaults and what only the API server writes.
#[test]
fn a_stored_daemon_set_of_apps_v1_needs_only_another_api_version() {
    let namespace = namespace("admit-ds-native");
    let path = format!("/apis/{NATIVE}/namespaces/{namespace}/daemonsets");
    let mut native = daemon_set(NATIVE);
    native["spec"]["template"]["spec"]["nodeSelector"] = json!({"no": "node"});
    let mut stored = send(Method::POST, &path, &native).unwrap();
    stored["apiVersion"] = json!(OURS);
    for field in ["uid", "resourceVersion", "managedFields"] {
        stored["metadata"].as_object_mut().unwrap().remove(field);
    }
    for apply in [
        &["apply"][..],
        &["apply", "--server-side", "--force-conflicts"],
    ] {
        let args = [apply, &["-n", &namespace, "-f", "-"]].concat();
        for _ in 0..2 {
            kubectl(&args, Some(&stored.to_string())).succeeded();
        }
    }
    let get = ["get", "cds", "agent", "-n", &namespace, "-o", "json"];
    let ours = kubectl(&get, None).json();
    assert_eq!(ours["metadata"]["generation"], 1);
    assert_eq!(ours["spec"], stored["spec"]);
}
