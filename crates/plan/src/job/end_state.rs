//! Whether a Job has to end, and why. The first reason found counts, in upstream's order.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::JobStatus;

use super::conditions;
use super::end::EndState;
use super::pod_counts::PodCounts;
use super::pod_failure_policy::{self, FailureAction};
use super::snapshot::{Snapshot, is_strict};
use super::spec::Job;
use super::success_policy;
use crate::pod::PodPhase;

/// The end state of a Job that does not only wait for its completions.
pub(super) fn evaluate(
    snapshot: &Snapshot<'_>,
    counts: &PodCounts<'_>,
    status: &JobStatus,
    now: Timestamp,
) -> Option<EndState> {
    let job = snapshot.job;
    // What was decided stays, whatever the pods do.
    decided(job, "SuccessCriteriaMet", true)
        .or_else(|| decided(job, "FailureTarget", false))
        .or_else(|| fail_job(snapshot))
        .or_else(|| past_backoff_limit(snapshot, counts))
        .or_else(|| past_deadline(snapshot, status, now))
        .or_else(|| failed_indexes(job, counts))
        .or_else(|| success_policy(job, counts))
}

fn decided(job: &Job, type_: &str, success: bool) -> Option<EndState> {
    let found = job.condition(type_)?;
    Some(EndState {
        success,
        reason: found.reason.clone().unwrap_or_default(),
        message: found.message.clone().unwrap_or_default(),
    })
}

fn fail_job(snapshot: &Snapshot<'_>) -> Option<EndState> {
    let spec = &snapshot.job.spec;
    let rules = spec.failure_rules.as_deref()?;
    let namespace = &snapshot.job.meta.owner.namespace;
    let failed = snapshot.pods.iter();
    let failed = failed.filter(|(_, pod)| pod.has_failed(spec.replaces_only_failed));
    let mut found = failed.filter_map(|(name, pod)| {
        pod_failure_policy::first_match(rules, namespace, name, pod.failure.as_deref()?)
    });
    let found = found.find(|found| found.action == FailureAction::FailJob)?;
    let message = found.message.unwrap_or_default();
    Some(EndState::failure("PodFailurePolicy", &message))
}

fn past_backoff_limit(snapshot: &Snapshot<'_>, counts: &PodCounts<'_>) -> Option<EndState> {
    let spec = &snapshot.job.spec;
    let limit = spec.backoff_limit;
    let restarts = || -> i64 {
        let pods = snapshot.pods.values();
        let on = pods.filter(|pod| matches!(pod.phase, PodPhase::Running | PodPhase::Pending));
        on.map(|pod| pod.restarts.sum).sum()
    };
    let past =
        counts.failed > limit || spec.restarts_on_failure && restarts() >= i64::from(limit).max(1);
    let message = "Job has reached the specified backoff limit";
    past.then(|| EndState::failure("BackoffLimitExceeded", message))
}

/// When the deadline passes of a Job that goes on with this status.
pub(super) fn deadline(
    snapshot: &Snapshot<'_>,
    status: &JobStatus,
    now: Timestamp,
) -> Option<Timestamp> {
    let spec = &snapshot.job.spec;
    let seconds = spec.active_deadline_seconds.filter(|_| !spec.suspend)?;
    // Its time counts from its resumption. A Job that kube-controller-manager up to 1.35 has suspended
    // keeps the start before that until then, and upstream takes it for the start that counts.
    let is_resumed = conditions::find(status, "Suspended").is_some();
    let start = if is_resumed && !is_strict(snapshot.job, snapshot.limits) {
        now
    } else {
        status.start_time.as_ref()?.0
    };
    let seconds = SignedDuration::from_secs(seconds);
    Some(start.checked_add(seconds).unwrap_or(Timestamp::MAX))
}

fn past_deadline(snapshot: &Snapshot<'_>, status: &JobStatus, now: Timestamp) -> Option<EndState> {
    deadline(snapshot, status, now).filter(|deadline| *deadline <= now)?;
    let message = "Job was active longer than specified deadline";
    Some(EndState::failure("DeadlineExceeded", message))
}

fn failed_indexes(job: &Job, counts: &PodCounts<'_>) -> Option<EndState> {
    let by_index = counts.by_index.as_ref()?;
    let failed = by_index.failed.as_ref()?.len();
    let most = job.spec.max_failed_indexes;
    if most.is_some_and(|most| i64::from(failed) > i64::from(most.max(0))) {
        let message = "Job has exceeded the specified maximal number of failed indexes";
        return Some(EndState::failure("MaxFailedIndexesExceeded", message));
    }
    let over = failed > 0 && failed + by_index.succeeded.len() >= by_index.completions;
    over.then(|| EndState::failure("FailedIndexes", "Job has failed indexes"))
}

fn success_policy(job: &Job, counts: &PodCounts<'_>) -> Option<EndState> {
    let by_index = counts.by_index.as_ref()?;
    let rules = job.spec.success_rules.as_deref()?;
    let message = success_policy::matching(rules, by_index.completions, &by_index.succeeded)?;
    Some(EndState::success("SuccessPolicy", &message))
}

/// Whether enough pods have succeeded, and none is left that runs.
pub(super) fn is_complete(job: &Job, succeeded: i32, active: i32) -> bool {
    let enough = match job.spec.completions {
        // Any success is the end of a work queue, once the others are done.
        None => succeeded > 0,
        Some(completions) => succeeded >= completions,
    };
    enough && active == 0
}
