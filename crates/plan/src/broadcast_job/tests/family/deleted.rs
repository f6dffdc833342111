//! A retry that is deleted at work: what its pods have done, its promises, and its slices.

use super::*;

/// In all other places a pod that was told to stop and then ends with 0 has not done its work.
#[test]
fn a_pod_that_was_told_to_stop_has_not_succeeded_when_the_log_of_its_retry_is_closed() {
    let mut family = Relatives::of(&["n0001"], json!({}));
    let gone = family.retry(&["n0001"], 0);
    family.settle(gone);
    family.worlds[gone].run_all();
    family.settle(gone);
    // `kubectl delete`: garbage collection tells the pod to stop, and its program ends with 0.
    let pod = family.worlds[gone].pod_on("n0001");
    family.gone.insert(gone);
    family.worlds[gone].delete(&pod);
    family.worlds[gone].pass(5);
    let now = family.worlds[gone].now;
    let row = family.worlds[gone].pods.get_mut(&pod).unwrap();
    row.phase = PodPhase::Succeeded;
    let end = crate::pod::End {
        exit_code: Some(0),
        finished: Some(now),
        ..crate::pod::End::default()
    };
    row.end = Some(Box::new(end));
    assert!(row.interrupted && crate::pod::interrupted(row));
    let next = family.retry(&["n0001"], 1);
    family.run(next, 0);
    let (state, _) = &family.worlds[gone].attempts("n0001")[0];
    assert_eq!((*state, family.ended(next).1), (NodeState::Unknown, 1));
}

/// Its slice belongs to the first job, too, and so does not tell that the retry is gone.
#[test]
fn a_promise_of_a_retry_is_not_kept_without_asking_whether_the_retry_is_there() {
    let mut family = Relatives::of(&["n0001"], json!({"executionPolicy": "AtMostOnce"}));
    let retry = family.retry(&["n0001"], 0);
    family.worlds[retry].spec["executionPolicy"] = json!("AtMostOnce");
    while family.worlds[retry].created.is_empty() {
        family.look(retry).crash_after(1);
        family.store(retry);
    }
    // Another leader has not seen the pod. Meanwhile it has run, and the retry was deleted with it.
    let pod = family.worlds[retry].pod_on("n0001");
    family.worlds[retry].pods.remove(&pod);
    family.worlds[retry].uids.clear();
    let words = family.look(retry).words();
    assert!(words.contains(&"create_pod"), "{words:?}");
    assert!(words.contains(&"confirm_job"), "{words:?}");
}

#[test]
fn a_retry_of_250_nodes_that_is_deleted_at_work_keeps_no_other_from_its_turn() {
    let (mut family, names) = Relatives::failed_on_all(250);
    let nodes: Vec<&str> = names.iter().map(|name| &**name).collect();
    let gone = family.retry(&nodes, 0);
    family.worlds[gone].spec["parallelism"] = json!(250);
    family.settle(gone);
    // All of its pods run, for an hour, say. Then it is deleted, and all of them have ended.
    family.worlds[gone].run_all();
    family.settle(gone);
    family.worlds[gone].pass(3600);
    for name in &names {
        family.worlds[gone].end(name, 1);
    }
    family.gone.insert(gone);
    let next = family.retry(&["n0001"], 1);
    family.worlds[next].now = family.worlds[gone].now;
    family.run(next, 0);
    let told = family.worlds[next].condition(types::STALLED);
    assert_eq!(told.filter(|(stalled, _)| *stalled), None);
    assert_eq!(family.ended(next).1, 1);
}

/// Somebody has taken it from the job before its uid was stored, and its name was found taken.
#[test]
fn a_pod_whose_attempt_ended_by_a_name_conflict_holds_its_node_for_the_family() {
    let mut first = World::new(1, json!({"failurePolicy": {"type": "Continue"}}));
    first.owner = ObjectKey::of(BROADCAST_JOB, "ops", "fix", first.uid());
    while first.created.is_empty() {
        first.crash_after(usize::MAX);
    }
    let pod = first.pod_on("n0000");
    first.run_all();
    first.take_owner(&pod);
    first.uids.clear();
    first.conflicts.insert(pod.clone());
    first.run_to_the_end();
    assert_eq!(first.attempts("n0000")[0].1, results::NAME_CONFLICT);
    let mut family = Relatives {
        worlds: vec![first],
        gone: BTreeSet::new(),
    };
    let retry = family.retry(&["n0000"], 0);
    family.settle(retry);
    assert!(family.worlds[retry].created.is_empty());
    family.worlds[0].unowned.clear();
    family.run(retry, 0);
    assert_eq!(family.ended(retry).1, 1);
}
