//! What live edits may not lead to.

use carillon_api::NodeState;
use carillon_api::condition::types;
use serde_json::json;

use super::super::world::World;
use super::{
    ended, failed_at_most_once, last, result, retrying, running, set, slice, status, trips,
    try_again,
};
use crate::broadcast_job::Refused;
use crate::broadcast_job::action::{Action, Plan, Step};
use crate::interlock::broadcast_job::rules;

/// Five pods are promised, and none can be created.
fn promised(parallelism: &serde_json::Value) -> World {
    let mut world = World::new(5, json!({"parallelism": parallelism}));
    world.creation_problem = Some(Refused::default());
    world.crash_after(usize::MAX);
    world.creation_problem = None;
    world
}

#[test]
fn promises_are_kept_only_where_there_are_places_for_their_pods() {
    for (before, after) in [(json!(5), json!(2)), (json!("100%"), json!("20%"))] {
        let mut world = promised(&before);
        let greedy = world.plan();
        world.spec["parallelism"] = after;
        trips(&world, rules::PARALLELISM, |plan| *plan = greedy);
    }
}

#[test]
fn a_percentage_of_nodes_that_are_gone_gives_no_place() {
    let mut world = World::new(
        4,
        json!({"parallelism": "25%", "completionPolicy": {"type": "Never"}}),
    );
    world.run_to_the_end();
    world.spec["parallelism"] = json!("100%");
    for n in 0..4 {
        world.nodes.remove(&*format!("n{n:04}"));
        world.join(&format!("m{n:04}"));
    }
    let greedy = world.plan();
    assert_eq!(status(&mut greedy.clone()).desired, 8);
    world.spec["parallelism"] = json!("50%");
    trips(&world, rules::PARALLELISM, |plan| *plan = greedy);
}

#[test]
fn a_pod_that_runs_is_released_only_when_it_was_told_to_stop() {
    let mut world = ended(json!({}));
    let late = world.stray("job-late", "n0000");
    late.tracked = true;
    let uid = late.uid;
    trips(&world, rules::RELEASE, |plan| {
        let pod = "job-late".into();
        let release = Step::wanted(vec![Action::ReleasePod { pod, uid }]);
        plan.steps.push(release);
    });
}

#[test]
fn a_job_that_fails_or_has_ended_is_not_paused() {
    let mut world = running();
    world.spec["failurePolicy"] = json!({"type": "FailFast"});
    world.end("n0000", 1);
    trips(&world, rules::TERMINAL, |plan| {
        set(status(plan), types::PAUSED, true);
    });
}

#[test]
fn an_attempt_is_requested_only_if_somebody_asks_for_it() {
    let world = retrying();
    trips(&world, rules::ATTEMPTS, |plan| {
        last(plan, |record| record.requested = true);
    });
}

#[test]
fn a_failure_is_accepted_only_by_a_resume_and_only_if_it_was_told() {
    let mut world = World::new(3, json!({"failurePolicy": {"type": "Pause"}}));
    world.start();
    world.end("n0000", 1);
    world.settle();
    world.end("n0001", 0);
    let accept = |plan: &mut Plan, at: usize| result(plan, at, |record| record.accepted = true);
    trips(&world, rules::APPEND_ONLY, |plan| accept(plan, 0));
    world.resume = Some("1".to_owned());
    world.end("n0002", 1);
    world.slices[0].records[2].state = NodeState::Failed;
    world.slices[0].records[2].finished = Some(world.now);
    trips(&world, rules::APPEND_ONLY, |plan| accept(plan, 2));
    trips(&world, rules::APPEND_ONLY, |plan| {
        result(plan, 0, |record| record.message = "made up".into());
    });
}

#[test]
fn an_attempt_that_ends_with_a_write_counts_for_what_the_write_adds() {
    let mut world = failed_at_most_once();
    // The request was for the second attempt, which ends now.
    world.retry = Some(world.pod_of("n0000", 1));
    world.start();
    world.end("n0000", 3);
    world.join("n0001");
    trips(&world, rules::RUN_ONCE, try_again(&world, 3));
    // And a request for one after that which ends now is one.
    world.retry = Some(world.pod_of("n0000", 2));
    let mut plan = world.plan();
    let added = &slice(&mut plan).added;
    assert!((added.iter()).any(|record| record.attempt == 3 && record.requested));
}
