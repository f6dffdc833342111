//! Random CronJobs. Their ticks come while all goes wrong, and go on for a while after that.

use carillon_sim::actors::{Fate, JOB_FATE};
use fastrand::Rng;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::subject;
use crate::scenario::{Ends, Same, Scenario, Subject};

/// What a schedule says; all have their last tick nine minutes after the begin.
const SCHEDULES: [&str; 3] = ["1-9 0 * * *", "1-9/2 0 * * *", "1,2,4,5,8,9 0 * * *"];
/// What becomes of Jobs.
const FATES: [&str; 6] = ["0s", "5s", "5s fail", "30s", "70s", "130s"];

/// The scenario of a seed.
pub(super) fn scenario(name: &'static str, seed: u64, _: bool) -> Scenario {
    let mut rng = Rng::with_seed(seed ^ 0x63_726f_6e73);
    let subject = if rng.u32(0..4) == 0 {
        &subject::NATIVE
    } else {
        &subject::SUBJECT
    };
    Scenario {
        subject,
        spec: spec(&mut rng, subject),
        fates: |_, _| Fate::ends(SignedDuration::from_secs(3), 0),
        same: Same::Condition,
        ends: Ends::After(SignedDuration::from_mins(16)),
        ..subject::scenario(name)
    }
}

fn spec(rng: &mut Rng, subject: &Subject) -> Value {
    let policy = *rng
        .choice(["Allow", "Forbid", "Replace"].iter())
        .unwrap_or(&"Allow");
    let fate = FATES[rng.usize(0..FATES.len())];
    let mut template = json!({"metadata": {"annotations": {JOB_FATE: fate}}, "spec": {}});
    if rng.u32(0..3) == 0 {
        template["spec"]["ttlSecondsAfterFinished"] = json!(rng.u32(0..3) * 5);
    }
    let mut spec = json!({
        "schedule": SCHEDULES[rng.usize(0..SCHEDULES.len())],
        "concurrencyPolicy": policy,
        "jobTemplate": template,
    });
    if rng.bool() {
        spec["successfulJobsHistoryLimit"] = json!(rng.u32(0..3));
        spec["failedJobsHistoryLimit"] = json!(rng.u32(0..2));
    }
    if rng.u32(0..3) == 0 {
        spec["startingDeadlineSeconds"] = json!(rng.u32(20..150));
    }
    if subject.native {
        return spec;
    }
    let missed = ["Latest", "Skip", "All"][rng.usize(0..3)];
    if missed != "All" || policy != "Replace" {
        spec["missedRunPolicy"] = json!(missed);
    }
    if rng.u32(0..4) == 0 {
        spec["jitterSeconds"] = json!(rng.u32(1..50));
    }
    if rng.u32(0..5) == 0 {
        spec["jobTemplate"] = Value::Null;
        spec["broadcastJobTemplate"] = json!({"spec": {"parallelism": rng.u32(1..3)}});
    }
    spec
}
