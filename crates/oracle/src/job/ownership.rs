//! S11: of Jobs that we serve the status is ours, and of their pods their coming, their finalizer and
//! their going.

use serde_json::Value;

use super::object::{self as of_job, JOBS, TRACKING};
use super::world::Jobs;
use crate::cron_job::object::{cron_of, is_held};
use crate::history::{History, Request, Step};
use crate::invariant::Invariant::S11;
use crate::object::{self, PODS, at, is_deleting, text};
use crate::verdict::{Assumptions, Checked, Verdict, Violation};
use crate::writes::{misdirected, without};

/// S11. For every step that a request of ours made on a pod that a Job of batch/v1 controls (or is to, or
/// did), and on a Job that we serve (apart from what its CronJob does with it):
/// - it is no `deletecollection`, and its path names the namespace of the object;
/// - a pod is created only for a Job that we serve, that exists, in its namespace, and that controls it;
/// - of a pod that is there nothing is written but the removal of the tracking finalizer; one whose
///   Job others serve is released only once that is gone. Exempt: one that nothing controls and that the
///   Job selects is given this owner and the finalizer, one that the Job no longer selects loses both;
/// - of a Job only the status changes;
/// - with `bodies`: a delete has a precondition on the uid, a patch of a pod its uid, one of a status a
///   resourceVersion.
pub fn only_its_own(history: &History, assumptions: &Assumptions) -> Verdict {
    let mut checked = Checked::all_of(history);
    let mut jobs = Jobs::new(assumptions);
    for step in &history.steps {
        if let Some(by) = step.by.as_deref().filter(|_| assumptions.ours(step))
            && is_judged_here(step, assumptions)
        {
            let wrong = misdirected(step, by)
                .or_else(|| match &*step.key.resource {
                    PODS => foreign(&jobs, history, step).or_else(|| changed_too_much(&jobs, step)),
                    _ => more_than_the_status(step),
                })
                .or_else(|| {
                    let judged = assumptions.bodies;
                    judged.then(|| unconditional(step, by)).flatten()
                });
            checked.require(wrong.is_none(), || {
                let what = format!("{}: {}", step.key, wrong.unwrap_or_default());
                Violation::at(S11, step, what)
            })?;
        }
        jobs.apply(step);
    }
    Ok(checked)
}

/// Whether a step is about a pod of a Job, or about a Job that we serve and not as a run.
pub(crate) fn is_judged_here(step: &Step, assumptions: &Assumptions) -> bool {
    let object = step.old.as_deref().or(step.new.as_deref());
    let Some(object) = object else { return false };
    match &*step.key.resource {
        PODS => {
            let new = step.new.as_deref();
            let adopted = new.is_some_and(|new| of_job::job_of(new).is_some());
            of_job::job_of(object).is_some() || adopted || of_job::is_tracked(object)
        }
        JOBS => of_job::is_managed(assumptions, object) && !as_a_run(step),
        _ => false,
    }
}

/// Whether a step is what a CronJob does with a Job it has started: it comes, is released, or goes without
/// its time being over.
fn as_a_run(step: &Step) -> bool {
    let Some(old) = step.old.as_deref() else {
        return true;
    };
    let held = |job: Option<&Value>| job.is_some_and(is_held);
    let lets_go = held(Some(old)) && !held(step.new.as_deref());
    let goes = step.new.as_deref().is_none_or(is_deleting) && !is_deleting(old);
    let expires = old["spec"]["ttlSecondsAfterFinished"].is_i64();
    cron_of(old).is_some() && (lets_go || goes && !expires)
}

fn foreign(jobs: &Jobs<'_>, history: &History, step: &Step) -> Option<String> {
    let states = [step.old.as_deref(), step.new.as_deref()];
    let uid = states.into_iter().flatten().find_map(of_job::job_of)?;
    let Some(job) = jobs.all.get(uid) else {
        let there = step.old.is_none() || is_there(history, step, uid);
        return there.then(|| format!("the Job {uid} is not ours to serve"));
    };
    if job.key.namespace != step.key.namespace {
        return Some(format!("its Job is {}", job.key));
    }
    let begun = jobs.assumptions.is_created_after(step, job.gone);
    begun.then(|| format!("its Job {} is gone", job.key))
}

/// Whether a Job that others serve exists before a step.
fn is_there(history: &History, step: &Step, uid: &str) -> bool {
    let before = history
        .steps
        .iter()
        .take_while(|other| other.rev < step.rev);
    let of_it = before.filter(|other| {
        let object = other.new.as_deref().or(other.old.as_deref());
        *other.key.resource == *JOBS && object.is_some_and(|object| object::uid(object) == uid)
    });
    of_it.last().is_some_and(|last| last.new.is_some())
}

fn changed_too_much(jobs: &Jobs<'_>, step: &Step) -> Option<String> {
    let (old, new) = (step.old.as_deref()?, step.new.as_deref()?);
    let (was, is) = (of_job::job_of(old), of_job::job_of(new));
    if was == is {
        // An adoption that comes late finds a pod that was adopted, and may have been released.
        let late = (jobs.assumptions.late)(step);
        return more_than_the_finalizer(step).filter(|_| !late);
    }
    let mut versions = is.or(was).and_then(|uid| jobs.all.get(uid)).into_iter();
    let selects = versions.any(|job| of_job::selects(job.last, new));
    let adopts = was.is_none() && selects && of_job::is_tracked(new);
    let gives_away = is.is_none() && !selects && !of_job::is_tracked(new);
    let same = without_owner(old) == without_owner(new);
    (!same || !adopts && !gives_away).then(|| "its owner changed without a reason".to_owned())
}

fn without_owner(pod: &Value) -> Value {
    let mut pod = without(pod, TRACKING);
    if let Some(metadata) = pod["metadata"].as_object_mut() {
        metadata.remove("ownerReferences");
    }
    pod
}

fn more_than_the_finalizer(step: &Step) -> Option<String> {
    let (old, new) = (step.old.as_deref()?, step.new.as_deref()?);
    // A delete sets the times of deletion, and nothing else.
    if is_deleting(new) && !is_deleting(old) {
        return None;
    }
    if of_job::is_tracked(new) && !of_job::is_tracked(old) {
        return Some(format!("{TRACKING} was put on a pod that had none"));
    }
    (without(old, TRACKING) != without(new, TRACKING))
        .then(|| format!("more than {TRACKING} changed"))
}

fn more_than_the_status(step: &Step) -> Option<String> {
    let (old, new) = (step.old.as_deref()?, step.new.as_deref()?);
    if is_deleting(new) && !is_deleting(old) {
        return None;
    }
    let changed = |part: &str| without(old, "")[part] != without(new, "")[part];
    let part = ["spec", "metadata"]
        .into_iter()
        .find(|part| changed(part))?;
    Some(format!("the {part} of the Job changed"))
}

fn unconditional(step: &Step, by: &Request) -> Option<String> {
    let object = step.old.as_deref()?;
    let body = by.body.as_ref().unwrap_or(&Value::Null);
    let same_uid = |path: &[&str]| at(body, path).is_some_and(|uid| *uid == object::uid(object));
    let conditional = match (&*by.verb, &*step.key.resource) {
        ("delete", _) => same_uid(&["preconditions", "uid"]),
        (_, PODS) => same_uid(&["metadata", "uid"]),
        _ => !text(body, &["metadata", "resourceVersion"]).is_empty(),
    };
    (!conditional).then(|| {
        let verb = &by.verb;
        format!("the {verb} does not say which version it means: {body}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::scene::begun;
    use crate::scene::{Scene, breaks, holds, strict};
    use serde_json::json;

    #[test]
    fn a_clean_run_writes_only_what_is_ours() {
        holds(S11, &Scene::summed(), &strict());
        holds(S11, &begun().remove_sum("kubectl").sum_frees(1), &strict());
    }

    #[test]
    fn a_job_that_others_serve_is_theirs() {
        let others = || Scene::new().sum(json!({"managedBy": "example.com/other"}));
        breaks(S11, &others(), &strict(), "CronJob");
        let native = Assumptions {
            native: &[JOBS],
            ..strict()
        };
        let plain = Scene::new()
            .sum(json!({"managedBy": Value::Null}))
            .sum_starts(1);
        holds(S11, &plain, &native);
        let foreign = begun().edit("carillon", (PODS, "sum-1"), |pod| {
            pod["metadata"]["ownerReferences"][0]["uid"] = json!("other");
        });
        breaks(S11, &foreign, &strict(), "its owner changed");
        let stray = begun();
        let mut pod = stray.sum_pod(2, None);
        pod["metadata"]["ownerReferences"][0]["uid"] = json!("other");
        breaks(
            S11,
            &stray.make_sum_pod(pod),
            &strict(),
            "is not ours to serve",
        );
    }

    #[test]
    fn little_of_a_job_and_its_pods_is_changed() {
        let spec = begun().edit("carillon", (JOBS, "sum"), |job| {
            job["spec"]["parallelism"] = json!(9);
        });
        breaks(S11, &spec, &strict(), "the spec of the Job changed");
        let label = begun().edit("carillon", (PODS, "sum-1"), |pod| {
            pod["metadata"]["labels"]["a"] = json!("b");
        });
        breaks(S11, &label, &strict(), "more than");
        let again = begun()
            .sum_frees(1)
            .edit("carillon", (PODS, "sum-1"), |pod| {
                pod["metadata"]["finalizers"] = json!([TRACKING]);
            });
        breaks(S11, &again, &strict(), "was put on a pod");
        let gone = begun().remove_sum("kubectl");
        breaks(S11, &gone.clone().sum_starts(2), &strict(), "is gone");
        // Whoever created it had asked, and somebody else was quicker.
        let lags = Assumptions {
            lag: jiff::SignedDuration::from_hours(1),
            ..strict()
        };
        holds(S11, &gone.clone().sum_starts(2), &lags);
        breaks(S11, &gone.later(15).sum_starts(2), &lags, "is gone");
    }

    #[test]
    fn a_pod_is_adopted_or_given_away_by_its_labels() {
        let by_app = json!({"selector": {"matchLabels": {"app": "sum"}}});
        let begun = || Scene::new().sum(by_app.clone()).sum_starts(1);
        let place = (PODS, "sum-1");
        let free = |scene: Scene, agent: &str| {
            let mut pod = scene.object(PODS, "sum-1");
            pod["metadata"]["ownerReferences"] = json!([]);
            pod["metadata"]["finalizers"] = json!([]);
            let body = json!({"metadata": {"uid": pod["metadata"]["uid"]}});
            scene.step(agent, "patch", place, Some(pod), Some(body))
        };
        breaks(
            S11,
            &free(begun(), "carillon"),
            &strict(),
            "without a reason",
        );
        let label = |pod: &mut Value| pod["metadata"]["labels"]["app"] = json!("other");
        let other = || begun().edit("kubectl", place, label);
        holds(S11, &free(other(), "carillon"), &strict());
        let adopt = |scene: Scene| {
            let pod = begun().object(PODS, "sum-1");
            let mut now = scene.object(PODS, "sum-1");
            for field in ["ownerReferences", "finalizers"] {
                now["metadata"][field] = pod["metadata"][field].clone();
            }
            let body = json!({"metadata": {"uid": now["metadata"]["uid"]}});
            scene.step("carillon", "patch", place, Some(now), Some(body))
        };
        holds(S11, &adopt(free(begun(), "kubectl")), &strict());
        breaks(
            S11,
            &adopt(free(other(), "kubectl")),
            &strict(),
            "without a reason",
        );
    }

    #[test]
    fn a_write_says_which_version_it_means() {
        let job = begun().object(JOBS, "sum");
        let mut job = job;
        job["status"]["active"] = json!(1);
        let blind = begun().step(
            "carillon",
            "patch",
            (JOBS, "sum"),
            Some(job),
            Some(json!({})),
        );
        breaks(S11, &blind, &strict(), "which version");
        let mut pod = begun().object(PODS, "sum-1");
        pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:09Z");
        let named = begun().step("carillon", "delete", (PODS, "sum-1"), Some(pod), None);
        breaks(S11, &named, &strict(), "which version");
    }
}
