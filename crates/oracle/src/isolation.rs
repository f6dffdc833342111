//! S18: what a tenant does in its namespace is nobody else's business.

mod identities;
pub mod requests;

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use self::identities::Identities;
use crate::cron_job::object::{CRONS, HOLD, JOBS_OF_BATCH};
use crate::daemon_set::world::{REVISIONS, SETS};
use crate::history::{History, Step};
use crate::invariant::Invariant::S18;
use crate::job::object::TRACKING;
use crate::object::{
    EVENTS, FINALIZER, GROUP, JOB_LABELS, JOBS, LEASES, PODS, SLICES, at, controller, is_deleting,
    list,
};
use crate::verdict::{Assumptions, Checked, Verdict, Violation};

/// S18. In a run with a `tenant`, who may do in one namespace what the role `edit` and `pods/status` allow:
/// - nothing crosses: where a request of ours brings a uid into an object (fields whose names end in `uid`,
///   and `uncountedTerminatedPods`), it is not that of an object of another namespace;
/// - in the tenant's namespace we create only what an object of it controls that exists or existed there: its
///   controller has the right group, kind, name and uid;
/// - what we delete there an object of it controls, or did, unless it is a job whose own time to live is over;
/// - of a pod that is there we write finalizers, owners and the labels of its job only, of a Job, CronJob or
///   BroadcastJob the status and finalizers. None is taken off that is not ours. Off a pod ours is taken only
///   where it can be meant: by the group and kind of what controls it, or did, or by the label of a pod.
///
/// What we ask for is judged by [`requests::asked_within_bounds`]. All other invariants judge the history
/// without the tenant's namespace: what happens elsewhere is what they say, whatever the tenant does. Where the
/// schedule allows it the end is compared with that of the same run without a tenant, and so is the time it
/// took: a difference is one of S18.
pub fn namespaces_are_isolated(history: &History, assumptions: &Assumptions) -> Verdict {
    let mut checked = Checked::all_of(history);
    let Some(tenant) = assumptions.tenant.as_deref() else {
        return Ok(checked);
    };
    let known = Identities::of(history);
    for step in history.steps.iter().filter(|step| assumptions.ours(step)) {
        let crosses = known.brought_from_elsewhere(step);
        checked.require(crosses.is_none(), || {
            let (uid, namespace) = crosses.unwrap_or_default();
            let what = format!("{} is told of {uid}, which is of {namespace:?}", step.key);
            Violation::at(S18, step, what)
        })?;
        if &*step.key.namespace != tenant {
            continue;
        }
        let wrong = meddles(&known, step);
        checked.require(wrong.is_none(), || {
            let what = format!("{}: {}", step.key, wrong.unwrap_or_default());
            Violation::at(S18, step, what)
        })?;
    }
    Ok(checked)
}

impl History {
    /// What happens outside of a namespace.
    #[must_use]
    pub fn outside(&self, namespace: &str) -> Self {
        let steps = self.steps.iter();
        let outside = steps.filter(|step| &*step.key.namespace != namespace);
        Self {
            steps: outside.cloned().collect(),
        }
    }
}

/// What is wrong with a write of ours in the tenant's namespace.
fn meddles(known: &Identities<'_>, step: &Step) -> Option<String> {
    let resource = &*step.key.resource;
    if resource == LEASES || EVENTS.contains(&resource) {
        return None;
    }
    let (old, new) = (step.old.as_deref(), step.new.as_deref());
    let object = new.or(old)?;
    let controlled = known.is_controlled(object, &step.key.namespace);
    let Some(old) = old else {
        return (!controlled).then(|| "it is created, and nothing here controls it".to_owned());
    };
    let deletes = new.is_none_or(is_deleting) && !is_deleting(old);
    if deletes {
        let expires = expires(resource, old);
        return (!controlled && !expires)
            .then(|| "it is deleted, and nothing here ever controlled it".to_owned());
    }
    if resource == SLICES {
        return (!controlled).then(|| "it is a slice of no job of this namespace".to_owned());
    }
    // Gone with its last finalizer.
    let gone = Value::Null;
    let new = new.unwrap_or(&gone);
    if !new.is_null() && kept(resource, old) != kept(resource, new) {
        return Some("more than is ours to write has changed".to_owned());
    }
    let removed = removed(old, new);
    let foreign = removed
        .iter()
        .find(|name| ![FINALIZER, TRACKING, HOLD].contains(name));
    if let Some(name) = foreign {
        return Some(format!(
            "the finalizer {name} is taken off, which is not ours"
        ));
    }
    let lets_go = removed
        .iter()
        .find(|name| !may_release(known, resource, old, name));
    lets_go.map(|name| format!("{name} is taken off, and nothing that we serve ever controlled it"))
}

/// Whether a finalizer of ours is on an object of which it can be meant: a pod that a job controls, or did,
/// whether that exists or not, or that has or had the label of one. A pod that nothing controls is tracked for nobody.
/// A run is held for a CronJob: no other controller would release it, so it is released whatever controls it by now.
fn may_release(known: &Identities<'_>, resource: &str, object: &Value, finalizer: &str) -> bool {
    match finalizer {
        FINALIZER => {
            known.was_labelled(object)
                || known.was_controlled_by(object, &[(GROUP, "BroadcastJob")])
        }
        TRACKING => {
            controller(object).is_none() || known.was_controlled_by(object, &[("batch", "Job")])
        }
        _ => [JOBS, JOBS_OF_BATCH].contains(&resource),
    }
}

/// Whether a job may be deleted because its time to live is over.
fn expires(resource: &str, job: &Value) -> bool {
    let of = |path: &[&str]| at(job, path).is_some_and(Value::is_i64);
    match resource {
        JOBS => of(&["spec", "completionPolicy", "ttlSecondsAfterFinished"]),
        JOBS_OF_BATCH => of(&["spec", "ttlSecondsAfterFinished"]),
        _ => false,
    }
}

/// The part of an object that we do not write.
fn kept(resource: &str, object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        let bookkeeping = ["managedFields", "resourceVersion", "generation"];
        for field in bookkeeping.iter().chain(&["finalizers", "ownerReferences"]) {
            metadata.remove(*field);
        }
        let labels = metadata.get_mut("labels").and_then(Value::as_object_mut);
        if let Some(labels) = labels.filter(|_| resource == PODS) {
            for label in JOB_LABELS {
                labels.remove(label);
            }
        }
        if metadata
            .get("labels")
            .and_then(Value::as_object)
            .is_some_and(Map::is_empty)
        {
            metadata.remove("labels");
        }
    }
    let jobs = [JOBS, JOBS_OF_BATCH];
    let served = jobs.contains(&resource) || SETS.contains(&resource) || CRONS.contains(&resource);
    if let Some(object) = object.as_object_mut().filter(|_| served) {
        object.remove("status");
    }
    debug_assert!(
        served || [PODS, REVISIONS].contains(&resource),
        "{resource}"
    );
    if resource == REVISIONS
        && let Some(object) = object.as_object_mut()
    {
        object.remove("revision");
    }
    object
}

/// Finalizers that an object has lost.
fn removed<'v>(old: &'v Value, new: &Value) -> BTreeSet<&'v str> {
    let left = list(new, &["metadata", "finalizers"]);
    let lost = list(old, &["metadata", "finalizers"]).iter();
    let lost = lost.filter(|name| !left.contains(name));
    lost.filter_map(Value::as_str).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::{text, uid};
    use crate::scene::{Scene, breaks, holds, pod_name};
    use serde_json::json;

    /// Whoever has the namespace of the scene.
    fn tenant() -> Assumptions {
        Assumptions {
            tenant: Some("ops".into()),
            ..Assumptions::default()
        }
    }

    fn elsewhere() -> Assumptions {
        Assumptions {
            tenant: Some("evil".into()),
            ..Assumptions::default()
        }
    }

    #[test]
    fn a_clean_run_of_a_tenant_is_no_crime() {
        holds(S18, &Scene::good(), &tenant());
        holds(S18, &Scene::two_runs(), &tenant());
        holds(S18, &Scene::summed(), &tenant());
        holds(S18, &Scene::good(), &elsewhere());
    }

    #[test]
    fn what_is_of_another_namespace_is_in_no_record() {
        let copy = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "copy", "namespace": "evil", "uid": "pod-of-evil"}});
        let scene = Scene::new().node("n1").job(json!({})).reserve("n1", 1);
        let scene = scene.in_namespace("evil", "tenant", copy);
        holds(S18, &scene, &elsewhere());
        let told = scene.record("n1", 1, |record| record["podUID"] = json!("pod-of-evil"));
        breaks(S18, &told, &elsewhere(), "which is of \"evil\"");
    }

    #[test]
    fn only_what_a_job_of_the_tenant_controls_is_created_and_deleted() {
        let run = || Scene::new().node("n1").job(json!({})).reserve("n1", 1);
        let stray = |change: fn(&mut Value)| {
            run()
                .create("n1", 1)
                .edit("tenant", (PODS, &pod_name("n1", 1)), change)
        };
        let deleted = |scene: Scene| scene.remove("carillon", (PODS, &pod_name("n1", 1)));
        holds(S18, &deleted(run().create("n1", 1)), &tenant());
        // It was one of ours, and we may not have seen that it is no more.
        let given_away = stray(|pod| pod["metadata"]["ownerReferences"] = json!([]));
        holds(S18, &deleted(given_away), &tenant());
        let other = |owner: Value| {
            let mut pod = run().create("n1", 1).object(PODS, &pod_name("n1", 1));
            pod["metadata"]["name"] = json!("other");
            pod["metadata"]["uid"] = json!("other");
            pod["metadata"]["ownerReferences"][0]
                .as_object_mut()
                .unwrap()
                .extend(owner.as_object().unwrap().clone());
            let place = (PODS, "other");
            let made = run().step("tenant", "create", place, Some(pod), None);
            made.remove("carillon", place)
        };
        let right = other(json!({"controller": true}));
        holds(S18, &right, &tenant());
        for wrong in [
            json!({"apiVersion": "example.com/v1"}),
            json!({"kind": "Job"}),
            json!({"name": "other"}),
            json!({"uid": "other"}),
            json!({"controller": false}),
        ] {
            breaks(S18, &other(wrong), &tenant(), "ever controlled");
        }
    }

    #[test]
    fn of_what_is_there_no_more_is_written_than_is_ours() {
        let run = || Scene::new().node("n1").job(json!({})).reserve("n1", 1);
        let pod = |change: fn(&mut Value)| {
            let name = pod_name("n1", 1);
            run()
                .create("n1", 1)
                .edit("carillon", (PODS, &name), change)
        };
        breaks(
            S18,
            &pod(|pod| pod["metadata"]["labels"]["a"] = json!("b")),
            &tenant(),
            "more than is ours",
        );
        holds(
            S18,
            &pod(|pod| pod["metadata"]["finalizers"] = json!([])),
            &tenant(),
        );
        let other = run().create("n1", 1).object(PODS, &pod_name("n1", 1));
        let name = pod_name("n1", 1);
        let made = |group: &str, labels: Value| {
            let mut pod = other.clone();
            pod["metadata"]["uid"] = json!("other");
            pod["metadata"]["labels"] = labels;
            pod["metadata"]["ownerReferences"][0]["apiVersion"] = json!(group);
            run().step("tenant", "create", (PODS, &name), Some(pod), None)
        };
        let release = |scene: Scene| {
            scene.edit("carillon", (PODS, &name), |pod| {
                pod["metadata"]["finalizers"] = json!([]);
            })
        };
        let other_group = |group: &str, labels: Value| release(made(group, labels));
        let none = || json!({});
        holds(S18, &other_group("carillon.dev/v9", none()), &tenant());
        // What has our label and our finalizer is released, whatever controls it by now.
        let labelled = || json!({"carillon.dev/broadcastjob-uid": "job-uid"});
        holds(S18, &other_group("example.com/v1", labelled()), &tenant());
        // Whoever lets it go may still see a label that it has lost.
        let lost = made("example.com/v1", labelled()).edit("tenant", (PODS, &name), |pod| {
            pod["metadata"]["labels"] = none();
        });
        holds(S18, &release(lost), &tenant());
        let wrong = other_group("example.com/v1", none());
        breaks(S18, &wrong, &tenant(), "nothing that we serve");
        let kept = run()
            .create("n1", 1)
            .edit("tenant", (PODS, &pod_name("n1", 1)), |pod| {
                pod["metadata"]["finalizers"] = json!(["example.com/keep"]);
            });
        let lost = kept.edit("carillon", (PODS, &pod_name("n1", 1)), |pod| {
            pod["metadata"]["finalizers"] = json!([]);
        });
        breaks(S18, &lost, &tenant(), "which is not ours");
        let spec = run().edit("carillon", (JOBS, "fix"), |job| {
            job["spec"]["parallelism"] = json!(9);
        });
        breaks(S18, &spec, &tenant(), "more than is ours");
    }

    #[test]
    fn a_run_that_another_controller_has_is_released() {
        let held = |owner: Value| {
            let mut run = Scene::new().job(json!({})).object(JOBS, "fix");
            run["metadata"]["name"] = json!("run");
            run["metadata"]["uid"] = json!("run");
            run["metadata"]["finalizers"] = json!([HOLD, "example.com/keep"]);
            run["metadata"]["ownerReferences"] = json!([owner]);
            let made = Scene::new().step("tenant", "create", (JOBS, "run"), Some(run), None);
            made.edit("carillon", (JOBS, "run"), |run| {
                run["metadata"]["finalizers"] = json!(["example.com/keep"]);
            })
        };
        for group in ["carillon.dev/v1alpha1", "batch/v1", "example.com/v1"] {
            let owner = json!({"apiVersion": group, "kind": "CronJob", "name": "night", "uid": "cron", "controller": true});
            holds(S18, &held(owner), &tenant());
        }
    }

    #[test]
    fn the_other_invariants_do_not_look_at_the_tenant() {
        let report = |assumptions: &Assumptions| {
            let wrong = Scene::good().counts(9, 9);
            crate::check_all(&wrong.history(), assumptions)
        };
        assert!(report(&Assumptions::default()).violations().count() > 0);
        assert_eq!(report(&tenant()).violations().count(), 0);
        assert!(report(&elsewhere()).violations().count() > 0);
    }

    #[test]
    fn a_uid_is_what_a_field_says_that_has_its_name() {
        let status = json!({"uid": "a", "podUID": "b", "note": "c",
            "uncountedTerminatedPods": {"succeeded": ["d"], "failed": []}});
        let found = identities::uids_in(&status);
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["a", "b", "d"]);
        assert_eq!((text(&status, &["note"]), uid(&status)), ("c", ""));
    }
}
