//! Which pods are created and removed.

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::super::JobPod;
use super::super::action::{Action, Why};
use super::super::unanswered::may_come_until;
use super::world::{World, uid};
use crate::pod::PodPhase::{Failed, Pending, Running, Succeeded};

/// Pods created and removed by the next plan.
fn changes(world: &World) -> (usize, usize) {
    let plan = world.plan();
    let actions = || plan.steps.iter().flat_map(|step| &step.actions);
    let created = actions().filter(|action| matches!(action, Action::CreatePod(_)));
    let removed = actions().filter(|action| matches!(action, Action::RemovePod { .. }));
    (created.count(), removed.count())
}

fn indexed(parallelism: i32, completions: i32) -> World {
    World::new(json!({
        "parallelism": parallelism, "completions": completions, "completionMode": "Indexed",
    }))
}

#[test]
fn pods_are_created_up_to_parallelism_and_to_what_is_missing() {
    for (parallelism, completions, succeeded, active, created, removed) in [
        (2, Some(5), 0, 0, 2, 0),
        (2, Some(5), 4, 0, 1, 0),
        (2, Some(5), 3, 1, 1, 0),
        (5, Some(5), 3, 4, 0, 2),
        (0, Some(5), 0, 2, 0, 2),
        (3, None, 0, 1, 2, 0),
        (1, None, 0, 3, 0, 2),
        (3, None, 1, 1, 0, 0),
        (1, None, 1, 3, 0, 0),
    ] {
        let mut world = World::new(json!({"parallelism": parallelism, "completions": completions}))
            .with_status(json!({"succeeded": succeeded}));
        world.pods_in(Running, active);
        let case = (parallelism, completions, succeeded, active);
        assert_eq!(changes(&world), (created, removed), "{case:?}");
    }
}

#[test]
fn a_batch_of_pods_has_an_end() {
    let mut world = World::new(json!({"parallelism": 2000, "completions": 2000}));
    assert_eq!(changes(&world).0, 500);
    world.sync();
    assert_eq!((changes(&world).0, world.counts().0), (500, 500));
}

#[test]
fn creations_rely_on_the_latest_status_and_begin_slowly() {
    let plan = World::new(json!({"parallelism": 2, "completions": 2})).plan();
    assert_eq!(plan.steps[0].actions, [Action::ConfirmCurrent]);
    assert!(plan.steps[1].slow_start);
}

#[test]
fn a_leader_that_sees_any_part_of_the_pods_makes_the_same_ones_and_no_others() {
    let world = World::new(json!({"parallelism": 5, "completions": 9}));
    let (mut first, second) = (world.clone(), world);
    first.sync();
    let names = first.names();
    for seen in 0..1 << names.len() {
        let mut second = second.clone();
        second.pods = first.pods.clone();
        let sees = |name: &str| names.iter().position(|known| known == name);
        second
            .pods
            .retain(|name, _| sees(name).is_some_and(|at| seen >> at & 1 == 1));
        // It dies before it has written a status, so that the next one knows as little.
        second.sync_until(6);
        assert_eq!(second.names(), names, "{seen:b}");
    }
}

#[test]
fn a_new_pod_has_the_first_name_that_no_pod_has() {
    let mut world = World::new(json!({"parallelism": 4, "completions": 9}));
    world.sync();
    let names = world.names();
    world.job.spec.parallelism = 3;
    world.sync();
    let left = world.names();
    let gone = names.iter().find(|name| !left.contains(name)).unwrap();
    // One that it adopts has a name of its own, however much that looks like one of ours.
    for name in [
        "sum-",
        "sum-0",
        "sum-bbbbbbbbbbb",
        "sum-bbbbbbbbby",
        "sum-bbbbbbbbbé",
    ] {
        let pod = world.pods[left[0].as_str()].clone();
        world.free.insert(name.into(), pod);
    }
    world.job.spec.parallelism = 4;
    world.sync();
    assert_eq!(
        world.names(),
        names,
        "the one that was removed is made again"
    );
    // A pod that was given away keeps its name.
    let given = world.pods.remove(gone.as_str()).unwrap();
    world.free.insert(gone.as_str().into(), given);
    world.sync();
    assert_eq!(world.active(), 4);
    assert!(!world.names().contains(gone));
}

#[test]
fn the_end_of_a_back_off_is_not_missed_and_with_strict_parity_a_second_passes() {
    let plain = json!({"parallelism": 2, "completions": 2});
    let indexed = |parallelism| {
        json!({
            "parallelism": parallelism, "completions": 3, "completionMode": "Indexed",
            "backoffLimitPerIndex": 1,
        })
    };
    // Milliseconds since the failures, pods created, milliseconds until the plan after.
    for (strict, spec, ago, created, left) in [
        (false, plain.clone(), &[9_900][..], 0, Some(100)),
        (true, plain.clone(), &[9_900], 0, Some(1_000)),
        (true, plain.clone(), &[5_000], 0, Some(5_000)),
        (false, plain, &[10_000], 2, None),
        (false, indexed(1), &[9_900], 0, Some(100)),
        (true, indexed(1), &[9_900], 0, Some(1_000)),
        // Others may begin meanwhile.
        (false, indexed(2), &[9_900], 1, Some(100)),
        (false, indexed(3), &[10_000, 9_700], 2, Some(300)),
    ] {
        let case = format!("{strict} {spec} {ago:?}");
        let mut world = World::new(spec);
        world.limits.strict_parity = strict;
        let now = world.now;
        for (index, ago) in ago.iter().enumerate() {
            world.pod(|pod| {
                pod.phase = Failed;
                pod.index = Some(index as u32);
                pod.finished = Some(now - SignedDuration::from_millis(*ago));
            });
        }
        let left = left.map(|left| now + SignedDuration::from_millis(left));
        assert_eq!(
            (changes(&world).0, world.plan().wake),
            (created, left),
            "{case}"
        );
    }
}

#[test]
fn while_creations_wait_for_a_back_off_the_pods_that_run_are_still_counted() {
    let mut world = World::new(json!({"parallelism": 2, "completions": 2}));
    world.pod(|pod| pod.phase = Running).ready = Some(world.now);
    world.pods_in(Failed, 1);
    let plan = world.plan();
    assert!(plan.wake.is_some());
    world.sync();
    assert_eq!(
        (world.counts(), world.job.status.ready),
        ((1, 0, 0), Some(1))
    );
    assert_eq!(changes(&world).0, 0);
    world.pass(10);
    assert_eq!(changes(&world).0, 1);
}

#[test]
fn the_back_off_of_one_index_holds_back_only_that_index() {
    let mut world = World::new(json!({
        "parallelism": 2, "completions": 2, "completionMode": "Indexed", "backoffLimitPerIndex": 3,
    }));
    world.pod(|pod| (pod.phase, pod.index) = (Running, Some(0)));
    world.pod(|pod| (pod.phase, pod.index) = (Failed, Some(1)));
    world.sync();
    assert_eq!((world.counts().0, changes(&world).0), (1, 0));
    world.pass(10);
    let plan = world.plan();
    let mut actions = plan.steps.iter().flat_map(|step| &step.actions);
    let created = actions.find_map(|action| match action {
        Action::CreatePod(pod) => Some(pod),
        _ => None,
    });
    assert_eq!(
        created.map(|pod| (pod.index, pod.failures)),
        Some((Some(1), Some(1)))
    );
}

#[test]
fn pods_that_are_still_stopping_are_waited_for_where_only_failed_ones_are_replaced() {
    let rules = json!({"rules": [{"action": "Count", "onPodConditions": []}]});
    for (spec, created) in [
        (json!({}), 2),
        (json!({"podReplacementPolicy": "Failed"}), 0),
        (json!({"podFailurePolicy": rules}), 0),
    ] {
        let mut spec = spec;
        (spec["parallelism"], spec["completions"]) = (json!(2), json!(6));
        let mut world = World::new(spec.clone());
        for _ in 0..5 {
            world.pod(|pod| (pod.phase, pod.deleting, pod.assigned) = (Running, true, true));
        }
        world.limits.backoff = SignedDuration::ZERO;
        assert_eq!(changes(&world), (created, 0), "{spec}");
    }
}

#[test]
fn an_index_that_is_still_stopping_is_not_begun_anew_where_only_failed_ones_are_replaced() {
    let mut world = World::new(json!({
        "parallelism": 2, "completions": 3, "completionMode": "Indexed",
        "podReplacementPolicy": "Failed",
    }));
    world.pod(|pod| (pod.phase, pod.index, pod.deleting) = (Running, Some(0), true));
    world.sync();
    let indexes: Vec<_> = world.pods.values().map(|pod| pod.index).collect();
    assert_eq!((changes(&world).0, indexes.len()), (0, 2));
    assert!(indexes.contains(&Some(1)));
}

#[test]
fn pods_of_an_indexed_job_that_stand_for_nothing_are_removed_first() {
    let mut world = indexed(3, 3);
    for index in [None, Some(3), Some(0), Some(0), Some(1)] {
        world.pod(|pod| (pod.phase, pod.index) = (Running, index));
    }
    assert_eq!(changes(&world), (0, 3));
    world.sync();
    // Nothing was created in that sync; now index 2 is.
    assert_eq!(changes(&world), (1, 0));
    assert_eq!(world.counts(), (2, 0, 0));
}

#[test]
fn what_has_run_least_is_removed_first() {
    let mut world = World::new(json!({"parallelism": 1, "completions": 9}));
    world
        .pod(|pod| (pod.phase, pod.assigned) = (Running, true))
        .ready = Some(world.now);
    world.pod(|pod| (pod.phase, pod.assigned) = (Running, true));
    world.pod(|pod| (pod.phase, pod.assigned) = (Pending, true));
    world.pod(|pod| pod.phase = Pending);
    for left in [["p1", "p2", "p3"].as_slice(), &["p1", "p2"], &["p1"]] {
        world.limits.max_pod_changes = 1;
        world.sync();
        world.pods.retain(|_, pod| !pod.deleting);
        assert_eq!(world.names(), left);
    }
    assert_eq!(world.counts(), (1, 0, 0));
}

#[test]
fn a_pod_that_is_removed_is_not_counted() {
    let mut world = World::new(json!({"parallelism": 1, "completions": 9}));
    world.pods_in(Running, 3);
    world.pods.values_mut().for_each(|pod| pod.assigned = true);
    world.sync();
    assert_eq!(world.job.status.terminating, Some(2));
    for name in ["p1", "p2", "p3"] {
        world.end(name, Failed, 137);
    }
    world.settle();
    assert_eq!(world.counts().2, 1);
}

#[test]
fn a_suspended_job_stops_its_pods_without_counting_them() {
    let mut world = World::new(json!({"parallelism": 2, "completions": 2, "suspend": true}))
        .with_status(json!({"startTime": "2023-11-14T22:13:00Z", "ready": 1}));
    world.pods_in(Running, 2);
    world.sync();
    assert_eq!(world.counts(), (0, 0, 0));
    assert_eq!(world.conditions(), [("Suspended", "True", "JobSuspended")]);
    assert_eq!(
        (
            world.job.status.start_time.is_none(),
            world.notes.as_slice()
        ),
        (true, ["Suspended"].as_slice())
    );
}

#[test]
fn a_job_that_is_resumed_begins_its_time_anew() {
    let mut world = World::new(json!({"parallelism": 1, "completions": 1, "suspend": true}));
    world.settle();
    assert!(world.job.status.start_time.is_none());
    world.pass(3600);
    world.job.spec.suspend = false;
    world.settle();
    assert_eq!(world.conditions(), [("Suspended", "False", "JobResumed")]);
    let start = world.job.status.start_time.as_ref().unwrap();
    assert_eq!((start.0, world.active()), (world.now, 1));
    assert_eq!(world.notes, ["Suspended", "Resumed"]);
}

#[test]
fn a_job_that_was_never_suspended_does_not_say_so() {
    let mut world = World::new(json!({"parallelism": 1, "completions": 1}));
    world.settle();
    assert!(world.conditions().is_empty());
}

#[test]
fn a_job_that_is_deleted_begins_nothing_and_lets_go_of_its_pods() {
    for suspend in [false, true] {
        let mut world = World::new(json!({"parallelism": 3, "completions": 9, "suspend": suspend}));
        world.pods_in(Running, 2);
        world.pods_in(Succeeded, 1);
        world.job.meta.deleting = true;
        assert_eq!(changes(&world), (0, 0));
        world.settle();
        assert_eq!(world.counts(), (2, 1, 0));
        assert!(world.pods.values().all(|pod| !pod.tracked));
        assert!(world.conditions().is_empty());
    }
}

#[test]
fn completions_that_are_taken_back_are_forgotten_and_run_again_when_they_return() {
    let mut world = indexed(4, 4).with_status(json!({"completedIndexes": "0,2-3", "succeeded": 3}));
    (world.job.spec.completions, world.job.spec.parallelism) = (Some(2), 2);
    world.sync();
    let status = &world.job.status;
    assert_eq!(status.completed_indexes.as_deref(), Some("0"));
    assert_eq!(world.counts().1, 1);
    (world.job.spec.completions, world.job.spec.parallelism) = (Some(4), 4);
    world.sync();
    let mut indexes: Vec<_> = world.pods.values().map(|pod| pod.index).collect();
    indexes.sort();
    assert_eq!(indexes, [Some(1), Some(2), Some(3)]);
}

#[test]
fn the_count_of_completions_that_are_taken_back_falls_only_where_the_api_server_lets_it() {
    let mut world = indexed(4, 4).with_status(json!({"completedIndexes": "0,2-3", "succeeded": 3}));
    // Parallelism was changed before the completions that were taken back were noticed.
    (world.job.spec.completions, world.job.spec.parallelism) = (Some(2), 1);
    world.sync();
    let status = &world.job.status;
    assert_eq!(status.completed_indexes.as_deref(), Some("0"));
    assert_eq!(world.counts().1, 3);
    world.job.spec.parallelism = 2;
    world.sync();
    assert_eq!(world.counts().1, 1);
}

#[test]
fn completions_that_are_scaled_to_none_complete_the_job() {
    let mut world = indexed(2, 2);
    world.sync();
    (world.job.spec.completions, world.job.spec.parallelism) = (Some(0), 0);
    world.settle();
    for name in world.names() {
        world.end(&name, Failed, 137);
    }
    world.settle();
    assert!(world.job.has("Complete"));
}

#[test]
fn who_does_not_know_yet_that_a_job_was_started_makes_the_same_names() {
    let mut first = World::new(json!({"completions": 2, "parallelism": 2}));
    let mut second = first.clone();
    first.sync();
    second.job.status.start_time = first.job.status.start_time.clone();
    second.pass(5);
    second.sync();
    assert_eq!(first.names(), second.names());
}

#[test]
fn a_pod_that_was_counted_leaves_its_name_to_nobody() {
    for spec in [
        json!({"completions": 1}),
        json!({"completions": 1, "completionMode": "Indexed"}),
    ] {
        let mut world = World::new(spec);
        world.settle();
        let first = world.names();
        world.end(&first[0], Failed, 1);
        world.settle();
        world.delete(&first[0]);
        assert_eq!((world.counts(), world.names().len()), ((0, 0, 1), 0));
        world.pass(10);
        world.settle();
        assert_ne!(world.names(), first);
    }
}

#[test]
fn a_uid_that_becomes_a_count_changes_no_name() {
    let listed = |which: &str| json!({"uncountedTerminatedPods": {which: [uid(99).to_string()]}});
    let names = |status: &serde_json::Value| {
        let mut world = World::new(json!({"completions": 9})).with_status(status.clone());
        world.sync_until(2);
        world.names()
    };
    let none = names(&json!({}));
    let succeeded = names(&json!({"succeeded": 1}));
    let failed = names(&json!({"failed": 1}));
    assert_eq!(names(&listed("succeeded")), succeeded);
    assert_eq!(names(&listed("failed")), failed);
    let both = names(&json!({"failed": 1, "succeeded": 1}));
    let all = std::collections::BTreeSet::from([none, succeeded, failed, both]);
    assert_eq!(all.len(), 4, "what is counted makes other names");
}

#[test]
fn why_a_pod_is_created_is_told_by_what_became_of_those_before() {
    for (policy, failed, told, expected) in [
        ("TerminatingOrFailed", 0, 0, Why::New),
        ("Failed", 0, 0, Why::New),
        ("TerminatingOrFailed", 1, 0, Why::TerminatingOrFailed),
        ("TerminatingOrFailed", 0, 1, Why::TerminatingOrFailed),
        ("Failed", 0, 1, Why::TerminatingOrFailed),
        ("Failed", 1, 0, Why::Failed),
        ("Failed", 1, 1, Why::Failed),
    ] {
        let mut world = World::new(json!({
            "parallelism": 3, "completions": 9, "podReplacementPolicy": policy,
        }))
        .with_status(json!({"failed": failed}));
        for _ in 0..told {
            world.pod(|pod| (pod.phase, pod.tracked, pod.deleting) = (Running, false, true));
        }
        let plan = world.plan();
        let mut actions = plan.steps.iter().flat_map(|step| &step.actions);
        let why = actions.find_map(|action| match action {
            Action::CreatePod(pod) => Some(pod.why),
            _ => None,
        });
        assert_eq!(why, Some(expected), "{policy} {failed} {told}");
    }
}

#[test]
fn a_status_says_how_many_pods_its_plan_has_created_and_removed() {
    for (parallelism, running, expected) in [(3, 1, (2, 0)), (1, 3, (0, 2)), (2, 2, (0, 0))] {
        let mut world = World::new(json!({"parallelism": parallelism, "completions": 9}));
        world.pods_in(Running, running);
        let plan = world.plan();
        let mut actions = plan.steps.iter().flat_map(|step| &step.actions);
        let written = actions.find_map(|action| match action {
            Action::WriteStatus(write) => Some((write.created, write.removed)),
            _ => None,
        });
        assert_eq!(written, Some(expected), "{parallelism} {running}");
    }
}

/// Names of pods that the next plan creates, and asks for.
fn created_and_asked(world: &World) -> (Vec<String>, Vec<String>) {
    let (mut created, mut asked) = (Vec::new(), Vec::new());
    for step in world.plan().steps {
        for action in step.actions {
            match action {
                Action::CreatePod(pod) => created.push(pod.name),
                Action::ConfirmAbsent { name } => asked.push(name),
                _ => {}
            }
        }
    }
    (created, asked)
}

#[test]
fn a_creation_without_an_answer_is_tried_again_under_its_name() {
    let mut world = World::new(json!({"parallelism": 2, "completions": 5}));
    let (names, _) = created_and_asked(&world);
    with_unanswered(&mut world, &names[0]);
    assert_eq!(created_and_asked(&world), (names, vec![]));
}

/// With a pod of this name that may still come to be.
fn with_unanswered(world: &mut World, name: &str) -> Timestamp {
    let until = may_come_until(world.now);
    world.unanswered.insert(name.to_owned(), until);
    until
}

#[test]
fn a_pod_that_may_still_come_keeps_its_place_until_it_cannot() {
    for (mut world, before, held) in [
        (
            World::new(json!({"parallelism": 3, "completions": 5})),
            "sum-x",
            None,
        ),
        (indexed(3, 5), "sum-1-x", Some(1)),
        (indexed(3, 5), "sum-4-x", Some(2)),
    ] {
        let until = with_unanswered(&mut world, before);
        let (created, asked) = created_and_asked(&world);
        assert_eq!((created.len(), asked.len()), (2, 0), "{before}");
        let of_index = |index| move |name: &String| name.starts_with(&format!("sum-{index}-"));
        if let Some(index) = held {
            assert!(
                !created.iter().any(of_index(index)),
                "{before}: {created:?}"
            );
        }
        assert_eq!(world.plan().wake, Some(until), "{before}");
        world.now = until;
        let asked = created_and_asked(&world).1;
        assert_eq!(asked, [before]);
        world.sync();
        world.sync();
        assert_eq!(world.counts().0, 3, "{before}");
    }
}

#[test]
fn a_work_queue_of_one_waits_for_the_pod_that_may_still_come() {
    let mut world = World::new(json!({"parallelism": 1}));
    let until = with_unanswered(&mut world, "sum-x");
    assert_eq!(created_and_asked(&world), (vec![], vec![]));
    world.now = until;
    assert_eq!(
        created_and_asked(&world),
        (vec![], vec!["sum-x".to_owned()])
    );
    world.sync();
    assert_eq!(created_and_asked(&world).0.len(), 1);
}

#[test]
fn while_a_creation_has_no_answer_all_else_goes_on() {
    let mut world = World::new(json!({"parallelism": 2, "completions": 5}));
    with_unanswered(&mut world, "sum-x");
    world.pods_in(Running, 1);
    world.pods_in(Succeeded, 1);
    world.settle();
    let (active, succeeded, _) = world.counts();
    assert_eq!((active, succeeded), (1, 1));
    assert!(
        world
            .pods
            .values()
            .all(|pod| pod.tracked != pod.phase.has_ended())
    );
}

#[test]
fn a_job_does_not_end_while_a_pod_of_it_may_still_come_to_be() {
    let queue = || {
        let mut world = World::new(json!({"parallelism": 2}));
        world.pods_in(Succeeded, 1);
        world
    };
    let failed = || {
        let mut world = World::new(json!({"parallelism": 2, "completions": 5, "backoffLimit": 0}));
        world.pods_in(Failed, 1);
        world
    };
    let late = || {
        let mut world = World::new(json!({"parallelism": 2, "activeDeadlineSeconds": 5}));
        world.sync();
        world.pass(6);
        world
    };
    for (what, mut world) in [("done", queue()), ("failed", failed()), ("late", late())] {
        let until = with_unanswered(&mut world, "sum-x");
        world.settle();
        assert!(world.job.ended().is_none(), "{what}");
        assert_eq!(world.plan().wake, Some(until), "{what}");
        // It comes, and is stopped.
        let mut other = world.clone();
        other.unanswered.clear();
        other.pods_in(Running, 1);
        other.settle();
        assert!(!other.pods.values().any(JobPod::is_active), "{what}");
        world.now = until;
        world.settle();
        assert!(world.job.ended().is_some(), "{what}");
    }
}

#[test]
fn of_pods_that_may_still_come_none_is_tried_again_when_there_is_no_room_for_all() {
    for (spec, names) in [
        (json!({"completions": 9}), ["a", "b", "c", "d", "e"]),
        (
            json!({"completions": 9, "completionMode": "Indexed"}),
            ["sum-0-x", "sum-1-x", "sum-2-x", "sum-3-x", "sum-4-x"],
        ),
    ] {
        for (parallelism, created) in [(3, 0), (4, 0), (5, 0), (6, 1), (9, 4)] {
            let mut spec = spec.clone();
            spec["parallelism"] = json!(parallelism);
            let mut world = World::new(spec);
            for name in names {
                with_unanswered(&mut world, name);
            }
            assert_eq!(created_and_asked(&world).0.len(), created, "{parallelism}");
        }
        // Under their own names as many as there is room for all.
        let mut spec = spec.clone();
        spec["parallelism"] = json!(5);
        let mut world = World::new(spec);
        let names = created_and_asked(&world).0;
        for name in &names {
            with_unanswered(&mut world, name);
        }
        assert_eq!(created_and_asked(&world).0, names);
        world.job.spec.parallelism = 3;
        assert_eq!(created_and_asked(&world).0, Vec::<String>::new());
    }
}
