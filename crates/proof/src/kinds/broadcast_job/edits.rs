//! Edits of a BroadcastJob, of each field that may change.

use carillon_sim::Actor;
use fastrand::Rng;
use serde_json::{Value, json};

use crate::editor::one;
use crate::scenario::View;

/// One of these changes.
pub(super) fn edit(view: &View<'_>, rng: &mut Rng, clocks_are_right: bool) {
    // What would run a node twice is refused by the CRD's rules, which are not simulated.
    let spec = view
        .job()
        .map(|job| job["spec"].clone())
        .unwrap_or_default();
    let once = spec["executionPolicy"] == "AtMostOnce";
    let restarts = spec["template"]["spec"]["restartPolicy"] == "OnFailure";
    let spec = match rng.u32(0..12) {
        0 => json!({"parallelism": rng.u32(1..=4)}),
        1 => json!({"parallelism": format!("{}%", rng.u32(1..=100))}),
        2 => json!({"parallelism": null}),
        3 => {
            json!({"failurePolicy": {"type": one(rng, &["FailFast", "Continue", "Pause"])}})
        }
        4 => json!({"failurePolicy": {"maxFailedNodes": rng.u32(0..=3)}}),
        5 => json!({"failurePolicy": {"maxFailedNodes": format!("{}%", rng.u32(0..=100))}}),
        6 if !once => json!({"backoffLimitPerNode": rng.u32(0..=2)}),
        7 => {
            json!({"noEligibleNodesPolicy": one(rng, &["Wait", "Complete", "Fail"])})
        }
        8 => {
            let fields = ["nodeLostTimeoutSeconds", "podTerminationTimeoutSeconds"];
            json!({(one(rng, &fields)): one(rng, &[60, 300])})
        }
        9 if clocks_are_right => {
            json!({"podStartDeadlineSeconds": one(rng, &[Value::Null, json!(60)])})
        }
        10 if !once && !restarts => json!({"podFailurePolicy": rules(rng)}),
        _ => return ask_for_retries(view, rng),
    };
    view.edit_job(spec);
}

/// Names of pods that were recorded, also of those that succeeded or whose attempts are not the last; or
/// none any more.
fn ask_for_retries(view: &View<'_>, rng: &mut Rng) {
    let slices = view.slices();
    let records = slices
        .iter()
        .filter_map(|slice| slice["results"].as_array());
    let pods = records
        .flatten()
        .filter_map(|record| record["podName"].as_str());
    let pods: Vec<&str> = pods.filter(|_| rng.u32(0..3) == 0).collect();
    let value = match rng.u32(0..6) {
        0 => Value::Null,
        1 => json!("node-0/1"),
        _ => json!(pods.join(",")),
    };
    view.patch_job(&json!({"metadata": {"annotations": {"carillon.dev/retry": value}}}));
}

/// A node whose pods fail by themselves is tried for ever, as long as that is to be ignored.
pub(super) fn mend(actor: &Actor) {
    let view = View::new(actor);
    let rules = view.job();
    let rules = rules.map(|job| job["spec"]["podFailurePolicy"]["rules"].clone());
    let rules = rules.unwrap_or_default();
    let mut rules = rules.as_array().into_iter().flatten();
    let ignores = |rule: &Value| rule["action"] == "Ignore" && !rule["onExitCodes"].is_null();
    if rules.any(ignores) {
        view.edit_job(json!({"podFailurePolicy": null}));
    }
}

/// Rules of a pod failure policy, or none.
fn rules(rng: &mut Rng) -> Value {
    let action = one(rng, &["Count", "Ignore", "FailNode", "FailJob"]);
    let rule = if rng.bool() {
        json!({"action": action, "onExitCodes": {"operator": "In", "values": [3]}})
    } else {
        json!({"action": action, "onPodConditions": [{"type": "DisruptionTarget"}]})
    };
    one(rng, &[Value::Null, json!({"rules": [rule]})])
}
