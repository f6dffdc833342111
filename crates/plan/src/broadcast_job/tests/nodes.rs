//! Which nodes there are: lost ones, none at all, a list of names.

use carillon_api::NodeState::{Started, Succeeded};
use carillon_api::condition::{reasons, results, types};
use serde_json::json;

use super::world::World;

fn unready(world: &mut World, node: &str) {
    world.node(node).not_ready_since = Some(world.now);
}

#[test]
fn a_node_that_stays_not_ready_releases_its_slot_and_its_outcome_still_counts() {
    let mut world = World::new(2, json!({"parallelism": 1, "nodeLostTimeoutSeconds": 60}));
    world.start();
    unready(&mut world, "n0000");
    world.settle();
    let due = world.plan().wake.unwrap();
    assert_eq!(due.duration_since(world.now).as_secs(), 60);
    assert_eq!(world.created.len(), 1);
    world.now = due;
    world.settle();
    assert_eq!(world.created.len(), 2, "the next node is served");
    assert_eq!(world.attempts("n0000"), [(Started, String::new())]);
    assert_eq!(world.status["lost"], 1);
    world.node("n0000").not_ready_since = None;
    world.end("n0000", 0);
    world.run_to_the_end();
    assert!(world.is(types::COMPLETE));
    assert_eq!(world.status["succeeded"], 2);
    assert!(world.status.get("lost").is_none());
}

#[test]
fn a_node_that_comes_back_takes_its_slot_again() {
    let mut world = World::new(3, json!({"parallelism": 1, "nodeLostTimeoutSeconds": 0}));
    world.start();
    unready(&mut world, "n0000");
    world.start();
    assert_eq!(world.created.len(), 2);
    world.node("n0000").not_ready_since = None;
    world.end("n0001", 0);
    world.settle();
    assert_eq!(world.created.len(), 2, "one pod runs");
}

#[test]
fn a_job_that_has_nothing_else_left_waits_for_lost_nodes_and_says_so_once() {
    let mut world = World::new(
        2,
        json!({"completionPolicy": {"activeDeadlineSeconds": 900}}),
    );
    world.start();
    world.end("n0001", 0);
    world.settle();
    unready(&mut world, "n0000");
    world.pass(300);
    let notes = |world: &World| -> Vec<&str> {
        let notes = world.plan().notes;
        notes.iter().map(|note| note.reason).collect()
    };
    assert_eq!(notes(&world), [results::NODE_LOST]);
    world.settle();
    assert!(notes(&world).is_empty(), "one event for one change");
    let waiting = Some((true, reasons::WAITING_FOR_LOST_NODES.to_owned()));
    assert_eq!(world.condition(types::RECONCILING), waiting);
    let message = world.message(types::RECONCILING);
    assert!(message.contains("1 lost, among them n0000"), "{message}");
    world.pass(900);
    world.settle();
    assert!(world.is(types::FAILURE_TARGET), "until its deadline");
}

#[test]
fn a_node_object_that_is_gone_while_its_pod_runs_releases_the_slot_too() {
    let mut world = World::new(2, json!({"parallelism": 1}));
    world.start();
    world.nodes.remove("n0000");
    world.settle();
    assert_eq!(world.created.len(), 1);
    world.pass(299);
    world.settle();
    assert_eq!(world.created.len(), 1);
    world.pass(1);
    world.settle();
    assert_eq!(world.creations_on("n0001"), 1);
    assert_eq!(world.status["lost"], 1);
}

#[test]
fn a_deleted_pod_that_lingers_is_given_up_and_that_is_no_matter_of_its_node() {
    let mut world = World::new(
        1,
        json!({"podTerminationTimeoutSeconds": 7, "nodeLostTimeoutSeconds": 90}),
    );
    world.start();
    world.delete(&world.pod_on("n0000"));
    world.settle();
    let due = world.plan().wake.unwrap();
    assert_eq!(due.duration_since(world.now).as_secs(), 30 + 7);
    world.now = due;
    world.settle();
    assert_eq!(world.attempts("n0000")[0].1, results::NODE_LOST);
}

#[test]
fn without_an_eligible_node_a_job_waits_completes_or_fails_as_it_says() {
    for nodes in [0, 2] {
        for (word, ended) in [
            ("Wait", types::RECONCILING),
            ("Complete", types::COMPLETE),
            ("Fail", types::FAILED),
        ] {
            let mut world = World::new(nodes, json!({"noEligibleNodesPolicy": word}));
            for n in 0..nodes {
                world.cordon(&format!("n{n:04}"));
            }
            world.settle();
            let expected = Some((true, reasons::NO_ELIGIBLE_NODES.to_owned()));
            assert_eq!(world.condition(ended), expected, "{nodes} {word}");
            assert_eq!(world.is(types::COMPLETE), word == "Complete");
            assert_eq!(world.is(types::FAILED), word == "Fail");
        }
    }
}

#[test]
fn a_job_that_had_nodes_is_not_ended_by_their_leaving() {
    let mut world = World::new(1, json!({"noEligibleNodesPolicy": "Fail"}));
    world.settle();
    world.nodes.clear();
    world.run_to_the_end();
    assert!(!world.is(types::FAILED));
    assert_eq!(
        world.condition(types::RECONCILING).unwrap().1,
        reasons::NO_ELIGIBLE_NODES
    );
}

#[test]
fn a_paused_job_and_one_that_never_ends_wait_for_nodes() {
    for more in [
        json!({"noEligibleNodesPolicy": "Complete", "paused": true}),
        json!({"noEligibleNodesPolicy": "Complete", "completionPolicy": {"type": "Never"}}),
    ] {
        let mut world = World::new(0, more);
        world.settle();
        assert!(!world.is(types::COMPLETE));
    }
}

#[test]
fn a_list_of_names_restricts_the_job_and_the_others_are_not_left_out() {
    let mut world = World::new(5, json!({"nodeNames": ["n0001", "n0003", "n0007"]}));
    world.cordon("n0003");
    world.run_to_the_end();
    assert!(world.is(types::COMPLETE));
    assert_eq!(world.attempts("n0001"), [(Succeeded, String::new())]);
    assert_eq!(
        (world.created.len(), &world.status["done"]),
        (1, &json!("1/1"))
    );
    assert_eq!(
        world.status["refused"],
        json!([
            {"reason": "NodeNotFound", "count": 1, "sample": ["n0007"]},
            {"reason": "NodeUnschedulable", "count": 1, "sample": ["n0003"]},
        ])
    );
}
