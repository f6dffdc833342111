//! S9: nothing is stopped without a reason that is stored.

use jiff::SignedDuration;
use serde_json::Value;

use super::eligible;
use super::world::World;
use crate::cron_job::object::is_of_a_run;
use crate::history::{History, Step};
use crate::invariant::Invariant::S9;
use crate::object::{self, JOBS, PODS, at, text, time};
use crate::verdict::{Assumptions, Checked, Verdict, Violation};
use crate::{daemon_set, job};

/// S9. Where a request of ours deletes a pod that nobody had deleted, the pod has not ended, and one
/// of these was so in the state before (specs and nodes: in one that we may have seen):
/// - the job is going to fail: FailureTarget or Failed is True;
/// - `restartPolicy` is OnFailure and the pod has more restarts than `failurePolicy.restartLimit`;
/// - the pod is not bound, and its node is gone, was replaced, or is not eligible;
/// - the pod is Pending and older than `podStartDeadlineSeconds`;
/// - the attempt is over before its pod: its record is Failed, or is final and has no uid (the pod came
///   late), or there is none and the log is sealed.
///
/// A request of ours that deletes a job finds it Complete or Failed, and `ttlSecondsAfterFinished`
/// over. Nothing else is ever deleted, but for what a CronJob started:
/// [`crate::cron_job::ending::child_ended_for_a_reason`]; for DaemonSets and their pods:
/// [`crate::daemon_set::stopping::stopped_for_a_reason`]; and for Jobs of batch/v1 and their pods:
/// [`crate::job::stopping::stopped_for_a_reason`].
pub fn stopped_for_a_reason(history: &History, assumptions: &Assumptions) -> Verdict {
    let mut checked = Checked::all_of(history);
    let mut world = World::new(assumptions);
    for step in &history.steps {
        let deletes = step.new.as_deref().is_none_or(object::is_deleting);
        if let Some(old) = step.old.as_deref()
            && deletes
            && !object::is_deleting(old)
            && assumptions.ours(step)
            && !is_of_a_run(step)
            && !daemon_set::ownership::is_judged_here(step)
            && !job::ownership::is_judged_here(step, assumptions)
        {
            let refused = match &*step.key.resource {
                PODS => why_not(&world, assumptions, step, old),
                JOBS => why_not_yet(assumptions, step, old),
                _ => Some("such an object is never deleted by the operator".to_owned()),
            };
            checked.require(refused.is_none(), || {
                let why = refused.unwrap_or_default();
                Violation::at(S9, step, format!("{} was deleted: {why}", step.key))
            })?;
        }
        world.apply(step);
    }
    Ok(checked)
}

fn why_not<'h>(
    world: &World<'h>,
    assumptions: &Assumptions,
    step: &Step,
    pod: &'h Value,
) -> Option<String> {
    if object::has_ended(pod) {
        return Some("it had ended, its result may be all that is left of it".to_owned());
    }
    let uid = world.job_of(pod)?;
    let job = world.jobs.get(uid)?;
    let failing = ["FailureTarget", "Failed"];
    if failing.iter().any(|type_| object::is_true(job.last, type_)) {
        return None;
    }
    let record = job.records.get(object::name(pod));
    let over = record.map_or_else(
        || job.is_sealed(),
        |record| {
            let late = record.pod_uid().is_empty() || world.came_late(pod);
            record.is_final() && (late || record.state() == "Failed")
        },
    );
    if over {
        return None;
    }
    let restarts = object::restarts(pod);
    let mut specs = world.specs(uid, step);
    let a_spec_says_so = specs.any(|spec| {
        let limit = at(spec, &["failurePolicy", "restartLimit"]).and_then(Value::as_i64);
        let restarting = text(pod, &["spec", "restartPolicy"]) == "OnFailure";
        restarting && limit.is_some_and(|limit| restarts > limit)
            || starts_too_late(assumptions, step, pod, spec)
    });
    if a_spec_says_so {
        return None;
    }
    let (node, node_uid) = (object::node_of(pod), world.node_uid(uid, pod));
    let spec = &job.last["spec"];
    let lost_its_node = world.node_versions(node, step).any(|node| {
        node.is_none_or(|node| {
            object::uid(node) != node_uid || eligible::refusal(spec, node).is_some()
        })
    });
    if !object::is_bound(pod) && lost_its_node {
        return None;
    }
    Some(format!(
        "the job is not failing, the pod has {restarts} restarts, is{} bound, and its node {node} is {}",
        if object::is_bound(pod) { "" } else { " not" },
        if lost_its_node {
            "not eligible"
        } else {
            "eligible"
        },
    ))
}

/// Whether a pod is Pending though its time to start is over.
fn starts_too_late(assumptions: &Assumptions, step: &Step, pod: &Value, spec: &Value) -> bool {
    let Some(seconds) = at(spec, &["podStartDeadlineSeconds"]).and_then(Value::as_i64) else {
        return false;
    };
    let age =
        time(pod, &["metadata", "creationTimestamp"]).map(|born| step.at.duration_since(born));
    let due = SignedDuration::from_secs(seconds) - assumptions.clock_skew;
    object::phase(pod) == "Pending" && age.is_none_or(|age| age >= due)
}

/// Why the time to live of a job is not over.
pub(crate) fn why_not_yet(assumptions: &Assumptions, step: &Step, job: &Value) -> Option<String> {
    let ttl = at(
        job,
        &["spec", "completionPolicy", "ttlSecondsAfterFinished"],
    );
    let Some(seconds) = ttl.and_then(Value::as_i64) else {
        return Some("it has no ttlSecondsAfterFinished".to_owned());
    };
    if !object::is_terminal(job) {
        return Some("it has not ended".to_owned());
    }
    let end = time(job, &["status", "completionTime"])?;
    let age = step.at.duration_since(end) + assumptions.clock_skew;
    (age < SignedDuration::from_secs(seconds)).then(|| format!("it ended at {end}, too recently"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::{NODES, SLICES};
    use crate::scene::{Scene, breaks, holds, pod_name, strict};
    use serde_json::json;

    fn created(spec: Value) -> Scene {
        let scene = Scene::new().node("n1").job(spec);
        scene.reserve("n1", 1).create("n1", 1)
    }

    fn restarted(scene: Scene, count: i64) -> Scene {
        scene.edit("kubelet", (PODS, &pod_name("n1", 1)), |pod| {
            pod["status"]["containerStatuses"] = json!([{"name": "c", "restartCount": count}]);
        })
    }

    #[test]
    fn a_running_pod_is_not_deleted_without_a_reason() {
        let scene = created(json!({})).bind("n1", 1).phase("n1", 1, "Running");
        let deleted = scene.clone().delete_pod("carillon", "n1", 1);
        breaks(S9, &deleted, &strict(), "the job is not failing");
        let cordoned = scene.cordon("n1", true).delete_pod("carillon", "n1", 1);
        breaks(S9, &cordoned, &strict(), "is bound");
    }

    #[test]
    fn an_ended_pod_is_never_deleted() {
        let scene = created(json!({})).phase("n1", 1, "Succeeded");
        let scene = scene.condition("FailureTarget", "True", "MaxFailedNodesExceeded");
        breaks(
            S9,
            &scene.delete_pod("carillon", "n1", 1),
            &strict(),
            "it had ended",
        );
    }

    #[test]
    fn the_pods_of_a_failing_job_are_stopped_after_that_was_stored() {
        let scene = created(json!({})).bind("n1", 1);
        let stored = scene.condition("FailureTarget", "True", "MaxFailedNodesExceeded");
        holds(S9, &stored.delete_pod("carillon", "n1", 1), &strict());
    }

    #[test]
    fn a_pod_over_its_restart_limit_is_stopped() {
        let limited = || created(json!({"failurePolicy": {"restartLimit": 2}})).bind("n1", 1);
        let over = restarted(limited(), 3).delete_pod("carillon", "n1", 1);
        holds(S9, &over, &strict());
        let within = restarted(limited(), 2).delete_pod("carillon", "n1", 1);
        breaks(S9, &within, &strict(), "has 2 restarts");
        let raised = restarted(limited(), 3).edit("kubectl", (JOBS, "fix"), |job| {
            job["spec"]["failurePolicy"]["restartLimit"] = json!(9);
        });
        let raised = raised.delete_pod("carillon", "n1", 1);
        breaks(S9, &raised, &strict(), "has 3 restarts");
        let lagging = Assumptions {
            lag_revisions: 2,
            ..strict()
        };
        holds(S9, &raised, &lagging);
    }

    #[test]
    fn a_pod_that_is_not_bound_is_withdrawn_from_a_node_that_is_not_eligible() {
        breaks(
            S9,
            &created(json!({})).delete_pod("carillon", "n1", 1),
            &strict(),
            "is not bound",
        );
        let cordoned = created(json!({})).cordon("n1", true);
        holds(
            S9,
            &cordoned.clone().delete_pod("carillon", "n1", 1),
            &strict(),
        );
        let back = cordoned.cordon("n1", false).delete_pod("carillon", "n1", 1);
        breaks(S9, &back, &strict(), "is eligible");
        let lagging = Assumptions {
            lag_revisions: 2,
            ..strict()
        };
        holds(S9, &back, &lagging);
        let gone = created(json!({})).remove("kubectl", (NODES, "n1"));
        holds(S9, &gone.clone().delete_pod("carillon", "n1", 1), &strict());
        let replaced = gone.node_with_uid("n1", "another");
        holds(S9, &replaced.delete_pod("carillon", "n1", 1), &strict());
    }

    #[test]
    fn a_pod_that_does_not_start_in_time_is_stopped() {
        let pending = |seconds| {
            let scene = created(json!({"podStartDeadlineSeconds": 60})).bind("n1", 1);
            scene.later(seconds).delete_pod("carillon", "n1", 1)
        };
        holds(S9, &pending(60), &strict());
        breaks(S9, &pending(10), &strict(), "the job is not failing");
    }

    #[test]
    fn a_pod_whose_attempt_is_over_is_stopped() {
        let late = created(json!({})).bind("n1", 1);
        let late = late.record("n1", 1, |record| record["state"] = json!("Skipped"));
        holds(S9, &late.delete_pod("carillon", "n1", 1), &strict());
        let stray = Scene::new()
            .node("n1")
            .job(json!({}))
            .create("n1", 1)
            .bind("n1", 1);
        let unsealed = stray.clone().delete_pod("carillon", "n1", 1);
        breaks(S9, &unsealed, &strict(), "the job is not failing");
        holds(S9, &stray.seal().delete_pod("carillon", "n1", 1), &strict());
        let given_up = |state| {
            let scene = created(json!({})).bind("n1", 1);
            scene
                .ended("n1", 1, state, "ImagePullBackOff")
                .delete_pod("carillon", "n1", 1)
        };
        holds(S9, &given_up("Failed"), &strict());
        breaks(
            S9,
            &given_up("Started"),
            &strict(),
            "the job is not failing",
        );
    }

    #[test]
    fn a_job_is_deleted_when_its_time_is_over() {
        let ended = |policy: Value| {
            let job = Scene::new()
                .node("n1")
                .job(json!({"completionPolicy": policy}));
            job.succeed("n1", 1)
                .seal()
                .end("Complete", "AllNodesSucceeded", 1, 0)
        };
        let remove = |scene: Scene| scene.remove("carillon", (JOBS, "fix"));
        let ttl = json!({"ttlSecondsAfterFinished": 60});
        holds(S9, &remove(ended(ttl.clone()).later(60)), &strict());
        breaks(S9, &remove(ended(ttl.clone())), &strict(), "too recently");
        breaks(
            S9,
            &remove(ended(json!({}))),
            &strict(),
            "no ttlSecondsAfterFinished",
        );
        let open = Scene::new().job(json!({"completionPolicy": ttl}));
        breaks(S9, &remove(open), &strict(), "it has not ended");
        let slice = Scene::good().remove("carillon", (SLICES, "fix-results-0"));
        breaks(S9, &slice, &strict(), "never deleted");
    }
}
