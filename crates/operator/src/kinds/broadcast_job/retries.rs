//! Which jobs are retries of which.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use carillon_plan::ObjectKey;

/// Retries, by the first job of their family.
#[derive(Debug, Default)]
pub(super) struct Retries {
    by_first: HashMap<Arc<ObjectKey>, BTreeSet<Arc<ObjectKey>>>,
}

impl Retries {
    pub(super) fn of(&self, first: &ObjectKey) -> impl Iterator<Item = &Arc<ObjectKey>> {
        self.by_first.get(first).into_iter().flatten()
    }

    pub(super) fn enter(&mut self, first: Arc<ObjectKey>, job: &Arc<ObjectKey>) {
        self.by_first.entry(first).or_default().insert(job.clone());
    }

    pub(super) fn leave(&mut self, first: &ObjectKey, job: &ObjectKey) {
        if let Some(retries) = self.by_first.get_mut(first) {
            retries.remove(job);
            if retries.is_empty() {
                self.by_first.remove(first);
            }
        }
    }
}
