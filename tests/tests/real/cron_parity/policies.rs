//! What a run means for those before it.

use serde_json::{Value, json};

use super::scenario::{Scenario, runs};
use crate::parity::all_of;

fn policy(policy: &str) -> Value {
    json!({"concurrencyPolicy": policy})
}

/// Scenarios.
pub(crate) fn all() -> Vec<Scenario> {
    let long = |name| all_of(&[policy(name), runs("10m")]);
    vec![
        Scenario::of("allow-short", &policy("Allow")),
        Scenario::of("allow-long", &long("Allow")),
        Scenario::of("forbid-short", &policy("Forbid")),
        Scenario::of("forbid-long", &long("Forbid")),
        // The run of the first tick ends after the second one.
        Scenario::of("forbid-late", &all_of(&[policy("Forbid"), runs("70s")])),
        Scenario::of("replace-short", &policy("Replace")),
        Scenario::of("replace-long", &long("Replace")),
        Scenario::of("forbidden-meanwhile", &long("Allow")).patch(80, &policy("Forbid")),
        Scenario::of("replaced-meanwhile", &long("Allow")).patch(81, &policy("Replace")),
        Scenario::of("allowed-meanwhile", &long("Forbid")).patch(82, &policy("Allow")),
    ]
}
