//! What a status may say.

use serde_json::{Value, json};

use super::{job, judge, now, on_true, pod, uid, write};
use crate::interlock::job::{refuse, rules};
use crate::interlock::{TRIPPED_RECHECK, Trip};
use crate::job::JobPods;
use crate::pod::PodPhase::{Running, Succeeded};

fn uids(all: &[u64]) -> Vec<String> {
    all.iter().map(|n| uid(*n).to_string()).collect()
}

fn counts(lists: [&[u64]; 2], succeeded: i32, failed: i32) -> Value {
    let [of_succeeded, of_failed] = lists.map(uids);
    json!({
        "succeeded": succeeded, "failed": failed,
        "uncountedTerminatedPods": {"succeeded": of_succeeded, "failed": of_failed},
    })
}

#[test]
fn what_stays_once_it_is_true_is_not_taken_back_and_complete_is_not_failed() {
    let spec = json!({"parallelism": 1, "completions": 9});
    let conditions = |types: &[&str]| json!({"conditions": on_true(types), "failed": 2});
    let other = json!({"conditions": [{"type": "Complete", "status": "False"},
        {"type": "Suspended", "status": "True"}], "failed": 2});
    let open = conditions(&[]);
    for (old, new, passes) in [
        (conditions(&["Complete"]), open.clone(), false),
        (conditions(&["Failed"]), open.clone(), false),
        (conditions(&["FailureTarget"]), open.clone(), false),
        (conditions(&["SuccessCriteriaMet"]), open.clone(), false),
        (
            conditions(&["FailureTarget"]),
            conditions(&["FailureTarget", "Failed"]),
            true,
        ),
        (open.clone(), conditions(&["Complete", "Failed"]), false),
        (other, open.clone(), true),
        (open.clone(), json!({"failed": 1}), false),
        (open.clone(), open, true),
    ] {
        let expected = if passes { Ok(()) } else { Err(rules::TERMINAL) };
        let found = judge(&job(&spec, &old), &JobPods::new(), vec![write(new.clone())]);
        assert_eq!(found, expected, "{old} {new}");
    }
}

#[test]
fn a_job_ends_when_nothing_runs_and_nothing_is_left_to_count() {
    let spec = json!({"parallelism": 1, "completions": 9});
    let target = json!({"conditions": on_true(&["FailureTarget"]),
        "uncountedTerminatedPods": {"failed": uids(&[1])}});
    let ends = |left: &[u64], failed: i32| {
        let mut status = counts([&[], left], 0, failed);
        status["conditions"] = on_true(&["FailureTarget", "Failed"]);
        write(status)
    };
    let runs = JobPods::from([pod(2, Running, None)]);
    let ended = JobPods::from([pod(2, Succeeded, None)]);
    for (pods, left, failed, passes) in [
        (&ended, &[][..], 1, true),
        (&ended, &[1], 0, false),
        (&runs, &[], 1, false),
        (&runs, &[1], 0, false),
    ] {
        let expected = if passes { Ok(()) } else { Err(rules::END) };
        let found = judge(&job(&spec, &target), pods, vec![ends(left, failed)]);
        assert_eq!(found, expected, "{left:?}");
    }
    // Of one that is being deleted not all pods are looked at.
    let mut deleted = job(&spec, &target);
    deleted.meta.deleting = true;
    assert_eq!(judge(&deleted, &runs, vec![ends(&[1], 0)]), Ok(()));
}

#[test]
fn successes_are_counted_of_what_is_stored_and_of_pods_that_may_still_be_counted() {
    let reached = |type_: &str, reason: &str, status: Value| {
        let mut status = status;
        status["conditions"] = json!([{"type": type_, "status": "True", "reason": reason}]);
        status
    };
    let met = |status: Value| reached("SuccessCriteriaMet", "CompletionsReached", status);
    let three = json!({"parallelism": 1, "completions": 3});
    let queue = json!({"parallelism": 1});
    let indexed = json!({"parallelism": 1, "completions": 3, "completionMode": "Indexed"});
    let written = |text: &str| json!({"completedIndexes": text});
    // Pod 1 has succeeded, pod 2 has succeeded and was released, pod 3 runs.
    let mut pods = JobPods::from([
        pod(1, Succeeded, Some(2)),
        pod(2, Succeeded, Some(1)),
        pod(3, Running, Some(0)),
    ]);
    pods.get_mut("p2").unwrap().tracked = false;
    let listed = |all: &[u64]| counts([all, &[]], 1, 0);
    for (spec, old, new, passes) in [
        (
            &three,
            counts([&[], &[]], 2, 0),
            counts([&[], &[]], 2, 0),
            true,
        ),
        (
            &three,
            counts([&[], &[]], 1, 0),
            counts([&[], &[]], 1, 0),
            false,
        ),
        (&three, listed(&[2]), listed(&[1, 2]), true),
        (&three, listed(&[2]), listed(&[2]), true),
        (&three, listed(&[]), listed(&[1]), false),
        (&queue, json!({}), json!({}), true),
        (&indexed, written("0,1"), written("0,1"), true),
        (&indexed, written("0,2"), written("0,2"), false),
        (&indexed, written("0,3"), written("0,3"), false),
    ] {
        let verdict = |status: Value| judge(&job(spec, &old), &pods, vec![write(status)]);
        let expected = if passes { Ok(()) } else { Err(rules::END) };
        assert_eq!(verdict(met(new.clone())), expected, "{spec} {new}");
        // Who ends early says so, and this reason is no other condition's.
        let early = reached("SuccessCriteriaMet", "SuccessPolicy", new.clone());
        assert_eq!(verdict(early), Ok(()));
        let other = reached("Suspended", "CompletionsReached", new);
        assert_eq!(verdict(other), Ok(()));
    }
    // It was told before, and completions may have been raised since.
    let told = met(counts([&[], &[]], 1, 0));
    assert_eq!(
        judge(&job(&three, &told), &pods, vec![write(told.clone())]),
        Ok(())
    );
    let outside = JobPods::from([pod(1, Succeeded, Some(3))]);
    let status = met(written("0,1"));
    assert_eq!(
        judge(
            &job(&indexed, &written("0,1")),
            &outside,
            vec![write(status)]
        ),
        Err(rules::END)
    );
}

#[test]
#[allow(clippy::too_many_lines)] // a table
fn a_uid_is_listed_of_a_pod_that_is_held_and_counted_when_that_is_released() {
    let plain = json!({"parallelism": 1, "completions": 9});
    let indexed = json!({"parallelism": 1, "completions": 9, "completionMode": "Indexed"});
    // Pods 1 and 2 are held, pod 3 was released.
    let mut pods = JobPods::from([1, 2, 3].map(|n| pod(n, Succeeded, Some(0))));
    pods.get_mut("p3").unwrap().tracked = false;
    let none: &[u64] = &[];
    for (what, old, new, plain_passes, indexed_passes) in [
        (
            "nothing",
            ([none, none], 0, 0),
            ([none, none], 0, 0),
            true,
            true,
        ),
        (
            "listed",
            ([none, none], 0, 0),
            ([&[1], &[2]], 0, 0),
            true,
            true,
        ),
        (
            "stays",
            ([&[1, 3], none], 0, 0),
            ([&[1, 3], none], 0, 0),
            true,
            true,
        ),
        (
            "counted",
            ([&[3], none], 4, 0),
            ([none, none], 5, 0),
            true,
            true,
        ),
        (
            "counted as failed",
            ([none, &[3]], 0, 4),
            ([none, none], 0, 5),
            true,
            true,
        ),
        (
            "gone and counted",
            ([none, &[8]], 0, 4),
            ([none, none], 0, 5),
            true,
            true,
        ),
        (
            "in both",
            ([none, none], 0, 0),
            ([&[1], &[1]], 0, 0),
            false,
            false,
        ),
        (
            "released before",
            ([none, none], 0, 0),
            ([&[3], none], 0, 0),
            false,
            false,
        ),
        (
            "of no pod",
            ([none, none], 0, 0),
            ([none, &[8]], 0, 0),
            false,
            false,
        ),
        (
            "still held",
            ([&[1], none], 0, 0),
            ([none, none], 1, 0),
            false,
            false,
        ),
        (
            "forgotten",
            ([none, &[3]], 0, 0),
            ([none, none], 0, 0),
            false,
            false,
        ),
        (
            "counted twice",
            ([none, &[3]], 0, 0),
            ([none, none], 0, 2),
            false,
            false,
        ),
        (
            "never listed",
            ([none, none], 0, 0),
            ([none, none], 0, 1),
            false,
            false,
        ),
        // An index is counted by being what it is.
        (
            "a success that was not listed",
            ([none, none], 0, 0),
            ([none, none], 1, 0),
            false,
            true,
        ),
        (
            "the other counter",
            ([&[3], none], 0, 0),
            ([none, none], 0, 1),
            false,
            false,
        ),
    ] {
        let [old, new] = [old, new].map(|(lists, done, failed)| counts(lists, done, failed));
        for (spec, passes) in [(&plain, plain_passes), (&indexed, indexed_passes)] {
            let expected = if passes { Ok(()) } else { Err(rules::COUNTS) };
            let found = judge(&job(spec, &old), &pods, vec![write(new.clone())]);
            assert_eq!(found, expected, "{what}: {spec}");
        }
    }
}

#[test]
fn a_plan_that_is_refused_is_told_and_looked_at_again_in_a_minute() {
    let trip = Trip {
        rule: rules::COUNTS,
        what: "7 is counted twice".to_owned(),
    };
    let plan = refuse(&trip, now());
    assert_eq!(plan.wake, now().checked_add(TRIPPED_RECHECK).ok());
    assert!(plan.steps.is_empty());
    let [note] = &*plan.notes else {
        panic!("{:?}", plan.notes);
    };
    assert!(note.warning && note.message.contains(&trip.to_string()));
}
