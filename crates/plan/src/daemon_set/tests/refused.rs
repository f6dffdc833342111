//! The API server refuses what one node needs: others have their turn before it.

use serde_json::{Value, json};

use super::whole::{Whole, image};
use super::world::at;
use crate::daemon_set::action::Action;
use crate::daemon_set::refused::What::{Creation, Deletion};
use crate::daemon_set::refused::{What, forget, note, went_through};
use crate::node::{Effect, NodeRow, Taint};
use crate::object_key::{ApiKind, DAEMON_SET, NATIVE_DAEMON_SET};
use crate::pod::PodPhase;

/// A DaemonSet on so many nodes.
fn on_nodes(kind: ApiKind, nodes: usize, spec: &Value) -> Whole {
    let mut set = Whole::new(kind, None, spec);
    set.nodes = (1..=nodes)
        .map(|n| (format!("n{n}").into(), NodeRow::default()))
        .collect();
    set
}

fn refuse(set: &mut Whole, what: What, node: &str) {
    note(&mut set.refused_nodes, (node, what), at(set.now));
    // It has done so for a while.
    note(&mut set.refused_nodes, (node, what), at(set.now + 30));
}

/// Nodes whose pods are created, and those whose pods are deleted.
fn planned(set: &Whole) -> (Vec<String>, Vec<String>) {
    let (mut created, mut deleted) = (Vec::new(), Vec::new());
    for action in set.plan().steps.into_iter().flat_map(|step| step.actions) {
        match action {
            Action::CreatePod(new) => created.push(new.node),
            Action::DeletePod { node, .. } => deleted.push(node),
            _ => {}
        }
    }
    (created, deleted)
}

/// The pod of this node fails.
fn fail(set: &mut Whole, node: &str) {
    let mut pods = set.pods.values_mut();
    let failed = pods.find(|pod| pod.node.as_deref() == Some(node)).unwrap();
    (failed.phase, failed.ready) = (PodPhase::Failed, None);
}

/// An edit of the template after each node has a pod.
fn updated(kind: ApiKind, nodes: usize, more: &Value) -> Whole {
    let mut set = on_nodes(kind, nodes, more);
    set.settle();
    let mut spec = more.clone();
    spec["template"] = image("2")["template"].clone();
    set.edit(&spec);
    set
}

#[test]
fn a_node_keeps_its_turn_for_half_a_minute() {
    let mut set = updated(DAEMON_SET, 3, &json!({}));
    for (second, expected) in [(0, "n1"), (29, "n1"), (30, "n2")] {
        note(
            &mut set.refused_nodes,
            ("n1", Deletion),
            at(set.now + second),
        );
        assert_eq!(planned(&set).1, [expected], "after {second} s");
    }
}

#[test]
fn a_node_whose_pod_is_refused_is_tried_after_the_others() {
    let mut set = on_nodes(DAEMON_SET, 3, &json!({"burstReplicas": 1}));
    assert_eq!(planned(&set).0, ["n1"]);
    for (next, then) in [("n1", "n2"), ("n2", "n3"), ("n3", "n1"), ("n1", "n2")] {
        set.now += 1;
        refuse(&mut set, Creation, next);
        assert_eq!(planned(&set).0, [then], "after {next}");
    }
    // One that gets its pod has its old place again.
    went_through(&mut set.refused_nodes, ("n1", Deletion));
    assert_eq!(planned(&set).0, ["n2"]);
    went_through(&mut set.refused_nodes, ("n1", Creation));
    assert_eq!(set.refused_nodes.len(), 2);
    assert_eq!(planned(&set).0, ["n1"]);
}

#[test]
fn refusals_are_remembered_for_hours_and_as_long_as_there_is_something_to_do() {
    let mut set = on_nodes(DAEMON_SET, 3, &json!({}));
    for node in ["n1", "n2", "n3"] {
        refuse(&mut set, Creation, node);
        refuse(&mut set, Deletion, node);
    }
    let mut refused = set.refused_nodes;
    let half_a_day = 12 * 3600;
    forget(&mut refused, at(set.now + half_a_day), |_| (true, true));
    assert!(refused.len() == 3 && refused.values().all(|node| node.deletion.is_some()));
    forget(&mut refused, at(set.now + half_a_day), |node| {
        (node != "n1", node == "n2")
    });
    let left = refused.iter();
    let left: Vec<_> = left
        .map(|(node, known)| (&**node, known.deletion.is_some()))
        .collect();
    assert_eq!(left, [("n2", true), ("n3", false)]);
    forget(&mut refused, at(set.now + half_a_day + 31), |_| {
        (true, true)
    });
    assert_eq!(refused.len(), 0);
}

#[test]
fn a_deletion_that_is_refused_makes_no_update_stand_still() {
    for kind in [DAEMON_SET, NATIVE_DAEMON_SET] {
        let mut set = updated(kind, 3, &json!({}));
        assert_eq!(planned(&set).1, ["n1"]);
        refuse(&mut set, Deletion, "n1");
        assert_eq!(planned(&set).1, ["n2"]);
    }
}

#[test]
fn deletions_of_a_small_burst_take_turns_too() {
    let spec = json!({"burstReplicas": 1});
    let mut set = on_nodes(DAEMON_SET, 3, &spec);
    set.settle();
    for node in set.nodes.values_mut() {
        let (key, value) = ("gone".into(), "".into());
        let effect = Effect::NoExecute;
        node.taints = [Taint { key, value, effect }].into();
    }
    assert_eq!(planned(&set).1, ["n1"]);
    refuse(&mut set, Deletion, "n1");
    assert_eq!(planned(&set).1, ["n2"]);
}

#[test]
fn a_failed_pod_whose_deletion_is_refused_stops_no_update_of_a_small_burst() {
    let two = json!({"rollingUpdate": {"maxUnavailable": 2}});
    let spec = json!({"burstReplicas": 1, "updateStrategy": two});
    let mut set = updated(DAEMON_SET, 3, &spec);
    fail(&mut set, "n3");
    assert_eq!(planned(&set).1, ["n3"]);
    refuse(&mut set, Deletion, "n3");
    assert_eq!(planned(&set).1, ["n1"]);
}

/// The new pods of the nodes that surge are available; each plan that deletes their old pods is refused that.
fn surge_refused(kind: ApiKind, refused: &[&str]) -> Whole {
    let surge = json!({"updateStrategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}});
    let mut set = updated(kind, 5, &surge);
    for node in refused {
        assert_eq!(planned(&set).0, [*node]);
        let before = set.pods.clone();
        set.sync();
        for (name, kept) in before {
            set.pods.entry(name).or_insert(kept);
        }
        assert!(planned(&set).1.contains(&(*node).to_owned()));
        refuse(&mut set, Deletion, node);
    }
    set
}

#[test]
fn one_deletion_that_is_refused_stops_no_surge_and_more_than_may_surge_do() {
    let set = surge_refused(DAEMON_SET, &["n1"]);
    let (created, deleted) = planned(&set);
    assert_eq!(
        (created, deleted),
        (vec!["n2".to_owned()], vec!["n1".to_owned()])
    );
    let set = surge_refused(DAEMON_SET, &["n1", "n2"]);
    assert_eq!(
        planned(&set),
        (vec![], vec!["n1".to_owned(), "n2".to_owned()])
    );
    let set = surge_refused(NATIVE_DAEMON_SET, &["n1"]);
    assert_eq!(planned(&set), (vec![], vec!["n1".to_owned()]));
}

/// A plan creates before it deletes: if others went on, two nodes would have two pods where one may.
#[test]
fn a_creation_that_was_refused_once_says_nothing_of_the_deletion_to_come() {
    let mut set = surge_refused(DAEMON_SET, &["n1"]);
    set.refused_nodes.clear();
    refuse(&mut set, Creation, "n1");
    assert_eq!(planned(&set), (vec![], vec!["n1".to_owned()]));
}

#[test]
fn a_failed_pod_whose_deletion_is_refused_stops_no_surge() {
    let surge = json!({"updateStrategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}});
    let mut set = updated(DAEMON_SET, 3, &surge);
    fail(&mut set, "n1");
    assert_eq!(planned(&set).0, ["n1"]);
    refuse(&mut set, Deletion, "n1");
    assert_eq!(planned(&set).0, ["n2", "n1"]);
}
