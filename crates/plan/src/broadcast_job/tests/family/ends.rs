//! When a retry has nothing left to do, and when its time is over.

use super::*;
use crate::broadcast_job::{Refused, Template};

/// A retry of nodes of which the first has succeeded, and of one that has failed and is cordoned.
fn cordoned(nodes: &[&str], more: &Value) -> (Relatives, usize) {
    let mut family = Relatives::of(&["n0000", "n0001"], json!({}));
    let one = family.retry(&["n0000"], 0);
    family.run(one, 0);
    let retry = family.retry(nodes, 1);
    let world = &mut family.worlds[retry];
    if nodes.is_empty() {
        world.spec["nodeNames"] = Value::Null;
    }
    if let (Value::Object(spec), Value::Object(more)) = (&mut world.spec, more) {
        spec.extend(more.clone());
    }
    world.node("n0001").unschedulable = true;
    family.settle(retry);
    (family, retry)
}

#[test]
fn a_retry_waits_for_its_failed_node_that_is_cordoned_and_then_runs_there() {
    for nodes in [&["n0000", "n0001"][..], &[]] {
        let (mut family, retry) = cordoned(nodes, &json!({}));
        let world = &family.worlds[retry];
        let waits = Some(yes(reasons::NO_ELIGIBLE_NODES));
        assert_eq!(world.condition(types::RECONCILING), waits, "{nodes:?}");
        let told = world.message(types::RECONCILING);
        assert!(told.contains("NodeUnschedulable 1"), "{told}");
        family.worlds[retry].node("n0001").unschedulable = false;
        family.run(retry, 0);
        let ran = (Some(yes(reasons::ALL_NODES_SUCCEEDED)), 1);
        assert_eq!(family.ended(retry), ran, "{nodes:?}");
    }
}

#[test]
fn a_retry_whose_failed_node_is_cordoned_ends_as_its_policy_for_no_eligible_nodes_says() {
    let nodes = ["n0000", "n0001"];
    let (family, retry) = cordoned(&nodes, &json!({"noEligibleNodesPolicy": "Fail"}));
    let failed = family.worlds[retry].condition(types::FAILED);
    assert_eq!(failed, Some(yes(reasons::NO_ELIGIBLE_NODES)));
    let (family, retry) = cordoned(&nodes, &json!({"noEligibleNodesPolicy": "Complete"}));
    let ended = (Some(yes(reasons::NO_ELIGIBLE_NODES)), 0);
    assert_eq!(family.ended(retry), ended);
}

#[test]
fn a_retry_of_all_nodes_does_not_wait_for_one_that_nobody_has_tried() {
    let mut family = Relatives::of(&["n0001"], json!({}));
    let one = family.retry(&["n0001"], 0);
    family.run(one, 0);
    let retry = family.retry(&[], 1);
    let world = &mut family.worlds[retry];
    world.spec["nodeNames"] = Value::Null;
    world.join("n0009");
    world.node("n0009").unschedulable = true;
    family.settle(retry);
    let ended = (Some(yes(reasons::ALREADY_SUCCEEDED)), 0);
    assert_eq!(family.ended(retry), ended);
}

#[test]
fn a_retry_that_has_sealed_its_log_ends_whatever_becomes_of_its_nodes_then() {
    let mut family = Relatives::of(&["n0000", "n0001"], json!({}));
    let one = family.retry(&["n0000", "n0001"], 0);
    family.run(one, 0);
    let changes: [fn(&mut World); 2] = [
        |world| world.node("n0001").unschedulable = true,
        |world| world.nodes.clear(),
    ];
    for change in changes {
        let retry = family.retry(&["n0000", "n0001"], 1);
        let sealed = |world: &World| world.slices.last().is_some_and(|slice| slice.sealed);
        while !sealed(&family.worlds[retry]) {
            assert_eq!(family.look(retry).crash_after(1), 1);
            family.store(retry);
        }
        assert_eq!(family.worlds[retry].condition(types::COMPLETE), None);
        change(&mut family.worlds[retry]);
        family.settle(retry);
        assert!(family.worlds[retry].is(types::COMPLETE));
    }
}

#[test]
fn the_time_of_a_retry_that_may_begin_and_has_nothing_to_start_runs_out() {
    let mut family = Relatives::of(&["n0001"], json!({}));
    let retry = family.retry(&["n0001"], 0);
    let world = &mut family.worlds[retry];
    world.spec["completionPolicy"] = json!({"activeDeadlineSeconds": 10});
    world.node("n0001").unschedulable = true;
    family.settle(retry);
    family.worlds[retry].pass(9);
    family.settle(retry);
    assert!(!family.worlds[retry].is(types::FAILED));
    family.worlds[retry].pass(2);
    family.settle(retry);
    let failed = family.worlds[retry].condition(types::FAILED);
    assert_eq!(failed, Some(yes(reasons::DEADLINE_EXCEEDED)));
}

#[test]
fn the_time_of_a_retry_whose_template_is_refused_runs_out() {
    let mut family = Relatives::of(&["n0001"], json!({}));
    let retry = family.retry(&["n0001"], 0);
    let world = &mut family.worlds[retry];
    world.spec["completionPolicy"] = json!({"activeDeadlineSeconds": 10});
    world.template = Template::Refused {
        problem: Refused {
            reason: reasons::INVALID_TEMPLATE,
            message: "no".into(),
        },
        at: world.now,
    };
    family.settle(retry);
    assert!(family.worlds[retry].is(types::STALLED));
    family.worlds[retry].pass(11);
    family.settle(retry);
    let failed = family.worlds[retry].condition(types::FAILED);
    assert_eq!(failed, Some(yes(reasons::DEADLINE_EXCEEDED)));
}

#[test]
fn the_time_of_a_retry_that_loses_the_race_for_its_turn_has_not_begun() {
    let mut family = Relatives::of(&["n0001"], json!({}));
    let (one, other) = (family.retry(&["n0001"], 0), family.retry(&["n0001"], 0));
    family.worlds[other].spec["completionPolicy"] = json!({"activeDeadlineSeconds": 10});
    // Both have looked before one of them writes.
    family.look(one).crash_after(usize::MAX);
    family.look(other).crash_after(usize::MAX);
    assert_eq!([family.store(one), family.store(other)], [true, false]);
    family.settle(one);
    family.settle(other);
    assert_eq!(family.worlds[other].status["startTime"], Value::Null);
    family.worlds[other].pass(60);
    family.settle(other);
    assert!(!family.worlds[other].is(types::FAILED));
}
