//! Job of batch/v1: pods until enough have succeeded, as kube-controller-manager runs them.

pub mod action;
pub mod active_pods;
pub mod backoff;
pub mod backoff_per_index;
mod claim;
mod conditions;
mod end;
mod end_state;
pub mod failed_indexes;
#[cfg(test)]
mod fixture;
pub mod indexes;
mod manage;
mod pod;
pub mod pod_body;
mod pod_counts;
pub mod pod_failure_policy;
mod snapshot;
mod spec;
pub mod success_policy;
#[cfg(test)]
mod tests;
mod track;
pub mod unanswered;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::JobStatus;

use self::action::{Action, Note, OnError, Plan, StatusWrite, Step};
use self::claim::{Claims, claim};
use self::end::EndState;
use self::manage::{Managed, manage};
pub use self::pod::{FINALIZER_JOB_TRACKING, JobPod, JobPods, Named, Restarts};
use self::pod_counts::{PodCounts, Uncounted};
pub use self::pod_failure_policy::FailureAction;
pub use self::snapshot::{Limits, Snapshot, is_strict};
pub use self::spec::{CompletionMode, Job, MANAGED_BY, Spec, is_ours};
use self::track::{Tracked, release, track};
use self::unanswered::{Open, absent};
use crate::condition::whole_seconds;

/// What should happen now.
pub fn plan(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let job = snapshot.job;
    if job.has_finished() {
        return after_the_end(snapshot, now);
    }
    if let CompletionMode::Unknown(_) = job.spec.mode {
        return unknown_mode();
    }
    match claim(snapshot) {
        Claims::Settled => judge(snapshot, now),
        Claims::Only(pods) => judge(
            &Snapshot {
                pods: &pods,
                ..*snapshot
            },
            now,
        ),
        Claims::Changes(steps) => Plan {
            steps,
            again: true,
            ..Plan::default()
        },
    }
}

/// What should happen to a Job of which all pods are known.
fn judge(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let job = snapshot.job;
    let mut status = job.status.clone();
    if status.start_time.is_none() && !job.spec.suspend {
        status.start_time = Some(whole_seconds(now));
    }
    let uncounted = Uncounted::of(snapshot);
    let counts = PodCounts::of(snapshot, &uncounted);
    let mut plan = Plan::default();
    let mut end = end_state::evaluate(snapshot, &counts, &status, now);
    let mut managed = match end {
        Some(_) => Managed::stops(&counts),
        None if job.meta.deleting => Managed::nothing(&counts),
        None => manage(snapshot, &counts, now),
    };
    if end.is_none() && end_state::is_complete(job, counts.succeeded, managed.active) {
        end = Some(EndState::complete());
        // As with every end: only once nothing runs any more.
        for step in &mut managed.steps {
            step.on_error = OnError::Stop;
        }
    }
    if end.is_none() && !job.meta.deleting {
        let suspended = conditions::set_suspended(&mut status, job.spec.suspend, now);
        plan.notes.extend(suspended);
    }
    status.active = Some(managed.active).filter(|count| *count > 0);
    status.ready = Some(managed.ready);
    status.terminating = Some(managed.terminating);
    let tracked = track(snapshot, &counts, &uncounted, end.as_ref(), &mut status);
    if let Some(end) = &end {
        // A pod that comes to be after the end would run on.
        let open = Open::of(absent(snapshot), now);
        let may_come = !open.ask.is_empty() || open.wait.is_some();
        managed.steps.push(Step::wanted(open.ask));
        plan.wake = open.wait.and_then(|wait| now.checked_add(wait).ok());
        if !job.has(end.interim()) {
            conditions::add_interim(&mut status, end, is_strict(job, snapshot.limits), now);
        } else if may_end(&status, &tracked) && !may_come {
            let ended = conditions::set_ended(&mut status, end, job.spec.completions, now);
            plan.notes.extend(ended);
        }
        // Otherwise nothing more is to be done at once, but to wait for pods.
        let waits = status.terminating != Some(0) || may_come;
        plan.again = !tracked.released.is_empty() || !waits;
    } else {
        plan.wake = wake(snapshot, &status, managed.wait, now);
    }
    plan.steps = managed.steps;
    if !same(&status, &job.status) {
        let write = StatusWrite {
            status,
            created: managed.created,
            removed: managed.removed,
            backoff: counts.backoff,
        };
        let write = Action::WriteStatus(Box::new(write));
        plan.steps.push(Step::needed(vec![write]));
    }
    plan.steps.push(Step::wanted(tracked.released));
    plan.steps.retain(|step| !step.actions.is_empty());
    plan
}

/// When a Job that goes on is to be looked at again: creations wait for so long, or its deadline passes.
fn wake(
    snapshot: &Snapshot<'_>,
    status: &JobStatus,
    wait: Option<SignedDuration>,
    now: Timestamp,
) -> Option<Timestamp> {
    let shortest = if is_strict(snapshot.job, snapshot.limits) {
        SHORTEST_STRICT_WAIT
    } else {
        SignedDuration::ZERO
    };
    let held = wait.and_then(|wait| now.checked_add(wait.max(shortest)).ok());
    let deadline = end_state::deadline(snapshot, status, now);
    held.into_iter().chain(deadline).min()
}

/// Upstream looks at a Job that waits for a back-off no sooner, however little is left of it.
const SHORTEST_STRICT_WAIT: SignedDuration = SignedDuration::from_secs(1);

/// Everything is counted, and nothing runs.
fn may_end(status: &JobStatus, tracked: &Tracked) -> bool {
    let uncounted = status.uncounted_terminated_pods.as_ref();
    let counted = uncounted.is_none_or(|uids| uids.succeeded.is_none() && uids.failed.is_none());
    counted && status.terminating == Some(0) && !tracked.full
}

/// Whether two statuses say the same: what is not there is none.
fn same(new: &JobStatus, stored: &JobStatus) -> bool {
    let plain = |status: &JobStatus| {
        let mut status = status.clone();
        for count in [
            &mut status.active,
            &mut status.succeeded,
            &mut status.failed,
        ] {
            *count = count.filter(|count| *count != 0);
        }
        let indexes = status.completed_indexes.take();
        status.completed_indexes = indexes.filter(|indexes| !indexes.is_empty());
        let conditions = status.conditions.take();
        status.conditions = conditions.filter(|conditions| !conditions.is_empty());
        status
    };
    // A status without the list of uids was never written by a controller of today.
    plain(new) == plain(stored)
}

fn unknown_mode() -> Plan {
    let note = Note {
        warning: true,
        reason: "UnknownCompletionMode",
        action: "Syncing",
        message: "Skipped Job sync because completion mode is unknown".to_owned(),
        about: None,
    };
    Plan {
        notes: vec![note],
        ..Plan::default()
    }
}

/// A Job that has ended: pods that somebody has not released, and its time to live.
fn after_the_end(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let job = snapshot.job;
    let held = snapshot.named().filter(|(_, pod)| pod.tracked);
    let mut plan = Plan::default();
    plan.steps
        .push(Step::wanted(held.map(|pod| release(pod, None)).collect()));
    if let Some(over) = time_to_live(job).filter(|_| !job.meta.deleting) {
        if over <= now {
            // It may have been given more time.
            plan.steps.push(Step::needed(vec![Action::ConfirmCurrent]));
            plan.steps.push(Step::wanted(vec![Action::DeleteJob]));
        } else {
            plan.wake = Some(over);
        }
    }
    plan.steps.retain(|step| !step.actions.is_empty());
    plan
}

/// When a Job that has ended is to be deleted.
pub fn time_to_live(job: &Job) -> Option<Timestamp> {
    let seconds = job.spec.ttl_seconds_after_finished?;
    let ended = job.ended()?.last_transition_time.as_ref()?;
    let seconds = SignedDuration::from_secs(seconds.into());
    ended.0.checked_add(seconds).ok()
}
