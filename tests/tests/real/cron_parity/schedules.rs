//! When runs are, and what is made of those that were missed.

use serde_json::{Value, json};

use super::scenario::{Scenario, runs};
use crate::parity::all_of;

const NEVER: &str = "0 0 1 1 *";

fn schedule(schedule: &str) -> Value {
    json!({"schedule": schedule})
}

fn zone(zone: &str) -> Value {
    json!({"timeZone": zone})
}

fn suspended(suspend: bool) -> Value {
    json!({"suspend": suspend})
}

fn deadline(seconds: i64) -> Value {
    json!({"startingDeadlineSeconds": seconds})
}

/// Scenarios.
pub(crate) fn all() -> Vec<Scenario> {
    let late = |name, more: &Value| {
        Scenario::of(name, &all_of(&[suspended(true), more.clone()])).patch(83, &suspended(false))
    };
    vec![
        Scenario::of("suspended", &suspended(true)),
        // The run that was missed meanwhile is made up for.
        late("resumed", &json!({})),
        late("resumed-in-time", &deadline(200)),
        late("resumed-too-late", &deadline(10)),
        Scenario::of("suspended-meanwhile", &runs("25s")).patch(73, &suspended(true)),
        Scenario::of("deadline-0", &deadline(0)),
        Scenario::of("deadline-10", &deadline(10)),
        Scenario::of("deadline-200", &deadline(200)),
        Scenario::of("zone", &zone("America/New_York")),
        Scenario::of("zone-utc", &zone("UTC")),
        Scenario::of("zone-of-half-an-hour", &zone("Asia/Kolkata")),
        Scenario::of("zone-set-meanwhile", &json!({})).patch(74, &zone("Asia/Tokyo")),
        Scenario::of("every-minute", &schedule("@every 1m")),
        Scenario::of("every-90-seconds", &schedule("@every 90s")),
        Scenario::of("every-20-seconds", &schedule("@every 20s")),
        Scenario::of("hourly-far-away", &schedule("@yearly")),
        Scenario::of("lists-and-steps", &schedule("0-59/1,?/2 * ? * SUN-SAT")),
        Scenario::of("impossible", &schedule("0 0 31 2 *")),
        Scenario::of("scheduled-meanwhile", &schedule(NEVER)).patch(25, &schedule("* * * * *")),
        Scenario::of("unscheduled-meanwhile", &json!({})).patch(75, &schedule(NEVER)),
        // Long ago by its status: more runs were missed than anybody counts.
        Scenario::of("missed-many", &suspended(true))
            .patch_status(26, &json!({"lastScheduleTime": "T-180m"}))
            .patch(28, &suspended(false)),
        Scenario::of(
            "missed-many-in-time",
            &all_of(&[suspended(true), deadline(100)]),
        )
        .patch_status(27, &json!({"lastScheduleTime": "T-180m"}))
        .patch(29, &suspended(false)),
        Scenario::of("ran-in-the-future", &json!({}))
            .patch_status(30, &json!({"lastScheduleTime": "T+30m"})),
    ]
}
