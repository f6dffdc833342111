//! What is left to do once a job has ended or is being deleted.

use std::collections::BTreeSet;

use carillon_api::BroadcastJobStatus;
use carillon_api::condition::{reasons, types};
use jiff::{SignedDuration, Timestamp};

use super::family;
use super::index::Index;
use super::progress::Progress;
use super::snapshot::Snapshot;
use super::spec::BroadcastJob;
use crate::broadcast_job::action::{Action, Plan, Step, release, stop, write_status};
use crate::record::Record;
use crate::uid::Uid;
use crate::{condition, name};

/// A deleted job keeps no pod back: garbage collection removes them. One that has neither label nor owner any
/// more is known by its record alone, which is gone soon.
pub(super) fn release_everything(snapshot: &Snapshot<'_>) -> Plan {
    let records = snapshot.slices.iter().flat_map(|slice| &slice.records);
    let created = |record: &Record| snapshot.created.get(&record.pod).copied();
    let seen = records.filter_map(|record| {
        let uid = record.pod_uid.or_else(|| created(record));
        Some((record, uid?))
    });
    let mut unknown = Vec::new();
    let mut tracked: Vec<(&str, Uid)> = Vec::new();
    for (record, uid) in seen {
        if snapshot
            .pods
            .get(&record.pod)
            .is_some_and(|pod| pod.uid == uid)
            || snapshot.gone.contains(&uid)
        {
            continue;
        }
        match snapshot.taken_pod(&record.pod, uid) {
            Some(taken) if taken.pod.tracked => tracked.push((&record.pod, uid)),
            Some(_) => {}
            None if record.is_final() => {}
            None => unknown.push(Action::ConfirmGone {
                pod: record.pod.clone(),
                uid,
            }),
        }
    }
    #[expect(clippy::disallowed_methods, reason = "they are sorted")]
    let pods = snapshot.pods.iter().map(|(name, pod)| (&**name, pod));
    let pods = pods.chain(snapshot.taken.watched_rows());
    let pods = pods.filter(|(_, pod)| pod.tracked);
    tracked.extend(pods.map(|(name, pod)| (name, pod.uid)));
    tracked.sort_unstable();
    tracked.dedup();
    unknown.truncate(snapshot.max_pod_changes);
    let ask = (!unknown.is_empty()).then(|| Step::wanted(unknown));
    Plan {
        steps: ask.into_iter().chain(release(tracked)).collect(),
        ..Plan::default()
    }
}

/// After the end: release what is recorded, remove pods that came late, then wait for the TTL.
pub(super) fn after_the_end<'a>(snapshot: &Snapshot<'a>, index: &'a Index, now: Timestamp) -> Plan {
    let job = snapshot.job;
    let mut plan = Plan::default();
    let progress = Progress::read(snapshot, index, None, now);
    let mut late: Vec<_> = progress
        .to_stop
        .iter()
        .map(|(name, pod)| (*name, pod.uid, pod.rv))
        .collect();
    // The end may be seen before the log: what is not recorded yet is not released.
    let records = index.records();
    let is_open = |place| !records.at(place).0.is_final();
    let is_recorded = |(pod, _): &(&str, Uid)| !records.of_pod(pod).any(is_open);
    let to_release = progress.to_release.iter().copied();
    let mut to_release: Vec<_> = to_release.filter(is_recorded).collect();
    // The log is sealed and the view of it therefore whole: a pod without a record was created by
    // a request that arrived after its reservation was gone.
    if snapshot.slices.last().is_some_and(|slice| slice.sealed) {
        let mut strays: Vec<_> = strays(snapshot, index).collect();
        strays.sort_unstable_by_key(|(name, _)| *name);
        for (name, pod) in strays {
            if pod.deletion.is_none() && !pod.phase.has_ended() {
                late.push((name, pod.uid, pod.rv));
            }
            if pod.may_be_released() {
                to_release.push((name, pod.uid));
            }
        }
        to_release.extend(stray_and_taken(snapshot));
    }
    plan.steps.extend(stop(late, snapshot.max_pod_changes));
    let due = due(job);
    let needed = due
        .filter(|due| *due <= now)
        .and_then(|_| family::needed_by(snapshot));
    let told = status(job, needed.as_ref(), now);
    let write = write_status(told, &job.status).map(|write| Step::wanted(vec![write]));
    plan.steps.extend(write);
    let most = snapshot.max_pod_changes;
    plan.again = to_release.len() > most;
    plan.steps
        .extend(release(to_release.into_iter().take(most)));
    match due {
        Some(due) if due > now => plan.wake = Some(due),
        // Whoever needs its results wakes it when that is over.
        Some(_) if needed.is_none() => plan.steps.push(Step::needed(vec![Action::DeleteJob])),
        _ => {}
    }
    plan
}

/// When the time to live of an ended job is over.
fn due(job: &BroadcastJob) -> Option<Timestamp> {
    let (ttl, ended) = (job.ttl_seconds?, job.status.completion_time.as_ref()?);
    // A time to live beyond the end of time is no time limit.
    ended.0.checked_add(SignedDuration::from_secs(ttl)).ok()
}

/// The status of an ended job. `needed`: who needs its results though its time to live is over.
fn status(
    job: &BroadcastJob,
    needed: Option<&(&'static str, String)>,
    now: Timestamp,
) -> BroadcastJobStatus {
    let mut status = job.status.clone();
    let conditions = &mut status.conditions;
    let mut set = |type_: &str, on: bool, reason: &str, message: &str| {
        condition::set(
            conditions,
            type_,
            on,
            reason,
            message,
            job.meta.generation,
            now,
        );
    };
    let was = |type_| condition::is_true(&job.status.conditions, type_);
    // Stalled says why it has failed. Only the interlock can have said otherwise since, of another plan.
    match condition::find(&job.status.conditions, types::FAILED) {
        Some(failed) if failed.status == "True" => {
            set(types::STALLED, true, &failed.reason, &failed.message);
        }
        _ if was(types::STALLED) => set(types::STALLED, false, reasons::FINISHED, ""),
        _ => {}
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
    if status.observed_generation != Some(job.meta.generation) {
        status.observed_generation = Some(job.meta.generation);
        for condition in &mut status.conditions {
            condition.observed_generation = Some(job.meta.generation);
        }
    }
    status
}

/// Tracked pods of the job that no record names.
fn strays<'a>(
    snapshot: &Snapshot<'a>,
    index: &'a Index,
) -> impl Iterator<Item = (&'a str, &'a crate::pod::PodRow)> {
    let tracked = snapshot.pods_of(index).filter(|(_, pod)| pod.tracked);
    tracked
        .filter(|(name, _)| index.records().of_pod(name).next().is_none())
        .filter(|(name, _)| !was_given(snapshot.job, name))
}

/// The same of those that the job does not control, in the order of their names: they are not stopped.
fn stray_and_taken<'a>(snapshot: &Snapshot<'a>) -> Vec<(&'a str, Uid)> {
    let records = snapshot.slices.iter().flat_map(|slice| &slice.records);
    let recorded: BTreeSet<Uid> = records.filter_map(|record| record.pod_uid).collect();
    let pods = snapshot.taken.watched_rows();
    let strays = pods.filter(|(_, pod)| pod.tracked && !recorded.contains(&pod.uid));
    let strays = strays.filter(|(name, _)| !was_given(snapshot.job, name));
    let mut strays: Vec<_> = strays.map(|(name, pod)| (name, pod.uid)).collect();
    strays.sort_unstable();
    strays
}

/// Whether a pod has the name of another BroadcastJob's: it was given to this one, and that one may still wait
/// for its end.
fn was_given(job: &BroadcastJob, pod: &str) -> bool {
    name::is_pod(pod) && !name::is_pod_of(&job.meta.owner.name, pod)
}
