//! What happens to nodes and pods from outside: cordon, drain, eviction, deletion, replacement.

use carillon_api::NodeState::{Disrupted, Failed, Skipped, Started, Succeeded, Unknown};
use carillon_api::condition::{reasons, results, types};
use jiff::SignedDuration;
use serde_json::json;

use super::world::World;
use crate::broadcast_job::action::{Act, Action};
use crate::pod::{PodPhase, PodRow};

#[test]
fn a_node_cordoned_before_its_turn_is_left_out_and_named() {
    let mut world = World::new(2, json!({"parallelism": 1}));
    world.settle();
    world.cordon("n0001");
    world.run_to_the_end();
    assert!(world.is(types::COMPLETE));
    assert_eq!(world.status["refused"][0]["sample"], json!(["n0001"]));
}

#[test]
fn a_node_cordoned_while_its_pod_runs_is_left_to_finish() {
    let mut world = World::new(2, json!({}));
    world.start();
    world.cordon("n0001");
    world.settle();
    assert!(world.pods.values().all(|pod| pod.deletion.is_none()));
    world.run_to_the_end();
    assert_eq!(world.attempts("n0001"), [(Succeeded, String::new())]);
}

#[test]
fn a_node_cordoned_after_success_keeps_its_result_and_never_runs_again() {
    let mut world = World::new(3, json!({"parallelism": 1}));
    world.settle();
    world.run_all();
    world.end("n0000", 0);
    world.settle();
    world.cordon("n0000");
    world.settle();
    world.node("n0000").unschedulable = false;
    world.run_to_the_end();
    assert_eq!(world.creations_on("n0000"), 1);
    assert_eq!(world.status["succeeded"], 3);
}

#[test]
fn a_pod_not_yet_bound_is_withdrawn_from_a_cordoned_node_and_comes_back_after_it() {
    let mut world = World::new(1, json!({}));
    world.settle();
    world.cordon("n0000");
    world.settle();
    assert_eq!(
        world.attempts("n0000"),
        [(Disrupted, results::WITHDRAWN.to_owned())]
    );
    assert_eq!(world.live(), 0, "the slot is free");
    assert!(!world.is(types::COMPLETE), "the node is still to be served");
    world.node("n0000").unschedulable = false;
    world.run_to_the_end();
    assert_eq!(world.attempts("n0000")[1], (Succeeded, String::new()));
}

#[test]
fn a_user_who_deletes_finished_pods_makes_nothing_run_again() {
    let mut world = World::new(3, json!({"parallelism": 1}));
    world.settle();
    world.run_all();
    world.end("n0000", 0);
    world.settle();
    world.delete(&world.pod_on("n0000"));
    world.run_to_the_end();
    assert_eq!(
        (world.creations_on("n0000"), &world.status["succeeded"]),
        (1, &json!(3))
    );
}

#[test]
fn a_drained_node_is_tried_again_and_is_no_failure() {
    let mut world = World::new(2, json!({}));
    world.start();
    world.cordon("n0000");
    world.delete(&world.pod_on("n0000"));
    world.pass(1);
    world.end_all();
    world.settle();
    assert_eq!(
        world.attempts("n0000"),
        [(Disrupted, results::POD_DELETED.to_owned())]
    );
    assert!(!world.is(types::COMPLETE), "a drained node is not done");
    world.node("n0000").unschedulable = false;
    world.run_to_the_end();
    assert!(world.is(types::COMPLETE));
    assert_eq!(
        (world.creations_on("n0000"), &world.status["failed"]),
        (2, &json!(0))
    );
}

#[test]
fn an_evicted_pod_is_a_disruption_and_not_a_failure() {
    let mut world = World::new(2, json!({}));
    world.settle();
    world.run_all();
    world.end("n0000", 137);
    let pod = world.pod_on("n0000");
    world.pods.get_mut(&pod).unwrap().disrupted = true;
    world.run_to_the_end();
    assert!(world.is(types::COMPLETE));
    let attempts = world.attempts("n0000");
    assert_eq!(attempts[0], (Disrupted, results::POD_DISRUPTED.to_owned()));
    assert_eq!(attempts[1].0, Succeeded);
}

#[test]
fn a_vanished_pod_is_asked_for_and_then_unknown_before_the_node_is_tried_again() {
    let mut world = World::new(1, json!({}));
    world.start();
    world.vanish(&world.pod_on("n0000"));
    let plan = world.plan();
    assert!(matches!(
        plan.steps[0].actions[0],
        Action::ConfirmGone { .. }
    ));
    let words: Vec<_> = plan
        .steps
        .iter()
        .flat_map(|s| &s.actions)
        .map(Action::word)
        .collect();
    assert_eq!(
        words,
        ["confirm_gone", "write_status"],
        "nothing is concluded from a cache alone"
    );
    world.settle();
    let attempts = world.attempts("n0000");
    assert_eq!(attempts[0], (Unknown, results::POD_VANISHED.to_owned()));
    assert_eq!(attempts.len(), 2);
}

#[test]
fn a_replaced_node_is_another_node() {
    let mut world = World::new(2, json!({"completionPolicy": {"type": "Never"}}));
    world.run_to_the_end();
    assert!(!world.is(types::COMPLETE));
    world.join("n0000");
    world.run_to_the_end();
    assert_eq!(world.creations_on("n0000"), 2);
    assert_eq!(world.status["succeeded"], 3);
    assert_eq!(
        world.condition(types::RECONCILING).unwrap().1,
        reasons::WAITING_FOR_NODES
    );
}

#[test]
fn a_pod_that_was_never_bound_to_a_vanished_node_is_reaped_and_frees_its_slot() {
    let mut world = World::new(3, json!({"parallelism": 1}));
    world.settle();
    world.nodes.remove("n0000");
    world.run_to_the_end();
    assert!(world.is(types::COMPLETE));
    assert_eq!(
        world.attempts("n0000"),
        [(Disrupted, results::WITHDRAWN.to_owned())]
    );
    assert_eq!(world.status["done"], "2/2");
    assert_eq!(world.status["refused"][0]["reason"], results::NODE_GONE);
}

#[test]
fn a_pod_that_a_dead_node_never_lets_go_is_given_up_and_blocks_no_other() {
    let mut world = World::new(2, json!({"parallelism": 1}));
    world.start();
    world.delete(&world.pod_on("n0000"));
    world.settle();
    assert_eq!(world.created.len(), 1, "it still holds its slot");
    assert!(world.plan().wake.is_some());
    world.pass(331);
    world.settle();
    assert_eq!(
        world.attempts("n0000"),
        [(Unknown, results::NODE_LOST.to_owned())]
    );
    assert_eq!(world.creations_on("n0001"), 1, "the next node is served");
    assert_eq!(
        world.creations_on("n0000"),
        1,
        "not where the pod may still run"
    );
}

#[test]
fn a_pod_that_is_not_as_it_was_read_keeps_no_other_from_being_given_up() {
    let mut world = World::new(3, json!({}));
    world.start();
    for node in ["n0000", "n0001", "n0002"] {
        world.delete(&world.pod_on(node));
    }
    let disputed = world.pod_on("n0001");
    world.disputed.insert(disputed);
    world.pass(331);
    world.settle();
    let lost = [(Unknown, results::NODE_LOST.to_owned())];
    assert_eq!(world.attempts("n0000"), lost);
    assert_eq!(world.attempts("n0002"), lost);
    assert_eq!(world.attempts("n0001"), [(Started, String::new())]);
    let soon = world.now + SignedDuration::from_secs(10);
    assert!(
        world.plan().wake.is_some_and(|wake| wake <= soon),
        "it is asked about again"
    );
    world.disputed.clear();
    world.settle();
    assert_eq!(world.attempts("n0001"), lost);
}

#[test]
fn a_plan_asks_about_as_many_pods_as_it_may_change() {
    let mut world = World::new(5, json!({}));
    world.start();
    for node in 0..5 {
        world.delete(&world.pod_on(&format!("n000{node}")));
    }
    world.pass(331);
    world.max_pod_changes = 2;
    let plan = world.plan();
    let asked = plan.steps.iter().flat_map(|step| &step.actions);
    let asked = asked.filter(|action| matches!(action, Action::ConfirmPod { .. }));
    assert_eq!((asked.count(), plan.again), (2, true));
    world.settle();
    for node in 0..5 {
        let attempts = world.attempts(&format!("n000{node}"));
        assert_eq!(attempts, [(Unknown, results::NODE_LOST.to_owned())]);
    }
}

#[test]
fn a_reservation_of_a_failing_job_whose_pod_may_be_there_holds_up_no_other() {
    let mut world = World::new(
        3,
        json!({"completionPolicy": {"activeDeadlineSeconds": 60}}),
    );
    world.crash_after(1);
    world.status = json!({"startTime": world.now.to_string()});
    let disputed = world.pod_of("n0001", 1);
    world.disputed.insert(disputed.as_str().into());
    world.pass(61);
    world.settle();
    let skipped = [(Skipped, results::NOT_STARTED.to_owned())];
    assert_eq!(world.attempts("n0002"), skipped);
    assert!(!world.is(types::FAILED), "one may still be there");
    // It is somebody else's.
    world.disputed.clear();
    world.conflicts.insert(disputed.as_str().into());
    world.run_to_the_end();
    assert!(world.is(types::FAILED));
    assert_eq!(
        world.attempts("n0001"),
        [(Failed, results::NAME_CONFLICT.to_owned())]
    );
}

#[test]
fn a_node_that_joins_while_the_job_runs_is_served_and_one_that_joins_later_is_not() {
    let mut world = World::new(1, json!({}));
    world.settle();
    world.join("n0001");
    world.run_to_the_end();
    assert_eq!(world.created.len(), 2);
    world.join("n0002");
    world.run_to_the_end();
    assert_eq!(world.created.len(), 2);
}

#[test]
fn a_job_that_waits_for_a_drained_node_says_so() {
    let mut world = World::new(2, json!({}));
    world.start();
    world.cordon("n0000");
    world.delete(&world.pod_on("n0000"));
    world.run_to_the_end();
    let waiting = Some((true, reasons::WAITING_FOR_INTERRUPTED_NODES.to_owned()));
    assert_eq!(world.condition(types::RECONCILING), waiting);
    let message = world.status["conditions"].to_string();
    assert!(message.contains("n0000: NodeUnschedulable"), "{message}");
}

#[test]
fn a_node_that_lets_no_pod_live_is_tried_less_and_less_often() {
    let mut world = World::new(1, json!({}));
    let mut waits = Vec::new();
    for _ in 0..5 {
        world.start();
        world.delete(&world.pod_on("n0000"));
        world.end_all();
        world.settle();
        let due = world
            .plan()
            .wake
            .map_or(world.now, |wake| wake.max(world.now));
        waits.push(due.duration_since(world.now).as_secs());
        world.now = due;
    }
    assert_eq!(waits, [0, 10, 20, 40, 80]);
}

#[test]
fn a_pod_that_exits_well_because_it_was_told_to_stop_has_not_done_its_work() {
    let mut world = World::new(2, json!({}));
    world.start();
    world.delete(&world.pod_on("n0000"));
    world.end("n0000", 0);
    world.run_to_the_end();
    assert_eq!(
        world.attempts("n0000")[0],
        (Disrupted, results::POD_DELETED.to_owned())
    );
    assert!(world.is(types::COMPLETE));
}

#[test]
fn a_second_pod_of_an_attempt_made_by_a_late_request_is_stopped_before_the_node_is_tried_again() {
    let mut world = World::new(2, json!({"parallelism": 1}));
    world.start();
    let (pod, other) = (world.pod_on("n0000"), world.uid());
    // The recorded pod was removed by force, and a request that was on its way made another.
    world.pods.get_mut(&pod).unwrap().uid = other;
    world.settle();
    assert_eq!(
        world.attempts("n0000"),
        [(Unknown, results::POD_VANISHED.to_owned())]
    );
    assert_eq!(world.created.len(), 1, "its place is taken");
    assert!(world.pods[&pod].deletion.is_some());
    world.end_all();
    world.settle();
    assert_eq!(world.created.len(), 2, "its place is free");
    world.run_to_the_end();
    assert!(world.is(types::COMPLETE));
}

#[test]
fn a_pod_without_a_record_that_has_ended_is_released_and_its_log_left_to_read() {
    let mut world = World::new(1, json!({}));
    world.run_to_the_end();
    let stray = PodRow {
        uid: world.uid(),
        phase: PodPhase::Succeeded,
        tracked: true,
        ..PodRow::default()
    };
    world.pods.insert("stray".into(), stray);
    world.settle();
    let stray = &world.pods["stray"];
    assert!(!stray.tracked && stray.deletion.is_none());
}

#[test]
fn an_interrupted_node_is_counted_by_the_plan_that_records_it() {
    let mut world = World::new(2, json!({}));
    world.start();
    world.evict("n0000");
    world.crash_after(usize::MAX);
    assert_eq!(world.status["disrupted"], 1);
}
