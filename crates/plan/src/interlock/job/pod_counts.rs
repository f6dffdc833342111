//! How many pods of a Job run, and how many may.

use std::collections::BTreeMap;
use std::iter::empty;

use super::stored::successes;
use crate::job::{Job, Snapshot};
use crate::pod::PodPhase;

/// What the pods amount to, in one walk.
pub(super) struct PodCounts {
    /// They run; where pods are replaced only when they have ended, or were told to stop and have not.
    pub(super) running: i64,
    /// The same, by index.
    pub(super) by_index: BTreeMap<u32, usize>,
    /// They run, whatever is replaced when.
    pub(super) active: i64,
    /// They have succeeded, and may not be counted yet.
    pub(super) succeeded: i64,
    /// How many may run: no more than are still to succeed, nor than parallelism.
    pub(super) wanted: i64,
}

impl PodCounts {
    pub(super) fn of(snapshot: &Snapshot<'_>) -> Self {
        let Job { spec, status, .. } = snapshot.job;
        let done = successes(spec, status, empty());
        let asked = spec.completions.map_or(i64::MAX, i64::from);
        let waits = spec.replaces_only_failed;
        let mut all = Self {
            running: 0,
            by_index: BTreeMap::new(),
            active: 0,
            succeeded: 0,
            wanted: i64::from(spec.parallelism).min(asked - done).max(0),
        };
        for pod in snapshot.pods.values() {
            let is_active = !pod.phase.has_ended() && !pod.deleting;
            all.active += i64::from(is_active);
            all.succeeded += i64::from(pod.tracked && pod.phase == PodPhase::Succeeded);
            if !pod.phase.has_ended() && (waits || !pod.deleting) {
                all.running += 1;
                if let Some(index) = pod.index {
                    *all.by_index.entry(index).or_default() += 1;
                }
            }
        }
        all
    }

    pub(super) fn has_no_room_for(&self, more: usize) -> bool {
        self.running + more as i64 > self.wanted
    }
}
