//! Which indexes of a Job have failed for good (upstream: `indexed_job_utils.go`).

use super::indexes::Indexes;
use super::pod::JobPod;
use super::pod_failure_policy::{self, FailureAction};
use super::spec::Spec;

/// The failed indexes: those `stored` as such (`status.failedIndexes`, read with the completions of
/// today), and those that `new` failures make so: of pods that are not counted yet. An index that has
/// `succeeded`, now or earlier, does not fail any more: the API server refuses a status that says both,
/// and upstream, which does not look, would try it again and again.
pub fn failed_indexes<'a>(
    stored: &Indexes,
    new: impl Iterator<Item = &'a JobPod>,
    spec: &Spec,
    succeeded: &Indexes,
) -> Indexes {
    let failed = new.filter(|pod| is_failed_index(pod, spec));
    let indexes = failed.filter_map(|pod| valid_index(pod, spec));
    let mut all = stored.clone();
    all.extend(indexes.filter(|index| !succeeded.contains(*index)));
    all
}

/// Whether the failure of this pod fails its index: a rule of the pod failure policy says so, or it
/// counts and there were as many before it as `backoffLimitPerIndex`. Never without that limit.
pub fn is_failed_index(pod: &JobPod, spec: &Spec) -> bool {
    let Some(limit) = spec.backoff_limit_per_index else {
        return false;
    };
    let used_up = i64::from(pod.failures) >= i64::from(limit);
    pod.has_failed(spec.replaces_only_failed)
        && match pod_failure_policy::action(spec, pod) {
            Some(FailureAction::FailIndex) => true,
            Some(FailureAction::Ignore) => false,
            Some(FailureAction::FailJob | FailureAction::Count) | None => used_up,
        }
}

/// The index of the pod, if the Job has it.
pub(super) fn valid_index(pod: &JobPod, spec: &Spec) -> Option<u32> {
    let completions = i64::from(spec.completions?);
    pod.index.filter(|index| i64::from(*index) < completions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::fixture::{exited, failed, pod, ruled, spec};
    use crate::pod::PodPhase;

    #[test]
    fn an_index_fails_with_its_last_failure_or_by_a_rule() {
        let running = pod(PodPhase::Running, 0, 5);
        let cases = [
            ("no failures allowed", spec(2, 0), failed(0, 0), true),
            ("the last one", spec(2, 1), failed(0, 1), true),
            ("beyond the last", spec(2, 1), failed(0, 2), true),
            ("one left", spec(2, 1), failed(0, 0), false),
            ("not failed", spec(2, 1), running.clone(), false),
            ("no limit", Spec::default(), failed(0, 9), false),
            (
                "FailIndex below the limit",
                ruled(1),
                exited(3, failed(0, 0)),
                true,
            ),
            ("FailIndex, not failed", ruled(1), exited(3, running), false),
            (
                "Ignore at the limit",
                ruled(1),
                exited(1, failed(0, 1)),
                false,
            ),
            (
                "Count at the limit",
                ruled(1),
                exited(2, failed(0, 1)),
                true,
            ),
            (
                "Count below the limit",
                ruled(1),
                exited(2, failed(0, 0)),
                false,
            ),
            (
                "FailJob below the limit",
                ruled(1),
                exited(4, failed(0, 0)),
                false,
            ),
            (
                "no rule at the limit",
                ruled(1),
                exited(9, failed(0, 1)),
                true,
            ),
        ];
        for (what, spec, pod, expected) in cases {
            assert_eq!(is_failed_index(&pod, &spec), expected, "{what}");
        }
    }

    #[test]
    fn failed_indexes_are_those_stored_and_those_not_counted_yet() {
        let new = [(2, 1), (3, 0), (9, 1), (6, 1), (5, 1)];
        let new = new.map(|(index, failures)| failed(index, failures));
        let stored = Indexes::read("0,1", 9);
        let succeeded = Indexes::read("5", 9);
        let all = failed_indexes(&stored, new.iter(), &spec(9, 1), &succeeded);
        assert_eq!(all.to_string(), "0-2,6", "5 has succeeded");
    }
}
