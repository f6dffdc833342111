//! L1, L2, L4 and L6: when nothing happens any more a Job has ended as it should, or runs what it wants.

use jiff::Timestamp;

use super::failure_policy;
use super::indexes::leniently;
use super::object::{self as of_job, completions, count, uncounted};
use super::tracking::wanted;
use super::world::{Job, Jobs};
use crate::history::History;
use crate::invariant::Invariant::{self, L1, L2, L4, L6};
use crate::judge::{Assumptions, Checked, Verdict, Violation};
use crate::object::{condition, is_terminal, is_true, text, time};

/// L1, for a run that is `over`. Every Job that is left, that nobody has deleted, and whose status others
/// have not written:
/// - has `Complete` because enough pods have succeeded (of a work queue: one), or with the reason
///   `SuccessPolicy` and at least one; or has `Failed` for a reason that is true of its counts, its
///   time or its pods;
/// - or is suspended, says so, and no pod of it runs;
/// - or runs as many pods as it wants, and no more.
pub fn every_job_is_settled(history: &History, assumptions: &Assumptions) -> Verdict {
    if assumptions.over {
        settled_by(L1, history, assumptions, Timestamp::MAX)
    } else {
        Ok(Checked::all_of(history))
    }
}

/// L6, for a run that is `over` and had `permanent_faults`: what L1 says.
pub fn every_job_is_settled_under_pressure(
    history: &History,
    assumptions: &Assumptions,
) -> Verdict {
    if assumptions.over && assumptions.permanent_faults {
        settled_by(L6, history, assumptions, Timestamp::MAX)
    } else {
        Ok(Checked::all_of(history))
    }
}

/// L2, for a run that was `healed`: what L1 says is so when the bound is over, counted from the last
/// fault.
pub fn every_job_is_settled_in_time(history: &History, assumptions: &Assumptions) -> Verdict {
    let Some((healed, bound)) = assumptions.healed else {
        return Ok(Checked::all_of(history));
    };
    let due = healed.checked_add(bound).unwrap_or(Timestamp::MAX);
    settled_by(L2, history, assumptions, due)
}

fn settled_by(
    invariant: Invariant,
    history: &History,
    assumptions: &Assumptions,
    until: Timestamp,
) -> Verdict {
    let mut checked = Checked::all_of(history);
    let (jobs, last) = Jobs::at(history, assumptions, until);
    for job in jobs
        .all
        .values()
        .filter(|job| job.is_alive() && !job.edited)
    {
        let wrong = unsettled(job);
        checked.require(wrong.is_none(), || {
            let what = format!("{}: {}", job.key, wrong.unwrap_or_default());
            Violation::in_state(invariant, last, job.key, Some(job.last), what)
        })?;
    }
    Ok(checked)
}

fn unsettled(job: &Job<'_>) -> Option<String> {
    let spec = &job.last["spec"];
    if is_true(job.last, "Failed") {
        return unfounded(job);
    }
    let succeeded = count(job.last, "succeeded");
    if is_true(job.last, "Complete") {
        let enough = match completions(spec) {
            Some(all) => succeeded >= all,
            None => succeeded > 0,
        };
        let reason = condition(job.last, "Complete").map_or("", |c| text(c, &["reason"]));
        let early = reason == "SuccessPolicy" && succeeded > 0;
        return (!enough && !early).then(|| format!("it is Complete with {succeeded} successes"));
    }
    let (live, wanted) = (job.live().count() as i64, wanted(job.last));
    if spec["suspend"] == true {
        let said = is_true(job.last, "Suspended");
        let rests = said && live == 0;
        return (!rests).then(|| format!("it is suspended: {said}, and {live} pods run"));
    }
    // A work queue that had a success starts nothing more.
    let drains = completions(spec).is_none() && succeeded > 0;
    let served = live == wanted || drains && live > 0;
    let idle = wanted == 0 && completions(spec).is_some_and(|all| succeeded < all);
    let right = served && (live > 0 || idle || spec["parallelism"] == 0);
    (!right).then(|| format!("it has not ended, {live} pods run and {wanted} should"))
}

/// Why a failure should not have been.
fn unfounded(job: &Job<'_>) -> Option<String> {
    let (spec, status) = (&job.last["spec"], &job.last["status"]);
    let failed = condition(job.last, "Failed")?;
    let reason = text(failed, &["reason"]);
    let number = |field: &str| spec[field].as_i64();
    let indexes = leniently(text(status, &["failedIndexes"]), i64::MAX).len() as i64;
    let true_ = match reason {
        "BackoffLimitExceeded" => {
            // It may have been raised since.
            let versions = job
                .versions
                .iter()
                .map(|(_, job)| &job["spec"]["backoffLimit"]);
            let limit = versions.map(|limit| limit.as_i64().unwrap_or(6)).min();
            let restarts = spec["template"]["spec"]["restartPolicy"] == "OnFailure";
            limit.is_none_or(|limit| count(job.last, "failed") > limit) || restarts
        }
        "DeadlineExceeded" => {
            let start = time(status, &["startTime"]);
            let end = time(failed, &["lastTransitionTime"]);
            let seconds = number("activeDeadlineSeconds").unwrap_or(i64::MAX);
            start
                .zip(end)
                .is_some_and(|(start, end)| end.duration_since(start).as_secs() >= seconds)
        }
        "MaxFailedIndexesExceeded" => number("maxFailedIndexes").is_some_and(|most| indexes > most),
        "FailedIndexes" => indexes > 0,
        "PodFailurePolicy" => job
            .pods
            .values()
            .any(|pod| failure_policy::action(spec, pod.last) == Some("FailJob")),
        _ => false,
    };
    (!true_).then(|| format!("it has failed, and {reason} is not so"))
}

/// L4, for a run that is `over`. The status of every Job that is left, that nobody has deleted, and whose
/// status others have not written, says what is so:
/// - `active` is the number of its pods that run, `terminating` of those that were told to stop and
///   have not ended, `ready` of those that run and are Ready;
/// - no uid is left to be counted of a pod without the tracking finalizer;
/// - of one that has ended these are none, and without indexes, users and limits each pod that has
///   succeeded is counted.
pub fn status_is_what_happened(history: &History, assumptions: &Assumptions) -> Verdict {
    let mut checked = Checked::all_of(history);
    if !assumptions.over {
        return Ok(checked);
    }
    let (jobs, last) = Jobs::at(history, assumptions, Timestamp::MAX);
    for job in jobs
        .all
        .values()
        .filter(|job| job.is_alive() && !job.edited)
    {
        let wrong = miscounted(job);
        checked.require(wrong.is_none(), || {
            let what = format!("{}: {}", job.key, wrong.unwrap_or_default());
            Violation::in_state(L4, last, job.key, Some(job.last), what)
        })?;
    }
    Ok(checked)
}

fn miscounted(job: &Job<'_>) -> Option<String> {
    let present = || job.present().map(|(_, pod)| pod).filter(|pod| pod.ours);
    let live = || present().filter(|pod| of_job::is_live(pod.last));
    let stopping =
        present().filter(|pod| !crate::object::has_ended(pod.last) && !of_job::is_live(pod.last));
    let found = [
        ("active", live().count()),
        (
            "ready",
            live().filter(|pod| is_true(pod.last, "Ready")).count(),
        ),
        ("terminating", stopping.count()),
    ];
    let ended = is_terminal(job.last);
    let wrong = found.iter().find(|(field, found)| {
        let found = if ended { 0 } else { *found };
        count(job.last, field) != found as i64
    });
    if let Some((field, found)) = wrong {
        let said = count(job.last, field);
        return Some(format!("{field} is {said}, and there are {found}"));
    }
    let left = ["succeeded", "failed"]
        .into_iter()
        .flat_map(|list| uncounted(job.last, list))
        .find(|uid| {
            let pod = job.pods.get(uid).filter(|pod| pod.gone.is_none());
            pod.is_none_or(|pod| !of_job::is_tracked(pod.last))
        });
    if let Some(uid) = left {
        return Some(format!("{uid} is still to be counted"));
    }
    lost_success(job)
}

/// A success of a Job without indexes that is in no counter: none but the kubelet ended its pod, before
/// anybody told it to stop.
fn lost_success(job: &Job<'_>) -> Option<String> {
    if of_job::is_indexed(job.last) || !is_terminal(job.last) {
        return None;
    }
    let listed = job.listed();
    let mut own = job.pods.iter().filter(|(_, pod)| {
        let first = pod
            .told
            .is_none_or(|told| pod.ended.is_some_and(|(_, at)| at < told));
        pod.ours && pod.ended.is_some_and(|(phase, _)| phase == "Succeeded") && first
    });
    let lost = own.find(|(uid, _)| !listed.contains(*uid) && !was_scaled(job))?;
    Some(format!("{} has succeeded and is not counted", lost.1.key))
}

/// Whether a pod may have been one too many when it ended.
fn was_scaled(job: &Job<'_>) -> bool {
    let mut specs = job.versions.iter().map(|(_, job)| &job["spec"]);
    let first = specs.next();
    specs.any(|spec| {
        first.is_some_and(|first| {
            spec["parallelism"] != first["parallelism"] || spec["suspend"] != first["suspend"]
        })
    })
}
