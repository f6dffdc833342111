//! What happened, whoever remembers it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use carillon_api::Retry;
use carillon_plan::Uid;
use carillon_plan::record::Record;
use jiff::Timestamp;

use super::objects::Pod;

/// What happened.
#[derive(Debug, Default)]
pub(super) struct Past {
    /// All pods there ever were, as they last were.
    pub(super) pods: BTreeMap<Uid, Pod>,
    /// Machines on which a pod succeeded that nobody had told to stop.
    pub(super) succeeded: BTreeMap<(Arc<str>, Uid), Uid>,
    /// Pods that users removed by force, finalizer and all: nobody can know what they did.
    pub(super) stripped: BTreeSet<Uid>,
    /// Outcomes, by job, slice and place.
    pub(super) outcomes: BTreeMap<(Uid, u32, usize), Record>,
    /// The list of the first job.
    pub(super) retries: Vec<Retry>,
    /// Since when jobs are gone, or being deleted.
    pub(super) gone: BTreeMap<Uid, Timestamp>,
    /// A job was deleted without what it owned.
    pub(super) orphaned: bool,
}

impl Past {
    /// Whether the outcome of the attempt of this name is stored.
    pub(super) fn is_stored(&self, name: &str) -> bool {
        self.outcomes.values().any(|record| &*record.pod == name)
    }
}
