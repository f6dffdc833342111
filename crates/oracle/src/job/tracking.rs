//! S5: no pod is let go before it is counted.

use serde_json::Value;

use super::failure_policy;
use super::indexes::leniently;
use super::object::{self as of_job, completions, index_of};
use super::world::{Job, Jobs, Pod};
use crate::history::{History, Step};
use crate::invariant::Invariant::S5;
use crate::judge::{Assumptions, Checked, Verdict, Violation};
use crate::object::{self, PODS, is_terminal, is_true, phase, text};

/// S5. Where the tracking finalizer is taken off a pod of a Job (or a pod that has it leaves the store)
/// by a request of ours, or by one that is not known, one of these was so in the state before:
/// - `uncountedTerminatedPods` of the Job has or had its uid;
/// - it has succeeded, and `completedIndexes` or `failedIndexes` have or had its index;
/// - it has an index that is not below `completions`, or none where it should have one;
/// - it has failed, and the first rule of the failure policy that matches says `Ignore`;
/// - it had not ended (in the window of what we may have seen), and it was one too many: the Job was
///   suspended, had `SuccessCriteriaMet`, its index had another pod, or more pods ran than
///   `parallelism` or what was left to do allowed;
/// - the Job has ended, is gone, or somebody has deleted it;
/// - somebody else made it, or the request that made it is known to have been late.
pub fn counted_before_it_goes(history: &History, assumptions: &Assumptions) -> Verdict {
    let mut checked = Checked::all_of(history);
    let mut jobs = Jobs::new(assumptions);
    for step in &history.steps {
        if let Some(pod) = step.old.as_deref()
            && lets_go(step)
            && !assumptions.others(step)
            && let Some(job) = jobs.of_pod(pod)
        {
            let known = job.pods.get(object::uid(pod));
            let free = known.is_none_or(|known| may_go(&jobs, job, known, step));
            checked.require(free, || {
                let (key, uid) = (&step.key, object::uid(pod));
                Violation::at(
                    S5,
                    step,
                    format!("{key} ({uid}) was let go before it was counted"),
                )
            })?;
        }
        jobs.apply(step);
    }
    Ok(checked)
}

/// Whether a step takes the finalizer off a pod, or a pod that has it out of the store.
fn lets_go(step: &Step) -> bool {
    let tracked =
        |pod: &Option<std::sync::Arc<Value>>| pod.as_deref().is_some_and(of_job::is_tracked);
    &*step.key.resource == PODS && tracked(&step.old) && !tracked(&step.new)
}

fn may_go(jobs: &Jobs<'_>, job: &Job<'_>, known: &Pod<'_>, step: &Step) -> bool {
    let (pod, spec) = (known.last, &job.last["spec"]);
    if !known.ours || !job.is_alive() || is_terminal(job.last) {
        return true;
    }
    if job.listed().contains(object::uid(pod)) {
        return true;
    }
    let index = index_of(pod);
    if of_job::is_indexed(job.last) {
        let out = index.is_none_or(|index| Some(index) >= completions(spec));
        // What was counted may be forgotten when there are fewer completions.
        let versions = || job.versions.iter().map(|(_, job)| job);
        let over = index.is_some_and(|index| {
            ["completedIndexes", "failedIndexes"].iter().any(|field| {
                let lists = versions().map(|job| text(job, &["status", field]));
                lists
                    .filter(|list| !list.is_empty())
                    .any(|list| leniently(list, i64::MAX).contains(&index))
            })
        });
        if out || over && phase(pod) == "Succeeded" {
            return true;
        }
    }
    if phase(pod) == "Failed" && failure_policy::action(spec, pod) == Some("Ignore") {
        return true;
    }
    let ran = known
        .ended
        .is_none_or(|(_, since)| jobs.assumptions.may_see(step, since));
    ran && is_one_too_many(jobs, job, known, step)
}

/// Whether there was a reason to remove a pod that runs.
pub(super) fn is_one_too_many(
    jobs: &Jobs<'_>,
    job: &Job<'_>,
    known: &Pod<'_>,
    step: &Step,
) -> bool {
    let index = index_of(known.last);
    let twice = index.is_some() && {
        let mut others = job.pods.values().filter(|pod| pod.key != known.key);
        others.any(|pod| index_of(pod.last) == index && pod.ended.is_none())
    };
    // Those that have just gone, or ended, may be counted in.
    let many = job.pods.values().filter(|pod| {
        let over = [pod.told, pod.gone, pod.ended.map(|(_, since)| since)];
        let mut over = over.into_iter().flatten();
        pod.ours && over.all(|since| jobs.assumptions.may_see(step, since))
    });
    let many = many.count() as i64;
    twice
        || jobs.seen(job, step).any(|seen| {
            let spec = &seen["spec"];
            let out = completions(spec).is_some_and(|end| index.is_some_and(|index| index >= end));
            let most = wanted(seen);
            spec["suspend"] == true || is_true(seen, "SuccessCriteriaMet") || out || many > most
        })
}

/// How many pods a Job wants, by its status.
pub(super) fn wanted(job: &Value) -> i64 {
    let spec = &job["spec"];
    let parallelism = spec["parallelism"].as_i64().unwrap_or(1);
    let left = completions(spec).map_or(i64::MAX, |all| {
        let uncounted = of_job::uncounted(job, "succeeded").count() as i64;
        all - of_job::count(job, "succeeded") - uncounted
    });
    parallelism.min(left).max(0)
}
