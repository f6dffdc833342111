//! Random BroadcastJobs.

use carillon_sim::actors::{Fate, Work};
use fastrand::Rng;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::subject;
use crate::kinds::hangs::hangs;
use crate::scenario::{SECOND, Same, Scenario};

/// The scenario of a seed; `watched`: somebody resumes what is paused.
pub(super) fn scenario(name: &'static str, seed: u64, watched: bool) -> Scenario {
    let mut rng = Rng::with_seed(seed);
    Scenario {
        nodes: rng.usize(2..=6),
        spec: spec(&mut rng, watched),
        fates: [all_well, some_fail, some_hang, any][rng.usize(0..4)],
        same: Same::Condition,
        ..subject::scenario(name)
    }
}

fn spec(rng: &mut Rng, watched: bool) -> Value {
    // Somebody has to resume a job that a failure has paused.
    let policies = if watched { 3 } else { 2 };
    let on_failure = ["FailFast", "Continue", "Pause"][rng.usize(0..policies)];
    let mut spec = json!({
        "parallelism": rng.u32(1..=3),
        "failurePolicy": {"type": on_failure},
    });
    match rng.u32(0..6) {
        0 => spec["parallelism"] = json!("50%"),
        1 => spec["template"]["spec"]["restartPolicy"] = json!("OnFailure"),
        2 => spec["backoffLimitPerNode"] = json!(rng.u32(1..=2)),
        3 => spec["executionPolicy"] = json!("AtMostOnce"),
        // It is told by this machine's clock, which a monkey lets be wrong.
        4 if !watched => spec["podStartDeadlineSeconds"] = json!(60),
        _ => spec["failurePolicy"]["maxFailedNodes"] = json!(rng.u32(0..=2)),
    }
    // Something that hangs is ended by the deadline.
    spec["completionPolicy"] = json!({"type": "Always", "activeDeadlineSeconds": 1500});
    spec
}

pub(super) fn all_well(_: &str, _: usize) -> Fate {
    Fate::ends(3 * SECOND, 0)
}

pub(super) fn some_fail(node: &str, nth: usize) -> Fate {
    let fails = node.ends_with('1') || node.ends_with('2') && nth == 0;
    Fate::ends(2 * SECOND, if fails { 3 } else { 0 })
}

fn some_hang(node: &str, nth: usize) -> Fate {
    hangs(node.ends_with('1') && nth == 0, nth)
}

fn any(node: &str, nth: usize) -> Fate {
    let salt = node.len() + node.bytes().map(usize::from).sum::<usize>() + 7 * nth;
    Fate {
        start: SignedDuration::from_millis((salt * 131 % 5000) as i64),
        refused: None,
        waits: (salt.is_multiple_of(5)).then_some("ImagePullBackOff"),
        works: vec![
            match salt % 11 {
                10 => Work::OverLimit(SECOND * (1 + salt as i32 % 7)),
                _ => Work::Ends(
                    SECOND * (1 + salt as i32 % 7),
                    i32::from(salt.is_multiple_of(3)),
                ),
            },
            Work::Ends(SECOND, 0),
        ],
        obeys: [Some(0), Some(143), None][salt % 3],
    }
}
