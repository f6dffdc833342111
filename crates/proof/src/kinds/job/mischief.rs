//! What anybody may do to a Job and its pods at any time.

use carillon_sim::Actor;
use fastrand::Rng;
use serde_json::json;

use crate::scenario::View;

/// One of these things, one time out of three.
pub(super) fn mischief(actor: &Actor, rng: &mut Rng) -> bool {
    if rng.u32(0..3) > 0 {
        return false;
    }
    let view = View::new(actor);
    match rng.u32(0..8) {
        0 | 1 => view.edit_job(json!({"suspend": rng.bool()})),
        2 => view.edit_job(json!({"parallelism": rng.u32(0..=4)})),
        3 => {
            // Taken only where completions have indexes.
            let size = rng.u32(1..=5);
            view.edit_job(json!({"parallelism": size, "completions": size}));
        }
        4 => view.edit_job(json!({"backoffLimit": rng.u32(0..=8)})),
        _ => {
            let pods = view.pods();
            if !pods.is_empty() {
                view.delete_pod(&pods[rng.usize(0..pods.len())]);
            }
        }
    }
    true
}

/// Everything as a careful administrator would leave it.
pub(super) fn mend(actor: &Actor) {
    let view = View::new(actor);
    let Some(job) = view.job() else { return };
    if job["spec"]["suspend"] == true {
        view.edit_job(json!({"suspend": false}));
    }
    if job["spec"]["parallelism"] == 0 {
        view.edit_job(json!({"parallelism": 2}));
    }
}
