//! What an update may take away, and whom it waits for.

use carillon_api::condition::{reasons, types};
use serde_json::{Value, json};

use super::whole::{Whole, image};
use super::world::at;
use crate::condition::find;
use crate::daemon_set::action::Action;
use crate::daemon_set::pod::DaemonPod;
use crate::node::{Effect, NodeRow, Taint};
use crate::object_key::{ApiKind, DAEMON_SET, NATIVE_DAEMON_SET};

/// A DaemonSet of this strategy whose pods have to be ready for half a minute, and were for as many seconds.
fn ready_for(kind: ApiKind, strategy: &Value, seconds: i64) -> Whole {
    let spec = |more: &Value| {
        let mut spec = more.clone();
        spec["minReadySeconds"] = json!(30);
        spec["updateStrategy"] = json!({"rollingUpdate": strategy});
        spec
    };
    let mut set = Whole::new(kind, None, &spec(&json!({})));
    set.settle();
    set.now += seconds;
    set.edit(&spec(&image("2")));
    set
}

fn of_old(set: &Whole) -> usize {
    let newest = set.set.status.update_revision.as_deref();
    let is_old = |pod: &&DaemonPod| pod.revision() != newest;
    set.pods.values().filter(is_old).count()
}

/// kruise issue 1323. Upstream replaces all of them at once.
#[test]
fn pods_that_are_ready_and_were_not_for_long_are_replaced_under_the_budget() {
    let one = json!({"maxUnavailable": 1});
    let deleted = |kind, seconds| {
        let words = ready_for(kind, &one, seconds).sync();
        words.iter().filter(|word| **word == "delete_pod").count()
    };
    assert_eq!(deleted(DAEMON_SET, 5), 1);
    assert_eq!(deleted(DAEMON_SET, 30), 1);
    assert_eq!(deleted(NATIVE_DAEMON_SET, 5), 2);
    assert_eq!(deleted(NATIVE_DAEMON_SET, 30), 1);
    // The next one waits until the new pod has been ready for long enough, and no longer.
    let mut set = ready_for(DAEMON_SET, &one, 5);
    set.settle();
    assert_eq!(of_old(&set), 1);
    set.now += 29;
    set.settle();
    assert_eq!(of_old(&set), 1);
    set.now += 1;
    set.settle();
    assert_eq!(of_old(&set), 0);
}

/// kruise issue 1323: an update of pods none of which is available does not wait for ever.
#[test]
fn pods_that_are_not_ready_are_replaced_at_once() {
    let mut set = ready_for(DAEMON_SET, &json!({"maxUnavailable": 1}), 5);
    for pod in set.pods.values_mut() {
        pod.ready = None;
    }
    let deleted = set.sync();
    assert_eq!(
        deleted.iter().filter(|word| **word == "delete_pod").count(),
        2
    );
}

/// kruise issue 1012: nothing but time makes a new pod available.
#[test]
fn with_a_surge_the_old_pod_goes_when_the_new_one_has_been_ready_for_long_enough() {
    let surge = json!({"maxUnavailable": 0, "maxSurge": 1});
    let mut set = ready_for(DAEMON_SET, &surge, 60);
    set.settle();
    assert_eq!((set.pods.len(), of_old(&set)), (3, 2));
    let due = set.plan().wake.unwrap();
    assert_eq!(due, at(set.now + 30));
    set.now += 29;
    assert!(!set.sync().contains(&"delete_pod"));
    set.now += 1;
    assert!(set.sync().contains(&"delete_pod"));
}

/// kruise issue 1871: what was updated stays so.
#[test]
fn a_node_that_the_selector_selects_no_more_keeps_its_new_pod() {
    let canary = json!({"maxUnavailable": 1, "selector": {"matchLabels": {"canary": "yes"}}});
    let mut set = ready_for(DAEMON_SET, &canary, 60);
    let selected = [("canary".into(), "yes".into())].into();
    set.nodes.get_mut("n1").unwrap().labels = selected;
    set.settle();
    assert_eq!(of_old(&set), 1);
    set.nodes.get_mut("n1").unwrap().labels = [].into();
    set.now += 60;
    set.settle();
    assert_eq!(of_old(&set), 1);
    // A pod that comes in its place is of the current template, too.
    let new: Vec<_> = set
        .pods
        .iter()
        .filter(|(_, pod)| pod.node.as_deref() == Some("n1"))
        .map(|(name, _)| name.clone())
        .collect();
    set.pods.remove(&new[0]);
    set.settle();
    assert_eq!((set.pods.len(), of_old(&set)), (2, 1));
}

/// A DaemonSet on so many nodes that all have an available pod, of this strategy, whose template is edited after
/// something has happened to nodes and pods.
fn edited(nodes: usize, spec: &Value, happens: impl FnOnce(&mut Whole)) -> Whole {
    let mut set = Whole::new(DAEMON_SET, None, spec);
    set.nodes = (1..=nodes)
        .map(|n| (format!("n{n}").into(), NodeRow::default()))
        .collect();
    set.settle();
    set.now += 100;
    happens(&mut set);
    set.sync();
    set.now += 100;
    let mut other = spec.clone();
    other["template"] = image("2")["template"].clone();
    set.edit(&other);
    set
}

fn unready(set: &mut Whole, node: &str) {
    let pods = set.pods.values_mut();
    for pod in pods.filter(|pod| pod.node.as_deref() == Some(node)) {
        pod.ready = None;
    }
}

fn told_to_stop(set: &mut Whole, node: &str) {
    let pods = set.pods.values_mut();
    for pod in pods.filter(|pod| pod.node.as_deref() == Some(node)) {
        pod.deletion = Some(at(set.now));
    }
}

fn sick(set: &mut Whole, node: &str) {
    unready(set, node);
    set.nodes.get_mut(node).unwrap().not_ready_since = Some(at(set.now));
}

/// Nodes whose pod is of the newest revision.
fn updated(set: &Whole) -> Vec<&str> {
    let newest = set.set.status.update_revision.as_deref();
    let pods = set.pods.values();
    let new = pods.filter(|pod| pod.revision() == newest && pod.deletion.is_none());
    let mut nodes: Vec<&str> = new.filter_map(|pod| pod.node.as_deref()).collect();
    nodes.sort_unstable();
    nodes
}

#[test]
fn a_broken_pod_that_the_selector_does_not_select_holds_nothing_up() {
    let selector = json!({"matchLabels": {"pool": "a"}});
    let spec = json!({"updateStrategy": {"rollingUpdate": {"selector": selector}}});
    let mut set = edited(3, &spec, |set| {
        for node in ["n1", "n2"] {
            set.nodes.get_mut(node).unwrap().labels = [("pool".into(), "a".into())].into();
        }
        unready(set, "n3");
    });
    set.settle();
    assert_eq!(updated(&set), ["n1", "n2"]);
}

#[test]
fn a_pod_that_nothing_replaces_makes_no_update_stand_still() {
    let nobody = json!({"matchLabels": {"pool": "b"}});
    for strategy in [
        json!({"type": "OnDelete"}),
        json!({"rollingUpdate": {"selector": nobody}}),
        json!({"rollingUpdate": {"partition": "100%"}}),
    ] {
        let spec = json!({"updateStrategy": strategy});
        let mut set = edited(3, &spec, |set| unready(set, "n1"));
        set.settle();
        set.now += 10_000;
        set.settle();
        assert_eq!(set.reason(types::STALLED), "", "{strategy}");
        assert_eq!(set.reason(types::READY), reasons::PODS_UNAVAILABLE);
        assert_eq!(set.set.status.waiting_for[0].reason, "PodNotReady");
    }
}

#[test]
fn with_partitioned_scaling_a_node_that_gets_a_pod_is_waited_for() {
    let spec = |partition: i64| {
        json!({
            "scaleStrategy": {"partitionedScaling": true},
            "updateStrategy": {"rollingUpdate": {"partition": partition}},
        })
    };
    for (partition, reason) in [(0, reasons::UPDATE_COMPLETE), (1, reasons::OLD_PODS_KEPT)] {
        let mut set = Whole::new(DAEMON_SET, None, &spec(partition));
        set.sync();
        assert_eq!(set.reason(types::READY), reasons::PODS_UNAVAILABLE);
        assert_eq!(set.reason(types::PROGRESSING), reasons::UPDATING);
        set.settle();
        assert_eq!(set.reason(types::READY), reason);
    }
}

#[test]
fn nodes_that_get_no_pod_on_purpose_do_not_make_it_unavailable() {
    let spec = json!({
        "scaleStrategy": {"partitionedScaling": true},
        "updateStrategy": {"rollingUpdate": {"partition": 3, "maxUnavailable": 1}},
    });
    let mut set = Whole::new(DAEMON_SET, None, &spec);
    set.nodes = (1..=5)
        .map(|n| (format!("n{n}").into(), NodeRow::default()))
        .collect();
    set.settle();
    assert_eq!(set.pods.len(), 2);
    let available = |set: &Whole| {
        find(&set.set.status.conditions, types::AVAILABLE)
            .cloned()
            .unwrap()
    };
    assert_eq!(available(&set).reason, reasons::ENOUGH_AVAILABLE);
    let message = "3 of 5 nodes have no available pod, 3 of them as partitionedScaling says";
    assert_eq!(available(&set).message, message);
    for node in ["n1", "n2"] {
        unready(&mut set, node);
    }
    set.sync();
    assert_eq!(available(&set).reason, reasons::PODS_UNAVAILABLE);
}

#[test]
fn a_sick_node_stays_excused_when_its_old_pod_was_told_to_stop() {
    let mut set = edited(3, &json!({}), |_| {});
    set.sync();
    // The node becomes sick after the revision was stored, and its pod never stops.
    sick(&mut set, "n3");
    set.now += 1;
    told_to_stop(&mut set, "n3");
    set.now += 1;
    set.settle();
    assert_eq!(updated(&set), ["n1", "n2"]);
    assert_eq!(set.set.status.excused[0].sample, ["n3"]);
    // One that became sick because its pod was stopped is not.
    let mut set = edited(3, &json!({}), |_| {});
    set.sync();
    told_to_stop(&mut set, "n3");
    set.now += 1;
    sick(&mut set, "n3");
    set.settle();
    assert_eq!(updated(&set), ["n1"]);
}

#[test]
fn sick_nodes_are_not_those_that_try_a_template() {
    let spec = json!({"updateStrategy": {"rollingUpdate": {"partition": 3}}});
    let mut set = edited(5, &spec, |set| {
        sick(set, "n4");
        sick(set, "n5");
    });
    set.sync();
    assert_eq!(set.reason(types::READY), reasons::UPDATING);
    set.settle();
    assert_eq!(updated(&set), ["n1", "n2"]);
    assert_eq!(set.reason(types::READY), reasons::OLD_PODS_KEPT);
}

/// Two nodes of three should have a pod, each has one, and the template is edited. The third one was chosen before.
fn one_left_the_placement(
    kind: ApiKind,
    strategy: &Value,
    leaves: impl FnOnce(&mut Whole),
) -> Whole {
    let spec = |image_: &str| {
        let mut spec = image(image_);
        spec["template"]["spec"]["nodeSelector"] = json!({"pool": "a"});
        spec["updateStrategy"] = strategy.clone();
        spec
    };
    let mut set = Whole::new(kind, None, &spec("1"));
    let pool = || NodeRow {
        labels: [("pool".into(), "a".into())].into(),
        ..NodeRow::default()
    };
    set.nodes = (1..=3).map(|n| (format!("n{n}").into(), pool())).collect();
    set.settle();
    set.nodes.get_mut("n3").unwrap().labels = [].into();
    leaves(&mut set);
    set.edit(&spec("2"));
    set
}

/// kruise gate `DaemonSetPruneIneligibleNodes`.
#[test]
fn a_pod_that_never_stops_on_a_node_that_should_have_none_holds_no_update_up() {
    let stuck = |set: &mut Whole| told_to_stop(set, "n3");
    let mut set = one_left_the_placement(DAEMON_SET, &json!({}), stuck);
    set.settle();
    assert_eq!(updated(&set), ["n1", "n2"]);
    assert_eq!(set.reason(types::READY), reasons::UPDATE_COMPLETE);
    assert_eq!(set.set.status.number_misscheduled, 1);
    let mut native = one_left_the_placement(NATIVE_DAEMON_SET, &json!({}), stuck);
    native.settle();
    assert_eq!(native.set.status.updated_number_scheduled, None);
}

#[test]
fn a_pod_that_is_not_deleted_on_a_node_that_should_have_none_holds_no_surge_up() {
    let surge = json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
    for (kind, created) in [(DAEMON_SET, 1), (NATIVE_DAEMON_SET, 0)] {
        let set = one_left_the_placement(kind, &surge, |_| {});
        let actions = set.plan().steps.into_iter().flat_map(|step| step.actions);
        let is_creation = |action: &Action| matches!(action, Action::CreatePod(_));
        let many = actions.filter(is_creation).count();
        assert_eq!(many, created, "{kind:?}");
    }
}

/// kubernetes PR 117658: its new pod may have made it sick.
#[test]
fn a_node_that_becomes_sick_after_its_update_counts_though_its_taint_keeps_pods_away() {
    for (not_ready, next) in [(false, 1), (true, 0)] {
        let mut set = Whole::new(DAEMON_SET, None, &json!({}));
        set.settle();
        set.edit(&image("2"));
        assert!(set.sync().contains(&"delete_pod"));
        assert!(set.sync().contains(&"create_pod"));
        let updated = set.pods.values_mut();
        for pod in updated.filter(|pod| pod.node.as_deref() == Some("n1")) {
            pod.ready = None;
        }
        let node = set.nodes.get_mut("n1").unwrap();
        node.not_ready_since = not_ready.then(|| at(set.now + 1));
        node.taints = [Taint {
            key: "node.kubernetes.io/unreachable".into(),
            value: "".into(),
            effect: Effect::NoSchedule,
        }]
        .into();
        let steps = set.plan().steps.into_iter();
        let actions = steps.flat_map(|step| step.actions);
        let deleted = actions.filter(|action| matches!(action, Action::DeletePod { .. }));
        assert_eq!(deleted.count(), next, "not ready: {not_ready}");
    }
}
