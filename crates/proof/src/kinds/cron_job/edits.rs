//! Edits of a CronJob, of each field that may change.

use fastrand::Rng;
use serde_json::{Value, json};

use crate::editor::one;
use crate::scenario::View;

/// One of these changes.
pub(super) fn edit(view: &View<'_>, rng: &mut Rng, _: bool) {
    // The CRD refuses to start all missed runs only to replace them.
    let spec = view
        .cron()
        .map(|cron| cron["spec"].clone())
        .unwrap_or_default();
    let (all, replaces) = (
        spec["missedRunPolicy"] == "All",
        spec["concurrencyPolicy"] == "Replace",
    );
    let concurrency: &[&str] = if all {
        &["Allow", "Forbid"]
    } else {
        &["Allow", "Forbid", "Replace"]
    };
    let missed: &[&str] = if replaces {
        &["Latest", "Skip"]
    } else {
        &["Latest", "All", "Skip"]
    };
    let deadline = one(rng, &[Value::Null, json!(30), json!(300)]);
    view.edit_cron(match rng.u32(0..8) {
        0 => json!({"concurrencyPolicy": one(rng, concurrency)}),
        1 => json!({"schedule": one(rng, &["1-9 0 * * *", "*/2 0 * * *", "9 0 * * *"])}),
        2 => json!({"timeZone": one(rng, &[Value::Null, json!("Etc/UTC")])}),
        3 => json!({"startingDeadlineSeconds": deadline}),
        4 => json!({"successfulJobsHistoryLimit": rng.u32(0..=3)}),
        5 => json!({"failedJobsHistoryLimit": rng.u32(0..=3)}),
        // Fields of ours: pruned, or refused, where it is another kind.
        6 => json!({"missedRunPolicy": one(rng, missed)}),
        _ => json!({"jitterSeconds": rng.u32(0..=30)}),
    });
}
