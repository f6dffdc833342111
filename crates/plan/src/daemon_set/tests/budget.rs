//! What an update may take away: issues of OpenKruise.

use serde_json::{Value, json};

use super::whole::{Whole, image};
use super::world::at;
use crate::daemon_set::pod::DaemonPod;
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
