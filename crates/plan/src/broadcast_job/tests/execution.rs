//! How often a node is tried: at most once, retries, retries by request.

use carillon_api::NodeState::{Disrupted, Failed, Started, Succeeded, Unknown};
use carillon_api::condition::{reasons, results, types};
use serde_json::{Value, json};

use super::world::World;
use crate::broadcast_job::action::Act;
use crate::name;
use crate::pod::{PodPhase, PodRow};
use crate::uid::Uid;

fn at_most_once(more: Value) -> Value {
    let mut spec = json!({"executionPolicy": "AtMostOnce", "failurePolicy": {"type": "Continue"}});
    if let (Value::Object(spec), Value::Object(more)) = (&mut spec, more) {
        spec.extend(more);
    }
    spec
}

#[test]
fn at_most_once_an_interrupted_node_has_failed_and_keeps_how() {
    let mut world = World::new(3, at_most_once(json!({})));
    world.start();
    world.evict("n0000");
    world.delete(&world.pod_on("n0001"));
    world.end("n0001", 0);
    world.run_to_the_end();
    assert!(world.is(types::COMPLETE));
    assert_eq!(
        (&world.status["succeeded"], &world.status["failed"]),
        (&json!(1), &json!(2))
    );
    assert_eq!(world.created.len(), 3, "nothing is tried again");
    assert_eq!(
        world.attempts("n0000"),
        [(Disrupted, results::POD_DISRUPTED.to_owned())]
    );
    assert_eq!(
        world.attempts("n0001"),
        [(Disrupted, results::POD_DELETED.to_owned())]
    );
}

#[test]
fn at_most_once_a_vanished_pod_and_a_lost_node_have_failed() {
    let mut world = World::new(3, at_most_once(json!({})));
    world.start();
    world.vanish(&world.pod_on("n0000"));
    world.delete(&world.pod_on("n0001"));
    world.end("n0002", 0);
    world.pass(331);
    world.settle();
    assert_eq!(world.attempts("n0000")[0].0, Unknown);
    assert_eq!(
        world.attempts("n0001"),
        [(Unknown, results::NODE_LOST.to_owned())]
    );
    assert!(world.is(types::COMPLETE));
    assert_eq!(
        (world.created.len(), &world.status["failed"]),
        (3, &json!(2))
    );
}

#[test]
fn at_most_once_a_pod_that_was_never_bound_is_no_attempt_that_counts() {
    let mut world = World::new(2, at_most_once(json!({})));
    world.settle();
    world.delete(&world.pod_on("n0000"));
    world.cordon("n0001");
    world.settle();
    for node in ["n0000", "n0001"] {
        assert_eq!(
            world.attempts(node)[0],
            (Disrupted, results::WITHDRAWN.to_owned())
        );
    }
    world.node("n0001").unschedulable = false;
    world.run_to_the_end();
    assert_eq!(
        (&world.status["succeeded"], &world.status["failed"]),
        (&json!(2), &json!(0))
    );
}

#[test]
fn at_most_once_an_interruption_fails_a_fail_fast_job_and_says_why() {
    let mut world = World::new(2, json!({"executionPolicy": "AtMostOnce"}));
    world.start();
    world.evict("n0001");
    world.settle();
    let failing = Some((true, reasons::MAX_FAILED_NODES_EXCEEDED.to_owned()));
    assert_eq!(world.condition(types::FAILURE_TARGET), failing);
    let message = world.message(types::FAILURE_TARGET);
    assert!(
        message.contains("n0001 failed (PodDisrupted; with executionPolicy AtMostOnce"),
        "{message}"
    );
}

#[test]
fn a_failed_attempt_with_retries_left_is_no_failure_and_waits_longer_each_time() {
    let mut world = World::new(2, json!({"backoffLimitPerNode": 3}));
    let mut waits = Vec::new();
    for _ in 0..3 {
        world.start();
        world.end("n0000", 1);
        world.settle();
        assert!(!world.is(types::FAILURE_TARGET), "FailFast waits");
        assert_eq!(
            (&world.status["failed"], &world.status["retrying"]),
            (&json!(0), &json!(1))
        );
        let due = world.plan().wake.unwrap();
        waits.push(due.duration_since(world.now).as_secs());
        world.now = due;
    }
    assert_eq!(waits, [10, 20, 40]);
    world.run_to_the_end();
    assert!(world.is(types::COMPLETE));
    assert_eq!(world.status["done"], "2/2");
    let attempts = world.attempts("n0000");
    assert_eq!((attempts.len(), attempts[3].0), (4, Succeeded));
}

#[test]
fn a_node_without_retries_left_has_failed() {
    let mut world = World::new(1, json!({"backoffLimitPerNode": 1}));
    for _ in 0..2 {
        world.start();
        world.end("n0000", 1);
        world.settle();
        world.pass(10);
    }
    world.settle();
    assert!(world.is(types::FAILED));
    assert_eq!(
        (world.created.len(), &world.status["failed"]),
        (2, &json!(1))
    );
}

#[test]
fn a_job_that_waits_for_a_retry_says_for_which_node() {
    let mut world = World::new(2, json!({"backoffLimitPerNode": 1}));
    world.start();
    world.end("n0000", 1);
    world.end("n0001", 0);
    world.settle();
    let waiting = Some((true, reasons::WAITING_FOR_RETRIES.to_owned()));
    assert_eq!(world.condition(types::RECONCILING), waiting);
    let message = world.message(types::RECONCILING);
    assert!(message.contains("n0000: BackOff"), "{message}");
}

#[test]
fn a_job_that_fails_tries_nothing_again_and_counts_what_failed() {
    let mut world = World::new(
        3,
        json!({"backoffLimitPerNode": 1, "completionPolicy": {"activeDeadlineSeconds": 5}}),
    );
    world.start();
    world.end("n0000", 1);
    world.settle();
    world.pass(5);
    world.settle();
    world.pass(1);
    world.end_all();
    world.settle();
    assert!(world.is(types::FAILED));
    assert_eq!(
        (&world.status["failed"], world.created.len()),
        (&json!(3), 3)
    );
    assert!(world.status.get("retrying").is_none(), "{}", world.status);
}

#[test]
fn a_retry_by_request_is_one_more_attempt_and_the_same_request_asks_for_no_second() {
    let never = json!({"type": "Never"});
    let mut world = World::new(
        3,
        json!({"failurePolicy": {"type": "Continue"}, "completionPolicy": never}),
    );
    world.start();
    world.end("n0000", 1);
    world.end("n0001", 0);
    world.end("n0002", 1);
    world.settle();
    assert_eq!(world.status["failed"], 2);
    // The last is that of a job made anew, or of another one: a request holds for one job only.
    let other = name::pod("job", Uid::MIN, "n0002", 1);
    let asked = [("n0000", 1), ("n0001", 1), ("n0002", 2), ("n0009", 1)];
    let asked = asked.map(|(node, attempt)| world.pod_of(node, attempt));
    world.retry = Some(format!("{},{other},n0002/1,nonsense", asked.join(",")));
    let warns = |world: &World| {
        let mut notes = world.plan().notes.into_iter();
        notes.any(|note| note.warning && note.reason == types::REQUEST_IGNORED)
    };
    assert!(warns(&world));
    world.settle();
    assert!(!warns(&world), "one event for one request");
    let ignored = world.message(types::REQUEST_IGNORED);
    assert!(
        world.is(types::REQUEST_IGNORED) && ignored.contains("\"n0002/1\""),
        "{ignored}"
    );
    assert_eq!(world.status["failed"], 1, "a node that is retried is not");
    assert_eq!(
        ["n0000", "n0001", "n0002"].map(|node| world.creations_on(node)),
        [2, 1, 1],
        "neither a success, nor another attempt than the one named, nor that of another job"
    );
    world.run_all();
    world.end("n0000", 1);
    world.run_to_the_end();
    assert_eq!(world.creations_on("n0000"), 2);
    assert_eq!(world.status["failed"], 2);
    world.retry = Some(world.pod_of("n0000", 2));
    world.run_to_the_end();
    assert!(!world.is(types::REQUEST_IGNORED), "it can be read now");
    assert_eq!(world.attempts("n0000")[2].0, Succeeded);
    assert_eq!(world.attempts("n0000")[1].0, Failed);
}

#[test]
fn at_most_once_a_person_may_ask_for_an_interrupted_node() {
    let mut world = World::new(
        2,
        at_most_once(json!({"completionPolicy": {"type": "Never"}})),
    );
    world.start();
    world.evict("n0000");
    world.settle();
    assert_eq!(
        (&world.status["failed"], world.created.len()),
        (&json!(1), 2)
    );
    world.retry = Some(world.pod_of("n0000", 1));
    world.run_to_the_end();
    assert_eq!(world.attempts("n0000")[1].0, Succeeded);
    assert_eq!(world.status["failed"], 0);
}

#[test]
fn a_raised_limit_gives_failed_nodes_their_retries() {
    let never = json!({"type": "Never"});
    let mut world = World::new(
        1,
        json!({"failurePolicy": {"type": "Continue"}, "completionPolicy": never}),
    );
    world.start();
    world.end("n0000", 1);
    world.settle();
    world.spec["backoffLimitPerNode"] = json!(1);
    world.pass(10);
    world.run_to_the_end();
    assert_eq!(world.status["succeeded"], 1);
}

#[test]
fn a_retry_by_request_does_not_wait_and_needs_no_retries_left() {
    let mut world = World::new(1, json!({"backoffLimitPerNode": 1}));
    world.start();
    world.end("n0000", 1);
    world.settle();
    assert_eq!(world.creations_on("n0000"), 1);
    world.retry = Some(world.pod_of("n0000", 1));
    world.settle();
    assert_eq!(world.creations_on("n0000"), 2);
}

#[test]
fn a_retry_by_request_does_not_resume_a_job_that_failures_have_paused() {
    let mut world = World::new(
        2,
        json!({"failurePolicy": {"type": "Pause"}, "parallelism": 1}),
    );
    world.settle();
    world.run_all();
    world.end("n0000", 1);
    world.settle();
    world.retry = Some(world.pod_of("n0000", 1));
    world.settle();
    let paused = Some((true, reasons::PAUSED_BY_FAILURE.to_owned()));
    assert_eq!(world.condition(types::PAUSED), paused);
    assert_eq!(world.created.len(), 1);
    world.resume = Some("1".to_owned());
    world.run_to_the_end();
    assert!(world.is(types::COMPLETE));
    assert_eq!(
        (&world.status["succeeded"], world.creations_on("n0000")),
        (&json!(2), 2)
    );
}

#[test]
fn at_most_once_a_promise_is_taken_back_a_minute_after_that_was_stored() {
    let mut world = World::new(2, at_most_once(json!({"parallelism": 1})));
    world.crash_after(1);
    world.cordon("n0000");
    world.settle();
    let intended = (Started, results::WITHDRAWN.to_owned());
    assert_eq!(world.attempts("n0000"), [intended]);
    assert!(world.created.is_empty(), "its place is taken");
    let due = world.plan().wake.unwrap();
    assert_eq!(due.duration_since(world.now).as_secs(), 60);
    world.now = due;
    // Had the job been deleted meanwhile, its pod might have run and be gone.
    let steps = world.plan().steps;
    let words: Vec<_> = steps.iter().map(|step| step.actions[0].word()).collect();
    assert_eq!(words[..3], ["confirm_pod", "confirm_job", "write_slice"]);
    world.settle();
    let withdrawn = (Disrupted, results::WITHDRAWN.to_owned());
    assert_eq!(world.attempts("n0000"), [withdrawn]);
    assert_eq!(world.creations_on("n0001"), 1);
}

#[test]
fn at_most_once_a_promise_that_was_to_be_taken_back_is_kept_when_it_is_wanted_again() {
    let mut world = World::new(1, at_most_once(json!({})));
    world.crash_after(1);
    world.cordon("n0000");
    world.settle();
    world.node("n0000").unschedulable = false;
    world.crash_after(1);
    let record = &world.slices[0].records[0];
    assert_eq!((&*record.reason, record.finished), ("", None));
    world.run_to_the_end();
    assert_eq!(world.attempts("n0000"), [(Succeeded, String::new())]);
    let record = &world.slices[0].records[0];
    assert_eq!((record.attempt, world.created.len()), (1, 1));
}

#[test]
fn at_most_once_a_pod_that_is_known_of_while_its_promise_is_being_taken_back_is_not_given_up() {
    let mut world = World::new(1, at_most_once(json!({})));
    world.crash_after(1);
    world.cordon("n0000");
    world.settle();
    // The answer to its creation comes before the pod is seen.
    let (pod, uid) = (world.pod_of("n0000", 1), world.uid());
    world.uids.insert(pod.as_str().into(), uid);
    world.crash_after(2);
    let record = &world.slices[0].records[0];
    assert_eq!((record.pod_uid, &*record.reason), (Some(uid), ""));
    assert_eq!(record.finished, None);
    let row = PodRow {
        uid,
        rv: 1,
        node: Some("n0000".into()),
        tracked: true,
        ..PodRow::default()
    };
    world.pods.insert(pod.as_str().into(), row);
    world.created.push((pod.as_str().into(), "n0000".into()));
    // Whoever deletes it now may still see it start.
    world.delete(&pod);
    world.settle();
    assert_eq!(world.attempts("n0000"), [(Started, String::new())]);
    world.end("n0000", 0);
    world.settle();
    assert_eq!(world.attempts("n0000").len(), 1);
    assert_ne!(world.attempts("n0000")[0].1, results::WITHDRAWN);
}

#[test]
fn at_most_once_a_pod_that_comes_while_its_promise_is_being_taken_back_is_its_attempt() {
    let mut world = World::new(1, at_most_once(json!({})));
    world.crash_after(1);
    world.cordon("n0000");
    world.settle();
    // A request that was on its way.
    let row = PodRow {
        uid: world.uid(),
        rv: 1,
        node: Some("n0000".into()),
        phase: PodPhase::Running,
        tracked: true,
        ..PodRow::default()
    };
    let pod = world.pod_of("n0000", 1);
    world.pods.insert(pod.as_str().into(), row);
    world.created.push((pod.into(), "n0000".into()));
    world.pass(3600);
    world.settle();
    assert_eq!(world.attempts("n0000"), [(Started, String::new())]);
    world.end("n0000", 0);
    world.settle();
    assert_eq!(world.attempts("n0000"), [(Succeeded, String::new())]);
}
