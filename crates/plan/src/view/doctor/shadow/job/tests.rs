use super::super::job_pods::PodsOfJobs;
use super::*;

const UID: &str = "4e0c5d6a-0b1c-4d2e-8f3a-000000000001";

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).unwrap()
}

fn uid(n: u32) -> String {
    format!("4e0c5d6a-0b1c-4d2e-8f3a-{n:012x}")
}

/// A Job as kube-controller-manager leaves it; `spec` and `status` are laid over a usable one.
fn object(spec: &Value, status: &Value) -> Value {
    let mut object = json!({
        "metadata": {"namespace": "ops", "name": "sum", "uid": UID, "creationTimestamp": at(0).to_string(),
            "managedFields": [{"subresource": "status", "time": at(5).to_string()}]},
        "spec": {"parallelism": 2, "completions": 5,
            "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": UID}},
            "template": {"spec": {"restartPolicy": "Never"}}},
        "status": {"startTime": at(0).to_string(), "active": 2, "ready": 0, "terminating": 0,
            "uncountedTerminatedPods": {}},
    });
    for (part, fields) in [("spec", spec), ("status", status)] {
        for (key, value) in fields.as_object().into_iter().flatten() {
            object[part][key] = value.clone();
        }
    }
    object
}

/// A pod of it; whether it is to be counted, and what of it is otherwise.
fn pod(n: u32, phase: &str, tracked: bool) -> Value {
    let finalizers: &[&str] = if tracked {
        &["batch.kubernetes.io/job-tracking"]
    } else {
        &[]
    };
    let ended = json!([{"name": "c", "state": {"terminated": {"exitCode": 3, "finishedAt": at(4).to_string()}}}]);
    let has_ended = matches!(phase, "Failed" | "Succeeded");
    json!({
        "metadata": {"namespace": "ops", "name": format!("sum-{n}"), "uid": uid(10 + n), "finalizers": finalizers,
            "creationTimestamp": at(1).to_string(),
            "labels": {"batch.kubernetes.io/controller-uid": UID},
            "annotations": {"batch.kubernetes.io/job-completion-index": (n - 1).to_string()},
            "ownerReferences": [
                {"apiVersion": "batch/v1", "kind": "Job", "uid": UID, "controller": true}]},
        "status": {"phase": phase, "containerStatuses": if has_ended { ended } else { json!([]) }},
    })
}

fn running(n: u32) -> Value {
    pod(n, "Running", true)
}

fn shadow(object: &Value, pods: &[Value], now: i64) -> Shadow {
    let stored = StoredJob::read(object).unwrap();
    let mut known = PodsOfJobs::default();
    for pod in pods {
        known.add(pod);
    }
    let owner = stored.owner();
    job(&stored, known.owned(owner), known.free("ops"), at(now))
}

fn words(shadow: &Shadow) -> Vec<String> {
    let all = shadow.done.iter();
    all.map(|(verb, object)| format!("{verb}: {object}"))
        .collect()
}

fn told(type_: &str, reason: &str) -> Value {
    json!({"type": type_, "status": "True", "reason": reason, "message": "m",
               "lastTransitionTime": at(8).to_string()})
}

/// An Indexed Job of which each index may fail once.
fn indexed() -> Value {
    json!({"completionMode": "Indexed", "backoffLimitPerIndex": 1})
}

#[test]
fn with_a_job_that_kube_controller_manager_is_done_with_nothing_would_be_done() {
    let none = json!({});
    let suspended = json!([told("Suspended", "JobSuspended")]);
    let mut suspended = object(
        &json!({"suspend": true}),
        &json!({"active": 0, "conditions": suspended}),
    );
    suspended["status"]["conditions"][0]["message"] = json!("Job suspended");
    suspended["status"]
        .as_object_mut()
        .unwrap()
        .remove("startTime");
    let ended = json!([
        told("SuccessCriteriaMet", "CompletionsReached"),
        told("Complete", "CompletionsReached")
    ]);
    let failed = json!([told("Failed", "BackoffLimitExceeded")]);
    for (what, object, pods) in [
        (
            "it runs",
            object(&none, &none),
            vec![running(1), running(2)],
        ),
        ("it is suspended", suspended, vec![]),
        (
            "some have succeeded",
            object(&none, &json!({"succeeded": 4, "active": 1})),
            vec![running(1), pod(2, "Succeeded", false)],
        ),
        (
            "a failed pod is replaced when its back-off is over",
            object(&none, &json!({"failed": 1, "active": 1})),
            vec![running(1), pod(2, "Failed", false)],
        ),
        (
            "a failed pod of an index waits for its back-off",
            object(&indexed(), &json!({"active": 1})),
            vec![running(1), pod(2, "Failed", true)],
        ),
        (
            "it is complete",
            object(
                &none,
                &json!({"succeeded": 5, "active": 0, "conditions": ended}),
            ),
            vec![],
        ),
        (
            "it has failed, in a Kubernetes that does not say what it has decided",
            object(
                &none,
                &json!({"failed": 7, "active": 0, "conditions": failed}),
            ),
            vec![],
        ),
    ] {
        let mut object = object;
        if what.contains("index") {
            object["status"]["completedIndexes"] = json!("2-4");
            object["status"]["succeeded"] = json!(3);
        }
        let shadow = shadow(&object, &pods, 6);
        assert_eq!(
            (words(&shadow), shadow.not_compared),
            (vec![], None),
            "{what}"
        );
    }
}

/// Panics unless each of these is among what would be done.
#[track_caller]
fn assert_done(cases: &[(Value, Vec<Value>, i64, &str)]) {
    for (object, pods, now, says) in cases {
        let shadow = shadow(object, pods, *now);
        let words = words(&shadow);
        assert!(
            words.iter().any(|one| one.contains(says)),
            "{says}: {words:#?}"
        );
    }
}

#[test]
fn pods_that_would_be_created_or_deleted_name_the_field_that_it_follows_from() {
    let none = json!({});
    let both = || vec![running(1), running(2)];
    let one_failed = json!({"active": 1, "completedIndexes": "2-4", "succeeded": 3});
    assert_done(&[
        (
            object(&none, &none),
            vec![running(1)],
            6,
            "create a pod (spec.parallelism 2, spec.completions 5): sum-",
        ),
        (
            object(&json!({"parallelism": 1}), &none),
            both(),
            6,
            "delete a pod (1 more than spec.parallelism 1, spec.completions 5): sum-",
        ),
        (
            object(&json!({"suspend": true}), &none),
            both(),
            6,
            "delete a pod (spec.suspend): sum-1",
        ),
        (
            object(&json!({"suspend": true}), &none),
            both(),
            6,
            "suspend it: spec.suspend",
        ),
        (
            object(&indexed(), &one_failed),
            vec![running(1), pod(2, "Failed", true)],
            60,
            "for index 1",
        ),
    ]);
}

#[test]
fn an_end_that_would_come_names_the_field_that_it_follows_from() {
    let (none, both) = (json!({}), vec![running(1), running(2)]);
    let deadline = object(&json!({"activeDeadlineSeconds": 60}), &none);
    let ended = json!([
        told("SuccessCriteriaMet", "CompletionsReached"),
        told("Complete", "CompletionsReached")
    ]);
    let ended = json!({"succeeded": 5, "active": 0, "conditions": ended});
    assert_done(&[
        (
            deadline.clone(),
            both.clone(),
            61,
            "fail it: DeadlineExceeded (spec.activeDeadlineSeconds)",
        ),
        (deadline, both, 61, "delete a pod (the Job ends): sum-1"),
        (
            object(&json!({"backoffLimit": 0}), &none),
            vec![running(1), pod(2, "Failed", true)],
            6,
            "fail it: BackoffLimitExceeded (spec.backoffLimit)",
        ),
        (
            object(&json!({"ttlSecondsAfterFinished": 30}), &ended),
            vec![],
            60,
            "delete it: spec.ttlSecondsAfterFinished 30",
        ),
        (
            object(&none, &ended),
            vec![pod(1, "Succeeded", true)],
            9,
            "let a pod go (finalizer batch.kubernetes.io/job-tracking): sum-1",
        ),
    ]);
}

#[test]
fn pods_that_would_be_counted_adopted_or_given_away_are_named() {
    let none = json!({});
    let changed = |n: u32, field: &str, value: Value| {
        let mut pod = running(n);
        pod["metadata"][field] = value;
        pod
    };
    let free = changed(3, "ownerReferences", json!([]));
    let relabelled = changed(2, "labels", json!({}));
    assert_done(&[
        (
            object(&none, &none),
            vec![running(1), pod(2, "Succeeded", true)],
            6,
            "count a pod, and take its finalizer: sum-2",
        ),
        (
            object(&none, &none),
            vec![running(1), running(2), free],
            6,
            "adopt a pod (spec.selector): sum-3",
        ),
        (
            object(&none, &none),
            vec![running(1), relabelled],
            6,
            "give a pod away (spec.selector): sum-2",
        ),
        (
            object(&none, &json!({"active": 1})),
            vec![running(1), running(2)],
            6,
            "write its status: active 1 -> 2",
        ),
    ]);
}

#[test]
fn of_pods_that_may_wait_for_a_back_off_nobody_sees_nothing_is_said() {
    let gone = object(&json!({}), &json!({"failed": 3, "active": 1}));
    let pods = [running(1)];
    let early = shadow(&gone, &pods, 40);
    assert_eq!(
        (words(&early), early.not_compared),
        (vec![], Some(BACKOFF_UNKNOWN))
    );
    // The status was last written at 5, and the third failure holds creations back for 40 s.
    let late = shadow(&gone, &pods, 46);
    assert!(words(&late)[0].starts_with("create a pod"), "{late:?}");
    assert_eq!(late.not_compared, None);
    let rules = json!([{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]);
    let ignores = object(
        &json!({"podFailurePolicy": {"rules": rules}}),
        &json!({"active": 1}),
    );
    assert_eq!(
        shadow(&ignores, &pods, 500).not_compared,
        Some(BACKOFF_UNKNOWN)
    );
    assert_eq!(shadow(&ignores, &pods, 606).not_compared, None);
}

#[test]
fn a_job_that_has_ended_otherwise_than_was_decided_is_a_difference() {
    let ended = |conditions: &[Value]| {
        let status = json!({"succeeded": 5, "active": 0, "conditions": conditions});
        shadow(&object(&json!({}), &status), &[], 9)
    };
    let contrary = ended(&[
        told("FailureTarget", "DeadlineExceeded"),
        told("Complete", "CompletionsReached"),
    ]);
    let says = "have ended it as was decided: Failed DeadlineExceeded, and not Complete CompletionsReached";
    assert_eq!(words(&contrary), [says]);
    let unfounded = ended(&[told("Failed", "PodFailurePolicy")]);
    assert_eq!(
        (words(&unfounded), unfounded.not_compared),
        (vec![], Some(END_UNKNOWN))
    );
}

#[test]
fn jobs_of_others_and_of_a_mode_that_nobody_knows_are_not_compared() {
    for (managed_by, read) in [
        (None, true),
        (Some("kubernetes.io/job-controller"), true),
        (Some("carillon.dev/job-controller"), false),
        (Some("example.com/other"), false),
    ] {
        let object = object(&json!({"managedBy": managed_by}), &json!({}));
        assert_eq!(StoredJob::read(&object).is_some(), read, "{managed_by:?}");
    }
    let later = object(&json!({"completionMode": "Later"}), &json!({}));
    assert_eq!(shadow(&later, &[], 9).not_compared, Some(MODE_UNKNOWN));
}

#[test]
fn what_is_said_once_is_said_only_if_it_is_said_again_of_the_same_status() {
    let (none, one) = (json!({}), json!({"active": 1}));
    let both = [running(1), running(2)];
    let first = shadow(&object(&none, &one), &both, 6);
    assert_eq!(words(&first).len(), 1);
    assert_eq!(
        words(&first.still(shadow(&object(&none, &one), &both, 8))).len(),
        1
    );
    let written = object(&none, &json!({"active": 1, "ready": 1}));
    assert!(first.still(shadow(&written, &both, 8)).says_nothing());
    let settled = shadow(&object(&none, &none), &both, 8);
    assert!(first.still(settled).says_nothing());
    // A deadline that has passed is the same, though its time is another.
    let late = object(&json!({"activeDeadlineSeconds": 60}), &none);
    let look = |now| shadow(&late, &both, now);
    let still = look(61).still(look(63));
    assert_eq!(words(&still), words(&look(61)));
}
