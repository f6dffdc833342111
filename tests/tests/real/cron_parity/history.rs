//! Which runs are kept, and what is known of those that are not.

use serde_json::{Value, json};

use super::scenario::{Scenario, fate};
use crate::parity::all_of;

fn keeps(succeeded: i32, failed: i32) -> Value {
    json!({"successfulJobsHistoryLimit": succeeded, "failedJobsHistoryLimit": failed})
}

/// Scenarios.
pub(crate) fn all() -> Vec<Scenario> {
    let fails = fate("exit-code", "3");
    vec![
        Scenario::of("keeps-none", &keeps(0, 0)),
        Scenario::of("keeps-one", &keeps(1, 1)),
        Scenario::of("fails", &fails),
        Scenario::of(
            "fails-and-keeps-none",
            &all_of(&[fails.clone(), keeps(3, 0)]),
        ),
        Scenario::of("fails-and-keeps-two", &all_of(&[fails, keeps(0, 2)])),
        Scenario::of("keeps-none-any-more", &json!({})).patch(84, &keeps(0, 0)),
        Scenario::of("keeps-none-by-hand", &keeps(0, 0)).by_hand(31),
    ]
}
