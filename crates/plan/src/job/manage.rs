//! How many pods there should be: which are created, which are removed. Never both at once.

use std::ops::Bound;

use jiff::{SignedDuration, Timestamp};

use super::action::{Action, NewPod, Step, Why};
use super::active_pods;
use super::backoff_per_index::{Due, due, failures_before};
use super::pod::Named;
use super::pod_counts::{ByIndex, PodCounts};
use super::snapshot::Snapshot;
use super::unanswered;
use crate::name;

/// What is to be done to the pods of a Job, and what they amount to afterwards.
#[derive(Debug, Default)]
pub(super) struct Managed {
    /// Creations or removals.
    pub(super) steps: Vec<Step>,
    /// Pods that are created.
    pub(super) created: i32,
    /// Pods that are removed.
    pub(super) removed: i32,
    /// Some creations are held back, the next of them for so long.
    pub(super) wait: Option<SignedDuration>,
    /// Pods that run then, or will.
    pub(super) active: i32,
    /// Those of them that are ready.
    pub(super) ready: i32,
    /// Pods that were told to stop and have not ended.
    pub(super) terminating: i32,
}

impl Managed {
    /// All stays as it is.
    pub(super) fn nothing(counts: &PodCounts<'_>) -> Self {
        Self {
            active: counts.active.len() as i32,
            ready: counts.ready,
            terminating: counts.terminating,
            ..Self::default()
        }
    }

    /// What runs is stopped, and counted when it has ended.
    pub(super) fn stops(counts: &PodCounts<'_>) -> Self {
        let stopped = counts.active.iter().map(|(name, pod)| Action::StopPod {
            name: (*name).to_owned(),
            uid: pod.uid,
        });
        // An end is only told once nothing runs any more.
        Self {
            steps: vec![Step::needed(stopped.collect())],
            terminating: counts.terminating + counts.active.len() as i32,
            ..Self::default()
        }
    }

    /// These are removed, and not counted.
    fn removes(counts: &PodCounts<'_>, pods: &[Named<'_>]) -> Self {
        let ready = pods.iter().filter(|(_, pod)| pod.ready.is_some()).count();
        let removed = pods.len() as i32;
        let actions = pods.iter().map(|(name, pod)| Action::RemovePod {
            name: (*name).to_owned(),
            uid: pod.uid,
            tracked: pod.tracked,
        });
        let before = Self::nothing(counts);
        Self {
            steps: vec![Step::wanted(actions.collect())],
            removed,
            active: before.active - removed,
            ready: before.ready - ready as i32,
            terminating: before.terminating + removed,
            ..before
        }
    }
}

/// Brings the number of pods to what is wanted.
pub(super) fn manage(snapshot: &Snapshot<'_>, counts: &PodCounts<'_>, now: Timestamp) -> Managed {
    let active = counts.active.len() as i32;
    let spec = &snapshot.job.spec;
    if spec.suspend {
        return Managed::removes(counts, &counts.active);
    }
    let wanted = wanted(snapshot, counts);
    let running = counts.active.iter().copied();
    let too_many = usize::try_from(active - wanted).unwrap_or(0);
    let mut surplus = active_pods::for_removal(running, spec, too_many);
    surplus.truncate(snapshot.limits.max_pod_changes);
    if !surplus.is_empty() {
        return Managed::removes(counts, &surplus);
    }
    let terminating = Some(counts.terminating).filter(|_| spec.replaces_only_failed);
    let in_place = active + terminating.unwrap_or(0);
    let missing = usize::try_from(wanted - in_place).unwrap_or(0);
    create(snapshot, counts, missing, now)
}

/// How many pods should run.
fn wanted(snapshot: &Snapshot<'_>, counts: &PodCounts<'_>) -> i32 {
    let spec = &snapshot.job.spec;
    match spec.completions {
        // After the first success a work queue drains: what runs goes on.
        None if counts.succeeded > 0 => counts.active.len() as i32,
        None => spec.parallelism,
        Some(completions) => (completions - counts.succeeded)
            .min(spec.parallelism)
            .max(0),
    }
}

fn create(
    snapshot: &Snapshot<'_>,
    counts: &PodCounts<'_>,
    missing: usize,
    now: Timestamp,
) -> Managed {
    let before = Managed::nothing(counts);
    let many = missing.min(snapshot.limits.max_pod_changes);
    if many == 0 {
        return before;
    }
    let limits = snapshot.limits;
    let per_index = snapshot.job.spec.backoff_limit_per_index.is_some();
    let backoff = counts.backoff;
    let held = backoff.remaining(now, limits.backoff, limits.max_backoff);
    if held.is_positive() && !per_index {
        return Managed {
            wait: Some(held),
            ..before
        };
    }
    let why = why(snapshot, counts);
    let mut wait = None;
    let new: Vec<NewPod> = match &counts.by_index {
        None => {
            let new = |name| NewPod {
                name,
                why,
                ..NewPod::default()
            };
            let names = names(snapshot, None, many).into_iter();
            names.map(new).collect()
        }
        Some(by_index) => {
            let mut indexes = pending(snapshot, counts, by_index, many);
            if per_index {
                Due { now: indexes, wait } = due(indexes, &by_index.held_back, now, limits);
            }
            let new = |index| with_index(snapshot, by_index, index, why);
            indexes.into_iter().map(new).collect()
        }
    };
    let (new, open) = unanswered::hold(snapshot, new, missing, now);
    let wait = wait.into_iter().chain(open.wait).min();
    let created = new.len() as i32;
    if created == 0 {
        return Managed {
            steps: vec![Step::wanted(open.ask)],
            wait,
            ..before
        };
    }
    Managed {
        steps: vec![
            Step::wanted(open.ask),
            // Names are made from what the status counts, so they are only good with the latest one.
            Step::needed(vec![Action::ConfirmCurrent]),
            Step::slowly(new.into_iter().map(Action::CreatePod).collect()),
        ],
        created,
        wait,
        active: before.active + created,
        ..before
    }
}

/// Why pods are created now, in upstream's words.
fn why(snapshot: &Snapshot<'_>, counts: &PodCounts<'_>) -> Why {
    if counts.failed > 0 && snapshot.job.spec.replaces_only_failed {
        Why::Failed
    } else if counts.failed > 0 || counts.terminating > 0 {
        Why::TerminatingOrFailed
    } else {
        Why::New
    }
}

/// The lowest indexes that have no pod and have not ended.
fn pending(
    snapshot: &Snapshot<'_>,
    counts: &PodCounts<'_>,
    by_index: &ByIndex<'_>,
    many: usize,
) -> Vec<u32> {
    let mut taken = by_index.succeeded.clone();
    taken.extend(counts.active.iter().filter_map(|(_, pod)| pod.index));
    if snapshot.job.spec.replaces_only_failed {
        let terminating = snapshot.pods.values().filter(|pod| pod.is_terminating());
        taken.extend(terminating.filter_map(|pod| pod.index));
    }
    let failed = by_index.failed.as_ref();
    let open = taken.missing(by_index.completions);
    let open = open.filter(|index| failed.is_none_or(|failed| !failed.contains(*index)));
    open.take(many).collect()
}

fn with_index(snapshot: &Snapshot<'_>, by_index: &ByIndex<'_>, index: u32, why: Why) -> NewPod {
    let spec = &snapshot.job.spec;
    let replaced = by_index.held_back.get(&index).map(|(_, pod)| *pod);
    let failures = failures_before(replaced, spec);
    let counted = spec.backoff_limit_per_index.is_some();
    NewPod {
        name: names(snapshot, Some(index), 1).pop().unwrap_or_default(),
        index: Some(index),
        failures: counted.then_some(failures.0),
        ignored_failures: failures.1.filter(|_| counted),
        why,
    }
}

/// Names for new pods: the first that are not known to be taken. They follow from what the stored status
/// counts: who knows the same status finds the same names, so that a lost reply or another leader makes
/// no second pod; and a pod that is counted leaves its name to nobody.
fn names(snapshot: &Snapshot<'_>, index: Option<u32>, many: usize) -> Vec<String> {
    let owner = &snapshot.job.meta.owner;
    let names = name::JobPods::new(&owner.name, owner.uid, index, epoch(snapshot, index));
    let begin = (Bound::Included(&*names.prefix), Bound::Unbounded);
    // One that was given away keeps its name.
    let known = [snapshot.pods, snapshot.free].into_iter().flat_map(|pods| {
        let known = pods.range::<str, _>(begin).map(|(name, _)| &**name);
        known.take_while(|name| name.starts_with(&*names.prefix))
    });
    let known: Vec<u32> = known.filter_map(|name| names.ordinal(name)).collect();
    let mut taken = vec![false; known.len() + many];
    for ordinal in known {
        if let Some(taken) = taken.get_mut(ordinal as usize) {
            *taken = true;
        }
    }
    let free = (0..).zip(taken).filter(|(_, taken)| !taken);
    let free = free.take(many).map(|(ordinal, _)| names.name(ordinal));
    free.collect()
}

/// What the stored status counts, and the names of new pods follow from.
fn epoch(snapshot: &Snapshot<'_>, index: Option<u32>) -> [i64; 3] {
    let status = &snapshot.job.status;
    let uncounted = status.uncounted_terminated_pods.as_ref();
    let many = |uids: Option<&Vec<String>>| uids.map_or(0, Vec::len) as i64;
    let count = |count: Option<i32>| i64::from(count.unwrap_or(0));
    let failed = count(status.failed) + many(uncounted.and_then(|of| of.failed.as_ref()));
    let succeeded = count(status.succeeded) + many(uncounted.and_then(|of| of.succeeded.as_ref()));
    // The pods of a Job that is resumed are others than those before. The first start of all does not
    // count: who does not know of it yet makes the same names.
    let mut conditions = status.conditions.iter().flatten();
    let suspended = conditions.find(|condition| condition.type_ == "Suspended");
    let start = suspended.and_then(|suspended| {
        // One that is resumed has no start yet.
        let start = status.start_time.as_ref();
        start.or(suspended.last_transition_time.as_ref())
    });
    let start = start.map_or(0, |start| start.0.as_second());
    // Successes of other indexes do not concern this one.
    let succeeded = if index.is_some() { 0 } else { succeeded };
    [start, failed, succeeded]
}
