//! S13: no write without a change, and none while nothing happens.

use serde_json::Value;

use crate::history::{History, Step};
use crate::invariant::Invariant::S13;
use crate::object::{EVENTS, LEASES};
use crate::verdict::{Assumptions, Checked, Verdict, Violation};

/// S13. For every step that a request of ours made, leases and events apart:
/// - old and new differ in more than bookkeeping: `managedFields`, `resourceVersion`, `generation`,
///   times of conditions;
/// - it was made before `quiet_from`: a converged operator that nothing provokes does not write.
///   Events count here.
pub fn silent_when_done(history: &History, assumptions: &Assumptions) -> Verdict {
    let mut checked = Checked::all_of(history);
    let ours = history.steps.iter().filter(|step| assumptions.ours(step));
    for step in ours.filter(|step| &*step.key.resource != LEASES) {
        let early = assumptions.quiet_from.is_none_or(|quiet| step.at < quiet);
        checked.require(early, || {
            let what = format!("{} was written while nothing happened", step.key);
            Violation::at(S13, step, what)
        })?;
        if EVENTS.contains(&&*step.key.resource) {
            continue;
        }
        checked.require(changes_something(step), || {
            let what = format!("the write of {} changed nothing", step.key);
            Violation::at(S13, step, what)
        })?;
    }
    Ok(checked)
}

fn changes_something(step: &Step) -> bool {
    match (&step.old, &step.new) {
        (Some(old), Some(new)) => content(old) != content(new),
        _ => true,
    }
}

fn content(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for bookkeeping in ["managedFields", "resourceVersion", "generation"] {
            metadata.remove(bookkeeping);
        }
    }
    let conditions = object.pointer_mut("/status/conditions");
    for condition in conditions
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        if let Some(condition) = condition.as_object_mut() {
            condition.remove("lastTransitionTime");
        }
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::{Scene, breaks, holds};
    use serde_json::json;

    #[test]
    fn a_write_that_changes_nothing_is_found() {
        let strict = Assumptions::default();
        holds(S13, &Scene::good(), &strict);
        breaks(
            S13,
            &Scene::good().slice(|_| ()),
            &strict,
            "changed nothing",
        );
        let stamped =
            Scene::good().status(|s| s["conditions"][0]["lastTransitionTime"] = json!("x"));
        breaks(S13, &stamped, &strict, "changed nothing");
        let cron = Scene::two_runs();
        holds(S13, &cron, &strict);
        breaks(S13, &cron.cron_status(|_| ()), &strict, "changed nothing");
    }

    #[test]
    fn a_write_while_nothing_happens_is_found() {
        let scene = Scene::good();
        let quiet = Assumptions {
            quiet_from: Some(scene.now() + jiff::SignedDuration::from_millis(1)),
            ..Assumptions::default()
        };
        holds(S13, &scene, &quiet);
        breaks(S13, &scene.event("again"), &quiet, "while nothing happened");
    }
}
