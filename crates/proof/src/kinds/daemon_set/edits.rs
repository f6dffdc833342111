//! Edits of a DaemonSet, of each field that may change.

use fastrand::Rng;
use serde_json::json;

use super::template::template;
use crate::scenario::View;

/// One of these changes.
pub(super) fn edit(view: &View<'_>, rng: &mut Rng, _: bool) {
    let rolling = |rolling| json!({"updateStrategy": {"rollingUpdate": rolling}});
    view.edit_job(match rng.u32(0..10) {
        0..4 => {
            let image = format!("example.com/work:{}", rng.u32(1..=4));
            json!({"template": template(&image)})
        }
        4 => rolling(json!({"maxSurge": null, "maxUnavailable": rng.u32(1..=3)})),
        5 => rolling(json!({"maxUnavailable": null, "maxSurge": rng.u32(1..=2)})),
        6 => rolling(json!({"paused": rng.bool()})),
        7 => rolling(json!({"partition": rng.u32(0..=2)})),
        8 => json!({"revisionHistoryLimit": rng.u32(0..=3)}),
        _ => json!({"minReadySeconds": rng.u32(0..=5)}),
    });
}
