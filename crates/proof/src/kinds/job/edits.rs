//! Edits of a Job, of each field that may change.

use fastrand::Rng;
use serde_json::json;

use crate::scenario::View;

/// One of these changes.
pub(super) fn edit(view: &View<'_>, rng: &mut Rng, _: bool) {
    view.edit_job(match rng.u32(0..6) {
        0 => json!({"parallelism": rng.u32(0..=5)}),
        1 => json!({"backoffLimit": rng.u32(0..=8)}),
        2 => json!({"maxFailedIndexes": rng.u32(0..=3)}),
        3 => json!({"suspend": rng.bool()}),
        4 => json!({"activeDeadlineSeconds": 3_000}),
        _ => {
            let size = rng.u32(1..=5);
            json!({"parallelism": size, "completions": size})
        }
    });
}
