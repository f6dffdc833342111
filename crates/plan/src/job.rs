//! Job of batch/v1: pods until enough have succeeded, as kube-controller-manager runs them.

pub mod action;
pub mod active_pods;
pub mod backoff;
pub mod backoff_per_index;
mod claim;
mod conditions;
mod end_state;
pub mod failed_indexes;
#[cfg(test)]
mod fixture;
pub mod indexes;
mod manage;
mod pod;
pub mod pod_body;
pub mod pod_failure_policy;
mod spec;
pub mod success_policy;
mod tally;
#[cfg(test)]
mod tests;
mod track;
pub mod unanswered;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::JobStatus;

use self::action::{Action, Note, OnError, Plan, StatusWrite, Step};
use self::active_pods::Named;
use self::backoff::BackoffRecord;
use self::claim::{Claims, claim};
use self::end_state::EndState;
use self::manage::{Managed, manage};
pub use self::pod::{JobPod, JobPods, Restarts};
pub use self::pod_failure_policy::FailureAction;
pub use self::spec::{CompletionMode, Job, JobMeta, MANAGED_BY, Spec, is_ours};
use self::tally::{Tally, Uncounted};
use self::track::{Tracked, release, track};
use self::unanswered::{Open, Unanswered, absent};
use crate::condition::whole_seconds;

/// Our mark on pods that may not be counted yet; upstream's name.
pub const FINALIZER_JOB_TRACKING: &str = "batch.kubernetes.io/job-tracking";

/// Everything a plan is made from.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'a> {
    /// The Job.
    pub job: &'a Job,
    /// The pods it controls.
    pub pods: &'a JobPods,
    /// The pods of its namespace that nothing controls.
    pub free: &'a JobPods,
    /// What is remembered of failures.
    pub backoff: &'a BackoffRecord,
    /// Pods that may still come to be.
    pub unanswered: &'a Unanswered,
    /// What the flags say.
    pub limits: &'a Limits,
}

impl<'a> Snapshot<'a> {
    /// Whether a pod counts as failed. Once a Job has succeeded, one that is told to stop has not: it
    /// was let go without being counted, and may be seen with our finalizer for a while.
    fn has_failed(&self, pod: &JobPod) -> bool {
        let waits = self.job.spec.replaces_only_failed || self.job.has("SuccessCriteriaMet");
        pod.has_failed(waits)
    }

    /// The pods, with their names.
    fn named(&self) -> impl Iterator<Item = Named<'a>> + use<'a> {
        self.pods.iter().map(|(name, pod)| (&**name, pod))
    }
}

/// Time constants and caps; the defaults are upstream's.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Wait after the first failure; doubles with each further one.
    pub backoff: SignedDuration,
    /// The longest wait.
    pub max_backoff: SignedDuration,
    /// Pods counted in one sync.
    pub max_uncounted: usize,
    /// Pods created or removed in one sync.
    pub max_pod_changes: usize,
    /// Jobs that are not ours by name show the oddities of kube-controller-manager, too.
    pub strict_parity: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            backoff: SignedDuration::from_secs(10),
            max_backoff: SignedDuration::from_mins(10),
            max_uncounted: 500,
            max_pod_changes: 500,
            strict_parity: false,
        }
    }
}

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
    let tally = Tally::of(snapshot, &uncounted);
    let mut plan = Plan::default();
    let mut end = end_state::evaluate(snapshot, &tally, &status, now);
    let mut managed = match end {
        Some(_) => Managed::stops(&tally),
        None if job.meta.deleting => Managed::nothing(&tally),
        None => manage(snapshot, &tally, now),
    };
    if end.is_none() && end_state::is_complete(job, tally.succeeded, managed.active) {
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
    let tracked = track(snapshot, &tally, &uncounted, end.as_ref(), &mut status);
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
            backoff: tally.backoff,
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

/// Whether a Job is to show the oddities of kube-controller-manager, too.
pub fn is_strict(job: &Job, limits: &Limits) -> bool {
    limits.strict_parity && job.spec.managed_by.as_deref() != Some(MANAGED_BY)
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
    };
    Plan {
        notes: vec![note],
        ..Plan::default()
    }
}

/// A Job that has ended: pods that somebody has not let go, and its time to live.
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
