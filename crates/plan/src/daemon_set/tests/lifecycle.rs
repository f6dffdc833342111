//! Pods that wait for a hook before they are deleted.

use carillon_api::condition::types;
use serde_json::{Value, json};

use super::whole::Whole;
use crate::daemon_set::DaemonPod;
use crate::node::{Effect, NodeRow, Taint};
use crate::object_key::{DAEMON_SET, NATIVE_DAEMON_SET};
use crate::pod::PodPhase;
use crate::uid::Uid;

const HOOK: &str = "example.com/hold";

fn spec(image: &str, rolling: &Value) -> Value {
    json!({
        "template": {"metadata": {"labels": {"app": "agent", HOOK: "yes"}}, "spec": {"image": image}},
        "updateStrategy": {"rollingUpdate": rolling},
        "lifecycle": {"preDelete": {"labelsHandler": {HOOK: "yes"}}},
    })
}

/// Three nodes, each with a pod that carries the hook.
fn running(rolling: &Value) -> Whole {
    let mut set = Whole::new(DAEMON_SET, None, &spec("1", rolling));
    set.nodes.insert("n3".into(), NodeRow::default());
    set.settle();
    set
}

/// The same with another image.
fn updating(rolling: &Value) -> Whole {
    let mut set = running(rolling);
    set.edit(&spec("2", rolling));
    set
}

fn told(set: &Whole) -> Vec<&str> {
    let pods = set.pods.values();
    let told = pods.filter(|pod| pod.told.is_some());
    let mut nodes: Vec<&str> = told.filter_map(|pod| pod.node.as_deref()).collect();
    nodes.sort_unstable();
    nodes
}

/// Somebody takes the hook from the pods that wait.
fn let_go(set: &mut Whole) {
    let waiting = set.pods.iter().filter(|(_, pod)| pod.told.is_some());
    let waiting: Vec<String> = waiting.map(|(name, _)| name.to_string()).collect();
    for name in waiting {
        set.label(&name, HOOK, None);
    }
}

fn revisions(set: &Whole) -> usize {
    let hashes = set.pods.values().map(DaemonPod::revision);
    hashes.collect::<std::collections::BTreeSet<_>>().len()
}

#[test]
fn a_pod_with_a_hook_is_told_once_that_it_goes_and_goes_when_the_hook_is_gone() {
    let mut set = updating(&json!({}));
    assert_eq!(
        set.sync(),
        ["create_revision", "prepare_pod", "write_status"]
    );
    set.settle();
    assert_eq!((set.pods.len(), told(&set)), (3, vec!["n1"]));
    let status = &set.set.status;
    assert_eq!((status.number_ready, status.number_available), (3, Some(2)));
    let waiting = &status.waiting_for[0];
    assert_eq!(
        (&*waiting.reason, waiting.count, &*waiting.sample[0]),
        ("PreDeleteHook", 1, "n1")
    );
    let_go(&mut set);
    assert!(set.sync().contains(&"delete_pod"));
    for next in ["n2", "n3"] {
        set.settle();
        assert_eq!(told(&set), [next]);
        let_go(&mut set);
    }
    set.settle();
    assert_eq!((told(&set).len(), revisions(&set)), (0, 1));
    assert_eq!(set.reason(types::READY), "UpdateComplete");
}

#[test]
fn no_more_nodes_are_told_than_may_be_without_a_pod() {
    let mut set = updating(&json!({"maxUnavailable": 2}));
    set.settle();
    assert_eq!(told(&set), ["n1", "n2"]);
    // One of them becomes unready, and is in the count already.
    let pods = set.pods.values_mut();
    pods.filter(|pod| pod.told.is_some())
        .for_each(|pod| pod.ready = None);
    set.settle();
    assert_eq!(told(&set), ["n1", "n2"]);
}

#[test]
fn a_pod_without_the_hook_is_deleted_at_once_and_one_of_apps_v1_knows_none() {
    let mut set = updating(&json!({}));
    let names: Vec<String> = set.pods.keys().map(ToString::to_string).collect();
    for name in &names {
        set.label(name, HOOK, Some("no"));
    }
    assert!(set.sync().contains(&"delete_pod"));
    let mut native = Whole::new(NATIVE_DAEMON_SET, None, &spec("1", &json!({})));
    native.settle();
    native.edit(&spec("2", &json!({})));
    assert!(native.sync().contains(&"delete_pod"));
}

#[test]
fn a_finalizer_is_a_hook_too() {
    let fields = |image: &str| {
        let mut spec = spec(image, &json!({}));
        spec["lifecycle"]["preDelete"] = json!({"finalizersHandler": ["example.com/drain"]});
        spec
    };
    let mut set = Whole::new(DAEMON_SET, None, &fields("1"));
    set.settle();
    for pod in set.pods.values_mut() {
        pod.finalizers = ["other.example.com/x".into(), "example.com/drain".into()].into();
    }
    set.edit(&fields("2"));
    set.settle();
    assert_eq!(told(&set), ["n1"]);
    for pod in set.pods.values_mut() {
        pod.finalizers = Box::default();
    }
    assert!(set.sync().contains(&"delete_pod"));
}

#[test]
fn who_is_to_stay_after_all_is_told_so() {
    type Change = fn(&mut Whole);
    let changes: [(&str, Change); 4] = [
        ("rolled back", |set| set.edit(&spec("1", &json!({})))),
        ("paused", |set| {
            set.edit(&spec("2", &json!({"paused": true})));
        }),
        ("kept", |set| set.edit(&spec("2", &json!({"partition": 3})))),
        ("on delete", |set| {
            let mut spec = spec("2", &json!({}));
            spec["updateStrategy"] = json!({"type": "OnDelete"});
            set.edit(&spec);
        }),
    ];
    for (what, change) in changes {
        let mut set = updating(&json!({}));
        set.settle();
        assert_eq!(told(&set), ["n1"], "{what}");
        change(&mut set);
        assert!(set.sync().contains(&"keep_pod"), "{what}");
        set.settle();
        assert_eq!((told(&set).len(), set.pods.len()), (0, 3), "{what}");
        assert_eq!(set.set.status.number_available, Some(3), "{what}");
        assert!(set.set.status.waiting_for.is_empty(), "{what}");
    }
}

#[test]
fn without_a_hook_in_the_spec_the_word_means_nothing_and_is_taken_back() {
    let mut set = updating(&json!({}));
    set.settle();
    let mut plain = spec("2", &json!({"paused": true}));
    plain["lifecycle"] = Value::Null;
    set.edit(&plain);
    assert!(set.sync().contains(&"keep_pod"));
    let mut plain = spec("2", &json!({}));
    plain["lifecycle"] = Value::Null;
    set.edit(&plain);
    set.settle();
    assert_eq!((told(&set).len(), revisions(&set)), (0, 1));
}

#[test]
fn a_node_that_should_have_no_pod_waits_for_the_hook_and_holds_no_update_up() {
    let taint = |set: &mut Whole, taints: &[Taint]| {
        let node: &mut NodeRow = set.nodes.get_mut("n1").unwrap();
        node.taints = taints.into();
    };
    for rolling in [json!({}), json!({"maxSurge": 1})] {
        let mut set = running(&rolling);
        let drives_away = Taint {
            key: "away".into(),
            value: "".into(),
            effect: Effect::NoExecute,
        };
        taint(&mut set, &[drives_away]);
        set.settle();
        assert_eq!(told(&set), ["n1"]);
        assert_eq!(set.set.status.number_misscheduled, 1);
        assert_eq!(set.set.status.waiting_for[0].reason, "PreDeleteHook");
        set.edit(&spec("2", &rolling));
        set.settle();
        assert_eq!(told(&set), ["n1", "n2"], "{rolling}");
        taint(&mut set, &[]);
        set.edit(&spec("1", &rolling));
        set.settle();
        // With a surge the second pod of n2 goes now.
        let_go(&mut set);
        set.settle();
        let kept = set.pods.values().filter(|pod| pod.rv == 2).count();
        assert_eq!(
            (told(&set).len(), set.pods.len(), kept),
            (0, 3, 2),
            "{rolling}"
        );
    }
}

#[test]
fn a_pod_that_has_failed_waits_for_the_hook_as_well() {
    let mut set = running(&json!({}));
    let failed = set.pods.values_mut().next().unwrap();
    (failed.phase, failed.ready) = (PodPhase::Failed, None);
    set.settle();
    assert_eq!((told(&set).len(), set.pods.len()), (1, 3));
    let_go(&mut set);
    set.settle();
    let runs = |pod: &DaemonPod| pod.phase == PodPhase::Running;
    assert!(set.pods.len() == 3 && set.pods.values().all(runs));
}

#[test]
fn with_a_surge_the_new_pod_comes_first_and_no_more_nodes_have_two() {
    let surge = json!({"maxSurge": 1});
    let mut set = updating(&surge);
    assert!(set.sync().contains(&"create_pod"));
    assert_eq!((set.pods.len(), told(&set).len()), (4, 0));
    set.settle();
    assert_eq!((set.pods.len(), told(&set)), (4, vec!["n1"]));
    assert_eq!(set.set.status.waiting_for[0].reason, "PreDeleteHook");
    // The new one is no longer ready: the old one is needed.
    let new = set.pods.values_mut().max_by_key(|pod| pod.uid).unwrap();
    new.ready = None;
    let new: Uid = new.uid;
    assert!(set.sync().contains(&"keep_pod"));
    set.settle();
    assert_eq!((set.pods.len(), told(&set).len()), (4, 0));
    let new = set.pods.values_mut().find(|pod| pod.uid == new).unwrap();
    new.ready = Some(super::world::at(1));
    for _ in 0..3 {
        set.settle();
        assert_eq!((set.pods.len(), told(&set).len()), (4, 1));
        let_go(&mut set);
    }
    set.settle();
    assert_eq!((set.pods.len(), revisions(&set)), (3, 1));
}

#[test]
fn what_a_hook_does_to_a_node_excuses_it_from_nothing() {
    let mut set = updating(&json!({}));
    set.settle();
    set.nodes.get_mut("n1").unwrap().unschedulable = true;
    set.settle();
    assert_eq!(told(&set), ["n1"]);
    set.nodes.get_mut("n1").unwrap().not_ready_since = Some(super::world::at(set.now + 1));
    set.now += 2;
    set.settle();
    assert_eq!(told(&set), ["n1"]);
    assert!(set.set.status.excused.is_empty());
}

#[test]
fn pods_that_were_told_while_they_were_not_ready_go_under_the_budget_once_they_serve_again() {
    let mut set = updating(&json!({}));
    let blink = |set: &mut Whole, ready: Option<_>| {
        set.pods.values_mut().for_each(|pod| pod.ready = ready);
    };
    blink(&mut set, None);
    set.settle();
    assert_eq!(told(&set), ["n1", "n2", "n3"]);
    blink(&mut set, Some(super::world::at(1)));
    assert!(set.sync().contains(&"keep_pod"));
    set.settle();
    assert_eq!((told(&set), set.pods.len()), (vec!["n1"], 3));
}

#[test]
fn all_that_were_told_since_no_node_should_have_one_go_one_by_one_when_each_should_again() {
    let mut set = running(&json!({}));
    let mut nowhere = spec("2", &json!({}));
    nowhere["template"]["spec"]["nodeSelector"] = json!({"pool": "none"});
    set.edit(&nowhere);
    set.settle();
    assert_eq!(told(&set).len(), 3);
    set.edit(&spec("2", &json!({})));
    set.settle();
    assert_eq!((told(&set), set.pods.len()), (vec!["n1"], 3));
}

#[test]
fn of_two_that_a_surge_has_left_the_one_that_was_told_goes() {
    let mut set = updating(&json!({"maxSurge": 3}));
    set.settle();
    assert_eq!((set.pods.len(), told(&set).len()), (6, 3));
    let new: Vec<Uid> = set
        .pods
        .values()
        .filter(|pod| pod.told.is_none())
        .map(|pod| pod.uid)
        .collect();
    set.edit(&spec("2", &json!({"maxSurge": 0, "maxUnavailable": 1})));
    set.settle();
    assert_eq!(
        (set.pods.len(), set.set.status.number_available),
        (6, Some(3))
    );
    let_go(&mut set);
    set.settle();
    let mut left: Vec<Uid> = set.pods.values().map(|pod| pod.uid).collect();
    let mut new = new;
    left.sort_unstable();
    new.sort_unstable();
    assert_eq!(left, new);
}

#[test]
fn a_duplicate_that_is_told_may_be_planned_with_the_deletion_of_the_other() {
    let mut set = running(&json!({"maxSurge": 1}));
    let names: Vec<String> = set.pods.keys().map(ToString::to_string).collect();
    for name in &names {
        set.label(name, HOOK, None);
    }
    set.edit(&spec("2", &json!({"maxSurge": 1})));
    assert!(set.sync().contains(&"create_pod"));
    let new = set
        .pods
        .values_mut()
        .find(|pod| pod.labels.iter().any(|(key, _)| **key == *HOOK));
    new.unwrap().ready = None;
    set.edit(&spec("2", &json!({"maxSurge": 0, "maxUnavailable": 1})));
    let words = set.sync();
    assert!(
        words.contains(&"prepare_pod") && words.contains(&"delete_pod"),
        "{words:?}"
    );
}

#[test]
fn a_selector_by_the_word_is_refused() {
    for state in [
        json!({"matchExpressions": [
            {"key": "app", "operator": "Exists"},
            {"key": "lifecycle.apps.kruise.io/state", "operator": "DoesNotExist"}]}),
        json!({"matchLabels": {"lifecycle.apps.kruise.io/state": "PreparingDelete"}}),
    ] {
        let mut wanted = spec("1", &json!({}));
        wanted["selector"] = state;
        wanted["template"]["metadata"]["labels"]["lifecycle.apps.kruise.io/state"] =
            json!("PreparingDelete");
        let mut set = Whole::new(DAEMON_SET, None, &wanted);
        assert_eq!(set.sync(), ["write_status"]);
        assert_eq!(set.reason(types::STALLED), "InvalidSpec");
    }
}
