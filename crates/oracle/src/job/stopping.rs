//! S9: no pod of a Job is stopped without a reason.

use serde_json::Value;

use super::object::{self as of_job};
use super::ownership::is_judged_here;
use super::tracking::is_one_too_many;
use super::world::{Job, Jobs};
use crate::history::{History, Step};
use crate::invariant::Invariant::S9;
use crate::object::{self, PODS, is_deleting, is_terminal, time};
use crate::verdict::{Assumptions, Checked, Verdict, Violation};

/// S9. For every step by which we delete something:
/// - a pod of a Job that has not ended (in the window of what we may have seen): it was one too many
///   (see [`super::tracking::counted_before_it_goes`]), or the Job has begun to end, is gone or was
///   deleted by somebody in a version that we may have seen; or the Job begins to end with our next
///   write of its status;
/// - a Job, not by its CronJob: it has ended, and its time to live is over.
pub fn stopped_for_a_reason(history: &History, assumptions: &Assumptions) -> Verdict {
    let mut checked = Checked::all_of(history);
    let mut jobs = Jobs::new(assumptions);
    for (at, step) in history.steps.iter().enumerate() {
        if let Some(object) = step.old.as_deref().filter(|_| deletes(step, assumptions)) {
            let wrong = match &*step.key.resource {
                PODS => jobs.of_pod(object).and_then(|job| {
                    let rest = &history.steps[at..];
                    let reason = is_stopped_rightly(&jobs, job, object, step, rest);
                    (!reason).then(|| format!("{} was stopped, and {} goes on", step.key, job.key))
                }),
                // One that a CronJob has no use for any more is judged there.
                of_job::JOBS
                    if jobs.all.contains_key(object::uid(object))
                        && is_judged_here(step, assumptions) =>
                {
                    (!is_over(object, step, assumptions))
                        .then(|| format!("{} was deleted", step.key))
                }
                _ => continue,
            };
            checked.require(wrong.is_none(), || {
                Violation::at(S9, step, wrong.unwrap_or_default())
            })?;
        }
        jobs.apply(step);
    }
    Ok(checked)
}

fn deletes(step: &Step, assumptions: &Assumptions) -> bool {
    let begins = step.new.as_deref().is_none_or(is_deleting)
        && !step.old.as_deref().is_some_and(is_deleting);
    assumptions.ours(step) && begins
}

fn is_stopped_rightly(
    jobs: &Jobs<'_>,
    job: &Job<'_>,
    pod: &Value,
    step: &Step,
    rest: &[Step],
) -> bool {
    let Some(known) = job.pods.get(object::uid(pod)) else {
        return true;
    };
    let ends = |job: &Value| of_job::is_ending(job) || is_terminal(job) || is_deleting(job);
    if !known.ours || known.ended.is_some() || !job.is_alive() {
        return true;
    }
    let uid = object::uid(job.last);
    let mut written = rest.iter().filter(|later| {
        let of_it = later.new.as_deref().or(later.old.as_deref());
        *later.key.resource == *of_job::JOBS && of_it.is_some_and(|of_it| object::uid(of_it) == uid)
    });
    jobs.seen(job, step).any(ends)
        || is_one_too_many(jobs, job, known, step)
        || written.any(|later| later.new.as_deref().is_none_or(ends))
}

fn is_over(job: &Value, step: &Step, assumptions: &Assumptions) -> bool {
    let ended = ["Complete", "Failed"]
        .iter()
        .filter(|type_| object::is_true(job, type_))
        .find_map(|type_| time(object::condition(job, type_)?, &["lastTransitionTime"]));
    let seconds = job["spec"]["ttlSecondsAfterFinished"].as_i64();
    ended.zip(seconds).is_some_and(|(ended, seconds)| {
        let due = ended + jiff::SignedDuration::from_secs(seconds);
        due <= step.at + assumptions.clock_skew
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::{Scene, breaks, holds, strict};
    use serde_json::json;

    fn two() -> Scene {
        Scene::new().sum(json!({})).sum_starts(1).sum_starts(2)
    }

    #[test]
    fn a_pod_is_stopped_for_a_reason() {
        breaks(S9, &two().sum_stops("carillon", 1), &strict(), "goes on");
        let fewer = || two().edit_sum(|job| job["spec"]["parallelism"] = json!(1));
        holds(S9, &fewer().sum_stops("carillon", 1), &strict());
        let both = fewer().sum_stops("carillon", 1).sum_stops("carillon", 2);
        breaks(S9, &both, &strict(), "sum-2 was stopped");
        let suspended = two().edit_sum(|job| job["spec"]["suspend"] = json!(true));
        holds(S9, &suspended.sum_stops("carillon", 1), &strict());
        // The end is stored after the pods were stopped.
        let fails = two().sum_stops("carillon", 1);
        let fails = fails.sum_is("FailureTarget", "", "DeadlineExceeded");
        holds(S9, &fails.sum_stops("carillon", 2), &strict());
        let ended = two().sum_phase(1, "Failed").sum_stops("carillon", 1);
        holds(S9, &ended, &strict());
    }

    #[test]
    fn a_job_is_deleted_when_its_time_is_over() {
        let short = || Scene::new().sum(json!({"ttlSecondsAfterFinished": 60, "completions": 1}));
        let ended = || short().sum_ran(1).sum_completes();
        holds(S9, &ended().later(60).remove_sum("carillon"), &strict());
        breaks(
            S9,
            &ended().later(30).remove_sum("carillon"),
            &strict(),
            "was deleted",
        );
        breaks(
            S9,
            &short().later(90).remove_sum("carillon"),
            &strict(),
            "was deleted",
        );
        breaks(
            S9,
            &Scene::summed().remove_sum("carillon"),
            &strict(),
            "was deleted",
        );
    }
}
