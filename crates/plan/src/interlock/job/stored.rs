//! What a status of a Job says, read once.

use std::collections::HashSet;

use k8s_openapi::api::batch::v1::JobStatus;

use crate::job::indexes::Indexes;
use crate::job::{JobPod, Spec};

/// Conditions that stay once they are True.
pub(super) const FOR_EVER: [&str; 4] =
    ["Complete", "Failed", "FailureTarget", "SuccessCriteriaMet"];

pub(super) fn is(status: &JobStatus, type_: &str) -> bool {
    let mut conditions = status.conditions.iter().flatten();
    conditions.any(|known| known.type_ == type_ && known.status == "True")
}

pub(super) fn is_ending(status: &JobStatus) -> bool {
    FOR_EVER.iter().any(|type_| is(status, type_))
}

/// Uids that a status keeps: of pods that have succeeded, and of those that have failed.
pub(super) fn lists(status: &JobStatus) -> [HashSet<&str>; 2] {
    let uncounted = status.uncounted_terminated_pods.as_ref();
    let succeeded = uncounted.and_then(|of| of.succeeded.as_ref());
    let failed = uncounted.and_then(|of| of.failed.as_ref());
    [succeeded, failed].map(|uids| uids.into_iter().flatten().map(String::as_str).collect())
}

/// What a status says of pods, read once.
pub(super) struct Stored<'a> {
    pub(super) status: &'a JobStatus,
    pub(super) lists: [HashSet<&'a str>; 2],
    pub(super) succeeded: Indexes,
    pub(super) failed: Indexes,
}

impl<'a> Stored<'a> {
    pub(super) fn of(status: &'a JobStatus) -> Self {
        let read =
            |list: &Option<String>| Indexes::read(list.as_deref().unwrap_or_default(), u32::MAX);
        Self {
            status,
            lists: lists(status),
            succeeded: read(&status.completed_indexes),
            failed: read(&status.failed_indexes),
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
    let written = status.completed_indexes.as_deref().unwrap_or_default();
    let mut done = Indexes::read(written, end);
    done.extend(ended.filter_map(|(_, index)| index).filter(|at| *at < end));
    done.len().into()
}

pub(super) fn count(count: Option<i32>) -> i64 {
    count.unwrap_or(0).into()
}
