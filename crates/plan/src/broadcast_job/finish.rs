//! What is left to do once a job has ended or is being deleted.

use carillon_api::BroadcastJobStatus;
use carillon_api::condition::{reasons, types};
use jiff::{SignedDuration, Timestamp};

use super::progress::Progress;
use super::{Job, Snapshot, family, release, stop};
use crate::broadcast_job::action::{Action, Plan, Step};
use crate::condition;

/// A deleted job keeps no pod back: garbage collection removes them.
pub(super) fn release_everything(snapshot: &Snapshot<'_>) -> Plan {
    let mut tracked: Vec<_> = snapshot
        .pods
        .iter()
        .filter(|(_, pod)| pod.tracked)
        .map(|(name, pod)| (&**name, pod.uid))
        .collect();
    tracked.sort_unstable();
    Plan {
        steps: release(tracked).into_iter().collect(),
        ..Plan::default()
    }
}

/// After the end: release what is recorded, remove pods that came late, then wait for the TTL.
pub(super) fn after_the_end(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let job = snapshot.job;
    let mut plan = Plan::default();
    let progress = Progress::read(snapshot, None, now);
    let mut late: Vec<_> = progress
        .to_stop
        .iter()
        .map(|(name, pod)| (*name, pod.uid, pod.rv))
        .collect();
    let mut to_release = progress.to_release.clone();
    // The log is sealed and the view of it therefore whole: a pod without a record was created by
    // a request that arrived after its reservation was gone.
    if snapshot.slices.last().is_some_and(|slice| slice.sealed) {
        let mut strays: Vec<_> = strays(snapshot).collect();
        strays.sort_unstable_by_key(|(name, _)| *name);
        for (name, pod) in strays {
            if pod.deletion.is_none() && !pod.phase.has_ended() {
                late.push((name, pod.uid, pod.rv));
            }
            to_release.push((name, pod.uid));
        }
    }
    plan.steps.extend(stop(late, snapshot.max_pod_changes));
    let due = due(job);
    let needed = due
        .filter(|due| *due <= now)
        .and_then(|_| family::needed_by(snapshot));
    let told = status(job, needed.as_ref(), now);
    if told != job.status {
        plan.steps
            .push(Step::wanted(vec![Action::WriteStatus(Box::new(told))]));
    }
    plan.steps.extend(release(to_release));
    match due {
        Some(due) if due > now => plan.wake = Some(due),
        // Whoever needs its results wakes it when that is over.
        Some(_) if needed.is_none() => plan.steps.push(Step::needed(vec![Action::DeleteJob])),
        _ => {}
    }
    plan
}

/// When the time to live of an ended job is over.
fn due(job: &Job) -> Option<Timestamp> {
    let (ttl, ended) = (job.ttl_seconds?, job.status.completion_time.as_ref()?);
    // A time to live beyond the end of time is no time limit.
    ended.0.checked_add(SignedDuration::from_secs(ttl)).ok()
}

/// The status of an ended job. `needed`: who needs its results though its time to live is over.
fn status(
    job: &Job,
    needed: Option<&(&'static str, String)>,
    now: Timestamp,
) -> BroadcastJobStatus {
    let mut status = job.status.clone();
    let conditions = &mut status.conditions;
    let mut set = |type_: &str, on: bool, reason: &str, message: &str| {
        condition::set(conditions, type_, on, reason, message, job.generation, now);
    };
    let was = |type_| condition::is_true(&job.status.conditions, type_);
    // A job ends unstalled: only the interlock can have said otherwise since, of another plan.
    if was(types::STALLED) {
        set(types::STALLED, false, reasons::FINISHED, "");
    }
    let ttl = job.ttl_seconds.unwrap_or_default();
    match needed {
        Some((reason, what)) => {
            let field = "spec.completionPolicy.ttlSecondsAfterFinished";
            let message = format!("{field}: {ttl} s have passed, and {what}");
            set(types::EXPIRY_WAITS, true, reason, &message);
        }
        None if was(types::EXPIRY_WAITS) => {
            set(types::EXPIRY_WAITS, false, reasons::NOT_EXPIRED, "");
        }
        None => {}
    }
    if status.observed_generation != Some(job.generation) {
        status.observed_generation = Some(job.generation);
        for condition in &mut status.conditions {
            condition.observed_generation = Some(job.generation);
        }
    }
    status
}

/// Tracked pods of the job that no record names.
fn strays<'a>(snapshot: &Snapshot<'a>) -> impl Iterator<Item = (&'a str, &'a crate::pod::PodRow)> {
    let recorded: std::collections::BTreeSet<&str> = snapshot
        .slices
        .iter()
        .flat_map(|slice| slice.records.iter().map(|record| &*record.pod))
        .collect();
    snapshot
        .pods
        .iter()
        .map(|(name, pod)| (&**name, pod))
        .filter(move |(name, pod)| pod.tracked && !recorded.contains(name))
}
