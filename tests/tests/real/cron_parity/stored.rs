//! What the API server would refuse today and has stored all the same.

use serde_json::{Value, json};

use super::scenario::{Deed, Scenario};

fn store(scenario: Scenario, key: &'static str, fields: &[(&'static str, Value)]) -> Scenario {
    scenario.at(20, Deed::Store(key, fields.to_vec()))
}

/// Scenarios.
pub(crate) fn all() -> Vec<Scenario> {
    let plain = |name| Scenario::of(name, &json!({}));
    let zoned = |name, zone: &str| Scenario::of(name, &json!({"timeZone": zone}));
    vec![
        store(
            zoned("zone-unknown", "UTC"),
            "cronjobs/zone-unknown/c",
            &[("/spec/timeZone", json!("Europe/Atlantis"))],
        ),
        store(
            plain("zone-within-schedule"),
            "cronjobs/zone-within-schedule/c",
            &[("/spec/schedule", json!("TZ=Asia/Tokyo * * * * *"))],
        ),
        store(
            zoned("zone-twice", "Europe/Berlin"),
            "cronjobs/zone-twice/c",
            &[("/spec/schedule", json!("CRON_TZ=Asia/Tokyo * * * * *"))],
        ),
        store(
            plain("schedule-unreadable"),
            "cronjobs/schedule-unreadable/c",
            &[("/spec/schedule", json!("every minute"))],
        ),
    ]
}
