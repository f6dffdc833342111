//! S4: what the end of a pod means for its node.

use std::collections::HashMap;

use serde_json::Value;

use super::window::Window;
use super::world::{World, record_changes};
use crate::failure_policy;
use crate::history::{History, Step};
use crate::invariant::Invariant::S4;
use crate::object::{self, JOBS, PODS, Record, SLICES};
use crate::verdict::{Assumptions, Checked, Verdict, Violation};

/// Reasons of failures that have to do with something else than the end of the pod.
const OTHER_CAUSES: [&str; 4] = [
    "RestartLimitExceeded",
    "WrongNode",
    "PodStartDeadlineExceeded",
    "Unschedulable",
];

/// S4. When the outcome of a pod is recorded that failed and that nobody had told to stop:
/// - the first rule of `podFailurePolicy` that matches decides: `Ignore` makes it an interruption, any other
///   action a failure. Rules about exit codes are not asked of a pod that was disrupted;
/// - without one it is an interruption if the pod was disrupted or its kubelet refused it, else a failure.
///
/// The rules are those that an instance may still see; it is judged where all of them agree. Exempt: pods over
/// their restart limit, on another node than their own, or given up before they started.
pub fn what_pods_meant(history: &History, assumptions: &Assumptions) -> Verdict {
    let mut checked = Checked::all_of(history);
    let mut world = World::new(assumptions);
    let mut failed: HashMap<&str, &Value> = HashMap::new();
    let mut rules: HashMap<&str, Window<&Value>> = HashMap::new();
    for step in &history.steps {
        match &*step.key.resource {
            PODS => remember(&mut failed, step),
            JOBS => {
                if let Some(job) = step.new.as_deref() {
                    let window = rules.entry(object::uid(job)).or_default();
                    window.follow(step, &job["spec"]);
                }
            }
            SLICES if !assumptions.others(step) => {
                let job = step.new.as_deref().and_then(object::log_of);
                let specs = job.and_then(|job| rules.get(job));
                for record in record_changes(step).iter().filter_map(|change| change.new) {
                    let Some(specs) = specs else { continue };
                    let Some(pod) = failed.get(record.pod_uid()) else {
                        continue;
                    };
                    let specs = specs.seen(assumptions, step, None);
                    let wrong = misjudged(record, pod, specs);
                    checked.require(wrong.is_none(), || {
                        let what = format!("{}: {}", record.0, wrong.unwrap_or_default());
                        Violation::at(S4, step, what)
                    })?;
                }
            }
            _ => {}
        }
        world.apply(step);
    }
    Ok(checked)
}

/// Pods that have failed and that nobody had told to stop, as they failed.
fn remember<'h>(failed: &mut HashMap<&'h str, &'h Value>, step: &'h Step) {
    let Some(pod) = step.new.as_deref() else {
        return;
    };
    let ended_before = step.old.as_deref().is_some_and(object::has_ended);
    if object::phase(pod) == "Failed" && !ended_before && !object::is_deleting(pod) {
        failed.insert(object::uid(pod), pod);
    }
}

fn misjudged<'h>(
    record: Record<'_>,
    pod: &Value,
    specs: impl Iterator<Item = &'h &'h Value>,
) -> Option<String> {
    if !record.is_final() || OTHER_CAUSES.contains(&record.reason()) {
        return None;
    }
    let mut specs = specs.map(|spec| is_failure(spec, pod));
    let first = specs.next()?;
    if !specs.all(|other| other == first) {
        return None;
    }
    let (is_failure, why) = first;
    let right = match record.state() {
        "Failed" => is_failure,
        "Disrupted" => !is_failure,
        _ => true,
    };
    (!right).then(|| format!("the end of its pod is {why}"))
}

/// Whether the end of a pod is a failure of its node, in words, too.
fn is_failure(spec: &Value, pod: &Value) -> (bool, &'static str) {
    let disrupted = object::is_disrupted(pod);
    match failure_policy::action(spec, pod, !disrupted) {
        Some("Ignore") => (false, "an interruption by a rule"),
        Some(_) => (true, "a failure by a rule"),
        None if disrupted => (false, "an interruption"),
        None if object::was_rejected(pod) => (false, "a refusal by its kubelet"),
        None => (true, "a failure"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::{Scene, breaks, holds, pod_name, strict};
    use serde_json::json;

    /// A pod that has failed like this, and what was recorded.
    fn failed(spec: Value, status: Value, (state, reason): (&str, &str)) -> Scene {
        let scene = Scene::new().node("n1").job(spec).reserve("n1", 1);
        let scene = scene.create("n1", 1).bind("n1", 1);
        let name = pod_name("n1", 1);
        let scene = scene.edit("kubelet", (PODS, &name), |pod| {
            pod["status"] = status;
            pod["status"]["phase"] = json!("Failed");
        });
        scene.ended("n1", 1, state, reason)
    }

    fn exits(code: i64) -> Value {
        json!({"containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": code}}}]})
    }

    fn evicted() -> Value {
        let mut status = exits(137);
        status["reason"] = json!("Evicted");
        status["conditions"] = json!([{"type": "DisruptionTarget", "status": "True"}]);
        status
    }

    fn rule(rule: &Value) -> Value {
        json!({"podFailurePolicy": {"rules": [rule]}})
    }

    #[test]
    fn a_pod_fails_by_itself_and_is_interrupted_by_others() {
        let refused = json!({"reason": "OutOfcpu"});
        for (status, state, other, why) in [
            (exits(1), "Failed", "Disrupted", "is a failure"),
            (evicted(), "Disrupted", "Failed", "is an interruption"),
            (
                refused,
                "Disrupted",
                "Failed",
                "is a refusal by its kubelet",
            ),
        ] {
            let recorded = |state| failed(json!({}), status.clone(), (state, "Other"));
            holds(S4, &recorded(state), &strict());
            breaks(S4, &recorded(other), &strict(), why);
        }
        let late = failed(json!({}), exits(1), ("Failed", "PodStartDeadlineExceeded"));
        holds(S4, &late, &strict());
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let ignored = rule(
            &json!({"action": "Ignore", "onExitCodes": {"operator": "In", "values": [3, 137]}}),
        );
        let counted =
            rule(&json!({"action": "Count", "onPodConditions": [{"type": "DisruptionTarget"}]}));
        for (spec, status, state, other, why) in [
            (
                &ignored,
                exits(3),
                "Disrupted",
                "Failed",
                "an interruption by a rule",
            ),
            (&ignored, exits(4), "Failed", "Disrupted", "is a failure"),
            (
                &ignored,
                evicted(),
                "Disrupted",
                "Failed",
                "is an interruption",
            ),
            (
                &counted,
                evicted(),
                "Failed",
                "Disrupted",
                "a failure by a rule",
            ),
        ] {
            let recorded = |state| failed(spec.clone(), status.clone(), (state, "Other"));
            holds(S4, &recorded(state), &strict());
            breaks(S4, &recorded(other), &strict(), why);
        }
    }

    #[test]
    fn where_a_rule_was_edited_either_is_right_as_long_as_somebody_may_see_it() {
        let counted =
            rule(&json!({"action": "Count", "onPodConditions": [{"type": "DisruptionTarget"}]}));
        let edited = Scene::new().node("n1").job(counted).reserve("n1", 1);
        let edited = edited.create("n1", 1).bind("n1", 1);
        let edited = edited.edit("kubectl", (JOBS, "fix"), |job| {
            job["spec"]["podFailurePolicy"] = Value::Null;
        });
        let edited = edited.edit("kubelet", (PODS, &pod_name("n1", 1)), |pod| {
            pod["status"] = evicted();
            pod["status"]["phase"] = json!("Failed");
        });
        let lagging = Assumptions {
            lag: jiff::SignedDuration::from_secs(10),
            ..strict()
        };
        for state in ["Failed", "Disrupted"] {
            holds(S4, &edited.clone().ended("n1", 1, state, "Other"), &lagging);
        }
        let late = edited.later(60).ended("n1", 1, "Failed", "Other");
        breaks(S4, &late, &lagging, "is an interruption");
    }
}
