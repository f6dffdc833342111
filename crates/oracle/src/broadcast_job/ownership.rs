//! S11: we write what is ours, and say which version we mean.

use serde_json::Value;

use super::family;
use super::world::World;
use crate::history::{History, Request, Step};
use crate::invariant::Invariant::S11;
use crate::object::{
    self, EVENTS, FINALIZER, JOB_LABELS, JOBS, LEASES, PODS, SLICES, at, list, text,
};
use crate::verdict::{Assumptions, Checked, Verdict, Violation};
use crate::writes::{misdirected, without};
use crate::{cron_job, daemon_set, job};

/// S11. For every step that a request of ours made:
/// - it is a pod, a NodeResultSlice, a BroadcastJob, a lease or an event, and no `deletecollection`;
/// - a pod or slice is, or was when it was made, controlled by a BroadcastJob of the same namespace that
///   exists in the state before; for anything but a creation it may be gone, and for a creation it may have
///   gone within the life of a plan, which asks once;
/// - of a pod only our finalizer is taken off, once it is created, and the labels of its job are put back;
/// - of a BroadcastJob only the status changes, and neither `spec` nor metadata;
/// - the path names the namespace of the object;
/// - with `bodies`: a delete has preconditions on uid and resourceVersion; a patch of a slice or of a
///   status has a resourceVersion; a patch of a pod has its uid.
///
/// CronJobs and what they start are judged by [`crate::cron_job::ownership::only_what_it_started`], DaemonSets by
/// [`crate::daemon_set::ownership::only_its_own`], Jobs of batch/v1 and their pods by
/// [`crate::job::ownership::only_its_own`].
pub fn only_what_is_ours(history: &History, assumptions: &Assumptions) -> Verdict {
    let mut checked = Checked::all_of(history);
    let mut world = World::new(assumptions);
    for step in &history.steps {
        if let Some(by) = step.by.as_deref().filter(|_| assumptions.ours(step))
            && !cron_job::ownership::is_judged_here(step)
            && !daemon_set::ownership::is_judged_here(step)
            && !job::ownership::is_judged_here(step, assumptions)
        {
            let wrong = foreign(&world, step, by)
                .or_else(|| changed_too_much(step))
                .or_else(|| {
                    let judged = assumptions.bodies && is_versioned(step);
                    judged.then(|| unconditional(step, by)).flatten()
                });
            checked.require(wrong.is_none(), || {
                let wrong = wrong.unwrap_or_default();
                Violation::at(S11, step, format!("{}: {wrong}", step.key))
            })?;
        }
        world.apply(step);
    }
    Ok(checked)
}

fn is_versioned(step: &Step) -> bool {
    [JOBS, PODS, SLICES].contains(&&*step.key.resource)
}

fn foreign<'h>(world: &World<'h>, step: &'h Step, by: &Request) -> Option<String> {
    let resource = &*step.key.resource;
    let known = is_versioned(step) || resource == LEASES || EVENTS.contains(&resource);
    if !known {
        return Some("such objects are not the operator's to write".to_owned());
    }
    if let Some(wrong) = misdirected(step, by) {
        return Some(wrong);
    }
    if resource != PODS && resource != SLICES {
        return None;
    }
    let object = step.old.as_deref().or(step.new.as_deref())?;
    let job = match resource {
        SLICES => object::log_of(object),
        _ => world.job_of(object),
    };
    let Some(uid) = job else {
        return Some("no BroadcastJob controls it".to_owned());
    };
    let Some(job) = world.jobs.get(uid) else {
        return Some(format!("the job {uid} never existed"));
    };
    if job.key.namespace != step.key.namespace {
        return Some(format!("its job is {}", job.key));
    }
    // The next of a family closes the log of one that is gone.
    if resource == SLICES && family::outlives(world, job) {
        return None;
    }
    let begun = world.assumptions.is_created_after(step, job.gone);
    begun.then(|| format!("its job {} is gone", job.key))
}

fn changed_too_much(step: &Step) -> Option<String> {
    let (old, new) = (step.old.as_deref()?, step.new.as_deref()?);
    // A delete sets the times of deletion, and nothing else.
    if object::is_deleting(new) && !object::is_deleting(old) {
        return None;
    }
    let without = |object: &Value| without(object, FINALIZER);
    match &*step.key.resource {
        PODS if object::is_tracked(new) && !object::is_tracked(old) => {
            Some("the finalizer was put on a pod that had none".to_owned())
        }
        PODS if without(&labelled_as(old, new)) != without(new) => {
            Some("more than the finalizer of the pod changed".to_owned())
        }
        JOBS if old["spec"] != new["spec"] => Some("the spec of the job changed".to_owned()),
        JOBS if without(old)["metadata"] != without(new)["metadata"] => {
            Some("the metadata of the job changed".to_owned())
        }
        SLICES
            if list(old, &["metadata", "ownerReferences"])
                != list(new, &["metadata", "ownerReferences"]) =>
        {
            Some("the owner of the slice changed".to_owned())
        }
        _ => None,
    }
}

/// A pod before a change of ours, with the labels of its job, if it has them after it.
fn labelled_as(old: &Value, new: &Value) -> Value {
    let mut object = old.clone();
    for label in JOB_LABELS {
        let after = &new["metadata"]["labels"][label];
        if after.is_string() {
            object["metadata"]["labels"][label] = after.clone();
        }
    }
    object
}

fn unconditional(step: &Step, by: &Request) -> Option<String> {
    let object = step.old.as_deref()?;
    let body = by.body.as_ref().unwrap_or(&Value::Null);
    let has = |path: &[&str]| !text(body, path).is_empty();
    let same_uid = |path: &[&str]| at(body, path).is_some_and(|uid| uid == object::uid(object));
    let conditional = match (&*by.verb, &*step.key.resource) {
        ("delete", _) => {
            same_uid(&["preconditions", "uid"]) && has(&["preconditions", "resourceVersion"])
        }
        (_, PODS) => same_uid(&["metadata", "uid"]),
        _ => has(&["metadata", "resourceVersion"]),
    };
    (!conditional).then(|| {
        format!(
            "the {} does not say which version it means: {body}",
            by.verb
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::{Scene, breaks, holds, pod_name, strict};
    use serde_json::json;

    fn created() -> Scene {
        let scene = Scene::new().node("n1").job(json!({}));
        scene.reserve("n1", 1).create("n1", 1)
    }

    #[test]
    fn a_clean_run_writes_only_what_is_ours() {
        holds(S11, &Scene::good().event("JobComplete"), &strict());
        let stopped = created().cordon("n1", true).delete_pod("carillon", "n1", 1);
        holds(S11, &stopped, &strict());
    }

    #[test]
    fn a_pod_that_was_taken_from_its_job_is_ours_to_release_and_to_label() {
        let place = (PODS, &*pod_name("n1", 1));
        let taken = || {
            created().edit("tenant", place, |pod| {
                pod["metadata"]["ownerReferences"] = json!([]);
                pod["metadata"]["labels"] = json!({"app": "web"});
            })
        };
        let label = |pod: &mut Value, value: &str| {
            pod["metadata"]["labels"]["carillon.dev/broadcastjob-uid"] = json!(value);
        };
        holds(S11, &taken().release("n1", 1), &strict());
        let labelled = taken().edit("carillon", place, |pod| label(pod, "job-uid"));
        let lax = Assumptions {
            bodies: false,
            ..strict()
        };
        holds(S11, &labelled, &lax);
        let more = taken().edit("carillon", place, |pod| {
            label(pod, "job-uid");
            pod["metadata"]["labels"]["app"] = json!("x");
        });
        breaks(S11, &more, &lax, "more than the finalizer");
    }

    #[test]
    fn other_kinds_are_not_written() {
        let scene = created().edit("carillon", (object::NODES, "n1"), |node| {
            node["spec"]["unschedulable"] = json!(true);
        });
        breaks(S11, &scene, &strict(), "not the operator's to write");
        let collection = created().by("carillon", "deletecollection");
        let collection = collection.delete_pod("carillon", "n1", 1);
        breaks(S11, &collection, &strict(), "deletecollection");
    }

    #[test]
    fn a_pod_of_somebody_else_is_not_written() {
        let alone = Scene::new().node("n1").job(json!({}));
        let mut pod = alone.pod("n1", 1);
        pod["metadata"]["ownerReferences"] = json!([]);
        breaks(
            S11,
            &alone.clone().create_pod(pod),
            &strict(),
            "no BroadcastJob controls it",
        );
        let mut pod = alone.pod("n1", 1);
        pod["metadata"]["ownerReferences"][0]["uid"] = json!("another");
        breaks(
            S11,
            &alone.clone().create_pod(pod),
            &strict(),
            "never existed",
        );
        let pod = alone.pod("n1", 1);
        let gone = alone.remove("kubectl", (JOBS, "fix")).create_pod(pod);
        breaks(S11, &gone, &strict(), "is gone");
    }

    #[test]
    fn a_request_goes_to_the_namespace_of_its_object() {
        let mut history = created().history();
        let last = history.steps.last_mut().unwrap();
        let mut by = (**last.by.as_ref().unwrap()).clone();
        by.uri = "/api/v1/namespaces/other/pods".to_owned();
        last.by = Some(by.into());
        let violation = only_what_is_ours(&history, &strict()).unwrap_err();
        assert!(violation.what.contains("went to"), "{violation}");
        let mut history = created().history();
        let last = history.steps.last_mut().unwrap();
        last.key.namespace = "other".into();
        let violation = only_what_is_ours(&history, &strict()).unwrap_err();
        assert!(violation.what.contains("went to"), "{violation}");
        last_without_uri(&mut history);
        let violation = only_what_is_ours(&history, &strict()).unwrap_err();
        assert!(violation.what.contains("its job is"), "{violation}");
    }

    fn last_without_uri(history: &mut History) {
        let last = history.steps.last_mut().unwrap();
        let mut by = (**last.by.as_ref().unwrap()).clone();
        by.uri = String::new();
        last.by = Some(by.into());
    }

    #[test]
    fn of_pods_and_jobs_only_little_changes() {
        let name = pod_name("n1", 1);
        let relabelled = created().edit("carillon", (PODS, &name), |pod| {
            pod["metadata"]["labels"]["x"] = json!("y");
        });
        breaks(S11, &relabelled, &strict(), "more than the finalizer");
        let tracked = created()
            .release("n1", 1)
            .edit("carillon", (PODS, &name), |pod| {
                pod["metadata"]["finalizers"] = json!([FINALIZER]);
            });
        breaks(S11, &tracked, &strict(), "put on a pod");
        let spec = created().edit("carillon", (JOBS, "fix"), |job| {
            job["spec"]["paused"] = json!(true);
        });
        breaks(S11, &spec, &strict(), "the spec of the job changed");
        let labels = created().edit("carillon", (JOBS, "fix"), |job| {
            job["metadata"]["labels"] = json!({"x": "y"});
        });
        breaks(S11, &labels, &strict(), "the metadata of the job changed");
        let owner =
            created().slice(|slice| slice["metadata"]["ownerReferences"][0]["uid"] = json!("x"));
        breaks(S11, &owner, &strict(), "the owner of the slice changed");
    }

    #[test]
    fn a_write_says_which_version_it_means() {
        let without_body = Assumptions {
            bodies: false,
            ..strict()
        };
        for scene in [
            created()
                .by("carillon", "delete")
                .delete_pod("carillon", "n1", 1),
            created().by("carillon", "patch").release("n1", 1),
            created().by("carillon", "patch").seal(),
            created().by("carillon", "patch").counts(0, 0),
        ] {
            breaks(S11, &scene, &strict(), "does not say which version");
            holds(S11, &scene, &without_body);
        }
    }
}
