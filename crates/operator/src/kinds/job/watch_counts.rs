//! What the watches have told of Jobs so far, in numbers.

use std::collections::{HashMap, HashSet};

use carillon_plan::Uid;
use carillon_plan::job::is_ours;

/// See the module.
#[derive(Debug, Default)]
pub struct WatchCounts {
    /// Pods that have ended and carry the finalizer of Jobs.
    pub(super) kept: HashSet<Uid>,
    /// How many there were so far.
    pub ever_kept: u64,
    /// Jobs seen that somebody else serves, by the `spec.managedBy` that they came with.
    pub managed_by: HashMap<String, u64>,
}

/// Values of `spec.managedBy` that are counted apart: anybody can write any.
const MANAGERS: usize = 16;
/// What the others are counted as. No value of the field looks like this.
const OTHER_MANAGERS: &str = "other";

impl WatchCounts {
    /// Counts a Job that is somebody else's. Kubernetes' own controller counts as nobody, as upstream.
    pub(super) fn manages(&mut self, name: &str) {
        if is_ours(Some(name), true) {
            return;
        }
        let known = self.managed_by.len() < MANAGERS || self.managed_by.contains_key(name);
        let name = if known { name } else { OTHER_MANAGERS };
        *self.managed_by.entry(name.to_owned()).or_default() += 1;
    }

    /// How many pods have lost the finalizer since, or are gone.
    pub fn released(&self) -> u64 {
        self.ever_kept.saturating_sub(self.kept.len() as u64)
    }
}
