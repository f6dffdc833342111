//! Counting pods exactly once. The uid of a pod that has ended is stored before our finalizer is
//! taken from it, and moves into the counters once the finalizer is gone. So whenever somebody dies,
//! the pod is either still there, or its uid is, or it is counted.

use std::collections::HashSet;

use k8s_openapi::api::batch::v1::{JobStatus, UncountedTerminatedPods};

use super::action::Action;
use super::end::EndState;
use super::failed_indexes::valid_index;
use super::pod::{JobPod, Named};
use super::pod_counts::{ByIndex, PodCounts, Uncounted};
use super::pod_failure_policy;
use super::pod_failure_policy::FailureAction;
use super::snapshot::Snapshot;
use super::spec::Spec;
use crate::pod::PodPhase;
use crate::uid::Uid;

/// What was counted.
#[derive(Debug, Default)]
pub(super) struct Tracked {
    /// Pods that need our finalizer no longer, once the status is stored.
    pub(super) released: Vec<Action>,
    /// There is more to count than fits into one status.
    pub(super) full: bool,
}

/// Counts into `status`.
pub(super) fn track(
    snapshot: &Snapshot<'_>,
    counts: &PodCounts<'_>,
    uncounted: &Uncounted,
    end: Option<&EndState>,
    status: &mut JobStatus,
) -> Tracked {
    let spec = &snapshot.job.spec;
    let mut lists = flush(snapshot, status);
    let mut tracked = Tracked::default();
    let mut new_indexes = HashSet::new();
    let most = snapshot.limits.max_uncounted;
    for (name, pod) in in_order(snapshot) {
        let failed = snapshot.has_failed(pod);
        if !may_be_released(snapshot, counts, pod, failed, end) {
            continue;
        }
        let mut handled = None;
        let (by_index, index) = (counts.by_index.as_ref(), valid_index(pod, spec));
        let counts = !uncounted.has(pod) && (by_index.is_none() || index.is_some());
        if uncounted.has_succeeded(pod) {
            match (by_index, index) {
                (None, _) if counts => lists.succeeded.push(pod.uid),
                // An index is counted once by being what it is.
                (Some(by_index), Some(index)) if by_index.is_new(index) => {
                    new_indexes.insert(index);
                }
                _ => {}
            }
        } else if counts && (failed || end.is_some_and(|end| !end.success)) {
            handled = pod_failure_policy::action(spec, pod);
            if handled != Some(FailureAction::Ignore) {
                lists.failed.push(pod.uid);
            }
        }
        tracked.released.push(release((name, pod), handled));
        if new_indexes.len() + lists.succeeded.len() + lists.failed.len() >= most {
            tracked.full = true;
            break;
        }
    }
    status.uncounted_terminated_pods = Some(lists.written());
    if let Some(by_index) = &counts.by_index {
        write_indexes(spec, by_index, new_indexes, status);
    }
    tracked
}

fn write_indexes(spec: &Spec, by_index: &ByIndex<'_>, new: HashSet<u32>, status: &mut JobStatus) {
    let mut succeeded = by_index.stored.clone();
    succeeded.extend(new);
    let all = succeeded.len() as i32;
    // Completions may have been taken back, and parallelism changed before that was noticed: only
    // while both are the same does the API server let the count fall.
    let falls = spec.completions == Some(spec.parallelism);
    let stored = status.succeeded.filter(|_| !falls);
    status.succeeded = Some(stored.map_or(all, |stored| stored.max(all)));
    status.completed_indexes = Some(succeeded.to_string());
    status.failed_indexes = by_index.failed.as_ref().map(ToString::to_string);
}

/// Takes our finalizer from a pod.
pub(super) fn release((name, pod): Named<'_>, handled: Option<FailureAction>) -> Action {
    Action::ReleasePod {
        name: name.to_owned(),
        uid: pod.uid,
        handled,
    }
}

/// Pods that may not be counted yet: by index where there is one, so that a full status has counted the lowest.
fn in_order<'a>(snapshot: &Snapshot<'a>) -> Vec<Named<'a>> {
    let pods = snapshot.named().filter(|(_, pod)| pod.tracked);
    let mut pods: Vec<Named<'_>> = pods.collect();
    if snapshot.job.spec.is_indexed() {
        pods.sort_by_key(|(_, pod)| pod.index);
    }
    pods
}

fn may_be_released(
    snapshot: &Snapshot<'_>,
    counts: &PodCounts<'_>,
    pod: &JobPod,
    failed: bool,
    end: Option<&EndState>,
) -> bool {
    if snapshot.job.meta.deleting || end.is_some() || pod.phase == PodPhase::Succeeded {
        return true;
    }
    // Its counts are needed by the pod that replaces it.
    let held_back = || {
        let (_, held) = counts.by_index.as_ref()?.held_back.get(&pod.index?)?;
        Some(held.uid)
    };
    failed && held_back() != Some(pod.uid)
}

#[derive(Default)]
struct Lists {
    succeeded: Vec<Uid>,
    failed: Vec<Uid>,
}

impl Lists {
    fn written(self) -> UncountedTerminatedPods {
        let written = |uids: Vec<Uid>| {
            let uids: Vec<String> = uids.iter().map(ToString::to_string).collect();
            Some(uids).filter(|uids| !uids.is_empty())
        };
        UncountedTerminatedPods {
            succeeded: written(self.succeeded),
            failed: written(self.failed),
        }
    }
}

/// Moves the uids of pods without our finalizer, or that are gone, into the counters. What stays.
fn flush(snapshot: &Snapshot<'_>, status: &mut JobStatus) -> Lists {
    let tracked = snapshot.pods.values().filter(|pod| pod.tracked);
    let tracked: HashSet<Uid> = tracked.map(|pod| pod.uid).collect();
    let stored = status.uncounted_terminated_pods.take().unwrap_or_default();
    let mut lists = Lists::default();
    let count = |uids: Option<Vec<String>>, stay: &mut Vec<Uid>, counter: &mut Option<i32>| {
        for uid in uids.into_iter().flatten() {
            match uid.parse() {
                Ok(uid) if tracked.contains(&uid) => stay.push(uid),
                _ => *counter = Some(counter.unwrap_or(0) + 1),
            }
        }
    };
    let Lists { succeeded, failed } = &mut lists;
    count(stored.succeeded, succeeded, &mut status.succeeded);
    count(stored.failed, failed, &mut status.failed);
    lists
}
