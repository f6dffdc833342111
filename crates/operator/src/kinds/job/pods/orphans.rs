//! Pods that nothing controls.

use std::collections::HashSet;
use std::sync::Arc;

use carillon_plan::object_key::{JOB, POD};
use carillon_plan::{ObjectKey, Uid};
use serde_json::{Value, json};

use super::super::object::SlimJob;
use super::super::tables::{CONTROLLER, ORPHAN_PODS};
use crate::slim::SlimPod;
use crate::store::{Row, Tables, Wake};

fn text(n: u8) -> String {
    format!("4e0c5d6a-0b1c-4d2e-8f3a-0000000000{n:02x}")
}

fn uid(n: u8) -> Uid {
    text(n).parse().unwrap()
}

/// Pod 9.
fn key() -> Arc<ObjectKey> {
    ObjectKey::of(POD, "ops", "x", uid(9))
}

/// Pod 9 with these labels, which nothing controls.
fn pod(rv: u64, labels: &Value, finalizers: &Value) -> SlimPod {
    let pod = json!({"metadata": {
        "name": "x", "namespace": "ops", "uid": text(9), "resourceVersion": rv.to_string(),
        "labels": labels, "finalizers": finalizers,
    }});
    serde_json::from_value(pod).unwrap()
}

/// Job `n`, which selects these labels.
fn job(n: u8, namespace: &str, labels: &Value) -> SlimJob {
    let job = json!({
        "metadata": {"name": "j", "namespace": namespace, "uid": text(n), "resourceVersion": "1"},
        "spec": {"selector": {"matchLabels": labels}},
    });
    serde_json::from_value(job).unwrap()
}

fn woken(tables: &mut Tables, row: impl Row) -> Vec<Wake> {
    let mut wakes = Vec::new();
    row.enter(tables, &mut wakes);
    wakes
}

fn soon(job: u8) -> Wake {
    Wake::soon(CONTROLLER, ObjectKey::of(JOB, "ops", "j", uid(job)))
}

#[test]
fn a_pod_without_an_owner_wakes_the_jobs_that_select_it_when_its_labels_are_new() {
    let tables = &mut Tables::default();
    let by_uid = json!({"batch.kubernetes.io/controller-uid": text(1)});
    woken(tables, job(1, "ops", &by_uid));
    woken(tables, job(2, "ops", &json!({"app": "sum"})));
    woken(
        tables,
        job(3, "ops", &json!({"app": "sum", "tier": "night"})),
    );
    woken(tables, job(4, "other", &json!({"app": "sum"})));
    let (sum, none) = (json!({"app": "sum"}), json!(null));
    assert_eq!(woken(tables, pod(5, &sum, &none)), [soon(2)]);
    assert_eq!(woken(tables, pod(6, &sum, &none)), []);
    assert_eq!(woken(tables, pod(7, &by_uid, &none)), [soon(1)]);
    let mut deleted = pod(8, &sum, &none);
    deleted.metadata.deletion_timestamp = Some(jiff::Timestamp::UNIX_EPOCH);
    assert_eq!(woken(tables, deleted), []);
    assert!(tables.jobs.orphans("ops").unwrap().contains_key("x"));
}

#[test]
fn a_pod_without_an_owner_that_is_not_counted_yet_is_an_orphan_until_it_is_released() {
    let tables = &mut Tables::default();
    let mark = json!(["batch.kubernetes.io/job-tracking"]);
    let none = json!(null);
    let wakes = woken(tables, pod(5, &none, &mark));
    assert_eq!(wakes, [Wake::now(ORPHAN_PODS, key())]);
    assert!(tables.jobs.orphan(&key()).unwrap().tracked);
    assert_eq!(woken(tables, pod(6, &none, &none)), []);
    assert!(!tables.jobs.orphan(&key()).unwrap().tracked);
    SlimPod::sweep(tables, Some("other"), &HashSet::new(), &mut Vec::new());
    assert!(tables.jobs.orphan(&key()).is_some());
    SlimPod::sweep(tables, Some("ops"), &HashSet::new(), &mut Vec::new());
    assert!(tables.jobs.orphans("ops").is_none());
}

/// Pod 9 with this owner.
fn owned(rv: u64, labels: &Value, api_version: &str, kind: &str, controls: bool) -> SlimPod {
    let mark = json!(["batch.kubernetes.io/job-tracking"]);
    let mut pod = pod(rv, labels, &mark);
    let owners = json!([{"apiVersion": api_version, "kind": kind, "name": "j", "uid": text(1),
        "controller": controls.then_some(true)}]);
    pod.metadata.owner_references = serde_json::from_value(owners).unwrap();
    pod
}

#[test]
fn a_pod_is_an_orphan_unless_something_controls_it_and_only_jobs_of_batch_are_asked_for_theirs() {
    let none = json!(null);
    let orphan = [Wake::now(ORPHAN_PODS, key())];
    for (api_version, kind, controls, expected) in [
        ("batch/v1", "Job", true, &[soon(1)][..]),
        ("batch/v1", "CronJob", true, &[]),
        ("example.com/v1", "Job", true, &[]),
        ("batch/v1", "Job", false, &orphan),
        ("example.com/v1", "Job", false, &orphan),
    ] {
        let tables = &mut Tables::default();
        woken(tables, job(1, "ops", &json!({"app": "sum"})));
        let wakes = woken(tables, owned(5, &none, api_version, kind, controls));
        assert_eq!(wakes, expected, "{api_version} {kind} {controls}");
    }
}

#[test]
fn a_pod_of_another_namespace_is_not_selected_whatever_uid_it_bears() {
    let tables = &mut Tables::default();
    let by_uid = json!({"batch.kubernetes.io/controller-uid": text(1)});
    woken(tables, job(1, "ops", &by_uid));
    let mut foreign = pod(5, &by_uid, &json!(null));
    foreign.metadata.namespace = "evil".to_owned();
    assert_eq!(woken(tables, foreign), []);
    assert!(tables.jobs.orphans("ops").is_none());
}

#[test]
fn an_orphan_wakes_every_job_that_selects_it_and_none_when_it_is_gone() {
    let (sum, none) = (json!({"app": "sum"}), json!(null));
    let tables = &mut Tables::default();
    for (n, labels) in [(1, &sum), (2, &sum), (3, &json!({"other": "labels"}))] {
        woken(tables, job(n, "ops", labels));
    }
    let sorted = |mut wakes: Vec<Wake>| {
        wakes.sort_by_key(|wake| format!("{wake:?}"));
        wakes.dedup();
        wakes
    };
    let wakes = woken(tables, pod(5, &sum, &none));
    assert_eq!(sorted(wakes), [soon(1), soon(2)]);
    let mut wakes = Vec::new();
    pod(6, &sum, &none).leave(tables, &mut wakes);
    assert_eq!(wakes, []);
    // Given away, it wakes whom it was of and all who could take it.
    let wakes = woken(tables, owned(7, &sum, "batch/v1", "Job", true));
    assert_eq!(wakes, [soon(1)]);
    let wakes = woken(tables, pod(8, &sum, &none));
    assert_eq!(sorted(wakes), [soon(1), soon(2)]);
}
