//! Pods that somebody takes from the job: they lose their owner, which the watch tells, or their label, and then
//! nothing tells of them any more.

use carillon_api::NodeState::{Disrupted, Failed, Started, Succeeded, Unknown};
use carillon_api::condition::{reasons, results, types};
use serde_json::json;

use super::world::World;
use crate::broadcast_job::action::{Action, Plan, Step};
use crate::interlock::broadcast_job::rules;
use crate::pod::{PodPhase, PodRow};

type Take = fn(&mut World, &str);

const WAYS: [Take; 2] = [World::take_owner, World::take_label];

/// One node, whose pod runs and is taken in this way.
fn taken(take: Take, more: serde_json::Value) -> (World, Box<str>) {
    let mut world = World::new(1, more);
    world.start();
    let pod = world.pod_on("n0000");
    take(&mut world, &pod);
    world.settle();
    (world, pod)
}

#[test]
fn a_pod_that_was_taken_is_named_and_its_end_is_that_of_its_attempt() {
    for take in WAYS {
        let (mut world, pod) = taken(take, json!({}));
        let waits = Some((true, reasons::WAITING_FOR_TAKEN_PODS.to_owned()));
        assert_eq!(world.condition(types::RECONCILING), waits);
        let message = world.message(types::RECONCILING);
        assert!(
            message.contains(&*pod) && message.contains("n0000"),
            "{message}"
        );
        assert_eq!(world.status["active"], 1);
        world.end("n0000", 0);
        world.pass(60);
        world.settle();
        world.settle();
        assert_eq!(world.attempts("n0000"), [(Succeeded, String::new())]);
        assert!(world.is(types::COMPLETE), "{}", world.status);
        assert!(!world.row(&pod).unwrap().tracked);
    }
}

#[test]
fn a_pod_that_was_taken_holds_its_node_until_it_has_ended() {
    for take in WAYS {
        let (mut world, pod) = taken(take, json!({"backoffLimitPerNode": 1}));
        for _ in 0..30 {
            world.pass(120);
            world.settle();
        }
        assert_eq!(world.attempts("n0000"), [(Started, String::new())]);
        assert_eq!(world.created.len(), 1);
        world.end("n0000", 3);
        world.pass(60);
        world.settle();
        assert_eq!(world.attempts("n0000")[0].0, Failed);
        world.pass(60);
        world.run_to_the_end();
        assert_eq!(world.created.len(), 2);
        assert!(world.is(types::COMPLETE), "{}", world.status);
        assert!(!world.row(&pod).unwrap().tracked);
    }
}

#[test]
fn a_pod_without_label_is_asked_for_seldom_and_one_that_is_watched_never() {
    for (take, most) in [(WAYS[0], 0), (WAYS[1], 2 * 60 + 20)] {
        let (mut world, _) = taken(take, json!({}));
        let mut asked = 0;
        for _ in 0..2 * 3600 {
            world.pass(1);
            let asks = world
                .words()
                .iter()
                .filter(|word| **word == "confirm_gone")
                .count();
            asked += asks;
            if asks > 0 {
                world.crash_after(usize::MAX);
            }
        }
        assert!(asked <= most + 1, "{asked}");
        let wake = world.plan().wake;
        assert_eq!(wake.is_some(), most > 0);
    }
}

#[test]
fn a_job_that_fails_stops_a_pod_that_was_taken() {
    for take in WAYS {
        let (mut world, pod) = taken(
            take,
            json!({"completionPolicy": {"activeDeadlineSeconds": 600}}),
        );
        world.pass(700);
        world.settle();
        let told = world.row(&pod).unwrap().deletion.is_some();
        assert!(told, "{} {:?}", world.status, world.plan());
        assert!(!world.is(types::FAILED));
        world.end("n0000", 137);
        world.pass(60);
        world.settle();
        world.settle();
        assert!(world.is(types::FAILED), "{}", world.status);
        assert!(world.row(&pod).is_none());
    }
}

#[test]
fn who_deletes_a_pod_that_was_taken_gives_it_up() {
    for take in WAYS {
        let (mut world, pod) = taken(take, json!({"executionPolicy": "AtMostOnce"}));
        world.delete(&pod);
        world.end("n0000", 137);
        world.pass(60);
        world.settle();
        let deleted = (Disrupted, results::POD_DELETED.to_owned());
        assert_eq!(world.attempts("n0000"), [deleted]);
        assert!(world.row(&pod).is_none());
        assert_eq!(world.created.len(), 1);
    }
}

#[test]
fn a_job_that_is_deleted_lets_go_of_pods_that_were_taken() {
    for take in WAYS {
        for asked_before in [true, false] {
            let (mut world, pod) = taken(take, json!({}));
            if !asked_before {
                world.asked.clear();
            }
            world.deleting = true;
            world.settle();
            assert!(!world.row(&pod).unwrap().tracked);
        }
    }
}

#[test]
fn a_pod_that_gets_its_label_back_is_read_where_it_is_watched() {
    let (mut world, pod) = taken(WAYS[1], json!({}));
    let mut row = world.unseen.remove(&pod).unwrap();
    row.rv += 1;
    world.pods.insert(pod, row);
    world.settle();
    let runs = Some((true, reasons::RUNNING.to_owned()));
    assert_eq!(world.condition(types::RECONCILING), runs);
    world.end("n0000", 0);
    world.run_to_the_end();
    assert!(world.is(types::COMPLETE));
}

#[test]
fn a_pod_of_the_same_name_and_another_uid_is_not_the_one_that_was_taken() {
    let (mut world, pod) = taken(WAYS[0], json!({"executionPolicy": "AtMostOnce"}));
    let uid = world.uid();
    world.row(&pod).unwrap().uid = uid;
    world.settle();
    let vanished = (Unknown, results::POD_VANISHED.to_owned());
    assert_eq!(world.attempts("n0000"), [vanished]);
    // It is nobody's, and is released when all is over.
    world.run_to_the_end();
    assert_eq!(world.created.len(), 1);
}

#[test]
fn a_pod_without_label_gets_it_back_before_its_outcome_is_stored() {
    let (mut world, pod) = taken(WAYS[1], json!({}));
    world.end("n0000", 0);
    world.pass(60);
    // It is asked for, and seen to have ended.
    world.crash_after(1);
    assert_eq!(world.words()[..2], ["label_pod", "write_slice"]);
    // The process ends before it has let the pod go.
    world.crash_after(2);
    assert_eq!(world.attempts("n0000"), [(Succeeded, String::new())]);
    assert!(world.row(&pod).unwrap().tracked);
    world.asked.clear();
    world.settle();
    assert!(!world.row(&pod).unwrap().tracked);
    // One that is watched needs none.
    let (mut world, _) = taken(WAYS[0], json!({}));
    world.end("n0000", 0);
    assert!(!world.words().contains(&"label_pod"));
}

#[test]
fn what_is_taken_from_the_job_is_stopped_and_labelled_only_if_a_record_names_it() {
    let (mut world, pod) = taken(WAYS[0], json!({"restartPolicy": "Never"}));
    let stranger = crate::broadcast_job::TakenPod {
        pod: PodRow {
            uid: world.uid(),
            rv: 7,
            tracked: true,
            ..PodRow::default()
        },
        ..Default::default()
    };
    let (uid, rv) = (stranger.pod.uid, stranger.pod.rv);
    let known = world.row(&pod).unwrap().uid;
    world.unowned.insert("copy".into(), stranger);
    let of = |action: Action| Plan {
        steps: vec![Step::wanted(vec![action])],
        ..Plan::default()
    };
    let label = |pod: &str, uid| Action::LabelPod {
        pod: pod.into(),
        uid,
    };
    assert!(world.verify(&of(label(&pod, known))).is_ok());
    let trip = world.verify(&of(label("copy", uid))).unwrap_err();
    assert_eq!(trip.rule, rules::RELEASE);
    let delete = Action::DeletePod {
        pod: "copy".into(),
        uid,
        rv,
    };
    assert_eq!(world.verify(&of(delete)).unwrap_err().rule, rules::DELETE);
    let release = Action::ReleasePod {
        pod: "copy".into(),
        uid,
    };
    assert_eq!(world.verify(&of(release)).unwrap_err().rule, rules::RELEASE);
    // It is not counted, and is released when all is over.
    world.end("n0000", 0);
    world.run_to_the_end();
    assert!(world.is(types::COMPLETE));
    assert!(!world.row("copy").unwrap().tracked && world.row("copy").unwrap().deletion.is_none());
}

#[test]
fn a_pod_that_was_taken_holds_the_node_it_is_bound_to() {
    let more = json!({"parallelism": 1, "failurePolicy": {"type": "Continue"}});
    let mut world = World::new(2, more);
    world.settle();
    let (pod, now) = (world.pod_on("n0000"), world.now);
    let row = world.row(&pod).unwrap();
    (row.node, row.phase) = (Some("n0001".into()), PodPhase::Running);
    row.started = Some(now);
    world.take_owner(&pod);
    for _ in 0..5 {
        world.settle();
        world.pass(3600);
    }
    assert_eq!(world.creations_on("n0001"), 0);
    world.end("n0000", 0);
    world.run_to_the_end();
    assert_eq!(world.creations_on("n0001"), 1);
}

#[test]
fn each_of_many_pods_without_label_is_asked_for_again() {
    const NODES: usize = 8;
    let mut world = World::new(NODES, json!({}));
    world.start();
    for (pod, _) in world.created.clone() {
        world.take_label(&pod);
    }
    world.settle();
    world.max_pod_changes = 1;
    world.pass(3600);
    world.end("n0007", 0);
    for _ in 0..NODES {
        let wake = world.plan().wake.unwrap();
        world.crash_after(usize::MAX);
        world.now = world.now.max(wake);
    }
    assert_eq!(world.attempts("n0007"), [(Succeeded, String::new())]);
}

#[test]
fn a_pod_that_was_given_to_the_job_by_another_one_is_left_to_that() {
    let mut world = World::new(1, json!({}));
    world.run_to_the_end();
    let own = world.pod_of("n0009", 1);
    let others = crate::name::pod("other", world.uid(), "n0009", 1);
    for name in [&own, &others] {
        let row = PodRow {
            uid: world.uid(),
            phase: PodPhase::Running,
            tracked: true,
            ..PodRow::default()
        };
        world.pods.insert(name.as_str().into(), row);
    }
    world.settle();
    let told = |pod: &PodRow| (pod.tracked, pod.deletion.is_some());
    assert_eq!(world.row(&own).map(|pod| told(pod)), None);
    assert_eq!(world.row(&others).map(|pod| told(pod)), Some((true, false)));
    world.deleting = true;
    world.settle();
    assert!(!world.row(&others).unwrap().tracked);
}

/// As the answer to its creation has told, or as it was found when it was to be created again.
#[test]
fn a_pod_that_loses_label_or_owner_before_it_was_seen_is_followed_by_the_uid_it_was_created_with() {
    for take in WAYS {
        for deleted in [false, true] {
            let mut world = World::new(1, json!({}));
            while world.created.is_empty() {
                world.crash_after(usize::MAX);
            }
            let pod = world.pod_on("n0000");
            assert_eq!(world.slices[0].records[0].pod_uid, None, "not seen yet");
            world.run_all();
            take(&mut world, &pod);
            world.conflicts.insert(pod.clone());
            if deleted {
                world.deleting = true;
                world.settle();
                assert!(!world.row(&pod).unwrap().tracked, "its namespace can go");
                continue;
            }
            world.settle();
            assert!(world.slices[0].records[0].pod_uid.is_some());
            world.end("n0000", 0);
            world.pass(60);
            world.settle();
            assert!(world.is(types::COMPLETE), "{:?}", world.attempts("n0000"));
            assert!(!world.row(&pod).unwrap().tracked);
        }
    }
}

/// Its finalizer was stripped, and it was deleted by force: another one has its name, label and owner.
fn replace(world: &mut World, pod: &str, phase: PodPhase, node: Option<&str>) {
    let rv = world.row(pod).unwrap().rv + 50;
    world.vanish(pod);
    let row = PodRow {
        uid: world.uid(),
        rv,
        phase,
        node: node.map(Into::into),
        created: Some(world.now),
        started: node.map(|_| world.now),
        ..PodRow::default()
    };
    world.pods.insert(pod.into(), row);
}

#[test]
fn a_pod_that_was_taken_and_replaced_under_its_name_is_gone_and_trips_no_interlock() {
    let (running, ended) = (PodPhase::Running, PodPhase::Failed);
    for (lost, phase, node) in [
        (false, PodPhase::Pending, None),
        (false, running, Some("n0000")),
        (false, ended, Some("n0000")),
        (true, PodPhase::Pending, None),
        (true, running, Some("n0000")),
        (true, ended, Some("n0009")),
    ] {
        let more = json!({"parallelism": 1, "nodeLostTimeoutSeconds": 60,
            "failurePolicy": {"type": "Continue"}});
        let mut world = World::new(2, more);
        world.start();
        let pod = world.pod_on("n0000");
        world.take_label(&pod);
        world.settle();
        world.pass(60);
        world.settle();
        replace(&mut world, &pod, phase, node);
        if lost {
            let long_ago = world.now - jiff::SignedDuration::from_secs(3600);
            world.node("n0000").not_ready_since = Some(long_ago);
        }
        // The interlock looks at each plan.
        for seconds in [1, 5, 30, 60, 600] {
            world.pass(seconds);
            world.settle();
        }
        let (state, reason) = &world.attempts("n0000")[0];
        assert_eq!((*state, &**reason), (Unknown, results::POD_VANISHED));
    }
}
