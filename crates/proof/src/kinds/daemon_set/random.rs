//! Random DaemonSets.

use carillon_sim::actors::{Fate, Work};
use fastrand::Rng;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::subject::{self, runs};
use crate::scenario::{SECOND, Scenario};

/// The scenario of a seed.
pub(super) fn scenario(name: &'static str, seed: u64, _: bool) -> Scenario {
    let mut rng = Rng::with_seed(seed ^ 0x6461_656d);
    Scenario {
        subject: if rng.u32(0..4) == 0 {
            &subject::NATIVE
        } else {
            &subject::SUBJECT
        },
        nodes: rng.usize(2..=4),
        spec: spec(&mut rng),
        fates: [all_run, some_slow, some_evicted][rng.usize(0..3)],
        ..subject::scenario(name)
    }
}

fn spec(rng: &mut Rng) -> Value {
    let mut spec = json!({"revisionHistoryLimit": rng.u32(0..=3)});
    let strategy = &mut spec["updateStrategy"];
    match rng.u32(0..5) {
        0 => {}
        1 => strategy["rollingUpdate"] = json!({"maxUnavailable": rng.u32(1..=3)}),
        2 => strategy["rollingUpdate"] = json!({"maxUnavailable": "50%"}),
        3 => {
            let surge = json!({"maxUnavailable": 0, "maxSurge": rng.u32(1..=2)});
            strategy["rollingUpdate"] = surge;
        }
        _ => strategy["type"] = json!("OnDelete"),
    }
    if spec["updateStrategy"].is_null()
        && let Some(spec) = spec.as_object_mut()
    {
        spec.remove("updateStrategy");
    }
    if rng.u32(0..3) == 0 {
        spec["minReadySeconds"] = json!(rng.u32(1..=5));
    }
    spec
}

fn all_run(_: &str, _: usize) -> Fate {
    runs()
}

fn some_slow(place: &str, nth: usize) -> Fate {
    let salt = place.bytes().map(usize::from).sum::<usize>() + 7 * nth;
    Fate {
        start: SignedDuration::from_millis((salt * 131 % 9000) as i64),
        obeys: [Some(0), Some(143), None][salt % 3],
        ..runs()
    }
}

fn some_evicted(place: &str, nth: usize) -> Fate {
    let salt = place.bytes().map(usize::from).sum::<usize>() + 7 * nth;
    let evicted = salt.is_multiple_of(3) && nth < 3;
    Fate {
        works: vec![if evicted {
            Work::Evicted(SECOND * (2 + (salt % 9) as i32))
        } else {
            Work::Hangs
        }],
        ..some_slow(place, nth)
    }
}
