//! Random Jobs of batch/v1.

use carillon_sim::actors::{Fate, Work};
use fastrand::Rng;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::subject;
use crate::kinds::hangs::hangs;
use crate::scenario::{SECOND, Same, Scenario};

/// How the operator is told to count and create; mostly as it likes.
const FLAGS: [&[&str]; 4] = [
    &[],
    &[],
    &["--job-max-uncounted-pods=1"],
    &["--max-pod-changes-per-sync=2", "--job-max-uncounted-pods=2"],
];

/// The scenario of a seed.
pub(super) fn scenario(name: &'static str, seed: u64, _: bool) -> Scenario {
    let mut rng = Rng::with_seed(seed ^ 0x6a6f_6273);
    Scenario {
        subject: if rng.u32(0..4) == 0 {
            &subject::NATIVE
        } else {
            &subject::SUBJECT
        },
        nodes: rng.usize(2..=3),
        spec: spec(&mut rng),
        fates: [all_well, some_fail, some_hang, any][rng.usize(0..4)],
        flags: FLAGS[rng.usize(0..FLAGS.len())],
        same: Same::Condition,
        ..subject::scenario(name)
    }
}

fn spec(rng: &mut Rng) -> Value {
    let (parallelism, completions) = (rng.u32(1..=4), rng.u32(1..=6));
    // Something that hangs is ended by the deadline.
    let mut spec = json!({
        "parallelism": parallelism, "completions": completions, "activeDeadlineSeconds": 3000,
        "backoffLimit": rng.u32(0..=8),
    });
    match rng.u32(0..8) {
        0 => {
            spec["completions"] = Value::Null;
            if let Some(spec) = spec.as_object_mut() {
                spec.remove("completions");
            }
        }
        1 => spec["template"]["spec"]["restartPolicy"] = json!("OnFailure"),
        2 | 3 => {
            spec["completionMode"] = json!("Indexed");
            spec["backoffLimitPerIndex"] = json!(rng.u32(0..=2));
            spec["backoffLimit"] = json!(100);
            if rng.bool() {
                spec["maxFailedIndexes"] = json!(rng.u32(0..=completions));
            }
        }
        4 => {
            spec["completionMode"] = json!("Indexed");
            let count = rng.u32(1..=completions);
            spec["successPolicy"] = json!({"rules": [{"succeededCount": count}]});
        }
        5 | 6 => spec["completionMode"] = json!("Indexed"),
        _ => {}
    }
    let restarts = spec["template"]["spec"]["restartPolicy"] == "OnFailure";
    match rng.u32(0..5) {
        0 => spec["podReplacementPolicy"] = json!("Failed"),
        1 if !restarts => {
            let action = ["FailJob", "Ignore", "Count"][rng.usize(0..3)];
            spec["podFailurePolicy"] = json!({"rules": [
                {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
                {"action": action, "onExitCodes": {"operator": "In", "values": [3]}},
            ]});
        }
        2 => spec["ttlSecondsAfterFinished"] = json!(100_000),
        _ => {}
    }
    spec
}

fn all_well(_: &str, _: usize) -> Fate {
    Fate::ends(3 * SECOND, 0)
}

fn some_fail(place: &str, nth: usize) -> Fate {
    let fails = place.ends_with('1') || nth.is_multiple_of(3);
    let code = if nth.is_multiple_of(2) { 1 } else { 3 };
    Fate::ends(2 * SECOND, if fails && nth < 4 { code } else { 0 })
}

fn some_hang(place: &str, nth: usize) -> Fate {
    hangs(nth == 0 && !place.ends_with('0'), nth)
}

fn any(place: &str, nth: usize) -> Fate {
    let salt = place.bytes().map(usize::from).sum::<usize>() + 7 * nth;
    let time = SECOND * (1 + salt as i32 % 7);
    Fate {
        start: SignedDuration::from_millis((salt * 131 % 5000) as i64),
        works: vec![match salt % 5 {
            0 if nth < 3 => Work::Evicted(time),
            1 if nth < 5 => Work::Ends(time, 3),
            2 if nth < 5 => Work::Ends(time, 1),
            _ => Work::Ends(time, 0),
        }],
        obeys: [Some(0), Some(143), None][salt % 3],
        ..Fate::ends(SECOND, 0)
    }
}
