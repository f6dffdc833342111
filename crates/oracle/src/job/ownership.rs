//! S11: of Jobs that we serve the status is ours, and of their pods their coming, their finalizer and
//! their going.

use serde_json::Value;

use super::object::{self as of_job, JOBS, TRACKING};
use super::world::Jobs;
use crate::cron_job::object::{cron_of, is_held};
use crate::history::{History, Request, Step};
use crate::invariant::Invariant::S11;
use crate::judge::{Assumptions, Checked, Verdict, Violation};
use crate::object::{self, PODS, at, is_deleting, text};
use crate::ownership::{misdirected, without};

/// S11. For every step that a request of ours made on a pod that a Job of batch/v1 controls, and on a
/// Job that we serve (apart from what its CronJob does with it):
/// - it is no `deletecollection`, and its path names the namespace of the object;
/// - a pod is created only for a Job that we serve, that exists, in its namespace, and that controls it;
/// - of a pod that is there nothing is written but the removal of the tracking finalizer; one whose
///   Job others serve is let go only once that is gone;
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
                    PODS => foreign(&jobs, history, step).or_else(|| more_than_the_finalizer(step)),
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
        PODS => of_job::job_of(object).is_some(),
        JOBS => of_job::is_managed(assumptions, object) && !as_a_run(step),
        _ => false,
    }
}

/// Whether a step is what a CronJob does with a Job it has started: it comes, is let go, or goes without
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
    let pod = step.old.as_deref().or(step.new.as_deref())?;
    let uid = of_job::job_of(pod)?;
    let Some(job) = jobs.all.get(uid) else {
        let there = step.old.is_none() || is_there(history, step, uid);
        return there.then(|| format!("the Job {uid} is not ours to serve"));
    };
    if job.key.namespace != step.key.namespace {
        return Some(format!("its Job is {}", job.key));
    }
    let begun = step.old.is_none() && job.gone.is_some() && !(jobs.assumptions.late)(step);
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
