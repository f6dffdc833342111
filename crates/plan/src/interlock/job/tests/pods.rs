//! Pods that are created, removed and released.

use serde_json::{Value, json};

use super::{
    create, job, judge, judge_steps, now, on_true, pod, release, remove, stop, uid, verified, write,
};
use crate::interlock::job::rules;
use crate::job::action::{Action, Plan, Step};
use crate::job::unanswered::Unanswered;
use crate::job::{Job, JobPod, JobPods};
use crate::pod::PodPhase::{Failed, Pending, Running, Succeeded};

fn changed(n: u64, change: impl FnOnce(&mut JobPod)) -> (Box<str>, JobPod) {
    let (name, mut pod) = pod(n, Running, None);
    change(&mut pod);
    (name, pod)
}

/// How many pods a plan may create.
fn room(job: &Job, pods: &JobPods, indexes: impl Iterator<Item = Option<u32>>) -> usize {
    let mut actions = vec![Action::ConfirmCurrent];
    for (many, index) in indexes.enumerate() {
        actions.push(create(&format!("new{many}"), index));
        if let Err(rule) = judge(job, pods, actions.clone()) {
            assert_eq!(rule, rules::PARALLELISM);
            return many;
        }
    }
    panic!("there is no bound");
}

#[test]
fn as_many_pods_may_run_as_are_still_to_succeed_and_no_more_than_parallelism() {
    let listed = json!({"succeeded": [uid(7).to_string()], "failed": [uid(8).to_string()]});
    let none = JobPods::new();
    for (parallelism, completions, status, expected) in [
        (2, json!(6), json!({}), 2),
        (9, json!(6), json!({}), 6),
        (9, json!(6), json!({"succeeded": 5}), 1),
        (
            9,
            json!(6),
            json!({"succeeded": 2, "uncountedTerminatedPods": listed}),
            3,
        ),
        (9, json!(6), json!({"succeeded": 7}), 0),
        (9, json!(null), json!({"succeeded": 7}), 9),
        (0, json!(6), json!({}), 0),
    ] {
        let spec = json!({"parallelism": parallelism, "completions": completions});
        let found = room(&job(&spec, &status), &none, std::iter::repeat(None));
        assert_eq!(found, expected, "{spec} {status}");
    }
    let spec = json!({"parallelism": 9, "completions": 4, "completionMode": "Indexed"});
    // What lies beyond the completions of today is not asked for any more.
    let status = json!({"completedIndexes": "0,1,7", "succeeded": 3});
    assert_eq!(room(&job(&spec, &status), &none, (2..).map(Some)), 2);
}

#[test]
fn pods_that_were_told_to_stop_hold_their_place_only_where_failed_ones_alone_are_replaced() {
    let told = |n| changed(n, |pod| (pod.deleting, pod.index) = (true, Some(0)));
    let pods = JobPods::from([
        told(1),
        changed(2, |pod| (pod.phase, pod.index) = (Pending, Some(1))),
        changed(3, |pod| (pod.phase, pod.index) = (Failed, Some(2))),
        changed(4, |pod| (pod.phase, pod.index) = (Succeeded, Some(3))),
    ]);
    for (policy, expected, first) in [
        ("TerminatingOrFailed", 4, Ok(())),
        ("Failed", 3, Err(rules::ONE_PER_INDEX)),
    ] {
        let spec = json!({"parallelism": 5, "completions": 9, "completionMode": "Indexed",
            "podReplacementPolicy": policy});
        let indexed = job(&spec, &json!({}));
        assert_eq!(room(&indexed, &pods, (2..).map(Some)), expected, "{policy}");
        let again = vec![Action::ConfirmCurrent, create("new", Some(0))];
        assert_eq!(judge(&indexed, &pods, again), first, "{policy}");
    }
}

#[test]
fn a_job_that_ends_by_the_same_plan_or_is_being_deleted_starts_nothing() {
    let spec = json!({"parallelism": 2, "completions": 6});
    let creates = || vec![Action::ConfirmCurrent, create("new", None)];
    let none = JobPods::new();
    let open = job(&spec, &json!({}));
    let ends = write(json!({"conditions": on_true(&["FailureTarget"])}));
    for (write, verdict) in [(ends, Err(rules::STARTS)), (write(json!({})), Ok(()))] {
        let plan = [creates(), vec![write]].concat();
        assert_eq!(judge(&open, &none, plan), verdict);
    }
    let mut deleted = open;
    deleted.meta.deleting = true;
    assert_eq!(judge(&deleted, &none, creates()), Err(rules::STARTS));
    // A condition that is False says nothing.
    let denied = json!({"conditions": [{"type": "FailureTarget", "status": "False"}]});
    assert_eq!(judge(&job(&spec, &denied), &none, creates()), Ok(()));
}

#[test]
fn only_an_answer_that_can_stop_the_plan_is_one() {
    let open = job(&json!({"parallelism": 2}), &json!({}));
    let adopt = Action::AdoptPod {
        name: "p1".to_owned(),
        uid: uid(1),
    };
    for action in [create("new", None), adopt, Action::DeleteJob] {
        let asked = |first: Step| {
            let steps = vec![first, Step::needed(vec![action.clone()])];
            judge_steps(&open, &JobPods::new(), steps)
        };
        let unheard = asked(Step::wanted(vec![Action::ConfirmCurrent]));
        assert_eq!(unheard, Err(rules::CONFIRMED_FIRST), "{action:?}");
        let heard = asked(Step::needed(vec![Action::ConfirmCurrent]));
        assert_ne!(heard, Err(rules::CONFIRMED_FIRST), "{action:?}");
    }
}

#[test]
fn a_plan_makes_no_two_pods_of_one_name_or_index_and_none_of_an_index_that_is_over() {
    let verdict = |spec: &Value, status: &Value, pods: &[(&str, Option<u32>)]| {
        let creates = pods.iter().map(|(name, index)| create(name, *index));
        let actions = [Action::ConfirmCurrent].into_iter().chain(creates);
        judge(&job(spec, status), &JobPods::new(), actions.collect())
    };
    let plain = json!({"parallelism": 5, "completions": 9});
    let indexed = json!({"parallelism": 5, "completions": 9, "completionMode": "Indexed"});
    let mut limited = indexed.clone();
    limited["backoffLimitPerIndex"] = json!(1);
    let failed = json!({"failedIndexes": "3"});
    let none = json!({});
    for (spec, status, pods, passes) in [
        (&plain, &none, &[("a", None), ("b", None)][..], true),
        (&plain, &none, &[("a", None), ("a", None)], false),
        (&plain, &none, &[("a", Some(1))], false),
        (&indexed, &none, &[("a", Some(1)), ("b", Some(8))], true),
        (&indexed, &none, &[("a", Some(1)), ("b", Some(1))], false),
        (&indexed, &none, &[("a", Some(1)), ("a", Some(2))], false),
        (&indexed, &none, &[("a", Some(9))], false),
        (&limited, &failed, &[("a", Some(3))], false),
        (&limited, &failed, &[("a", Some(4))], true),
        // Without a limit for each index none fails for good.
        (&indexed, &failed, &[("a", Some(3))], true),
    ] {
        let expected = if passes {
            Ok(())
        } else {
            Err(rules::ONE_PER_INDEX)
        };
        assert_eq!(
            verdict(spec, status, pods),
            expected,
            "{spec} {status} {pods:?}"
        );
    }
}

#[test]
fn pods_are_removed_when_they_are_too_many_stand_for_nothing_or_the_job_is_suspended() {
    let of_index = |n, index| changed(n, move |pod| pod.index = index);
    let done = |n, tracked| {
        changed(n, move |pod| {
            (pod.phase, pod.tracked) = (Succeeded, tracked);
        })
    };
    let told = changed(2, |pod| pod.deleting = true);
    let plain = json!({"parallelism": 2, "completions": 2});
    let suspended = json!({"parallelism": 2, "completions": 2, "suspend": true});
    let indexed = json!({"parallelism": 4, "completions": 4, "completionMode": "Indexed"});
    let one = || pod(1, Running, None);
    for (what, spec, pods, passes) in [
        (
            "as many as may run",
            &plain,
            vec![one(), pod(2, Running, None)],
            false,
        ),
        (
            "one too many",
            &plain,
            vec![one(), pod(2, Pending, None), pod(3, Running, None)],
            true,
        ),
        (
            "one has succeeded meanwhile",
            &plain,
            vec![one(), pod(2, Running, None), done(3, true)],
            true,
        ),
        (
            "with the last success",
            &plain,
            vec![one(), done(3, true)],
            false,
        ),
        (
            "one that has succeeded is counted",
            &plain,
            vec![one(), pod(2, Running, None), done(3, false)],
            false,
        ),
        (
            "another one stops",
            &plain,
            vec![one(), told, pod(3, Running, None)],
            false,
        ),
        ("suspended", &suspended, vec![one()], true),
        ("no index", &indexed, vec![one()], true),
        ("beyond", &indexed, vec![of_index(1, Some(4))], true),
        (
            "the last index",
            &indexed,
            vec![of_index(1, Some(3))],
            false,
        ),
        (
            "the second of its index",
            &indexed,
            vec![of_index(1, Some(0)), of_index(2, Some(0))],
            true,
        ),
        (
            "another index",
            &indexed,
            vec![of_index(1, Some(0)), of_index(2, Some(1))],
            false,
        ),
    ] {
        let expected = if passes { Ok(()) } else { Err(rules::DELETE) };
        let pods: JobPods = pods.into_iter().collect();
        let found = judge(&job(spec, &json!({})), &pods, vec![remove(1)]);
        assert_eq!(found, expected, "{what}");
    }
}

#[test]
fn a_plan_does_not_remove_pods_and_create_others() {
    let spec = json!({"parallelism": 4, "completions": 4, "completionMode": "Indexed"});
    let pods = JobPods::from([pod(1, Running, None)]);
    let create = create("new", Some(0));
    let both = vec![Action::ConfirmCurrent, remove(1), create];
    assert_eq!(
        judge(&job(&spec, &json!({})), &pods, both),
        Err(rules::PARALLELISM)
    );
}

#[test]
fn a_pod_that_has_ended_is_released_when_it_is_listed_or_is_not_to_be_counted() {
    let plain = json!({"parallelism": 2, "completions": 6});
    let indexed = json!({"parallelism": 2, "completions": 6, "completionMode": "Indexed"});
    let codes = json!({"operator": "In", "values": [3]});
    let rules_ = json!({"rules": [{"action": "Ignore", "onExitCodes": codes}]});
    let ruled = json!({"parallelism": 2, "completions": 6, "podFailurePolicy": rules_});
    let none = json!({});
    let list = |which: &str| json!({"uncountedTerminatedPods": {which: [uid(1).to_string()]}});
    let (succeeded, failed) = (list("succeeded"), list("failed"));
    let over = json!({"conditions": on_true(&["Complete"])});
    let known = json!({"completedIndexes": "1", "failedIndexes": "2"});
    for (spec, status, (phase, index), passes) in [
        (&plain, &none, (Running, None), true),
        (&plain, &none, (Failed, None), false),
        (&plain, &none, (Succeeded, None), false),
        (&plain, &failed, (Failed, None), true),
        (&plain, &succeeded, (Succeeded, None), true),
        (&plain, &over, (Failed, None), true),
        (&ruled, &none, (Failed, None), true),
        (&ruled, &none, (Succeeded, None), false),
        (&indexed, &none, (Succeeded, None), true),
        (&indexed, &none, (Failed, Some(6)), true),
        (&indexed, &none, (Failed, Some(5)), false),
        (&indexed, &known, (Succeeded, Some(0)), false),
        (&indexed, &known, (Succeeded, Some(1)), true),
        (&indexed, &known, (Succeeded, Some(2)), true),
        (&indexed, &known, (Failed, Some(1)), false),
        (&indexed, &known, (Failed, Some(2)), false),
    ] {
        let expected = if passes { Ok(()) } else { Err(rules::RELEASE) };
        let pods = JobPods::from([pod(1, phase, index)]);
        let found = judge(&job(spec, status), &pods, vec![release(1)]);
        assert_eq!(found, expected, "{spec} {status} {phase:?} {index:?}");
    }
    // Of that name there is another one by now.
    let other = JobPods::from([("p1".into(), pod(2, Running, None).1)]);
    let open = job(&plain, &none);
    assert_eq!(judge(&open, &other, vec![release(1)]), Err(rules::RELEASE));
    assert_eq!(judge(&open, &other, vec![stop(1)]), Err(rules::DELETE));
}

#[test]
fn what_a_status_lists_is_stored_only_if_the_plan_stops_without_it() {
    let open = job(&json!({"parallelism": 2, "completions": 6}), &json!({}));
    let pods = JobPods::from([pod(1, Failed, None)]);
    let listed = json!({"uncountedTerminatedPods": {"failed": [uid(1).to_string()]}});
    let plan = |write: Step| judge_steps(&open, &pods, vec![write, Step::needed(vec![release(1)])]);
    assert_eq!(plan(Step::needed(vec![write(listed.clone())])), Ok(()));
    assert_eq!(plan(Step::wanted(vec![write(listed)])), Err(rules::RELEASE));
}

#[test]
fn a_pod_that_may_still_come_keeps_its_place() {
    let indexed = json!({"parallelism": 3, "completions": 9, "completionMode": "Indexed"});
    for (spec, unanswered, names, verdict) in [
        (json!({"parallelism": 2}), "a", &[][..], Ok(())),
        (json!({"parallelism": 2}), "a", &["a", "b"], Ok(())),
        (json!({"parallelism": 2}), "a", &["b"], Ok(())),
        (
            json!({"parallelism": 2}),
            "a",
            &["b", "c"],
            Err(rules::UNANSWERED),
        ),
        (indexed.clone(), "sum-1-x", &["sum-0-x", "sum-2-y"], Ok(())),
        (
            indexed.clone(),
            "sum-1-x",
            &["sum-1-x", "sum-2-y", "sum-3-y"],
            Ok(()),
        ),
        (
            indexed.clone(),
            "sum-1-x",
            &["sum-0-x", "sum-1-y"],
            Err(rules::UNANSWERED),
        ),
        (
            indexed,
            "sum-8-x",
            &["sum-0-x", "sum-1-y", "sum-2-z"],
            Err(rules::UNANSWERED),
        ),
    ] {
        let open = job(&spec, &json!({}));
        let unanswered: Unanswered = [(unanswered.to_owned(), now())].into();
        let creates = names.iter().enumerate().map(|(n, name)| {
            let index = open.spec.is_indexed().then_some(n as u32);
            create(name, index)
        });
        let actions = [Action::ConfirmCurrent].into_iter().chain(creates);
        let plan = Plan {
            steps: actions.map(|action| Step::needed(vec![action])).collect(),
            ..Plan::default()
        };
        let found = verified(&open, &unanswered, &plan);
        assert_eq!(found, verdict, "{names:?}");
    }
}
