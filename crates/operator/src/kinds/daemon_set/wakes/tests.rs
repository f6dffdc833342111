//! Which DaemonSets are looked at when something changes. Upstream's tests of its handlers are named beside ours.

use std::collections::BTreeSet;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::kinds::daemon_set::{Carillon, Native, SlimDaemonSet, SlimRevision};
use crate::slim::{SlimNode, SlimPod};
use crate::store::{Row, Tables, Wake};

fn uid(n: u8) -> String {
    format!("4e0c5d6a-0b1c-4d2e-8f3a-0000000000{n:02x}")
}

/// The names of those that are woken, each once.
fn names(wakes: &[Wake]) -> BTreeSet<String> {
    let names = wakes.iter().map(|wake| match wake {
        Wake::Now(key) | Wake::Soon(key) => key.object().name.clone(),
    });
    names.collect()
}

fn read<R: DeserializeOwned>(object: &Value) -> R {
    serde_json::from_value(object.clone()).unwrap()
}

fn enter<R: Row + DeserializeOwned>(tables: &mut Tables, object: &Value) -> BTreeSet<String> {
    let mut wakes = Vec::new();
    read::<R>(object).enter(tables, &mut wakes);
    names(&wakes)
}

fn leave<R: Row + DeserializeOwned>(tables: &mut Tables, object: &Value) -> BTreeSet<String> {
    let mut wakes = Vec::new();
    read::<R>(object).leave(tables, &mut wakes);
    names(&wakes)
}

fn of(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// DaemonSet `n`, which selects pods by this label.
fn set(n: u8, app: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": format!("set-{n}"), "namespace": "ops", "uid": uid(n), "resourceVersion": "1"},
        "spec": {
            "selector": {"matchLabels": {"app": app}},
            "template": {
                "metadata": {"labels": {"app": app}},
                "spec": {"nodeSelector": {"pool": app}, "containers": [{"name": "main", "image": "busybox"}]},
            },
        },
    })
}

/// Two that select `x`, and a third one.
fn three() -> Tables {
    let mut tables = Tables::default();
    for (n, app) in [(1, "x"), (2, "x"), (3, "y")] {
        enter::<SlimDaemonSet<Native>>(&mut tables, &set(n, app));
    }
    tables
}

/// Pod 9, or another object with these labels, of the DaemonSet `owner`.
fn object(rv: u64, app: &str, owner: Option<u8>) -> Value {
    let owner = owner.map(|n| {
        json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "name": format!("set-{n}"),
            "uid": uid(n), "controller": true})
    });
    json!({"metadata": {
        "name": "object", "namespace": "ops", "uid": uid(9), "resourceVersion": rv.to_string(),
        "labels": {"app": app}, "ownerReferences": owner.into_iter().collect::<Vec<_>>(),
    }})
}

/// `TestAddPod`, `TestUpdatePod`, `TestDeletePod`.
#[test]
fn a_pod_wakes_the_set_that_controls_it_and_no_other_that_selects_it() {
    let mut tables = three();
    let mut pod = object(10, "x", Some(1));
    assert_eq!(enter::<SlimPod>(&mut tables, &pod), of(&["set-1"]));
    pod["metadata"]["resourceVersion"] = json!("11");
    assert_eq!(
        enter::<SlimPod>(&mut tables, &pod),
        of(&[]),
        "nothing of interest"
    );
    pod["status"] = json!({"phase": "Failed"});
    assert_eq!(enter::<SlimPod>(&mut tables, &pod), of(&["set-1"]));
    pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(
        enter::<SlimPod>(&mut tables, &pod),
        of(&["set-1"]),
        "it goes"
    );
    assert_eq!(leave::<SlimPod>(&mut tables, &pod), of(&["set-1"]));
}

/// `TestAddPodOrphan`.
#[test]
fn a_pod_that_nothing_controls_wakes_each_set_that_selects_it() {
    let mut tables = three();
    let woken = enter::<SlimPod>(&mut tables, &object(10, "x", None));
    assert_eq!(woken, of(&["set-1", "set-2"]));
    let mut elsewhere = object(10, "x", None);
    elsewhere["metadata"]["namespace"] = json!("other");
    elsewhere["metadata"]["uid"] = json!(uid(8));
    assert_eq!(enter::<SlimPod>(&mut tables, &elsewhere), of(&[]));
}

/// `TestUpdatePodOrphanSameLabels`, `TestUpdatePodOrphanWithNewLabels`, `TestDeletePodOrphan`.
#[test]
fn a_pod_that_nothing_controls_wakes_again_only_with_other_labels_and_not_when_it_goes() {
    let mut tables = three();
    enter::<SlimPod>(&mut tables, &object(10, "z", None));
    let mut same = object(11, "z", None);
    same["status"] = json!({"phase": "Running"});
    assert_eq!(enter::<SlimPod>(&mut tables, &same), of(&[]));
    let other = object(12, "x", None);
    assert_eq!(
        enter::<SlimPod>(&mut tables, &other),
        of(&["set-1", "set-2"])
    );
    assert_eq!(leave::<SlimPod>(&mut tables, &other), of(&[]));
}

/// `TestUpdatePodChangeControllerRef`, `TestUpdatePodControllerRefRemoved`.
#[test]
fn a_pod_that_changes_hands_wakes_both_and_one_that_is_released_all_that_select_it() {
    let mut tables = three();
    enter::<SlimPod>(&mut tables, &object(10, "x", Some(1)));
    let woken = enter::<SlimPod>(&mut tables, &object(11, "x", Some(2)));
    assert_eq!(woken, of(&["set-1", "set-2"]));
    let woken = enter::<SlimPod>(&mut tables, &object(12, "x", None));
    assert_eq!(woken, of(&["set-1", "set-2"]));
}

/// `TestDeleteNoDaemonPod`.
#[test]
fn a_pod_of_another_kind_wakes_nobody() {
    let mut tables = three();
    let mut pod = object(10, "x", None);
    pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet",
        "name": "set-1", "uid": uid(7), "controller": true}]);
    assert_eq!(enter::<SlimPod>(&mut tables, &pod), of(&[]));
    assert_eq!(leave::<SlimPod>(&mut tables, &pod), of(&[]));
}

/// Upstream only notes the creation of a revision that is controlled.
#[test]
fn a_revision_wakes_who_controls_it_or_may_adopt_it() {
    let mut tables = three();
    let revision = |rv, app, owner| {
        let mut revision = object(rv, app, owner);
        revision["revision"] = json!(1);
        revision
    };
    let woken = enter::<SlimRevision>(&mut tables, &revision(10, "x", Some(3)));
    assert_eq!(woken, of(&["set-3"]));
    let woken = enter::<SlimRevision>(&mut tables, &revision(11, "x", None));
    assert_eq!(woken, of(&["set-1", "set-2", "set-3"]));
    assert_eq!(
        leave::<SlimRevision>(&mut tables, &revision(11, "x", None)),
        of(&[])
    );
}

fn node(rv: u64, change: &Value) -> Value {
    let mut node = json!({
        "metadata": {"name": "n", "uid": uid(6), "resourceVersion": rv.to_string(), "labels": {"pool": "x"}},
        "spec": {"taints": []},
        "status": {"allocatable": {"cpu": "1"},
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
    });
    for (pointer, value) in change.as_object().unwrap() {
        *node.pointer_mut(pointer).unwrap() = value.clone();
    }
    node
}

/// `TestAddNode`, `TestUpdateNode`, `TestShouldIgnoreNodeUpdate`. Upstream asks each set about a node whose labels or
/// taints have changed; here only those are woken for which the answer is another one, and all by a node that comes or
/// goes.
#[test]
fn a_node_wakes_the_sets_for_which_its_change_makes_a_difference() {
    let mut tables = three();
    let taint = |effect: &str| json!({"/spec/taints": [{"key": "k", "effect": effect}]});
    let not_ready =
        json!([{"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:00:01Z"}]);
    let of_x = ["set-1", "set-2"];
    for (rv, (what, change, woken)) in (10..).zip([
        ("it joins", json!({}), &["set-1", "set-2", "set-3"][..]),
        ("nothing changes", json!({}), &[]),
        (
            "more room",
            json!({"/status/allocatable": {"cpu": "2"}}),
            &[],
        ),
        ("not ready", json!({"/status/conditions": not_ready}), &[]),
        ("ready again", json!({}), &[]),
        ("preferably not", taint("PreferNoSchedule"), &[]),
        ("no new pods", taint("NoSchedule"), &of_x),
        ("no pods", taint("NoExecute"), &of_x),
        ("again", json!({}), &of_x),
        (
            "another pool",
            json!({"/metadata/labels/pool": "y"}),
            &["set-1", "set-2", "set-3"],
        ),
        (
            "the same with a label more",
            json!({"/metadata/labels": {"pool": "y", "a": "b"}}),
            &[],
        ),
    ]) {
        let found = enter::<SlimNode>(&mut tables, &node(rv, &change));
        assert_eq!(found, of(woken), "{what}");
    }
    let gone = leave::<SlimNode>(&mut tables, &node(21, &json!({})));
    assert_eq!(
        gone,
        of(&["set-1", "set-2", "set-3"]),
        "its pods do not count any more"
    );
}

/// A change lets work go on, or it is only counted.
#[test]
fn a_pod_wakes_its_set_at_once_where_that_lets_work_go_on() {
    let updating = json!({"currentNumberScheduled": 2, "updatedNumberScheduled": 1, "desiredNumberScheduled": 2});
    let created = json!({"currentNumberScheduled": 1, "updatedNumberScheduled": 1, "desiredNumberScheduled": 2});
    for (what, status, has_node, expected) in [
        ("an update", updating.clone(), true, [true, true, true]),
        (
            "an update, and the node is gone",
            updating,
            false,
            [true, false, false],
        ),
        ("pods are created", created, true, [false, true, true]),
    ] {
        let mut set = set(1, "x");
        set["status"] = status;
        let mut tables = Tables::default();
        enter::<SlimDaemonSet<Native>>(&mut tables, &set);
        if has_node {
            enter::<SlimNode>(&mut tables, &node(1, &json!({})));
        }
        assert_eq!(woken_at_once(&mut tables, "apps/v1"), expected, "{what}");
    }
}

/// Whether its pod on the node wakes set 1 at once when it becomes ready, when it has failed, and when it is gone.
fn woken_at_once(tables: &mut Tables, api_version: &str) -> [bool; 3] {
    let mut pod = object(10, "x", Some(1));
    pod["spec"] = json!({"nodeName": "n"});
    pod["metadata"]["ownerReferences"][0]["apiVersion"] = json!(api_version);
    enter::<SlimPod>(tables, &pod);
    pod["metadata"]["resourceVersion"] = json!("11");
    pod["status"] = json!({"phase": "Running", "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
    let [mut ready, mut failed, mut gone] = [const { Vec::new() }; 3];
    read::<SlimPod>(&pod).enter(tables, &mut ready);
    pod["metadata"]["resourceVersion"] = json!("12");
    pod["status"] = json!({"phase": "Failed"});
    read::<SlimPod>(&pod).enter(tables, &mut failed);
    read::<SlimPod>(&pod).leave(tables, &mut gone);
    [ready, failed, gone].map(|wakes| wakes.iter().any(|wake| matches!(wake, Wake::Now(_))))
}

/// What a field of the spec keeps waits for no pod, and what has to be ready for a while is no matter of an event.
#[test]
fn a_pod_that_becomes_ready_wakes_its_set_at_once_only_if_an_update_waits_for_it() {
    let updating = |reason: &str| {
        json!({"currentNumberScheduled": 2, "updatedNumberScheduled": 1, "desiredNumberScheduled": 2,
            "conditions": [{"type": "Progressing", "status": "True", "reason": reason, "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}]})
    };
    let paused = json!({"rollingUpdate": {"paused": true}});
    for (reason, field, value, expected) in [
        ("Updating", "/", json!(null), true),
        ("ProgressDeadlineExceeded", "/", json!(null), true),
        ("Updating", "updateStrategy", paused, false),
        ("Updating", "minReadySeconds", json!(5), false),
        (
            "UpdateComplete",
            "updateStrategy",
            json!({"rollingUpdate": {"partition": 1}}),
            false,
        ),
    ] {
        let mut set = set(1, "x");
        set["apiVersion"] = json!(OURS);
        set["spec"][field] = value.clone();
        set["status"] = updating(reason);
        let mut tables = Tables::default();
        enter::<SlimDaemonSet<Carillon>>(&mut tables, &set);
        let [ready, ..] = woken_at_once(&mut tables, OURS);
        assert_eq!(ready, expected, "{reason} {field} {value}");
    }
}

const OURS: &str = "carillon.dev/v1alpha1";

#[test]
fn a_pod_that_its_node_should_not_have_had_is_only_counted_when_it_has_failed_or_is_gone() {
    for (pool, expected) in [("x", true), ("y", false)] {
        let mut tables = three();
        let labels = json!({"/metadata/labels/pool": pool});
        enter::<SlimNode>(&mut tables, &node(1, &labels));
        let [_, failed, gone] = woken_at_once(&mut tables, "apps/v1");
        assert_eq!([failed, gone], [expected; 2], "{pool}");
    }
}
