//! What a status of a Job says, read once.

use std::collections::BTreeSet;

use k8s_openapi::api::batch::v1::{JobCondition, JobStatus};

use crate::job::{JobPod, Spec};

/// Conditions that stay once they are True.
pub(super) const FOR_EVER: [&str; 4] =
    ["Complete", "Failed", "FailureTarget", "SuccessCriteriaMet"];

pub(super) fn is(status: &JobStatus, type_: &str) -> bool {
    let mut conditions = status.conditions.iter().flatten();
    conditions.any(|known| known.type_ == type_ && known.status == "True")
}

/// The condition that says that the Job is over.
pub(super) fn ended(status: &JobStatus) -> Option<&JobCondition> {
    let mut conditions = status.conditions.iter().flatten();
    conditions
        .find(|known| ["Complete", "Failed"].contains(&&*known.type_) && known.status == "True")
}

pub(super) fn is_ending(status: &JobStatus) -> bool {
    FOR_EVER.iter().any(|type_| is(status, type_))
}

/// Uids that a status keeps: of pods that have succeeded, and of those that have failed.
pub(super) fn lists(status: &JobStatus) -> [BTreeSet<&str>; 2] {
    let uncounted = status.uncounted_terminated_pods.as_ref();
    let succeeded = uncounted.and_then(|of| of.succeeded.as_ref());
    let failed = uncounted.and_then(|of| of.failed.as_ref());
    [succeeded, failed].map(|uids| uids.into_iter().flatten().map(String::as_str).collect())
}

/// Indexes as a status writes them: `1,3-5`. Read here once more, so that a mistake in how the planner reads them
/// is found.
pub(super) struct IndexList(Vec<(u32, u32)>);

impl IndexList {
    /// Those below `end`. What is no index says nothing.
    fn read(written: Option<&str>, end: u32) -> Self {
        let read = |part: &str| -> Option<(u32, u32)> {
            let mut bounds = part.split('-').map(|bound| bound.parse().ok());
            let first: u64 = bounds.next()??;
            let last = bounds.next().unwrap_or(Some(first))?;
            let last = last.min(u64::from(end.checked_sub(1)?));
            (first <= last).then_some((first as u32, last as u32))
        };
        let parts = written.unwrap_or_default().split(',');
        let mut runs: Vec<(u32, u32)> = parts.filter_map(read).collect();
        runs.sort_unstable();
        // Those that share indexes become one.
        runs.dedup_by(|next, last| {
            let shared = next.0 <= last.1;
            last.1 = last.1.max(if shared { next.1 } else { last.1 });
            shared
        });
        Self(runs)
    }

    pub(super) fn contains(&self, index: u32) -> bool {
        let runs = self.0.partition_point(|(first, _)| *first <= index);
        self.0[..runs]
            .last()
            .is_some_and(|(_, last)| index <= *last)
    }

    fn len(&self) -> i64 {
        let runs = self.0.iter();
        runs.map(|(first, last)| i64::from(last - first) + 1).sum()
    }
}

/// What a status says of pods, read once.
pub(super) struct Stored<'a> {
    pub(super) status: &'a JobStatus,
    pub(super) lists: [BTreeSet<&'a str>; 2],
    pub(super) succeeded: IndexList,
    pub(super) failed: IndexList,
}

impl<'a> Stored<'a> {
    pub(super) fn of(status: &'a JobStatus) -> Self {
        Self {
            status,
            lists: lists(status),
            succeeded: IndexList::read(status.completed_indexes.as_deref(), u32::MAX),
            failed: IndexList::read(status.failed_indexes.as_deref(), u32::MAX),
        }
    }

    pub(super) fn has_index(&self, index: u32) -> bool {
        self.succeeded.contains(index) || self.failed.contains(index)
    }
}

/// How many indexes there are of a Job that counts by them.
pub(super) fn indexes(spec: &Spec) -> Option<u32> {
    let end = spec.completions.filter(|_| spec.is_indexed())?;
    u32::try_from(end).ok()
}

/// How much of what is still asked for has succeeded: by a status, or in one of these pods, unless the
/// status lists it.
pub(super) fn successes<'a>(
    spec: &Spec,
    status: &JobStatus,
    ended: impl Iterator<Item = &'a JobPod>,
) -> i64 {
    let [succeeded, failed] = lists(status);
    let ended = ended.map(|pod| (pod.uid.to_string(), pod.index));
    let ended = ended.filter(|(uid, _)| !failed.contains(uid.as_str()));
    let Some(end) = indexes(spec) else {
        let ended = ended.filter(|(uid, _)| !succeeded.contains(uid.as_str()));
        return count(status.succeeded) + (succeeded.len() + ended.count()) as i64;
    };
    let written = IndexList::read(status.completed_indexes.as_deref(), end);
    let ended = ended.filter_map(|(_, index)| index).filter(|at| *at < end);
    let more: BTreeSet<u32> = ended.filter(|at| !written.contains(*at)).collect();
    written.len() + more.len() as i64
}

pub(super) fn count(count: Option<i32>) -> i64 {
    count.unwrap_or(0).into()
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use super::*;
    use crate::job::indexes::Indexes;

    #[test]
    fn indexes_are_read_as_they_are_written() {
        for (written, end, expected) in [
            ("", 9, &[][..]),
            ("0", 9, &[0]),
            ("1,3-5", 9, &[1, 3, 4, 5]),
            ("1,3-5", 5, &[1, 3, 4]),
            ("3-5,1,4-6,4", 9, &[1, 3, 4, 5, 6]),
            ("5-3,x,,-1,2-x, 1,7", 9, &[7]),
            ("6-99999999999,99999999999", 9, &[6, 7, 8]),
            ("0-3", 0, &[]),
        ] {
            let list = IndexList::read(Some(written), end);
            let found: Vec<u32> = (0..20).filter(|index| list.contains(*index)).collect();
            assert_eq!(found, expected, "{written:?} below {end}");
            assert_eq!(list.len(), expected.len() as i64, "{written:?} below {end}");
        }
        assert_eq!(IndexList::read(None, u32::MAX).len(), 0);
        let all = IndexList::read(Some("0-4294967295"), u32::MAX);
        assert_eq!(all.len(), i64::from(u32::MAX));
        assert!(all.contains(u32::MAX - 1) && !all.contains(u32::MAX));
    }

    /// The planner and the interlock read them each in its own way.
    #[test]
    fn what_the_planner_writes_is_read_as_it_means_it() {
        for seed in 0..500 {
            let rng = &mut Rng::with_seed(seed);
            let (most, count) = (rng.u32(1..60), rng.usize(0..40));
            let written: Indexes = (0..count).map(|_| rng.u32(0..most)).collect();
            let list = IndexList::read(Some(&written.to_string()), u32::MAX);
            for index in 0..60 {
                let (found, expected) = (list.contains(index), written.contains(index));
                assert_eq!(found, expected, "seed {seed}: {index} of {written}");
            }
            assert_eq!(
                list.len(),
                i64::from(written.len()),
                "seed {seed}: {written}"
            );
        }
    }
}
