//! Rolling updates.

use std::sync::Arc;

use serde_json::json;

use super::world::{World, at};
use crate::daemon_set::spec::{Quota, Update};
use crate::daemon_set::{Budget, DaemonPod, Why};
use crate::node::Effect;

/// `TestDaemonSetUpdatesPods`.
#[test]
fn as_many_nodes_as_may_be_are_without_a_pod_and_no_more() {
    let mut world = World::running(5);
    world.edit("2", &json!({"maxUnavailable": 2}));
    for replaced in [2, 2, 1] {
        assert_eq!(world.sync(), (0, replaced));
        assert_eq!(world.sync(), (replaced, 0));
        assert_eq!(world.make_ready(|_| true), replaced);
    }
    assert_eq!(world.sync(), (0, 0));
    let status = world.status();
    assert_eq!(status.updated_number_scheduled, Some(5));
    assert_eq!(status.number_unavailable, None);
}

/// `TestDaemonSetUpdatesPodsWithMaxSurge`.
#[test]
fn with_a_surge_the_new_pod_comes_first_and_the_old_one_goes_when_it_is_available() {
    let mut world = World::running(5);
    world.edit("2", &json!({"maxUnavailable": 0, "maxSurge": 2}));
    for (created, deleted) in [(2, 0), (2, 2), (1, 2), (0, 1)] {
        assert_eq!(world.sync(), (created, deleted));
        assert_eq!(world.sync(), (0, 0));
        world.make_ready(|_| true);
    }
    assert_eq!(world.pods.len(), 5);
}

/// `TestDaemonSetUpdatesPodsNotMatchTainstWithMaxSurge`.
#[test]
fn a_node_that_no_longer_qualifies_keeps_its_pod_until_others_are_available() {
    let mut world = World::running(5);
    world.taint("node-00", "role", Effect::NoSchedule);
    world.edit("2", &json!({"maxUnavailable": 0, "maxSurge": 1}));
    for (created, deleted) in [(1, 1), (1, 1), (1, 1), (1, 1), (0, 1)] {
        assert_eq!(world.sync(), (created, deleted));
        assert_eq!(world.sync(), (0, 0));
        world.make_ready(|_| true);
    }
    assert_eq!(world.pods.len(), 4);
    assert_eq!(world.status().desired_number_scheduled, 4);
}

/// `TestDaemonSetUpdatesWhenNewPodIsNotReady`.
#[test]
fn new_pods_that_are_not_ready_hold_up_the_rest() {
    let mut world = World::running(5);
    world.edit("2", &json!({"maxUnavailable": 3}));
    assert_eq!(world.sync(), (0, 3));
    assert_eq!(world.sync(), (3, 0));
    assert_eq!(world.sync(), (0, 0));
    assert_eq!(world.status().number_unavailable, Some(3));
}

/// `TestDaemonSetUpdatesSomeOldPodsNotReady`.
#[test]
fn another_template_replaces_pods_that_are_not_available_and_no_others() {
    let mut world = World::running(5);
    world.edit("2", &json!({"maxUnavailable": 2}));
    for expected in [(0, 2), (2, 0), (0, 0)] {
        assert_eq!(world.sync(), expected);
    }
    let ready = world.ready();
    world.edit("3", &json!({"maxUnavailable": 2}));
    for expected in [(0, 2), (2, 0), (0, 0)] {
        assert_eq!(world.sync(), expected);
    }
    assert_eq!(world.ready(), ready);
}

/// `TestDaemonSetUpdatesSaveOldHealthyPods`.
#[test]
fn healthy_pods_are_not_touched_while_half_of_them_are_not() {
    let mut world = World::running(20);
    world.edit("2", &json!({"maxUnavailable": 10}));
    for expected in [(0, 10), (10, 0), (0, 0)] {
        assert_eq!(world.sync(), expected);
    }
    let healthy = world.ready();
    for max_unavailable in 0..10 {
        let hash = format!("3-{max_unavailable}");
        world.edit(&hash, &json!({"maxUnavailable": max_unavailable}));
        for expected in [(0, 10), (10, 0), (0, 0)] {
            assert_eq!(world.sync(), expected, "{max_unavailable}");
        }
        assert_eq!(world.ready(), healthy, "{max_unavailable}");
    }
    world.edit("4", &json!({"maxUnavailable": 11}));
    for expected in [(0, 11), (11, 0), (0, 0)] {
        assert_eq!(world.sync(), expected);
    }
    assert_eq!(world.ready().len(), 9);
}

/// `TestDaemonSetUpdatesAllOldNotReadyPodsAndNewNotReadyPods`.
#[test]
fn new_pods_that_are_not_ready_do_not_keep_old_ones_that_are_not() {
    let mut world = World::new(100, &json!({}));
    let nodes: Vec<_> = world.nodes.keys().cloned().collect();
    for (n, node) in nodes.iter().enumerate() {
        let hash = if n < 12 { "1" } else { "2" };
        world.pod(node, hash).ready = Some(at(0)).filter(|_| n < 10);
    }
    world.edit("2", &json!({"maxUnavailable": 10}));
    let (_, delete) = world.planned();
    assert_eq!(
        delete,
        [
            ("foo-011".to_owned(), Why::Outdated),
            ("foo-012".to_owned(), Why::Outdated)
        ]
    );
    for expected in [(0, 2), (2, 0), (0, 0)] {
        assert_eq!(world.sync(), expected);
    }
}

/// `TestDaemonSetUpdatesAllOldPodsNotReady`.
#[test]
fn old_pods_that_are_not_available_are_replaced_all_at_once() {
    let mut world = World::new(5, &json!({}));
    assert_eq!(world.sync(), (5, 0));
    world.edit("2", &json!({"maxUnavailable": 3}));
    for expected in [(0, 5), (5, 0), (0, 0)] {
        assert_eq!(world.sync(), expected);
    }
}

/// `TestDaemonSetUpdatesAllOldPodsNotReadyMaxSurge`.
#[test]
fn a_surge_waits_until_new_pods_have_been_ready_for_long_enough() {
    let mut world = World::new(5, &json!({}));
    assert_eq!(world.sync(), (5, 0));
    world.edit("2", &json!({"maxUnavailable": 0, "maxSurge": 3}));
    world.now = at(100);
    assert_eq!(world.sync(), (5, 0), "old ones are not available");
    world.now = at(200);
    assert_eq!(world.sync(), (0, 5), "old ones are not ready");
    assert_eq!(world.make_ready(|_| true), 5);

    Arc::make_mut(&mut world.set.spec).min_ready_seconds = 15;
    world.edit("3", &json!({"maxUnavailable": 0, "maxSurge": 3}));
    world.now = at(300);
    assert_eq!(world.sync(), (3, 0));
    let is_new = |pod: &DaemonPod| pod.revision() == Some("3");
    let new = world.pods.values().filter(|pod| is_new(pod));
    let nodes: Vec<_> = new.filter_map(|pod| pod.node.clone()).collect();
    let is_on = |pod: &DaemonPod, nodes: &[Arc<str>]| {
        pod.node.as_ref().is_some_and(|node| nodes.contains(node))
    };
    let ready = world.make_ready(|pod| is_new(pod) && is_on(pod, &nodes[..2]));
    assert_eq!(ready, 2);
    let alone = world.pods.values_mut();
    let mut alone = alone.filter(|pod| !is_on(pod, &nodes));
    alone.next().unwrap().ready = None;

    world.now = at(310);
    assert_eq!(world.sync(), (1, 0), "an old one is not available any more");
    world.now = at(320);
    assert_eq!(
        world.sync(),
        (1, 3),
        "two were ready for 20 s, and one old one is not ready"
    );
    assert_eq!(world.make_ready(is_new), 3);
    world.now = at(340);
    assert_eq!(world.sync(), (0, 2));
    world.now = at(350);
    assert_eq!(world.sync(), (0, 0));
}

/// `TestDaemonSetUpdatesNoTemplateChanged`.
#[test]
fn another_strategy_alone_replaces_nothing() {
    let mut world = World::running(5);
    world.edit("1", &json!({"maxUnavailable": 3}));
    assert_eq!(world.sync(), (0, 0));
}

/// `TestGetUnavailableNumbers`.
#[test]
fn a_budget_is_rounded_up_and_never_nothing() {
    let rolling = |max_unavailable, max_surge| Update::Rolling {
        max_unavailable,
        max_surge,
    };
    let (count, percent) = (Quota::Count, Quota::Percent);
    for (update, desired, expected) in [
        (rolling(count(1), count(0)), 0, (1, 0)),
        (rolling(count(1), count(0)), 2, (1, 0)),
        (rolling(count(0), count(0)), 2, (1, 0)),
        (rolling(count(0), count(0)), 0, (0, 0)),
        (rolling(percent(50), count(0)), 3, (2, 0)),
        (rolling(count(0), percent(100)), 2, (0, 2)),
        (rolling(count(0), percent(50)), 3, (0, 2)),
    ] {
        let budget = Budget::of(update, desired).unwrap();
        let found = (budget.max_unavailable, budget.max_surge);
        assert_eq!(found, expected, "{update:?} of {desired}");
    }
    assert_eq!(Budget::of(Update::OnDelete, 3), None);
}

/// `TestIsPodUpdated`.
#[test]
fn the_generation_of_the_template_counts_where_the_hash_does_not() {
    use crate::daemon_set::pod::{LABEL_GENERATION, LABEL_REVISION};
    use crate::daemon_set::rolling_update::is_updated;
    let mut world = World::new(0, &json!({}));
    for (of_set, generation, hash, expected) in [
        (Some(1), Some("1"), None, true),
        (Some(1), Some("1"), Some("other"), true),
        (Some(1), Some("2"), Some("hash"), true),
        (Some(1), Some("2"), Some("other"), false),
        (None, Some("1"), Some("hash"), true),
        (None, Some("1"), Some("other"), false),
        (None, None, None, false),
    ] {
        world.set.template_generation = of_set;
        let labels = [(LABEL_REVISION, hash), (LABEL_GENERATION, generation)];
        let labels = labels
            .into_iter()
            .filter_map(|(key, value)| Some((key.into(), value?.into())));
        let pod = DaemonPod {
            labels: labels.collect(),
            ..DaemonPod::default()
        };
        let found = is_updated(&world.set, &pod, "hash");
        assert_eq!(found, expected, "{of_set:?} {generation:?} {hash:?}");
    }
}
