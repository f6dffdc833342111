//! Edits of a DaemonSet, of each field that may change.

use fastrand::Rng;
use serde_json::{Value, json};

use super::template::template;
use crate::scenario::View;

/// One of these changes.
pub(super) fn edit(view: &View<'_>, rng: &mut Rng, _: bool) {
    match rng.u32(0..8) {
        0 => view.edit_job(rolling(json!({"paused": rng.bool()}))),
        1 => view.edit_job(rolling(json!({"partition": rng.u32(0..=2)}))),
        _ => edit_native(view, rng, false),
    }
}

/// One of these changes, of fields that apps/v1 has, too.
pub(super) fn edit_native(view: &View<'_>, rng: &mut Rng, _: bool) {
    view.edit_job(match rng.u32(0..8) {
        0..4 => {
            let image = format!("example.com/work:{}", rng.u32(1..=4));
            json!({"template": template(&image)})
        }
        4 => rolling(json!({"maxSurge": null, "maxUnavailable": rng.u32(1..=3)})),
        5 => rolling(json!({"maxUnavailable": 0, "maxSurge": rng.u32(1..=2)})),
        6 => json!({"revisionHistoryLimit": rng.u32(0..=3)}),
        _ => json!({"minReadySeconds": rng.u32(0..=5)}),
    });
}

#[allow(clippy::needless_pass_by_value)] // reads better with json!
fn rolling(rolling: Value) -> Value {
    json!({"updateStrategy": {"rollingUpdate": rolling}})
}
