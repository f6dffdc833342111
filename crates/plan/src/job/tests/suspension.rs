//! Jobs that are suspended, resumed, or ended by a hand.

use serde_json::json;

use super::world::World;
use crate::pod::PodPhase::{Failed, Running, Succeeded};

#[test]
fn the_start_is_forgotten_with_the_suspension_and_new_with_the_resumption() {
    let mut world = World::new(json!({"parallelism": 1, "completions": 2}));
    world.settle();
    let first = world.job.status.start_time.clone().unwrap();
    assert_eq!(world.counts().0, 1);
    for resumptions in 1..3 {
        world.pass(60);
        world.job.spec.suspend = true;
        world.sync();
        // One write says both.
        assert_eq!(world.job.status.start_time, None);
        assert_eq!(world.conditions(), [("Suspended", "True", "JobSuspended")]);
        world.settle();
        assert_eq!((world.counts().0, &world.job.status.start_time), (0, &None));
        world.pass(60);
        world.job.spec.suspend = false;
        world.sync();
        assert_eq!(world.conditions(), [("Suspended", "False", "JobResumed")]);
        let start = world.job.status.start_time.clone().unwrap();
        assert_eq!(start.0, world.now);
        let passed = world.now.duration_since(first.0);
        assert_eq!(passed.as_secs(), 120 * resumptions);
        world.settle();
        assert_eq!(world.job.status.start_time, Some(start), "it stays");
        assert_eq!(world.counts().0, 1);
    }
}

#[test]
fn a_job_that_was_suspended_with_its_start_kept_has_all_its_time_from_its_resumption() {
    let suspended = json!([{"type": "Suspended", "status": "True", "reason": "JobSuspended",
        "message": "Job suspended", "lastTransitionTime": "2023-11-14T20:00:00Z"}]);
    let status = json!({"startTime": "2023-11-14T19:00:00Z", "conditions": suspended});
    let ours = "carillon.dev/job-controller";
    for (strict, managed_by, fails) in [(false, "", false), (true, ours, false), (true, "", true)] {
        let mut world = World::new(json!({
            "parallelism": 1, "completions": 1, "suspend": true, "activeDeadlineSeconds": 60,
            "managedBy": Some(managed_by).filter(|name| !name.is_empty()),
        }))
        .with_status(status.clone());
        world.limits.strict_parity = strict;
        world.settle();
        assert!(world.job.status.start_time.is_some(), "nothing is changed");
        world.job.spec.suspend = false;
        world.sync();
        assert_eq!(
            world.job.has("FailureTarget"),
            fails,
            "{strict} {managed_by}"
        );
        if fails {
            continue;
        }
        let start = world.job.status.start_time.clone().unwrap();
        assert_eq!((start.0, world.active()), (world.now, 1));
        assert_eq!(world.conditions(), [("Suspended", "False", "JobResumed")]);
        let end = world
            .plan()
            .wake
            .map(|wake| wake.duration_since(world.now).as_secs());
        assert_eq!(end, Some(60));
        world.pass(60);
        world.sync();
        assert!(world.job.has("FailureTarget"));
    }
}

#[test]
fn a_job_that_fails_as_it_is_resumed_keeps_its_start() {
    let suspended = json!([{"type": "Suspended", "status": "True", "reason": "JobSuspended",
        "message": "Job suspended", "lastTransitionTime": "2023-11-14T20:00:00Z"}]);
    let start = "2023-11-14T19:00:00Z";
    let mut world = World::new(json!({
        "parallelism": 1, "completions": 1, "backoffLimit": 0, "activeDeadlineSeconds": 60,
    }))
    .with_status(json!({"startTime": start, "failed": 1, "conditions": suspended}));
    world.settle();
    assert!(world.job.has("Failed"));
    let kept = world.job.status.start_time.as_ref().unwrap();
    assert_eq!(kept.0.to_string(), start);
}

#[test]
fn a_job_that_is_resumed_waits_for_pods_that_still_stop_where_failed_pods_alone_are_replaced() {
    for policy in ["Failed", "TerminatingOrFailed"] {
        let mut world = World::new(json!({
            "parallelism": 2, "completions": 2, "podReplacementPolicy": policy,
        }));
        world.settle();
        world.pods.values_mut().for_each(|pod| {
            (pod.phase, pod.assigned) = (Running, true);
        });
        let stopping = world.names();
        world.job.spec.suspend = true;
        world.settle();
        assert_eq!((world.active(), world.job.status.terminating), (0, Some(2)));
        world.job.spec.suspend = false;
        world.settle();
        let waits = policy == "Failed";
        assert_eq!(world.active(), if waits { 0 } else { 2 }, "{policy}");
        for name in &stopping {
            world.end(name, Failed, 137);
        }
        world.settle();
        assert_eq!(world.counts(), (2, 0, 0), "{policy}");
        let new = world.names();
        assert!(stopping.iter().all(|name| !new.contains(name)), "{policy}");
    }
}

#[test]
fn what_somebody_has_set_to_false_is_left_alone_while_the_job_goes_on() {
    for type_ in ["FailureTarget", "SuccessCriteriaMet"] {
        let condition = json!({"type": type_, "status": "False", "reason": "ByHand",
            "message": "Testing"});
        let mut world = World::new(json!({"parallelism": 1, "completions": 1}))
            .with_status(json!({"active": 1, "conditions": [condition]}));
        world.pod(|pod| pod.phase = Running).ready = Some(world.now);
        world.settle();
        assert_eq!(world.conditions(), [(type_, "False", "ByHand")]);
        assert_eq!(
            (world.counts(), world.job.status.ready),
            ((1, 0, 0), Some(1))
        );
    }
}

#[test]
fn a_suspended_job_stops_what_runs_and_completes_if_enough_have_succeeded() {
    let spec = json!({
        "parallelism": 2, "completions": 4, "suspend": true,
        "template": {"spec": {"restartPolicy": "OnFailure"}},
    });
    let mut running = World::new(spec.clone());
    let mut succeeded = World::new(spec);
    for restarts in [1, 1] {
        running.pod(|pod| (pod.phase, pod.restarts.sum) = (Running, restarts));
    }
    for restarts in [1, 1, 2, 0] {
        succeeded.pod(|pod| (pod.phase, pod.restarts.sum) = (Succeeded, restarts));
    }
    // A Job that has pods has a start.
    succeeded = succeeded.with_status(json!({"startTime": "2023-11-14T22:13:00Z"}));
    running.settle();
    assert_eq!((running.counts(), running.active()), ((0, 0, 0), 0));
    let suspended = ("Suspended", "True", "JobSuspended");
    assert_eq!(running.conditions(), [suspended]);
    succeeded.settle();
    assert_eq!(succeeded.counts(), (0, 4, 0));
    assert!(succeeded.job.has("Complete") && !succeeded.job.has("Suspended"));
}
