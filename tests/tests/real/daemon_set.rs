//! What users of DaemonSet see, on a real control plane.

use std::time::Duration;

use carillon_tests::lab::{Bench, condition_of, is, lab};
use serde_json::{Value, json};

/// A DaemonSet on the nodes of a bench.
fn daemon_set(bench: &Bench<'_>, name: &str, image: &str, more: &Value) -> Value {
    let mut object = json!({
        "apiVersion": "carillon.dev/v1alpha1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": bench.name},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {
                    "nodeSelector": {"bench": bench.name},
                    "containers": [{"name": "main", "image": image}],
                },
            },
        },
    });
    for (key, value) in more.as_object().into_iter().flatten() {
        object["spec"][key] = value.clone();
    }
    object
}

fn list(bench: &Bench<'_>, kind: &str) -> Vec<Value> {
    let list: Value = serde_json::from_str(&bench.kubectl(&["get", kind, "-o", "json"])).unwrap();
    list["items"].as_array().cloned().unwrap_or_default()
}

fn get(bench: &Bench<'_>, name: &str) -> Value {
    serde_json::from_str(&bench.kubectl(&["get", "cds", name, "-o", "json"])).unwrap()
}

/// Waits until each node has an available pod of the current template, as the status of this very spec says.
fn ready(bench: &Bench<'_>, name: &str) -> Value {
    bench.until(&format!("{name} is ready"), || {
        let set = get(bench, name);
        let observed = set["status"]["observedGeneration"] == set["metadata"]["generation"];
        (observed && is(&set, "Ready")).then_some(set)
    })
}

/// Nodes of the pods, in order.
fn nodes(pods: &[Value]) -> Vec<String> {
    let mut nodes: Vec<String> = pods
        .iter()
        .map(|pod| pod["spec"]["nodeName"].as_str().unwrap_or("-").to_owned())
        .collect();
    nodes.sort();
    nodes
}

fn uids(pods: &[Value]) -> Vec<String> {
    let uid = |pod: &Value| pod["metadata"]["uid"].as_str().unwrap().to_owned();
    pods.iter().map(uid).collect()
}

#[test]
fn each_node_gets_one_pod_and_a_node_that_joins_gets_one_too() {
    let bench = lab().bench("ds-nodes", 3);
    bench.apply(&daemon_set(&bench, "agent", "busybox:1.37", &json!({})));
    let set = ready(&bench, "agent");
    assert_eq!(nodes(&list(&bench, "pods")), bench.nodes);
    let status = &set["status"];
    for (field, expected) in [
        ("desiredNumberScheduled", json!(3)),
        ("currentNumberScheduled", json!(3)),
        ("numberReady", json!(3)),
        ("numberAvailable", json!(3)),
        ("updatedNumberScheduled", json!(3)),
        ("numberMisscheduled", json!(0)),
        ("updated", json!("3/3")),
        ("summary", json!("Complete")),
    ] {
        assert_eq!(status[field], expected, "{field}");
    }
    let revisions = list(&bench, "controllerrevisions");
    let hash = &revisions[0]["metadata"]["labels"]["controller-revision-hash"];
    assert_eq!((revisions.len(), hash), (1, &status["updateRevision"]));
    let joined = bench.cluster.add_nodes(1, &[("bench", bench.name)], &[]);
    let joined = joined.unwrap().remove(0);
    bench.until("the node that joined has a pod", || {
        nodes(&list(&bench, "pods")).contains(&joined).then_some(())
    });
    // A node that is no longer meant loses its pod.
    let first = bench.nodes[0].as_str();
    bench.kubectl(&["label", "node", first, "bench-"]);
    bench.until("its pod is gone", || {
        let on = nodes(&list(&bench, "pods"));
        (on.len() == 3 && !on.iter().any(|node| node == first)).then_some(())
    });
    let columns = bench.kubectl(&["get", "cds", "agent", "--no-headers"]);
    bench.kubectl(&["delete", "cds", "agent"]);
    bench.until("its pods are gone", || {
        list(&bench, "pods").is_empty().then_some(())
    });
    assert!(
        columns.contains("Complete") || columns.contains("Pod"),
        "{columns}"
    );
}

#[test]
fn an_update_takes_one_node_at_a_time_and_can_be_undone() {
    let bench = lab().bench("ds-update", 4);
    let set = |image: &str| daemon_set(&bench, "agent", image, &json!({}));
    bench.apply(&set("busybox:1.36"));
    let first = ready(&bench, "agent");
    let before = uids(&list(&bench, "pods"));
    bench.apply(&set("busybox:1.37"));
    bench.until("all are updated", || {
        let pods = list(&bench, "pods");
        let stays =
            |pod: &&Value| pod["metadata"]["deletionTimestamp"].is_null() && is(pod, "Ready");
        let ready = pods.iter().filter(stays).count();
        assert!(ready >= 3, "one at a time: {ready} of 4 pods are ready");
        let status = get(&bench, "agent")["status"].clone();
        (status["updatedNumberScheduled"] == 4 && status["numberAvailable"] == 4).then_some(())
    });
    let second = ready(&bench, "agent");
    let after = uids(&list(&bench, "pods"));
    assert!(after.len() == 4 && !after.iter().any(|uid| before.contains(uid)));
    assert_ne!(
        first["status"]["updateRevision"],
        second["status"]["updateRevision"]
    );
    let numbers = |bench: &Bench<'_>| {
        let revisions = list(bench, "controllerrevisions");
        let mut numbers: Vec<_> = revisions
            .iter()
            .filter_map(|one| one["revision"].as_i64())
            .collect();
        numbers.sort_unstable();
        numbers
    };
    assert_eq!(numbers(&bench), [1, 2]);
    // The template of before is the same revision, which becomes the newest.
    bench.apply(&set("busybox:1.36"));
    bench.until("the first revision is back", || {
        let set = get(&bench, "agent");
        let same = set["status"]["updateRevision"] == first["status"]["updateRevision"];
        (same && is(&set, "Ready")).then_some(())
    });
    assert_eq!(numbers(&bench), [2, 3]);
}

#[test]
fn with_a_surge_no_node_is_without_an_available_pod() {
    let bench = lab().bench("ds-surge", 3);
    let surge = json!({"updateStrategy": {"rollingUpdate": {"maxSurge": 1}}});
    let set = |image: &str| daemon_set(&bench, "agent", image, &surge);
    bench.apply(&set("busybox:1.36"));
    ready(&bench, "agent");
    bench.apply(&set("busybox:1.37"));
    let (mut least, mut most) = (3, 3);
    bench.until("all are updated", || {
        let pods = list(&bench, "pods");
        most = most.max(pods.len());
        let status = get(&bench, "agent")["status"].clone();
        least = least.min(status["numberAvailable"].as_i64().unwrap_or(0));
        (status["updatedNumberScheduled"] == 3 && pods.len() == 3).then_some(())
    });
    assert_eq!(least, 3);
    assert!(most <= 4, "{most} pods on 3 nodes");
    let set = ready(&bench, "agent");
    assert_eq!(set["status"]["numberUnavailable"], Value::Null);
}

#[test]
fn a_partition_keeps_nodes_old_and_a_pause_keeps_all() {
    let bench = lab().bench("ds-partition", 3);
    let strategy = |more: Value| json!({"updateStrategy": {"rollingUpdate": more}});
    let set = |image: &str, more: Value| daemon_set(&bench, "agent", image, &strategy(more));
    bench.apply(&set("busybox:1.36", json!({})));
    ready(&bench, "agent");
    bench.apply(&set("busybox:1.37", json!({"paused": true})));
    let paused = bench.until("the pause is told", || {
        let set = get(&bench, "agent");
        (set["status"]["summary"] == "Paused").then_some(set)
    });
    let progressing = condition_of(&paused, "Progressing").unwrap();
    assert_eq!(
        (&progressing["status"], &progressing["reason"]),
        (&json!("False"), &json!("PausedByUser"))
    );
    assert_eq!(paused["status"]["updated"], "0/3");
    bench.apply(&set(
        "busybox:1.37",
        json!({"paused": false, "partition": 2}),
    ));
    let kept = bench.until("one node is updated", || {
        let set = get(&bench, "agent");
        (set["status"]["updated"] == "1/3" && set["status"]["numberAvailable"] == 3).then_some(set)
    });
    let ready_condition = condition_of(&kept, "Ready").unwrap();
    assert_eq!(
        (&ready_condition["status"], &ready_condition["reason"]),
        (&json!("True"), &json!("OldPodsKept"))
    );
    bench.apply(&set("busybox:1.37", json!({"partition": 0})));
    ready(&bench, "agent");
}

#[test]
fn orphans_that_are_selected_are_adopted_and_pods_that_are_not_are_released() {
    let bench = lab().bench("ds-adopt", 2);
    let orphan = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "orphan", "namespace": bench.name, "labels": {"app": "agent"}},
        "spec": {"nodeName": bench.nodes[0], "containers": [{"name": "main", "image": "busybox:1.37"}]},
    });
    bench.apply(&orphan);
    bench.apply(&daemon_set(
        &bench,
        "agent",
        "busybox:1.37",
        &json!({"updateStrategy": {"type": "OnDelete"}}),
    ));
    bench.until(
        "the orphan is adopted, and the other node has a pod",
        || {
            let pods = list(&bench, "pods");
            let owned = |pod: &Value| pod["metadata"]["ownerReferences"][0]["kind"] == "DaemonSet";
            (pods.len() == 2 && pods.iter().all(owned)).then_some(())
        },
    );
    bench.kubectl(&["label", "pod", "orphan", "app-"]);
    bench.until("it is released, and its node has another pod", || {
        let pods = list(&bench, "pods");
        let released = pods.iter().any(|pod| {
            pod["metadata"]["name"] == "orphan" && pod["metadata"]["ownerReferences"].is_null()
        });
        (released && pods.len() == 3).then_some(())
    });
}

/// Who has the name is neither fought nor passed by: with another name a node could get two pods.
#[test]
fn a_node_whose_name_another_controllers_pod_has_waits_for_it_and_says_so() {
    let bench = lab().bench("ds-taken", 2);
    bench.apply(&daemon_set(&bench, "agent", "busybox:1.37", &json!({})));
    ready(&bench, "agent");
    let name = {
        let pods = list(&bench, "pods");
        let of_first = |pod: &&Value| pod["spec"]["nodeName"] == bench.nodes[0].as_str();
        let pod = pods.iter().find(of_first).unwrap();
        pod["metadata"]["name"].as_str().unwrap().to_owned()
    };
    bench.kubectl(&["create", "configmap", "other"]);
    let other: Value =
        serde_json::from_str(&bench.kubectl(&["get", "cm", "other", "-o", "json"])).unwrap();
    let owner = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "other",
        "uid": other["metadata"]["uid"], "controller": true}]);
    let theirs = json!({"metadata": {"labels": {"app": "other"}, "ownerReferences": owner}});
    bench.kubectl(&[
        "patch",
        "pod",
        &name,
        "--type=merge",
        "-p",
        &theirs.to_string(),
    ]);
    let told = bench.until("the node is named", || {
        let told = get(&bench, "agent")["status"]["waitingFor"][0].clone();
        (told["reason"] == "PodNameTaken").then_some(told)
    });
    assert_eq!(told["sample"], json!([bench.nodes[0]]));
    assert_eq!(list(&bench, "pods").len(), 2);
    bench.until("an event says what to do", || {
        let events = list(&bench, "events.events.k8s.io");
        let says = |event: &Value| {
            let note = event["note"].as_str().unwrap_or_default();
            event["reason"] == "FailedCreate"
                && note.contains(&name)
                && note.contains("delete the Pod")
        };
        events.iter().any(says).then_some(())
    });
    assert!(!is(&get(&bench, "agent"), "Stalled"));
    bench.kubectl(&["delete", "pod", &name]);
    ready(&bench, "agent");
    assert_eq!(nodes(&list(&bench, "pods")), bench.nodes);
}

/// A policy of admission: what it says about deletions of pods in the namespace of a bench.
fn forbids_deletions(bench: &Bench<'_>, expression: &str) {
    let version = "admissionregistration.k8s.io/v1";
    let rules = json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["pods"]}]);
    let here = json!({"matchLabels": {"kubernetes.io/metadata.name": bench.name}});
    let validation = json!({"expression": expression, "message": "not this one"});
    bench.apply(
        &json!({"apiVersion": version, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": bench.name},
        "spec": {"matchConstraints": {"resourceRules": rules, "namespaceSelector": here}, "validations": [validation]}}),
    );
    bench.apply(
        &json!({"apiVersion": version, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": bench.name},
        "spec": {"policyName": bench.name, "validationActions": ["Deny"]}}),
    );
}

#[test]
fn a_deletion_that_is_forbidden_on_one_node_stops_no_other() {
    let bench = lab().bench("ds-forbidden", 3);
    let with = |image: &str, rolling: &Value| {
        let strategy = json!({"updateStrategy": {"rollingUpdate": rolling}});
        daemon_set(&bench, "agent", image, &strategy)
    };
    let (one, surge) = (json!({"maxUnavailable": 1}), json!({"maxSurge": 1}));
    bench.apply(&with("busybox:1.36", &one));
    ready(&bench, "agent");
    let first = bench.nodes[0].as_str();
    let on = |node: &str| {
        let pods = list(&bench, "pods").into_iter();
        pods.filter(|pod| pod["spec"]["nodeName"] == node)
            .collect::<Vec<_>>()
    };
    let name = on(first)[0]["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    let namespace = bench.name;
    forbids_deletions(&bench, &format!("oldObject.spec.nodeName != '{first}'"));
    bench.until("deletions are forbidden", || {
        let args = ["delete", "pod", &name, "-n", namespace, "--dry-run=server"];
        bench.cluster.kubectl_ok(args).is_err().then_some(())
    });
    bench.apply(&with("busybox:1.37", &one));
    // They have their turn once it was refused for half a minute, and tries come ever later.
    bench.until_within(Duration::from_mins(4), "the other two are updated", || {
        let status = get(&bench, "agent")["status"].clone();
        (status["updatedNumberScheduled"] == 2 && status["numberAvailable"] == 3).then_some(())
    });
    // The first node gets a second pod, and is not waited for by the others.
    bench.apply(&with("busybox:1.38", &surge));
    bench.until("all have a new pod, and the first an old one, too", || {
        let images = |pod: &Value| pod["spec"]["containers"][0]["image"].clone();
        let pods = list(&bench, "pods");
        let new = pods.iter().filter(|pod| images(pod) == "busybox:1.38");
        (new.count() == 3 && pods.len() == 4).then_some(())
    });
    assert_eq!(on(first).len(), 2);
    let kinds = [
        "validatingadmissionpolicybinding",
        "validatingadmissionpolicy",
    ];
    for kind in kinds {
        bench.kubectl(&["delete", kind, bench.name]);
    }
    ready(&bench, "agent");
    bench.until("the old pod is gone", || {
        (list(&bench, "pods").len() == 3).then_some(())
    });
}

/// Its template has all defaults then, and so is that of the revision that is adopted along with the pods.
#[test]
fn a_native_one_that_moves_as_it_is_stored_keeps_its_pods() {
    let bench = lab().bench("ds-move", 2);
    let mut native = daemon_set(&bench, "agent", "busybox:1.37", &json!({}));
    native["apiVersion"] = json!("apps/v1");
    bench.apply(&native);
    let stored = bench.until("the native one is ready", || {
        let set: Value =
            serde_json::from_str(&bench.kubectl(&["get", "ds", "agent", "-o", "json"])).unwrap();
        (set["status"]["numberAvailable"] == 2).then_some(set)
    });
    let before = uids(&list(&bench, "pods"));
    let revisions = |bench: &Bench<'_>| uids(&list(bench, "controllerrevisions"));
    let revisions_before = revisions(&bench);
    bench.kubectl(&["delete", "ds", "agent", "--cascade=orphan"]);
    let mut ours = daemon_set(&bench, "agent", "", &json!({}));
    ours["spec"] = stored["spec"].clone();
    bench.apply(&ours);
    ready(&bench, "agent");
    let (mut before, mut after) = (before, uids(&list(&bench, "pods")));
    before.sort();
    after.sort();
    assert_eq!(after, before, "no pod was replaced");
    assert_eq!(revisions(&bench), revisions_before);
    // The manifest as it was written has another template.
    bench.apply(&daemon_set(&bench, "agent", "busybox:1.37", &json!({})));
    ready(&bench, "agent");
    let after = uids(&list(&bench, "pods"));
    assert!(after.len() == 2 && !after.iter().any(|uid| before.contains(uid)));
}

#[test]
fn pods_of_another_namespace_are_neither_adopted_nor_counted() {
    let [bench, other] = ["ds-tenant", "ds-tenant-other"].map(|name| lab().bench(name, 1));
    let copy = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "copy", "namespace": other.name, "labels": {"app": "agent"}},
        "spec": {"nodeName": bench.nodes[0], "containers": [{"name": "main", "image": "busybox:1.36"}]},
    });
    other.apply(&copy);
    bench.apply(&daemon_set(&bench, "agent", "busybox:1.37", &json!({})));
    let set = ready(&bench, "agent");
    let status = &set["status"];
    assert_eq!(
        (&status["desiredNumberScheduled"], &status["numberReady"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(
        list(&bench, "pods").len(),
        1,
        "the copy is on its node and is not its pod"
    );
    bench.kubectl(&["delete", "cds", "agent"]);
    bench.until("its pod is gone", || {
        list(&bench, "pods").is_empty().then_some(())
    });
    let left = list(&other, "pods");
    assert_eq!(
        (left.len(), &left[0]["metadata"]["ownerReferences"]),
        (1, &Value::Null)
    );
    assert_eq!(left[0]["metadata"]["deletionTimestamp"], Value::Null);
}

/// The CRD keeps fields that it does not know, and the API server drops those that pods do not have.
#[test]
fn a_misspelt_field_of_a_template_is_told_and_no_pod_is_created_until_it_is_mended() {
    let bench = lab().bench("ds-misspelt", 1);
    let mut object = daemon_set(&bench, "agent", "busybox:1.37", &json!({}));
    let pod = &mut object["spec"]["template"]["spec"];
    pod["containers"][0]["comand"] = json!(["true"]);
    bench.apply(&object);
    let set = bench.until("it is stalled", || {
        let set = get(&bench, "agent");
        is(&set, "Stalled").then_some(set)
    });
    let stalled = condition_of(&set, "Stalled").unwrap();
    assert_eq!(stalled["reason"], "WriteRefused", "{stalled}");
    let told = stalled["message"].as_str().unwrap();
    for says in ["create_pod: ", "unknown field", "comand"] {
        assert!(told.contains(says), "{told}");
    }
    let shown = bench.kubectl(&["get", "cds", "agent"]);
    assert!(shown.contains("Stalled: WriteRefused"), "{shown}");
    bench.until("an event says so, too", || {
        let reasons = ["get", "events", "-o", "jsonpath={.items[*].reason}"];
        bench
            .kubectl(&reasons)
            .contains("FailedCreate")
            .then_some(())
    });
    assert!(bench.creations("agent").is_empty());
    bench.apply(&daemon_set(&bench, "agent", "busybox:1.37", &json!({})));
    ready(&bench, "agent");
    bench.until("it is stalled no more", || {
        (!is(&get(&bench, "agent"), "Stalled")).then_some(())
    });
    assert_eq!(nodes(&list(&bench, "pods")), bench.nodes);
}

const HOOK: &str = "example.com/hold";

/// A DaemonSet whose pods wait for a hook.
fn hooked(bench: &Bench<'_>, image: &str) -> Value {
    let hook = json!({"preDelete": {"labelsHandler": {HOOK: "yes"}}});
    let mut set = daemon_set(bench, "agent", image, &json!({"lifecycle": hook}));
    set["spec"]["template"]["metadata"]["labels"][HOOK] = json!("yes");
    set
}

/// The pods that were told that they go.
fn told(bench: &Bench<'_>) -> Vec<Value> {
    let mut pods = list(bench, "pods");
    pods.retain(|pod| {
        pod["metadata"]["labels"]["lifecycle.apps.kruise.io/state"] == "PreparingDelete"
    });
    pods
}

fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap().to_owned()
}

#[test]
fn a_pod_with_a_hook_is_deleted_when_somebody_has_let_go_of_it() {
    let bench = lab().bench("ds-hook", 3);
    bench.apply(&hooked(&bench, "busybox:1.36"));
    ready(&bench, "agent");
    let before = uids(&list(&bench, "pods"));
    bench.apply(&hooked(&bench, "busybox:1.37"));
    let waits = || {
        bench.until(
            "one pod is told that it goes, and the status says so",
            || {
                let status = get(&bench, "agent")["status"].clone();
                let said = status["waitingFor"][0]["reason"] == "PreDeleteHook";
                let told = told(&bench);
                (said && told.len() == 1 && status["numberAvailable"] == 2).then_some(told)
            },
        )
    };
    let first = waits().remove(0);
    let since = &first["metadata"]["annotations"]["lifecycle.apps.kruise.io/timestamp"];
    assert!(since.as_str().is_some_and(|since| since.ends_with('Z')));
    // It is not to be deleted after all.
    bench.apply(&hooked(&bench, "busybox:1.36"));
    ready(&bench, "agent");
    assert_eq!(
        (uids(&list(&bench, "pods")), told(&bench)),
        (before.clone(), vec![])
    );
    bench.apply(&hooked(&bench, "busybox:1.37"));
    for _ in &bench.nodes {
        let pod = waits().remove(0);
        let pods = uids(&list(&bench, "pods"));
        bench.kubectl(&["label", "pod", &name(&pod), &format!("{HOOK}-")]);
        bench.until("it is gone", || {
            let uid = &pod["metadata"]["uid"];
            let there = list(&bench, "pods");
            (!there.iter().any(|pod| pod["metadata"]["uid"] == *uid)).then_some(())
        });
        assert_eq!(pods.len(), 3);
    }
    ready(&bench, "agent");
    let after = uids(&list(&bench, "pods"));
    assert!(after.len() == 3 && !after.iter().any(|uid| before.contains(uid)));
}
