//! How often a Job may fail and how long it may take, and how long it is kept: upstream's cases with
//! their numbers.

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::world::{World, uid};
use crate::pod::PodPhase::{self, Failed, Pending, Running, Succeeded};

fn at(world: &World, seconds: i64) -> Option<jiff::Timestamp> {
    world
        .now
        .checked_add(SignedDuration::from_secs(seconds))
        .ok()
}

/// A Job that was started so many seconds ago.
fn started(spec: Value, ago: i64) -> World {
    let mut world = World::new(spec);
    let start = at(&world, -ago).unwrap();
    world.job.status = serde_json::from_value(json!({"startTime": start})).unwrap();
    world
}

#[test]
fn a_deadline_passes_also_before_any_pod_and_never_before_the_backoff_limit_or_while_suspended() {
    let deadline = ("FailureTarget", "DeadlineExceeded");
    let limit = ("FailureTarget", "BackoffLimitExceeded");
    let suspended = ("Suspended", "JobSuspended");
    // Completions, deadline, started ago, limit, suspended; running, succeeded, failed.
    for ((completions, seconds, ago, most, suspend), pods, (told, counts)) in [
        ((1, 10, 15, 6, false), (1, 0, 0), (deadline, (0, 0, 1))),
        ((2, 10, 15, 6, false), (1, 1, 0), (deadline, (0, 1, 1))),
        ((1, 10, 10, 6, false), (0, 0, 0), (deadline, (0, 0, 0))),
        ((1, 1, 10, 0, false), (0, 0, 1), (limit, (0, 0, 1))),
        ((2, 10, 15, 6, true), (0, 0, 0), (suspended, (0, 0, 0))),
    ] {
        let spec = json!({
            "parallelism": 1, "completions": completions, "activeDeadlineSeconds": seconds,
            "backoffLimit": most, "suspend": suspend,
        });
        let mut world = started(spec.clone(), ago);
        let (running, succeeded, failed) = pods;
        world.pods_in(Running, running);
        world.pods_in(Succeeded, succeeded);
        world.pods_in(Failed, failed);
        world.settle();
        assert_eq!(world.counts(), counts, "{spec}");
        let conditions = world.conditions();
        let (type_, status, reason) = conditions[0];
        assert_eq!(((type_, reason), status), (told, "True"), "{spec}");
        assert_eq!(world.active(), 0, "{spec}");
    }
}

#[test]
fn a_job_is_looked_at_when_its_deadline_passes_also_if_it_was_started_by_somebody_else() {
    let spec = json!({"parallelism": 1, "completions": 1, "activeDeadlineSeconds": 10});
    for (mut world, left) in [(World::new(spec.clone()), 10), (started(spec, 7), 3)] {
        world.settle();
        let due = world.plan().wake;
        assert_eq!(due, at(&world, left));
        world.pass(left - 1);
        world.settle();
        assert!(!world.job.has("FailureTarget"));
        world.pass(1);
        world.settle();
        let told = ("FailureTarget", "True", "DeadlineExceeded");
        assert_eq!(world.conditions()[0], told);
        assert!(world.job.has("Failed"));
    }
}

#[test]
fn restarts_of_all_pods_that_run_or_wait_count_together_against_the_limit() {
    let template = json!({"spec": {"restartPolicy": "OnFailure"}});
    let cases: [(i32, &[i64], PodPhase, bool); 11] = [
        (0, &[0], Running, false),
        (1, &[0], Running, false),
        (1, &[1], Running, true),
        (1, &[1], Pending, true),
        (2, &[2], Running, true),
        (2, &[2], Pending, true),
        (2, &[1, 1], Running, true),
        (2, &[1, 1], Pending, true),
        (3, &[1, 1], Running, false),
        (6, &[1, 1, 2, 0], Succeeded, false),
        (0, &[1], Pending, true),
    ];
    for (limit, restarts, phase, fails) in cases {
        let mut world = World::new(json!({
            "parallelism": restarts.len(), "completions": 5, "backoffLimit": limit,
            "template": template,
        }));
        for restarts in restarts {
            world.pod(|pod| {
                (pod.phase, pod.restarts.sum, pod.assigned) = (phase, *restarts, true);
            });
        }
        world.settle();
        let case = (limit, restarts, phase);
        assert_eq!(world.job.has("FailureTarget"), fails, "{case:?}");
        let many = restarts.len() as i32;
        let expected = match (fails, phase) {
            (true, _) => (0, 0, many),
            // One is still missing.
            (false, Succeeded) => (1, many, 0),
            (false, _) => (many, 0, 0),
        };
        assert_eq!(world.counts(), expected, "{case:?}");
    }
}

#[test]
fn pods_that_are_not_restarted_may_fail_as_often_as_the_limit_says_and_no_more() {
    for (limit, pods, running, failed, fails) in [
        (0, 1, 1, 0, false),
        (1, 1, 0, 1, false),
        (1, 1, 0, 2, true),
        (6, 2, 1, 6, false),
        (6, 2, 0, 7, true),
    ] {
        let mut world = World::new(json!({
            "parallelism": pods, "completions": pods, "backoffLimit": limit,
        }));
        world.limits.backoff = SignedDuration::ZERO;
        world.pods_in(Running, running);
        world.pods_in(Failed, failed);
        world.settle();
        let case = (limit, running, failed);
        assert_eq!(world.job.has("Failed"), fails, "{case:?}");
        let active = if fails { 0 } else { pods };
        assert_eq!(world.counts(), (active, 0, failed as i32), "{case:?}");
    }
}

#[test]
fn a_job_is_kept_for_its_time_to_live_from_its_end_however_it_ended() {
    for type_ in ["Complete", "Failed"] {
        // Time to live, ended ago, left.
        for (ttl, ago, left) in [
            (json!(null), 0, None),
            (json!(0), 0, Some(0)),
            (json!(10), 0, Some(10)),
            (json!(15), 10, Some(5)),
            (json!(5), 600, Some(0)),
        ] {
            let world = World::new(json!({"ttlSecondsAfterFinished": ttl}));
            let ended = at(&world, -ago).unwrap();
            let condition = json!({"type": type_, "status": "True", "lastTransitionTime": ended});
            let mut world = world.with_status(json!({"conditions": [condition]}));
            let plan = world.plan();
            let wake = left.filter(|left| *left > 0);
            assert_eq!(
                plan.wake,
                wake.and_then(|left| at(&world, left)),
                "{ttl} {ago}"
            );
            world.sync();
            assert_eq!(world.deleted, left == Some(0), "{ttl} {ago}");
            world.pass(left.unwrap_or(600));
            world.sync();
            assert_eq!(world.deleted, left.is_some(), "{ttl} {ago}");
        }
    }
    let mut open = World::new(json!({"parallelism": 0, "ttlSecondsAfterFinished": 0}));
    open.settle();
    assert!(!open.deleted, "it has not ended");
}

#[test]
fn failures_count_against_the_limit_whether_they_are_seen_listed_or_counted() {
    for (limit, seen, listed, counted, fails) in [
        (1, 1, 0, 0, false),
        (1, 0, 1, 0, false),
        (1, 0, 0, 1, false),
        (1, 1, 1, 0, true),
        (1, 1, 0, 1, true),
        (1, 0, 1, 1, true),
        (2, 1, 1, 1, true),
        (3, 1, 1, 1, false),
    ] {
        let uids: Vec<String> = (90..90 + listed).map(|n| uid(n).to_string()).collect();
        let mut world =
            World::new(json!({"parallelism": 1, "completions": 9, "backoffLimit": limit}))
                .with_status(json!({
                    "failed": counted, "uncountedTerminatedPods": {"failed": uids},
                }));
        world.pods_in(Failed, seen);
        world.sync();
        let case = (limit, seen, listed, counted);
        assert_eq!(world.job.has("FailureTarget"), fails, "{case:?}");
    }
}
