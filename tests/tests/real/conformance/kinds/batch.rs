//! Jobs and CronJobs of batch/v1, as those who run CronJobs write them.
//!
//! The status of a Job never says that it has ended: from there on the API server judges it by rules
//! that only a job controller has to know.

use fastrand::Rng;
use serde_json::{Value, json};

use crate::conformance::requests::pick;

fn template(image: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": "a"}},
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": image}],
        },
    })
}

pub(super) fn job(rng: &mut Rng) -> Value {
    let mut job = json!({"template": template("none")});
    match rng.u8(0..8) {
        0 => job["parallelism"] = json!(2),
        1 => job["completions"] = json!(3),
        2 => job["ttlSecondsAfterFinished"] = json!(60),
        3 => job["suspend"] = json!(true),
        4 => job["template"]["spec"]["restartPolicy"] = json!("Always"),
        5 => job["template"]["metadata"] = json!({}),
        6 => job["backoffLimit"] = json!(0),
        _ => {}
    }
    job
}

pub(super) fn job_changes(rng: &mut Rng) -> Vec<Value> {
    vec![
        json!({"suspend": rng.bool()}),
        json!({"parallelism": pick(&[json!(0), json!(3), json!(-1), Value::Null], rng)}),
        json!({"backoffLimit": pick(&[json!(2), Value::Null], rng)}),
        json!({"ttlSecondsAfterFinished": pick(&[json!(5), json!(-1), Value::Null], rng)}),
        json!({"completions": 7}),
        json!({"selector": Value::Null}),
        json!({"template": {"spec": {"containers": [{"name": "main", "image": "other"}]}}}),
    ]
}

pub(super) fn job_status(rng: &mut Rng) -> Value {
    let started = json!({
        "startTime": "2026-01-01T00:00:00Z", "active": 1, "ready": 0,
        "uncountedTerminatedPods": {},
    });
    let suspended = json!({"conditions": [{
        "type": "Suspended", "status": pick(&["True", "False"], rng), "reason": "R",
        "message": "m", "lastProbeTime": "2026-01-01T00:00:00Z",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]});
    pick(&[started, suspended, json!({"active": rng.u8(0..3)})], rng)
}

pub(super) fn cron_job(rng: &mut Rng) -> Value {
    let mut spec = json!({
        "schedule": pick(&["*/5 * * * *", "@hourly", "0 3 * * MON"], rng),
        "jobTemplate": {
            "metadata": {"labels": {"app": "a"}, "annotations": {"why": "so"}},
            "spec": {"template": template("none")},
        },
    });
    match rng.u8(0..8) {
        0 => spec["timeZone"] = json!("Europe/Berlin"),
        1 => spec["schedule"] = json!("* * * *"),
        2 => spec["schedule"] = json!("TZ=UTC * * * * *"),
        3 => spec["startingDeadlineSeconds"] = json!(30),
        4 => spec["jobTemplate"]["spec"]["backoffLimit"] = json!(2),
        5 => spec["jobTemplate"]["spec"]["template"]["spec"]["containers"] = json!([]),
        _ => {}
    }
    spec
}

pub(super) fn cron_job_changes(rng: &mut Rng) -> Vec<Value> {
    vec![
        json!({"suspend": pick(&[json!(true), json!(false), Value::Null], rng)}),
        json!({"schedule": pick(&["@daily", "*/7 * * * *", "", "* * * *", "0 0 * * 7"], rng)}),
        json!({"timeZone": pick(
            &[json!("Etc/UTC"), json!("No/Where"), json!(""), Value::Null], rng,
        )}),
        json!({"concurrencyPolicy": pick(
            &[json!("Forbid"), json!("Replace"), json!("Maybe"), json!(""), Value::Null], rng,
        )}),
        json!({"startingDeadlineSeconds": pick(&[json!(0), json!(-1), Value::Null], rng)}),
        json!({"successfulJobsHistoryLimit": pick(&[json!(0), json!(-1), Value::Null], rng)}),
        json!({"failedJobsHistoryLimit": pick(&[json!(7), Value::Null], rng)}),
        json!({"jobTemplate": {"metadata": {"annotations": {"why": "else"}}}}),
        json!({"jobTemplate": {"spec": {"template": template("other")}}}),
    ]
}

pub(super) fn cron_job_status(rng: &mut Rng) -> Value {
    let promised = json!({
        "apiVersion": "batch/v1", "kind": "Job", "namespace": "conformance", "name": "a-29453760",
    });
    let mut confirmed = promised.clone();
    confirmed["uid"] = json!("6b6cf3a5-0000-4000-8000-000000000000");
    confirmed["resourceVersion"] = json!("7");
    pick(
        &[
            json!({"active": [promised]}),
            json!({"active": [confirmed], "lastScheduleTime": "2026-01-01T00:00:00Z"}),
            json!({"active": [promised, confirmed]}),
            json!({"active": [], "lastSuccessfulTime": "2026-01-01T00:00:07Z"}),
            json!({"active": Value::Null}),
            json!({"lastScheduleTime": Value::Null}),
        ],
        rng,
    )
}
