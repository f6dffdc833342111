//! How many pods there are after one sync, in the cases that upstream's controller was once wrong
//! about.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::super::action::Action;
use super::world::World;
use crate::pod::PodPhase::{self, Failed, Pending, Running, Succeeded};

/// What one plan does to pods, and what the status says of them once nothing is left to do at once.
#[derive(Debug, Default, PartialEq)]
struct After {
    created: usize,
    /// Deleted, whether they count or not.
    deleted: usize,
    active: i32,
    ready: i32,
    terminating: i32,
    succeeded: i32,
    failed: i32,
}

fn after(world: &mut World) -> After {
    let plan = world.sync();
    let count = |is: fn(&Action) -> bool| {
        let actions = plan.steps.iter().flat_map(|step| &step.actions);
        actions.filter(|action| is(action)).count()
    };
    let created = count(|action| matches!(action, Action::CreatePod(_)));
    let deleted =
        count(|action| matches!(action, Action::RemovePod { .. } | Action::StopPod { .. }));
    let first = world.job.status.clone();
    // The uids of pods that have ended are counted by the next plan.
    let mut counted = world.clone();
    counted.limits.max_pod_changes = 0;
    counted.sync();
    let (_, succeeded, failed) = counted.counts();
    After {
        created,
        deleted,
        active: first.active.unwrap_or(0),
        ready: first.ready.unwrap_or(0),
        terminating: first.terminating.unwrap_or(0),
        succeeded,
        failed,
    }
}

fn indexes_created(world: &World) -> Vec<Option<u32>> {
    let plan = world.plan();
    let actions = plan.steps.iter().flat_map(|step| &step.actions);
    let new = actions.filter_map(|action| match action {
        Action::CreatePod(pod) => Some(pod.index),
        _ => None,
    });
    new.collect()
}

fn of(spec: Value, pods: &[(PodPhase, usize)]) -> World {
    let mut world = World::new(spec);
    for (phase, many) in pods {
        world.pods_in(*phase, *many);
    }
    world
}

/// An Indexed Job with these pods.
fn indexed(parallelism: i32, completions: i32, pods: &[(Option<u32>, PodPhase)]) -> World {
    let mut world = World::new(json!({
        "parallelism": parallelism, "completions": completions, "completionMode": "Indexed",
        "backoffLimit": 6,
    }));
    for (index, phase) in pods {
        world.pod(|pod| (pod.index, pod.phase) = (*index, *phase));
    }
    world
}

#[test]
fn more_terminating_pods_than_parallelism_neither_create_nor_turn_into_a_negative_number() {
    let rules = json!({"rules": []});
    for policy in [
        json!({"podReplacementPolicy": "Failed"}),
        json!({"podFailurePolicy": rules}),
    ] {
        let mut spec = policy.clone();
        (spec["parallelism"], spec["completions"]) = (json!(1), json!(1));
        let mut world = of(spec, &[(Running, 6)]);
        for pod in world.pods.values_mut().take(4) {
            (pod.deleting, pod.assigned) = (true, true);
        }
        let expected = After {
            deleted: 1,
            active: 1,
            terminating: 5,
            ..After::default()
        };
        assert_eq!(after(&mut world), expected, "{policy}");
    }
}

#[test]
fn pods_that_are_deleted_are_ready_no_more() {
    let suspended = json!({"parallelism": 2, "completions": 4, "suspend": true});
    for (spec, failed, many, expected) in [
        // Too many, suspended, failed.
        (json!({"parallelism": 2, "completions": 5}), 0, 3, (2, 2)),
        (suspended, 0, 2, (0, 0)),
        (
            json!({"parallelism": 2, "completions": 3, "backoffLimit": 0}),
            1,
            2,
            (0, 0),
        ),
    ] {
        let mut world = of(spec.clone(), &[(Running, many), (Failed, failed)]);
        let now = world.now;
        let running = world.pods.values_mut().filter(|pod| pod.is_active());
        running.for_each(|pod| pod.ready = Some(now));
        let after = after(&mut world);
        assert_eq!((after.active, after.ready), expected, "{spec}");
        let deleted = many as i32 - expected.0;
        assert_eq!(after.terminating, deleted, "{spec}");
    }
}

#[test]
fn a_success_and_a_failure_of_the_same_moment_delay_nothing() {
    let pods = [(Running, 1), (Succeeded, 1), (Failed, 1)];
    let mut world = of(json!({"parallelism": 2, "completions": 5}), &pods);
    let expected = After {
        created: 1,
        active: 2,
        succeeded: 1,
        failed: 1,
        ..After::default()
    };
    assert_eq!(after(&mut world), expected);
}

#[test]
fn a_failure_that_was_counted_before_replaces_nothing_again() {
    let mut world = of(json!({"parallelism": 1, "completions": 1}), &[(Running, 1)])
        .with_status(json!({"active": 1, "failed": 1}));
    let expected = After {
        active: 1,
        failed: 1,
        ..After::default()
    };
    assert_eq!(after(&mut world), expected);
}

#[test]
fn a_work_queue_waits_for_its_last_pod_and_completes_despite_a_failure() {
    let mut world = of(json!({"parallelism": 2}), &[(Running, 1), (Succeeded, 1)]);
    let expected = After {
        active: 1,
        succeeded: 1,
        ..After::default()
    };
    assert_eq!(after(&mut world), expected);
    assert!(world.conditions().is_empty());
    let mut world = of(json!({"parallelism": 2}), &[(Succeeded, 1), (Failed, 1)]);
    world.settle();
    assert_eq!(world.counts(), (0, 1, 1));
    assert!(world.job.has("Complete"));
}

#[test]
fn more_pods_than_completions_are_missing_are_trimmed() {
    let pods = [(Running, 3), (Succeeded, 2)];
    let mut world = of(json!({"parallelism": 3, "completions": 4}), &pods);
    let expected = After {
        deleted: 1,
        active: 2,
        terminating: 1,
        succeeded: 2,
        ..After::default()
    };
    assert_eq!(after(&mut world), expected);
}

#[test]
fn pods_without_an_index_are_deleted_and_released_without_being_counted() {
    let mut world = indexed(
        2,
        5,
        &[
            (None, Running),
            (None, Succeeded),
            (None, Failed),
            (None, Running),
            (None, Succeeded),
            (None, Failed),
            (None, Pending),
            (Some(0), Succeeded),
            (Some(1), Running),
            (Some(2), Running),
        ],
    );
    let expected = After {
        deleted: 3,
        active: 2,
        terminating: 3,
        succeeded: 1,
        ..After::default()
    };
    assert_eq!(after(&mut world), expected);
    assert_eq!(world.job.status.completed_indexes.as_deref(), Some("0"));
    let held = world.pods.values().filter(|pod| pod.tracked);
    let held: BTreeSet<_> = held.map(|pod| pod.index).collect();
    assert_eq!(held, [Some(1), Some(2)].into());
}

#[test]
fn of_an_index_with_two_pods_one_is_removed_and_nothing_created_meanwhile() {
    let mut world = indexed(
        5,
        5,
        &[
            (None, Running),
            (Some(0), Succeeded),
            (Some(1), Running),
            (Some(2), Running),
            (Some(2), Pending),
        ],
    );
    let expected = After {
        deleted: 2,
        active: 2,
        terminating: 2,
        succeeded: 1,
        ..After::default()
    };
    assert_eq!(after(&mut world), expected);
    let running = world.pods.values().filter(|pod| pod.phase == Running);
    assert!(running.map(|pod| pod.index).eq([Some(1), Some(2)]));
}

#[test]
fn pods_of_indexes_beyond_the_completions_are_deleted_if_they_run_and_not_counted_if_they_ended() {
    let mut world = indexed(
        2,
        5,
        &[
            (Some(0), Succeeded),
            (Some(5), Running),
            (Some(6), Succeeded),
            (Some(7), Pending),
            (Some(8), Failed),
        ],
    );
    let expected = After {
        deleted: 2,
        terminating: 2,
        succeeded: 1,
        ..After::default()
    };
    assert_eq!(after(&mut world), expected);
    assert_eq!(world.job.status.completed_indexes.as_deref(), Some("0"));
    assert!(world.pods.values().all(|pod| !pod.tracked));
}

#[test]
fn the_first_index_beyond_the_completions_neither_completes_a_job_nor_fails_it() {
    for (beyond, phase) in [(2, Succeeded), (2, Failed)] {
        let pods = [(Some(0), Succeeded), (Some(beyond), phase)];
        let mut world = indexed(2, 2, &pods);
        world.job.spec.backoff_limit = 0;
        world.settle();
        assert_eq!(world.counts(), (1, 1, 0), "{phase:?}");
        assert_eq!(world.conditions(), [], "{phase:?}");
    }
}

#[test]
fn of_pods_that_are_not_there_a_status_says_nothing_and_of_ready_ones_that_there_is_none() {
    let mut world = World::new(json!({"parallelism": 0, "completions": 2}));
    world.settle();
    let status = &world.job.status;
    assert_eq!(
        (status.active, status.ready, status.terminating),
        (None, Some(0), Some(0))
    );
}

#[test]
fn an_index_that_has_succeeded_twice_counts_once_and_the_next_one_begins() {
    let pods = [
        (Some(0), Succeeded),
        (Some(1), Succeeded),
        (Some(1), Succeeded),
    ];
    let mut world = indexed(2, 3, &pods);
    assert_eq!(indexes_created(&world), [Some(2)]);
    let expected = After {
        created: 1,
        active: 1,
        succeeded: 2,
        ..After::default()
    };
    assert_eq!(after(&mut world), expected);
    let status = &world.job.status;
    assert_eq!(status.completed_indexes.as_deref(), Some("0,1"));
}

#[test]
fn an_index_that_failed_before_it_succeeded_counts_as_both_and_the_job_completes() {
    let pods = [
        (Some(0), Succeeded),
        (Some(1), Failed),
        (Some(1), Succeeded),
        (Some(2), Succeeded),
    ];
    let mut world = indexed(2, 3, &pods);
    world.settle();
    assert_eq!(world.counts(), (0, 3, 1));
    let status = &world.job.status;
    assert_eq!(status.completed_indexes.as_deref(), Some("0-2"));
    assert!(world.job.has("Complete"));
}

#[test]
fn an_indexed_job_that_fails_counts_the_pod_that_still_ran_as_failed() {
    let pods = [(Some(0), Succeeded), (Some(1), Failed), (Some(2), Running)];
    let mut world = indexed(2, 3, &pods);
    world.job.spec.backoff_limit = 0;
    world.pods.values_mut().for_each(|pod| pod.assigned = true);
    world.settle();
    assert_eq!(world.counts(), (0, 1, 2));
    assert_eq!(world.job.status.terminating, Some(1));
    let target = ("FailureTarget", "True", "BackoffLimitExceeded");
    assert_eq!(world.conditions(), [target]);
    world.end("p3", Failed, 137);
    world.settle();
    assert_eq!(world.counts(), (0, 1, 2));
    assert_eq!(world.job.status.completed_indexes.as_deref(), Some("0"));
    assert!(world.job.has("Failed"));
}

#[test]
fn an_index_that_still_stops_keeps_its_place_only_where_failed_pods_alone_are_replaced() {
    for (policy, created, counts) in [
        ("Failed", &[Some(1)][..], (1, 0, 0)),
        ("TerminatingOrFailed", &[Some(0), Some(1)], (2, 0, 1)),
    ] {
        let mut world = World::new(json!({
            "parallelism": 2, "completions": 5, "completionMode": "Indexed",
            "podReplacementPolicy": policy,
        }));
        world.pod(|pod| {
            (pod.phase, pod.index) = (Running, Some(0));
            (pod.deleting, pod.assigned) = (true, true);
        });
        assert_eq!(indexes_created(&world), created, "{policy}");
        world.settle();
        assert_eq!(world.counts(), counts, "{policy}");
        assert_eq!(world.job.status.terminating, Some(1), "{policy}");
    }
}
