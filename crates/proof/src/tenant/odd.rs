//! Values that are allowed and that nobody expects.

use carillon_plan::job::MANAGED_BY;
use fastrand::Rng;
use jiff::Timestamp;
use serde_json::{Value, json};

/// Controllers of Jobs that a Job may name.
const CONTROLLERS: [&str; 4] = [
    MANAGED_BY,
    "kubernetes.io/job-controller",
    "example.com/none",
    "example.com/\u{202e}",
];

/// Changes some of the spec of an object to be served.
pub(super) fn spec(object: &mut Value, rng: &mut Rng) {
    let broadcast = object["kind"] == "BroadcastJob";
    let cron = object["kind"] == "CronJob";
    for _ in 0..rng.u32(1..4) {
        let (field, value) = if cron {
            of_cron_job(rng)
        } else if broadcast {
            of_broadcast_job(rng)
        } else if object["kind"] == "Job" {
            of_job(rng)
        } else {
            of_pod(rng)
        };
        object["spec"][field] = value;
    }
    // As many completions as there can be never come, and thousands of pods show no more than some.
    if object["kind"] == "Job" && object["spec"]["completions"] == i32::MAX {
        object["spec"]["activeDeadlineSeconds"] = json!(30);
    }
}

fn of_broadcast_job(rng: &mut Rng) -> (&'static str, Value) {
    match rng.u32(0..9) {
        0 => (
            "parallelism",
            any(
                rng,
                &[json!(0), json!(i32::MAX), json!("1000000%"), json!("0%")],
            ),
        ),
        1 => (
            "backoffLimitPerNode",
            any(rng, &[json!(0), json!(3), json!(i32::MAX)]),
        ),
        2 => ("paused", json!(rng.bool())),
        3 => (
            "executionPolicy",
            any(rng, &[json!("AtMostOnce"), json!("AtLeastOnce")]),
        ),
        4 => (
            "podStartDeadlineSeconds",
            any(rng, &[json!(1), json!(i32::MAX)]),
        ),
        5 => {
            let policy = any(rng, &[json!("Never"), json!("Always")]);
            ("completionPolicy", json!({"type": policy}))
        }
        6 => {
            let deadline = any(rng, &[json!(0), json!(1), json!(i64::from(i32::MAX) * 4)]);
            let live = any(rng, &[json!(0), json!(i32::MAX)]);
            let ends = json!({
                "type": "Always", "activeDeadlineSeconds": deadline, "ttlSecondsAfterFinished": live,
            });
            ("completionPolicy", ends)
        }
        7 => {
            let policy = any(rng, &[json!("FailFast"), json!("Continue"), json!("Pause")]);
            ("failurePolicy", json!({"type": policy}))
        }
        _ => ("template", template(rng)),
    }
}

fn of_job(rng: &mut Rng) -> (&'static str, Value) {
    match rng.u32(0..10) {
        0 => ("parallelism", any(rng, &[json!(0), json!(1), json!(5)])),
        1 => (
            "completions",
            any(rng, &[json!(0), json!(3), json!(i32::MAX), Value::Null]),
        ),
        2 => ("backoffLimit", any(rng, &[json!(0), json!(i32::MAX)])),
        3 => (
            "activeDeadlineSeconds",
            any(rng, &[json!(1), json!(i64::MAX)]),
        ),
        4 => (
            "ttlSecondsAfterFinished",
            any(rng, &[json!(0), json!(i32::MAX)]),
        ),
        5 => (
            "managedBy",
            json!(CONTROLLERS[rng.usize(0..CONTROLLERS.len())]),
        ),
        6 => ("suspend", json!(rng.bool())),
        7 => (
            "completionMode",
            any(rng, &[json!("Indexed"), json!("NonIndexed")]),
        ),
        8 => (
            "podReplacementPolicy",
            any(rng, &[json!("Failed"), json!("TerminatingOrFailed")]),
        ),
        _ => ("template", template(rng)),
    }
}

fn of_cron_job(rng: &mut Rng) -> (&'static str, Value) {
    match rng.u32(0..9) {
        0 | 1 => {
            let schedules = [
                "* * * * *",
                "*/1 0 * * *",
                "@every 1m",
                "0 0 30 2 *",
                "TZ=UTC * * * * *",
                "@yearly",
            ];
            ("schedule", json!(schedules[rng.usize(0..schedules.len())]))
        }
        2 => (
            "timeZone",
            any(
                rng,
                &[json!("Nowhere/Else"), json!("Etc/UTC"), json!("../x")],
            ),
        ),
        3 => (
            "startingDeadlineSeconds",
            any(rng, &[json!(0), json!(i64::MAX), json!(1)]),
        ),
        4 => (
            "successfulJobsHistoryLimit",
            any(rng, &[json!(0), json!(i32::MAX)]),
        ),
        5 => (
            "failedJobsHistoryLimit",
            any(rng, &[json!(0), json!(i32::MAX)]),
        ),
        6 => ("suspend", json!(rng.bool())),
        7 => (
            "concurrencyPolicy",
            any(rng, &[json!("Allow"), json!("Forbid"), json!("Replace")]),
        ),
        _ => (
            "missedRunPolicy",
            any(rng, &[json!("All"), json!("Skip"), json!("Latest")]),
        ),
    }
}

fn of_pod(rng: &mut Rng) -> (&'static str, Value) {
    match rng.u32(0..4) {
        0 => (
            "terminationGracePeriodSeconds",
            any(rng, &[json!(0), json!(3600)]),
        ),
        1 => ("activeDeadlineSeconds", json!(1)),
        2 => ("nodeName", json!(format!("node-{}", rng.u32(0..7)))),
        _ => (
            "restartPolicy",
            any(rng, &[json!("Always"), json!("OnFailure"), json!("Never")]),
        ),
    }
}

/// A template that is accepted, and whose pods may not be.
fn template(rng: &mut Rng) -> Value {
    let mut template = json!({"spec": {
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": "example.com/evil:1"}],
    }});
    match rng.u32(0..4) {
        0 => template["metadata"]["labels"] = json!({"a b": "not a label"}),
        1 => template["metadata"]["annotations"] = json!({"long": "x".repeat(20_000)}),
        2 => template["metadata"]["finalizers"] = json!(["evil.example.com/keep"]),
        _ => template["spec"]["nodeSelector"] = json!({"no": "where"}),
    }
    template
}

/// What a pod says about itself.
pub(super) fn pod_status(rng: &mut Rng, now: Timestamp) -> Value {
    let phases = [
        "Pending",
        "Running",
        "Succeeded",
        "Succeeded",
        "Failed",
        "Failed",
        "Unknown",
    ];
    let phase = phases[rng.usize(0..phases.len())];
    let mut status = json!({"phase": phase});
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
    let now = now.to_string();
    // The last that jiff has, and the last that the API server has.
    let times = [
        now.as_str(),
        "0001-01-01T00:00:00Z",
        "9999-12-30T22:00:00Z",
        "9999-12-31T23:59:59Z",
    ];
    match rng.u32(0..6) {
        0 => status["startTime"] = json!(times[rng.usize(0..times.len())]),
        1 => {
            let code = any(rng, &[json!(0), json!(3), json!(-1), json!(i32::MAX)]);
            let finished = times[rng.usize(0..times.len())];
            status["containerStatuses"] = json!([{
                "name": any(rng, &[json!("main"), json!("other")]),
                "restartCount": any(rng, &[json!(0), json!(i32::MAX)]),
                "state": {"terminated": {
                    "exitCode": code, "startedAt": times[rng.usize(0..times.len())], "finishedAt": finished,
                    "message": "\u{1b}[31m\u{202e}".repeat(300), "reason": "Odd\u{0}",
                }},
            }]);
        }
        2 => {
            let types = ["DisruptionTarget", "PodScheduled", "Ready"];
            status["conditions"] = json!([{
                "type": types[rng.usize(0..types.len())], "status": any(rng, &[json!("True"), json!("False")]),
                "reason": "PreemptionByScheduler", "lastTransitionTime": times[rng.usize(0..times.len())],
            }]);
        }
        3 => {
            let reasons = [json!("Evicted"), json!("NodeLost"), json!("x".repeat(9000))];
            status["reason"] = any(rng, &reasons);
        }
        _ => {}
    }
    status
}

fn any(rng: &mut Rng, values: &[Value]) -> Value {
    values[rng.usize(0..values.len())].clone()
}
