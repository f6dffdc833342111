//! What the pods of a Job amount to, before anything is decided.

use std::collections::HashSet;

use super::backoff::BackoffRecord;
use super::backoff_per_index;
use super::backoff_per_index::HeldBack;
use super::failed_indexes;
use super::indexes::Indexes;
use super::pod::{JobPod, Named};
use super::pod_failure_policy;
use super::snapshot::Snapshot;
use crate::pod::PodPhase;
use crate::uid::Uid;

/// The counts of a Job.
#[derive(Debug)]
pub(super) struct PodCounts<'a> {
    /// Pods that run, or will.
    pub(super) active: Vec<Named<'a>>,
    /// Those of them that are ready.
    pub(super) ready: i32,
    /// Pods that were told to stop and have not ended.
    pub(super) terminating: i32,
    /// Pods, or indexes, that have succeeded.
    pub(super) succeeded: i32,
    /// Pods that have failed and count.
    pub(super) failed: i32,
    /// What is counted by index; `None`: nothing is.
    pub(super) by_index: Option<ByIndex<'a>>,
    /// What is remembered of failures once this is stored.
    pub(super) backoff: BackoffRecord,
}

/// The counts of an Indexed Job.
#[derive(Debug)]
pub(super) struct ByIndex<'a> {
    /// `spec.completions`.
    pub(super) completions: u32,
    /// Indexes that had succeeded, as the status says.
    pub(super) stored: Indexes,
    /// Indexes that have succeeded.
    pub(super) succeeded: Indexes,
    /// Indexes that have failed, where failures are counted per index.
    pub(super) failed: Option<Indexes>,
    /// Failed pods that stay until they are replaced.
    pub(super) held_back: HeldBack<'a>,
}

/// Uids that a status keeps because their pods may still carry our finalizer.
#[derive(Debug, Default)]
pub(super) struct Uncounted {
    /// Of pods that succeeded.
    pub(super) succeeded: HashSet<Uid>,
    /// Of pods that failed.
    pub(super) failed: HashSet<Uid>,
}

impl Uncounted {
    /// What the stored status keeps.
    pub(super) fn of(snapshot: &Snapshot<'_>) -> Self {
        let stored = snapshot.job.status.uncounted_terminated_pods.as_ref();
        let read = |uids: Option<&Vec<String>>| {
            let uids = uids.into_iter().flatten();
            uids.filter_map(|uid| uid.parse().ok()).collect()
        };
        Self {
            succeeded: read(stored.and_then(|stored| stored.succeeded.as_ref())),
            failed: read(stored.and_then(|stored| stored.failed.as_ref())),
        }
    }

    /// Whether a pod has succeeded and does not count as failed already: it was told to stop, and ended
    /// well after that was stored. Upstream completes a Job with such a pod, and counts no success.
    pub(super) fn has_succeeded(&self, pod: &JobPod) -> bool {
        pod.phase == PodPhase::Succeeded && !self.failed.contains(&pod.uid)
    }

    /// Whether what became of a pod is stored, and so stays: whoever may write its status can say otherwise later.
    pub(super) fn has(&self, pod: &JobPod) -> bool {
        self.failed.contains(&pod.uid) || self.succeeded.contains(&pod.uid)
    }
}

impl<'a> PodCounts<'a> {
    /// Counts.
    pub(super) fn of(snapshot: &Snapshot<'a>, uncounted: &Uncounted) -> Self {
        let job = snapshot.job;
        let spec = &job.spec;
        let pods = || snapshot.named();
        let active: Vec<Named<'_>> = pods().filter(|(_, pod)| pod.is_active()).collect();
        let ready = active.iter().filter(|(_, pod)| pod.ready.is_some());
        let completions = completions(snapshot);
        // What was finished before is in the status already.
        let new = |pod: &JobPod| {
            let in_range = completions.is_none_or(|end| pod.index.is_some_and(|at| at < end));
            pod.tracked && !uncounted.has(pod) && in_range
        };
        let succeeded = || pods().filter(|(_, pod)| uncounted.has_succeeded(pod) && new(pod));
        let failed = || pods().filter(|(_, pod)| snapshot.has_failed(pod) && new(pod));
        let ended = |(_, pod): Named<'_>| pod.finished;
        let (well, badly) = (succeeded().filter_map(ended), failed().filter_map(ended));
        let backoff = snapshot.backoff.after(well, badly);
        let counted = failed().filter(|(_, pod)| pod_failure_policy::is_counted(spec, pod));
        let stored = |count: Option<i32>| count.unwrap_or(0);
        let by_index = completions.map(|completions| {
            let failed = failed().map(|(_, pod)| pod);
            ByIndex::of(snapshot, uncounted, completions, failed)
        });
        let all_succeeded = match &by_index {
            Some(by_index) => by_index.succeeded.len() as i32,
            None => {
                stored(job.status.succeeded)
                    + succeeded().count() as i32
                    + uncounted.succeeded.len() as i32
            }
        };
        Self {
            ready: ready.count() as i32,
            terminating: pods().filter(|(_, pod)| pod.is_terminating()).count() as i32,
            succeeded: all_succeeded,
            failed: stored(job.status.failed)
                + counted.count() as i32
                + uncounted.failed.len() as i32,
            active,
            by_index,
            backoff,
        }
    }
}

impl<'a> ByIndex<'a> {
    fn of(
        snapshot: &Snapshot<'a>,
        uncounted: &Uncounted,
        completions: u32,
        new_failed: impl Iterator<Item = &'a JobPod>,
    ) -> Self {
        let Snapshot { job, pods, .. } = *snapshot;
        let written = job.status.completed_indexes.as_deref().unwrap_or_default();
        let stored = Indexes::read(written, completions);
        let mut succeeded = stored.clone();
        let done = pods
            .values()
            .filter(|pod| pod.tracked && uncounted.has_succeeded(pod));
        let written = job.status.failed_indexes.as_deref().unwrap_or_default();
        let stored_failed = Indexes::read(written, completions);
        let done = done.filter_map(|pod| pod.index);
        // What has failed stays so: the API server takes no index that is both.
        succeeded.extend(done.filter(|at| *at < completions && !stored_failed.contains(*at)));
        let failed =
            failed_indexes::failed_indexes(&stored_failed, new_failed, &job.spec, &succeeded);
        let held_back = backoff_per_index::held_back(pods, &job.spec, &succeeded, &failed);
        Self {
            completions,
            stored,
            succeeded,
            failed: job.spec.backoff_limit_per_index.map(|_| failed),
            held_back,
        }
    }
}

impl ByIndex<'_> {
    /// Whether an index has succeeded that the status does not know of.
    pub(super) fn is_new(&self, index: u32) -> bool {
        self.succeeded.contains(index) && !self.stored.contains(index)
    }
}

/// `spec.completions` of an Indexed Job.
pub(super) fn completions(snapshot: &Snapshot<'_>) -> Option<u32> {
    let spec = &snapshot.job.spec;
    let completions = spec.completions.filter(|_| spec.is_indexed())?;
    u32::try_from(completions).ok()
}
