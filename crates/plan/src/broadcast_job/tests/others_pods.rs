//! Pods that the job controls and that no attempt of it has made, and pods that are not where they belong.

use carillon_api::NodeState::{Failed, Started, Succeeded};
use carillon_api::condition::{reasons, results, types};
use jiff::SignedDuration;
use serde_json::json;

use super::world::World;
use crate::pod::{Deletion, PodPhase, PodRow};

#[test]
fn a_copy_of_a_pod_on_a_node_not_yet_served_holds_its_turn_and_is_named() {
    let mut world = World::new(2, json!({"parallelism": 1}));
    world.start();
    world.stray("copy", "n0001");
    world.end("n0000", 0);
    world.settle();
    assert_eq!(world.created.len(), 1);
    let waiting = Some((true, reasons::WAITING_FOR_OTHER_PODS.to_owned()));
    assert_eq!(world.condition(types::RECONCILING), waiting);
    let message = world.message(types::RECONCILING);
    assert!(
        message.contains("n0001") && message.contains("copy"),
        "{message}"
    );
    assert!(!world.is(types::STALLED) && !world.is(types::COMPLETE));
    world.vanish("copy");
    world.run_to_the_end();
    assert!(world.is(types::COMPLETE));
    assert_eq!(world.status["succeeded"], 2);
}

#[test]
fn a_promise_waits_until_another_pod_on_its_node_has_ended() {
    let mut world = World::new(1, json!({}));
    world.crash_after(1);
    world.stray("copy", "n0000");
    world.settle();
    assert!(world.created.is_empty());
    assert_eq!(world.attempts("n0000"), [(Started, String::new())]);
    let waiting = Some((true, reasons::WAITING_FOR_OTHER_PODS.to_owned()));
    assert_eq!(world.condition(types::RECONCILING), waiting);
    world.pods.get_mut("copy").unwrap().phase = PodPhase::Succeeded;
    world.run_to_the_end();
    assert_eq!(world.attempts("n0000"), [(Succeeded, String::new())]);
    assert_eq!(world.created.len(), 1);
}

#[test]
fn a_pod_on_another_node_than_its_own_is_no_success_there() {
    let more = json!({"parallelism": 1, "failurePolicy": {"type": "Continue"}});
    let mut world = World::new(2, more);
    world.start();
    let pod = world.pod_on("n0000");
    world.pods.get_mut(&pod).unwrap().node = Some("n0001".into());
    world.end("n0000", 0);
    world.settle();
    let wrong = (Failed, results::WRONG_NODE.to_owned());
    assert_eq!(world.attempts("n0000"), [wrong]);
    let message = &world.slices[0].records[0].message;
    assert!(message.contains("n0001"), "{message}");
    world.run_to_the_end();
    let counts = (&world.status["succeeded"], &world.status["failed"]);
    assert_eq!(counts, (&json!(1), &json!(1)));
}

#[test]
fn a_pod_that_runs_on_another_node_than_its_own_is_stopped_and_holds_both() {
    let more = json!({"backoffLimitPerNode": 1, "failurePolicy": {"type": "Continue"}});
    let mut world = World::new(3, json!({"parallelism": 1}));
    world.spec = super::world::spec(more);
    world.spec["parallelism"] = json!(1);
    world.start();
    let pod = world.pod_on("n0000");
    world.pods.get_mut(&pod).unwrap().node = Some("n0001".into());
    world.spec["parallelism"] = json!(3);
    world.settle();
    let row = &world.pods[&pod];
    assert!(row.deletion.is_some() && !row.phase.has_ended());
    world.pass(60);
    world.settle();
    let on = |node| world.creations_on(node);
    assert_eq!((on("n0000"), on("n0001"), on("n0002")), (1, 0, 1));
    world.end_all();
    world.run_to_the_end();
    world.pass(60);
    world.run_to_the_end();
    let on = |node| world.creations_on(node);
    assert_eq!((on("n0000"), on("n0001"), on("n0002")), (2, 1, 1));
    assert!(world.is(types::COMPLETE));
}

#[test]
fn a_pod_that_has_succeeded_and_was_bound_to_no_node_is_no_success() {
    let mut world = World::new(1, json!({"failurePolicy": {"type": "Continue"}}));
    world.settle();
    world.end("n0000", 0);
    world.settle();
    let wrong = (Failed, results::WRONG_NODE.to_owned());
    assert_eq!(world.attempts("n0000"), [wrong]);
}

/// Every plan of [`World`] goes through the interlock, which panics.
#[test]
fn no_pod_that_somebody_makes_changes_or_deletes_trips_the_interlock() {
    for seed in 0..300 {
        let mut dice = fastrand(seed);
        let more = json!({
            "parallelism": 1 + dice(3), "backoffLimitPerNode": dice(2),
            "failurePolicy": {"type": (["Continue", "FailFast"][dice(2)])},
            "podStartDeadlineSeconds": 5,
        });
        let mut world = World::new(4, more);
        for _ in 0..60 {
            match dice(6) {
                0 => {
                    let writes = dice(6);
                    world.crash_after(writes);
                }
                1 => world.run_all(),
                2 => world.end_all(),
                3 => world.pass(4),
                _ => somebody(&mut world, &mut dice),
            }
            world.plan();
        }
    }
}

/// Small, seeded, the same everywhere.
fn fastrand(seed: u64) -> impl FnMut(usize) -> usize {
    let mut state = (seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    move |below| {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        (state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % below
    }
}

/// Makes, changes or removes a pod, under any name: also one that an attempt has, or will have.
fn somebody(world: &mut World, dice: &mut impl FnMut(usize) -> usize) {
    let node = format!("n{:04}", dice(5));
    let name = match dice(3) {
        0 => format!("copy-{}", dice(3)),
        _ => world.pod_of(&node, 1 + dice(2) as u32),
    };
    let phase = [
        PodPhase::Pending,
        PodPhase::Running,
        PodPhase::Succeeded,
        PodPhase::Failed,
    ][dice(4)];
    let on = (dice(3) > 0).then(|| format!("n{:04}", dice(5)).into());
    let (uid, now, tracked) = (world.uid(), world.now, dice(2) == 0);
    let deletion = (dice(4) == 0).then_some(Deletion {
        due: now + SignedDuration::from_secs(30),
        grace_seconds: 30,
    });
    match dice(3) {
        0 => drop(world.pods.remove(&*name)),
        1 => {
            if let Some(row) = world
                .pods
                .get_mut(&*name)
                .filter(|row| !row.phase.has_ended())
            {
                row.phase = phase;
                row.deletion = row.deletion.or(deletion);
            }
        }
        _ => {
            world.pods.entry(name.into()).or_insert_with(|| PodRow {
                uid,
                rv: 1,
                node: on,
                phase,
                tracked,
                created: Some(now),
                deletion,
                ..PodRow::default()
            });
        }
    }
}

#[test]
fn another_pod_is_not_named_while_a_pod_of_the_job_is_under_way() {
    let mut world = World::new(2, json!({"parallelism": 1}));
    world.start();
    world.stray("copy", "n0001");
    world.settle();
    let runs = Some((true, reasons::RUNNING.to_owned()));
    assert_eq!(world.condition(types::RECONCILING), runs);
}
