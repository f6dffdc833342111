//! Who is gone is known by its log, and a log that was left open is closed.

use super::*;
use crate::pod::{Deletion, End};

#[test]
fn a_retry_that_has_ended_and_is_deleted_is_still_known_by_what_it_has_left() {
    let mut family = Relatives::of(&["n0000", "n0001"], json!({}));
    let nodes = ["n0000", "n0001"];
    let gone = family.retry(&nodes, 0);
    family.settle(gone);
    family.worlds[gone].run_all();
    family.worlds[gone].end("n0000", 0);
    family.worlds[gone].end("n0001", 1);
    family.settle(gone);
    let [twice, knows] = [0, 1].map(|known| family.retry(&nodes, known));
    family.gone.insert(gone);
    family.worlds[gone].pods.clear();
    family.run(twice, 0);
    assert_eq!(family.ended(twice), (Some(yes(reasons::ALREADY_TRIED)), 0));
    family.run(knows, 0);
    assert_eq!(
        family.ended(knows),
        (Some(yes(reasons::ALL_NODES_SUCCEEDED)), 1)
    );
    assert_eq!(&*family.worlds[knows].created[0].1, "n0001");
}

#[test]
fn who_has_a_turn_has_begun_its_log_before() {
    let mut family = Relatives::of(&["n0001"], json!({}));
    let retry = family.retry(&["n0001"], 0);
    let words = family.look(retry).words();
    let at = |word: &str| words.iter().position(|found| *found == word);
    assert!(
        at("confirm_job") < at("write_slice") && at("write_slice") < at("join_family"),
        "{words:?}"
    );
}

#[test]
fn the_log_of_a_retry_that_was_deleted_at_work_is_closed_by_the_next() {
    let mut family = Relatives::of(&["n0000", "n0001", "n0002"], json!({}));
    let nodes = ["n0000", "n0001", "n0002"];
    let gone = family.retry(&nodes, 0);
    family.settle(gone);
    family.worlds[gone].run_all();
    family.settle(gone);
    family.worlds[gone].end("n0000", 0);
    let next = family.retry(&nodes, 1);
    family.gone.insert(gone);
    // Two pods still run.
    family.settle(next);
    let world = &family.worlds[next];
    let waits = Some(yes(reasons::WAITING_FOR_JOB));
    assert_eq!(world.condition(types::RECONCILING), waits);
    assert!(world.created.is_empty());
    assert!(world.plan().wake.is_some());
    // One ends, and the other one is nowhere to be seen: it is asked for.
    family.worlds[gone].end("n0001", 1);
    let pod = family.worlds[gone].pod_on("n0002");
    family.worlds[gone].pods.remove(&pod);
    let words = family.look(next).words();
    assert!(
        words.contains(&"confirm_gone") && !words.contains(&"close_log"),
        "{words:?}"
    );
    family.run(next, 0);
    assert!(family.worlds[gone].slices.last().unwrap().sealed);
    let vanished = (NodeState::Unknown, results::JOB_DELETED.to_owned());
    assert_eq!(
        family.worlds[gone].attempts("n0000")[0].0,
        NodeState::Succeeded
    );
    assert_eq!(family.worlds[gone].attempts("n0002"), [vanished]);
    // Where nobody has seen the outcome, it may have succeeded.
    assert_eq!(
        family.ended(next),
        (Some(yes(reasons::ALL_NODES_SUCCEEDED)), 1)
    );
    assert_eq!(&*family.worlds[next].created[0].1, "n0001");
    for known in [0, 2] {
        let later = family.retry(&nodes, known);
        family.run(later, 0);
        assert_eq!(family.ended(later), (Some(yes(reasons::ALREADY_TRIED)), 0));
    }
}

/// A change of a write, and what the interlock says of it.
type MadeUp<'a> = (&'a dyn Fn(&mut SliceWrite), &'a str);

/// Closing the log of another one, as it must not be done.
#[test]
fn the_interlock_lets_only_the_log_of_who_is_gone_be_closed_and_nothing_be_made_up() {
    let mut family = Relatives::of(&["n0000", "n0001"], json!({}));
    let nodes = ["n0000", "n0001"];
    let gone = family.retry(&nodes, 0);
    family.settle(gone);
    family.worlds[gone].run_all();
    family.settle(gone);
    let next = family.retry(&nodes, 1);
    family.gone.insert(gone);
    for node in nodes {
        family.worlds[gone].end(node, 1);
    }
    let plan = family.look(next).plan();
    let refused = |family: &mut Relatives, change: &dyn Fn(&mut SliceWrite)| {
        let mut plan = plan.clone();
        for action in plan.steps.iter_mut().flat_map(|step| &mut step.actions) {
            if let Action::CloseLog { write, .. } = action {
                change(write);
            }
        }
        family.look(next).verify(&plan).err().map(|trip| trip.what)
    };
    assert_eq!(refused(&mut family, &|_| {}), None);
    let made_up: [MadeUp<'_>; 5] = [
        (&|write| write.sealed = false, "expected that it is sealed"),
        (
            &|write| write.edit(|all| all[0].state = NodeState::Succeeded),
            "becomes Succeeded; expected Unknown",
        ),
        (
            &|write| write.edit(|all| all[0].node = "n0002".into()),
            "changes; expected as it was read",
        ),
        (
            &|write| write.edit(|all| all.truncate(1)),
            "the version and results that were read",
        ),
        (&|write| write.rv = Some(1), "the version and results"),
    ];
    for (change, expected) in made_up {
        let found = refused(&mut family, change).unwrap_or_default();
        assert!(found.contains(expected), "{found}");
    }
    let pod = family.worlds[gone].pod_on("n0000");
    let row = family.worlds[gone].pods.get_mut(&pod).unwrap();
    row.phase = PodPhase::Running;
    let found = refused(&mut family, &|_| {}).unwrap_or_default();
    assert!(found.contains("known to have ended"), "{found}");
    family.gone.clear();
    let found = refused(&mut family, &|_| {}).unwrap_or_default();
    assert!(
        found.contains(
            "expected a retry of the family that had its turn before, and that it is gone"
        ),
        "{found}"
    );
}

#[test]
fn a_log_is_not_closed_with_the_success_of_a_pod_that_was_told_to_stop_before() {
    let mut family = Relatives::of(&["n0001"], json!({}));
    let gone = family.retry(&["n0001"], 0);
    family.settle(gone);
    family.worlds[gone].run_all();
    family.settle(gone);
    family.worlds[gone].end("n0001", 1);
    let next = family.retry(&["n0001"], 1);
    family.gone.insert(gone);
    let mut plan = family.look(next).plan();
    for action in plan.steps.iter_mut().flat_map(|step| &mut step.actions) {
        if let Action::CloseLog { write, .. } = action {
            write.edit(|all| all[0].state = NodeState::Succeeded);
        }
    }
    let second = SignedDuration::from_secs(1);
    let (now, pod) = (family.worlds[gone].now, family.worlds[gone].pod_on("n0001"));
    for (interrupted, asked, passes) in [
        (false, None, true),
        (false, Some(now + second), true),
        (false, Some(now - second), false),
        (true, None, false),
    ] {
        let row = family.worlds[gone].pods.get_mut(&pod).unwrap();
        row.phase = PodPhase::Succeeded;
        row.interrupted = interrupted;
        row.deletion = asked.map(|due| Deletion {
            due,
            grace_seconds: 0,
        });
        let end = End {
            exit_code: Some(0),
            finished: Some(now),
            ..End::default()
        };
        row.end = Some(Box::new(end));
        let found = family.look(next).verify(&plan);
        assert_eq!(found.is_ok(), passes, "{interrupted} {asked:?}: {found:?}");
    }
}

#[test]
fn the_log_of_a_retry_is_closed_when_the_pods_that_it_has_left_behind_have_ended() {
    let mut family = Relatives::of(&["n0000", "n0001"], json!({}));
    let gone = family.retry(&["n0001"], 0);
    family.settle(gone);
    family.worlds[gone].run_all();
    family.settle(gone);
    // `kubectl delete --cascade=orphan`: nothing controls the pod any more, and it runs on.
    let pod = family.worlds[gone].pod_on("n0001");
    let row = family.worlds[gone].pods.remove(&pod).unwrap();
    family.gone.insert(gone);
    let next = family.retry(&["n0000", "n0001"], 1);
    family.worlds[next].unseen.insert(pod.clone(), row);
    let expected = format!(
        "BroadcastJob fix-retry-1 was deleted at work; pod {pod} on node n0001 was taken from it and has not ended: its label is gone; its end is awaited, delete it to give it up"
    );
    let mut looks = Vec::new();
    for _ in 0..10 {
        family.settle(next);
        let world = &mut family.worlds[next];
        let waits = Some(yes(reasons::WAITING_FOR_JOB));
        assert_eq!(world.condition(types::RECONCILING), waits);
        assert_eq!(world.message(types::RECONCILING), expected);
        let wake = world.plan().wake.unwrap();
        looks.push(wake.duration_since(world.now));
        world.pass(10);
    }
    // The longer it has waited, the more seldom it looks.
    assert!(looks.is_sorted(), "{looks:?}");
    let most = SignedDuration::from_secs(60);
    assert!(looks[0] == SignedDuration::from_secs(10) && looks[9] > looks[0] && looks[9] <= most);
    let world = &mut family.worlds[next];
    world.unseen.get_mut(&pod).unwrap().phase = PodPhase::Succeeded;
    world.unseen.get_mut(&pod).unwrap().node = Some("n0001".into());
    world.pass(60);
    family.run(next, 0);
    let succeeded = (NodeState::Succeeded, String::new());
    assert_eq!(family.worlds[gone].attempts("n0001"), [succeeded]);
    assert!(family.worlds[gone].slices.last().unwrap().sealed);
    assert_eq!(
        family.ended(next),
        (Some(yes(reasons::ALL_NODES_SUCCEEDED)), 1)
    );
    assert_eq!(&*family.worlds[next].created[0].1, "n0000");
}

#[test]
fn a_pod_that_nobody_has_seen_and_that_keeps_a_log_open_is_named() {
    let mut family = Relatives::of(&["n0000", "n0001"], json!({}));
    let gone = family.retry(&["n0001"], 0);
    while family.worlds[gone].created.is_empty() {
        family.look(gone).crash_after(1);
        family.store(gone);
    }
    // It was created, its job has not seen it, and was deleted without it.
    let pod = family.worlds[gone].pod_on("n0001");
    let row = family.worlds[gone].pods.remove(&pod).unwrap();
    family.gone.insert(gone);
    let next = family.retry(&["n0000"], 1);
    family.worlds[next].unseen.insert(pod.clone(), row);
    let words = family.look(next).words();
    let at = |word: &str| words.iter().position(|found| *found == word);
    assert!(
        at("write_status").is_some() && at("write_status") < at("confirm_pod"),
        "{words:?}"
    );
    family.settle(next);
    family.settle(next);
    let world = &mut family.worlds[next];
    let waits = Some(yes(reasons::WAITING_FOR_JOB));
    assert_eq!(world.condition(types::RECONCILING), waits);
    let told = world.message(types::RECONCILING);
    let expected = format!("BroadcastJob fix-retry-1 was deleted at work; pod {pod} on node n0001");
    assert!(told.starts_with(&expected), "{told}");
    assert!(world.plan().wake.is_some() && world.created.is_empty());
    world.unseen.remove(&pod);
    family.run(next, 0);
    let unknown = (NodeState::Unknown, results::JOB_DELETED.to_owned());
    assert_eq!(family.worlds[gone].attempts("n0001"), [unknown]);
    assert_eq!(
        family.ended(next),
        (Some(yes(reasons::ALL_NODES_SUCCEEDED)), 1)
    );
}

#[test]
fn a_pod_that_has_not_ended_keeps_a_log_open_also_under_another_uid() {
    let mut family = Relatives::of(&["n0001"], json!({}));
    let gone = family.retry(&["n0001"], 0);
    family.settle(gone);
    family.worlds[gone].run_all();
    family.settle(gone);
    // It was deleted, and a creation that arrived late has made another one.
    let pod = family.worlds[gone].pod_on("n0001");
    let row = family.worlds[gone].pods.get_mut(&pod).unwrap();
    let old = std::mem::replace(&mut row.uid, crate::uid::Uid::MAX);
    family.gone.insert(gone);
    let next = family.retry(&["n0001"], 1);
    family.worlds[next].gone.insert(old);
    family.settle(next);
    assert!(!family.worlds[gone].slices[0].sealed);
    let told = family.worlds[next].message(types::RECONCILING);
    let expected = format!(
        "BroadcastJob fix-retry-1 was deleted at work; pod {pod} on node n0001 has not ended"
    );
    assert_eq!(told, expected);
    family.worlds[gone].pods.get_mut(&pod).unwrap().phase = PodPhase::Succeeded;
    family.settle(next);
    // What the other one has done is not the outcome of the attempt.
    let unknown = (NodeState::Unknown, results::JOB_DELETED.to_owned());
    assert_eq!(family.worlds[gone].attempts("n0001"), [unknown]);
    assert_eq!(family.ended(next), (Some(yes(reasons::ALREADY_TRIED)), 0));
}

#[test]
fn a_retry_that_lacks_the_slices_of_one_that_is_gone_goes_on_when_they_come() {
    let mut family = Relatives::of(&["n0001"], json!({}));
    let gone = family.retry(&["n0001"], 0);
    family.run(gone, 1);
    family.gone.insert(gone);
    let log = std::mem::take(&mut family.worlds[gone].slices);
    let next = family.retry(&["n0001"], 1);
    family.settle(next);
    let world = family.look(next);
    let stalled = Some(yes(reasons::RETRIED_JOB_GONE));
    assert_eq!(world.condition(types::STALLED), stalled);
    let soon = world.now + SignedDuration::from_secs(10);
    assert_eq!(world.plan().wake, Some(soon));
    family.worlds[gone].slices = log;
    family.run(next, 0);
    assert!(!family.worlds[next].is(types::STALLED));
    assert_eq!(
        family.ended(next),
        (Some(yes(reasons::ALL_NODES_SUCCEEDED)), 1)
    );
}

#[test]
fn a_log_that_ends_with_a_full_slice_without_a_seal_may_lack_one_and_is_not_closed() {
    let (mut family, names) = Relatives::failed_on_all(260);
    let nodes: Vec<&str> = names.iter().map(|name| &**name).collect();
    let gone = family.retry(&nodes, 0);
    family.worlds[gone].spec["parallelism"] = json!(300);
    family.run(gone, 0);
    assert!(family.worlds[gone].is(types::COMPLETE));
    family.gone.insert(gone);
    family.worlds[gone].pods.clear();
    let last = family.worlds[gone].slices.pop().unwrap();
    let next = family.retry(&["n0259"], 1);
    let slice = SliceWrite {
        index: 1,
        sealed: true,
        ..SliceWrite::default()
    };
    let close = Action::CloseLog {
        name: "fix-retry-1".into(),
        uid: family.worlds[gone].owner.uid,
        write: slice,
    };
    let closing = Plan {
        steps: vec![Step::needed(vec![close])],
        ..Plan::default()
    };
    let found = family.look(next).verify(&closing).unwrap_err().what;
    assert!(found.contains("is full, not sealed"), "{found}");
    family.run(next, 0);
    let world = &family.worlds[next];
    assert!(world.created.is_empty(), "n0259 succeeded and is run again");
    let stalled = Some(yes(reasons::RETRIED_JOB_GONE));
    assert_eq!(world.condition(types::STALLED), stalled);
    let told = world.message(types::STALLED);
    assert!(told.contains("is full and not sealed"), "{told}");
    assert_eq!(family.worlds[gone].slices.len(), 1);
    // It was not in the cache yet.
    family.worlds[gone].slices.push(last);
    family.run(next, 0);
    assert_eq!(
        family.ended(next),
        (Some(yes(reasons::ALREADY_SUCCEEDED)), 0)
    );
}

#[test]
fn a_log_that_was_left_open_is_closed_wherever_it_is_in_the_list() {
    let mut family = Relatives::of(&["n0000", "n0001"], json!({}));
    let gone = family.retry(&["n0001"], 0);
    family.run(gone, 1);
    let at_work = family.retry(&["n0001"], 1);
    family.settle(at_work);
    assert_eq!(family.worlds[at_work].created.len(), 1);
    // Somebody has taken the seal off, for instance by restoring a backup.
    family.gone.insert(gone);
    family.worlds[gone].slices[0].sealed = false;
    let next = family.retry(&["n0000"], 2);
    let closing = family.look(at_work).plan();
    family.settle(next);
    assert!(!family.worlds[gone].slices[0].sealed);
    let told = family.worlds[next].message(types::RECONCILING);
    assert_eq!(told, "BroadcastJob fix-retry-2 has not ended");
    let found = family.look(next).verify(&closing).unwrap_err().what;
    let expected = "written while job fix-retry-2 has not ended";
    assert!(found.contains(expected), "{found}");
    // Who is at work closes it, or whoever comes next.
    family.gone.insert(at_work);
    family.worlds[at_work].pods.clear();
    family.worlds[at_work].slices[0].sealed = true;
    for slice in &mut family.worlds[at_work].slices {
        for record in &mut slice.records {
            record.state = NodeState::Failed;
        }
    }
    family.run(next, 0);
    assert!(family.worlds[gone].slices[0].sealed);
    assert_eq!(
        family.ended(next),
        (Some(yes(reasons::ALL_NODES_SUCCEEDED)), 1)
    );
}

#[test]
fn who_has_the_turn_closes_a_log_that_is_found_open_before_it_goes_on() {
    let mut family = Relatives::of(&["n0000", "n0001"], json!({}));
    let gone = family.retry(&["n0001"], 0);
    family.run(gone, 1);
    let at_work = family.retry(&["n0000", "n0001"], 1);
    family.worlds[at_work].spec["parallelism"] = json!(1);
    family.settle(at_work);
    assert_eq!(family.worlds[at_work].created.len(), 1);
    family.gone.insert(gone);
    family.worlds[gone].slices[0].sealed = false;
    family.worlds[at_work].run_all();
    family.worlds[at_work].end("n0000", 0);
    let words = family.look(at_work).words();
    assert!(
        words.contains(&"close_log") && !words.contains(&"create_pod"),
        "{words:?}"
    );
    family.settle(at_work);
    assert!(family.worlds[gone].slices[0].sealed);
    assert_eq!(family.worlds[at_work].created.len(), 2);
}
