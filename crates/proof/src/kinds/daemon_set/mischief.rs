//! What anybody may do to a DaemonSet and its pods at any time.

use carillon_sim::Actor;
use fastrand::Rng;
use serde_json::json;

use super::edits;
use crate::scenario::View;

/// One of these things, one time out of three.
pub(super) fn mischief(actor: &Actor, rng: &mut Rng) -> bool {
    if rng.u32(0..3) > 0 {
        return false;
    }
    let view = View::new(actor);
    if rng.bool() {
        match view.job() {
            Some(set) if set["apiVersion"] == "apps/v1" => edits::edit_native(&view, rng, false),
            _ => edits::edit(&view, rng, false),
        }
        return true;
    }
    let pods = view.pods();
    if !pods.is_empty() {
        view.delete_pod(&pods[rng.usize(0..pods.len())]);
    }
    true
}

/// Everything as a careful administrator would leave it.
pub(super) fn mend(actor: &Actor) {
    let view = View::new(actor);
    let Some(set) = view.job() else { return };
    let rolling = &set["spec"]["updateStrategy"]["rollingUpdate"];
    if rolling["paused"] == true || !rolling["partition"].is_null() {
        let whole = json!({"paused": false, "partition": null});
        view.edit_job(json!({"updateStrategy": {"rollingUpdate": whole}}));
    }
}
