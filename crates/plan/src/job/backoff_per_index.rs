//! Failures counted for each index (`backoffLimitPerIndex`; upstream: `indexed_job_utils.go`).
//!
//! How often an index has failed is written on its pods alone. Therefore a failed pod keeps our
//! finalizer, and is not counted, until the pod that replaces it carries the counts on.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::backoff::{ended, remaining_of_index};
use super::failed_indexes::valid_index;
use super::indexes::Indexes;
use super::pod::{JobPod, JobPods};
use super::pod_failure_policy;
use super::snapshot::Limits;
use super::spec::Spec;

/// Failed pods that keep our finalizer until they are replaced, with their names, by index.
pub type HeldBack<'a> = BTreeMap<u32, (&'a str, &'a JobPod)>;

/// Indexes that are to get a pod, by when they may.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Due {
    /// They may now; in the given order.
    pub now: Vec<u32>,
    /// The shortest wait of the others.
    pub wait: Option<SignedDuration>,
}

/// The failed pods that are not to be counted yet: of each index the one with the most failures
/// before it, counted and ignored ones together, then the one that ended last, then the last by name.
/// None of a pod without our finalizer, of an index that is out of range, has `succeeded` or `failed`
/// (both with what is not counted yet), or has an active pod, tracked or not, whatever its counts:
/// this one carries them on. Empty without `backoffLimitPerIndex`.
///
/// They do not stay when the Job is being deleted or has reached its end: that is the caller's.
pub fn held_back<'a>(
    pods: &'a JobPods,
    spec: &Spec,
    succeeded: &Indexes,
    failed: &Indexes,
) -> HeldBack<'a> {
    let mut held = HeldBack::new();
    if spec.backoff_limit_per_index.is_none() {
        return held;
    }
    let active = pods.values().filter(|pod| pod.is_active());
    let active: Indexes = active.filter_map(|pod| pod.index).collect();
    let is_over = |index| {
        [succeeded, failed, &active]
            .iter()
            .any(|set| set.contains(index))
    };
    // Upstream compares in the order of its cache, which may leave the pod with fewer failures.
    let weight = |pod: &JobPod| {
        let failures = u64::from(pod.failures) + u64::from(pod.ignored_failures);
        (failures, ended(pod))
    };
    let failures = pods
        .iter()
        .filter(|(_, pod)| pod.tracked && pod.has_failed(spec.replaces_only_failed));
    for (name, pod) in failures {
        let Some(index) = valid_index(pod, spec).filter(|index| !is_over(*index)) else {
            continue;
        };
        let last = held.entry(index).or_insert((name, pod));
        if weight(pod) >= weight(last.1) {
            *last = (name, pod);
        }
    }
    held
}

/// Failures of an index before a new pod, from the failed pod it replaces: counted ones, and ignored
/// ones if there are some. The values of its two annotations; neither exceeds what can be read again.
pub fn failures_before(replaced: Option<&JobPod>, spec: &Spec) -> (u32, Option<u32>) {
    let Some(pod) = replaced else {
        return (0, None);
    };
    let one_more = |count: u32| count.saturating_add(1).min(i32::MAX.unsigned_abs());
    let (failures, ignored) = if pod_failure_policy::is_counted(spec, pod) {
        (one_more(pod.failures), pod.ignored_failures)
    } else {
        (pod.failures, one_more(pod.ignored_failures))
    };
    (failures, Some(ignored).filter(|count| *count > 0))
}

/// Which of these indexes may get a pod now: those whose failed pod, if one is held back, ended long
/// enough ago. Upstream waits only if it is none; the others are looked at again with the next sync.
pub fn due(
    indexes: impl IntoIterator<Item = u32>,
    held: &HeldBack<'_>,
    now: Timestamp,
    limits: &Limits,
) -> Due {
    let mut due = Due::default();
    for index in indexes {
        let wait = held.get(&index).map_or(SignedDuration::ZERO, |(_, pod)| {
            remaining_of_index(pod, now, limits.backoff, limits.max_backoff)
        });
        if wait.is_zero() {
            due.now.push(index);
        } else {
            due.wait = Some(due.wait.map_or(wait, |shortest| shortest.min(wait)));
        }
    }
    due
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::failed_indexes::failed_indexes;
    use crate::job::fixture::{at, by_name, ended_at, exited, failed, pod, ruled, spec};
    use crate::pod::PodPhase;

    fn names(pods: &JobPods, spec: &Spec) -> Vec<String> {
        let done = pods.values().filter(|pod| pod.phase == PodPhase::Succeeded);
        let succeeded = done.filter_map(|pod| pod.index).collect();
        let failed = failed_indexes(&Indexes::default(), pods.values(), spec, &succeeded);
        let held = held_back(pods, spec, &succeeded, &failed);
        held.values().map(|(name, _)| (*name).to_owned()).collect()
    }

    #[test]
    fn failed_pods_are_held_back_while_their_index_may_still_succeed() {
        let untracked = JobPod {
            tracked: false,
            ..failed(0, 0)
        };
        let stopped = JobPod {
            deleting: true,
            ..pod(PodPhase::Running, 0, 0)
        };
        let untracked_active = JobPod {
            tracked: false,
            ..pod(PodPhase::Pending, 0, 0)
        };
        let no_index = JobPod {
            index: None,
            ..failed(0, 0)
        };
        let active = |failures| pod(PodPhase::Running, 0, failures);
        let done = pod(PodPhase::Succeeded, 0, 1);
        let cases = [
            (
                "an index with failures left",
                by_name([("a", failed(0, 0))]),
                &["a"][..],
            ),
            ("a failed index", by_name([("a", failed(0, 1))]), &[]),
            ("a finalizer that is gone", by_name([("a", untracked)]), &[]),
            ("an index out of range", by_name([("a", failed(3, 0))]), &[]),
            ("no index", by_name([("a", no_index)]), &[]),
            (
                "a replaced pod",
                by_name([("a", failed(0, 0)), ("b", active(1))]),
                &[],
            ),
            (
                "an active pod of no count",
                by_name([("a", failed(0, 0)), ("b", active(0))]),
                &[],
            ),
            (
                "an active pod without finalizer",
                by_name([("a", failed(0, 0)), ("b", untracked_active)]),
                &[],
            ),
            (
                "a succeeded index",
                by_name([("a", failed(0, 0)), ("b", done)]),
                &[],
            ),
            (
                "a pod that is being stopped",
                by_name([("a", stopped)]),
                &["a"],
            ),
            (
                "each index by itself",
                by_name([
                    ("a", failed(0, 0)),
                    ("b", failed(1, 1)),
                    ("c", failed(2, 0)),
                ]),
                &["a", "c"],
            ),
        ];
        for (what, pods, expected) in cases {
            assert_eq!(names(&pods, &spec(3, 1)), expected, "{what}");
        }
        let pods = by_name([("a", failed(0, 0))]);
        let without_limit = Spec {
            backoff_limit_per_index: None,
            ..spec(3, 1)
        };
        assert!(names(&pods, &without_limit).is_empty());
    }

    #[test]
    fn of_an_index_the_pod_with_most_failures_is_held_back_and_then_the_last() {
        let ignored = JobPod {
            ignored_failures: 3,
            ..failed(0, 0)
        };
        let cases = [
            (
                "most failures",
                by_name([
                    ("a", failed(0, 0)),
                    ("b", failed(0, 2)),
                    ("c", failed(0, 1)),
                ]),
            ),
            (
                "ignored ones too",
                by_name([("a", failed(0, 2)), ("b", ignored), ("c", failed(0, 2))]),
            ),
            (
                "the last end",
                by_name([
                    ("a", ended_at(8, failed(0, 1))),
                    ("b", ended_at(9, failed(0, 1))),
                    ("c", ended_at(7, failed(0, 1))),
                ]),
            ),
            (
                "failures before time",
                by_name([
                    ("a", ended_at(9, failed(0, 1))),
                    ("b", ended_at(8, failed(0, 2))),
                ]),
            ),
            ("name", by_name([("a", failed(0, 1)), ("b", failed(0, 1))])),
        ];
        for (what, pods) in cases {
            assert_eq!(names(&pods, &spec(2, 4)), ["b"], "{what}");
        }
    }

    #[test]
    fn a_pod_that_is_being_stopped_is_not_held_back_where_only_failed_ones_are_replaced() {
        let stopped = JobPod {
            deleting: true,
            ..pod(PodPhase::Running, 0, 0)
        };
        assert!(names(&by_name([("a", stopped)]), &ruled(1)).is_empty());
    }

    #[test]
    fn a_new_pod_carries_the_failures_on_and_ignored_ones_apart() {
        let ignored = |pod: JobPod, ignored_failures| JobPod {
            ignored_failures,
            ..pod
        };
        let most = i32::MAX.unsigned_abs();
        let cases = [
            ("first failure", spec(9, 1), failed(0, 0), (1, None)),
            ("fourth failure", spec(9, 1), failed(0, 3), (4, None)),
            ("ignored", ruled(1), exited(1, failed(0, 3)), (3, Some(1))),
            ("counted", ruled(1), exited(2, failed(0, 3)), (4, None)),
            (
                "counted after ignored",
                ruled(1),
                exited(2, ignored(failed(0, 3), 2)),
                (4, Some(2)),
            ),
            (
                "ignored again",
                ruled(1),
                exited(1, ignored(failed(0, 3), 2)),
                (3, Some(3)),
            ),
            ("too many", spec(9, 1), failed(0, most), (most, None)),
        ];
        for (what, spec, pod, expected) in cases {
            assert_eq!(failures_before(Some(&pod), &spec), expected, "{what}");
        }
        assert_eq!(failures_before(None, &ruled(1)), (0, None));
    }

    #[test]
    fn indexes_out_of_their_wait_are_due_at_once_and_else_the_shortest_wait_counts() {
        let pods = by_name([
            ("a", ended_at(99, failed(1, 1))),
            ("b", ended_at(99, failed(2, 0))),
            ("c", ended_at(90, failed(4, 0))),
        ]);
        let held = held_back(&pods, &spec(9, 6), &Indexes::default(), &Indexes::default());
        let cases = [
            (&[0, 3][..], &[0, 3][..], None),
            (&[1, 3, 4], &[3, 4], Some(19)),
            (&[1, 2], &[], Some(9)),
            (&[], &[], None),
        ];
        for (indexes, now, wait) in cases {
            let due = due(indexes.iter().copied(), &held, at(100), &Limits::default());
            let expected = Due {
                now: now.to_vec(),
                wait: wait.map(SignedDuration::from_secs),
            };
            assert_eq!(due, expected, "{indexes:?}");
        }
    }
}
