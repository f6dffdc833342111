//! Somebody else's pod has the name that the pod of a node needs.

use serde_json::{Value, json};

use super::whole::{Whole, image, uid};
use super::world::at;
use crate::daemon_set::action::Action;
use crate::daemon_set::backoff;
use crate::daemon_set::taken::{forget, note};
use crate::name;
use crate::object_key::{ApiKind, DAEMON_SET, NATIVE_DAEMON_SET};
use crate::pod::PodPhase;

fn slot(number: u32) -> String {
    name::daemon_pod("agent", uid(0), "n1", number)
}

/// A DaemonSet on n1 and n2. Another controller has adopted the first pod of n1, and the API server has said so.
fn adopted_by_others(kind: ApiKind, spec: &Value) -> Whole {
    let mut set = Whole::new(kind, None, spec);
    set.settle();
    set.pods.remove(&*slot(0));
    set.refuse_name(&slot(0), "n1");
    set
}

/// Names of the pods that are created now.
fn created(set: &Whole) -> Vec<String> {
    let steps = set.plan().steps.into_iter();
    let actions = steps.flat_map(|step| step.actions);
    let names = actions.filter_map(|action| match action {
        Action::CreatePod(new) => Some(new.name),
        _ => None,
    });
    names.collect()
}

#[test]
fn a_node_whose_name_is_taken_gets_no_second_name_and_is_told() {
    let mut set = adopted_by_others(DAEMON_SET, &json!({}));
    assert_eq!(created(&set), [""; 0]);
    set.settle();
    let told = &set.set.status.waiting_for[0];
    assert_eq!(
        (&*told.reason, &told.sample[..]),
        ("PodNameTaken", &["n1".to_owned()][..])
    );
    // It is tried again, ever later up to a minute.
    for wait in [1, 2, 4, 8, 16, 32, 60, 60] {
        assert_eq!(set.plan().wake, Some(at(set.now + wait)));
        set.now += wait - 1;
        assert_eq!(created(&set), [""; 0]);
        set.now += 1;
        assert_eq!(created(&set), [slot(0)]);
        set.refuse_name(&slot(0), "n1");
    }
    set.now += 60;
    set.settle();
    assert_eq!((set.pods.len(), set.set.status.waiting_for.len()), (2, 0));
}

#[test]
fn one_more_plan_follows_only_where_there_is_more_to_do() {
    let mut set = adopted_by_others(DAEMON_SET, &json!({}));
    set.pods.clear();
    let plan = set.plan();
    assert_eq!((created(&set).len(), plan.again), (1, false));
    let partition = json!({"rollingUpdate": {"partition": 1}});
    for (more, expected) in [
        (json!({"burstReplicas": 1}), (1, true)),
        (json!({}), (2, false)),
        (
            json!({"updateStrategy": partition, "scaleStrategy": {"partitionedScaling": true}}),
            (1, false),
        ),
    ] {
        let set = Whole::new(DAEMON_SET, None, &more);
        assert_eq!((created(&set).len(), set.plan().again), expected, "{more}");
    }
}

#[test]
fn an_edit_tries_it_at_once_and_what_was_long_ago_is_forgotten() {
    let mut set = adopted_by_others(DAEMON_SET, &json!({}));
    set.edit(&image("2"));
    assert!(created(&set).contains(&slot(0)));
    let generation = set.set.meta.generation;
    note(
        &mut set.taken_pods,
        (&slot(0), "n1"),
        generation,
        at(set.now),
    );
    forget(&mut set.taken_pods, generation, at(set.now + 1800));
    assert_eq!(set.taken_pods.len(), 1);
    forget(&mut set.taken_pods, generation, at(set.now + 1801));
    assert_eq!(set.taken_pods.len(), 0);
}

#[test]
fn with_a_surge_it_gets_the_other_slot_and_never_a_third() {
    let surge = json!({"updateStrategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}});
    let mut set = adopted_by_others(DAEMON_SET, &surge);
    assert_eq!(created(&set), [slot(1)]);
    set.settle();
    assert_eq!(set.pods.len(), 2);
    // It cannot surge there, and the next node does not wait for that.
    let mut spec = surge.clone();
    spec["template"] = image("2")["template"].clone();
    set.edit(&spec);
    set.refuse_name(&slot(0), "n1");
    set.settle();
    let status = &set.set.status;
    assert_eq!(status.updated_number_scheduled, Some(1));
    let told = &status.waiting_for[0];
    assert_eq!(
        (&*told.reason, &told.sample[..]),
        ("PodNameTaken", &["n1".to_owned()][..])
    );
    set.now += 60;
    set.settle();
    assert_eq!(set.set.status.updated_number_scheduled, Some(2));
}

#[test]
fn with_a_surge_a_node_whose_two_names_others_have_holds_no_update_up() {
    let surge = json!({"updateStrategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}});
    let mut set = adopted_by_others(DAEMON_SET, &surge);
    set.refuse_name(&slot(1), "n1");
    let mut spec = surge.clone();
    spec["template"] = image("2")["template"].clone();
    set.edit(&spec);
    for number in [0, 1] {
        set.refuse_name(&slot(number), "n1");
    }
    set.settle();
    let status = &set.set.status;
    assert_eq!(status.updated_number_scheduled, Some(1), "n2 is updated");
    assert_eq!(status.waiting_for[0].reason, "PodNameTaken");
}

#[test]
fn with_a_surge_a_node_that_is_down_and_has_no_second_name_is_told_and_leaves_its_turn_to_others() {
    let surge = json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0, "partition": 1}});
    let mut set = Whole::new(DAEMON_SET, None, &json!({"updateStrategy": surge}));
    set.settle();
    set.pods.get_mut(&*slot(0)).unwrap().ready = None;
    set.edit(&json!({"updateStrategy": surge, "template": image("2")["template"]}));
    set.refuse_name(&slot(1), "n1");
    set.settle();
    let status = &set.set.status;
    assert_eq!(status.updated_number_scheduled, Some(1), "n2 is updated");
    let told = &status.waiting_for[0];
    assert_eq!(
        (&*told.reason, &told.sample[..]),
        ("PodNameTaken", &["n1".to_owned()][..])
    );
}

#[test]
fn with_a_surge_a_node_whose_other_slot_is_still_terminating_is_told() {
    let surge = json!({"updateStrategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}});
    let mut set = Whole::new(DAEMON_SET, None, &surge);
    set.settle();
    let mut going = set.pods[&*slot(0)].clone();
    going.uid = uid(900);
    going.deletion = Some(at(set.now));
    set.pods.insert(slot(1).into(), going);
    let mut spec = surge;
    spec["template"] = image("2")["template"].clone();
    set.edit(&spec);
    set.settle();
    let told = &set.set.status.waiting_for[0];
    assert_eq!(
        (&*told.reason, &told.sample[..]),
        ("PodTerminating", &["n1".to_owned()][..])
    );
    assert!(set.pods.contains_key(&*slot(0)), "it keeps the old pod");
}

#[test]
fn a_node_whose_name_a_pod_of_its_own_has_that_a_finalizer_keeps_is_told() {
    let surge = json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
    for (strategy, kept) in [(json!({}), 0), (surge, 1)] {
        let mut set = Whole::new(DAEMON_SET, None, &json!({"updateStrategy": strategy}));
        set.settle();
        let mut ended = set.pods[&*slot(0)].clone();
        (ended.uid, ended.ready) = (uid(900), None);
        (ended.phase, ended.deletion) = (PodPhase::Failed, Some(at(set.now)));
        set.pods.insert(slot(kept).into(), ended);
        set.edit(&json!({"updateStrategy": strategy, "template": image("2")["template"]}));
        set.settle();
        let told = &set.set.status.waiting_for[0];
        assert_eq!(
            (&*told.reason, &told.sample[..]),
            ("PodTerminating", &["n1".to_owned()][..]),
            "{strategy}"
        );
    }
}

#[test]
fn names_of_apps_v1_have_no_end() {
    let mut set = adopted_by_others(NATIVE_DAEMON_SET, &json!({}));
    assert_eq!(created(&set), [slot(1)]);
    set.refuse_name(&slot(1), "n1");
    assert_eq!(created(&set), [slot(2)]);
}

/// Whoever waits until a failed pod is gone asks for its name.
#[test]
fn a_pod_of_apps_v1_does_not_get_the_name_of_the_failed_one_that_it_replaces_and_one_of_ours_does()
{
    for (kind, names) in [(NATIVE_DAEMON_SET, [1, 0]), (DAEMON_SET, [0, 0])] {
        let mut set = Whole::new(kind, None, &json!({}));
        set.settle();
        let mut failed = slot(0);
        for number in names {
            set.pods.remove(&*failed);
            backoff::note(&mut set.failed, (&failed, "n1"), 0, at(set.now));
            assert_eq!(created(&set), [slot(number)], "{kind:?}");
            set.settle();
            failed = slot(number);
        }
    }
}
