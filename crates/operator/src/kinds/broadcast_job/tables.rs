//! What is cached of BroadcastJobs, and of what belongs to them.

use std::collections::HashMap;
use std::sync::Arc;

use carillon_plan::broadcast_job::{BroadcastJob, TakenPods};
use carillon_plan::pod::PodRow;
use carillon_plan::{ObjectKey, Uid};

use super::ledger::Ledger;
use super::pod_rows::PodRows;
use super::retries::Retries;
use crate::store::owned::Owned;

/// Name of the controller in logs, metrics and the work queue.
pub const CONTROLLER: &str = "broadcastjob";

/// See the module.
#[derive(Debug, Default)]
pub struct BroadcastJobTables {
    pub(super) by_key: HashMap<Arc<ObjectKey>, Arc<BroadcastJob>>,
    pub(super) retries: Retries,
    pub(super) pods: Owned<PodRows>,
    pub(super) taken_pods: Owned<TakenPods>,
    pub(super) slices: Owned<Ledger>,
}

impl BroadcastJobTables {
    /// A BroadcastJob.
    pub fn get(&self, key: &ObjectKey) -> Option<&Arc<BroadcastJob>> {
        self.by_key.get(key)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<BroadcastJob>> {
        self.by_key.values()
    }

    /// The pods that a job controls.
    pub fn pods(&self, job: &ObjectKey) -> Option<&PodRows> {
        self.pods.of(job)
    }

    /// The pods with the label of a job that it does not control.
    pub fn taken_pods(&self, job: &ObjectKey) -> Option<&TakenPods> {
        self.taken_pods.of(job)
    }

    /// The pods of a job that are watched: those that it controls, and those that were taken from it.
    pub fn watched_pods(&self, job: &ObjectKey) -> impl Iterator<Item = (&str, &PodRow)> {
        let pods = self.pods.of(job).into_iter().flat_map(|pods| pods.iter());
        let taken = self.taken_pods.of(job).into_iter().flatten();
        let taken = taken.map(|(name, taken)| (&**name, &taken.pod));
        pods.map(|(name, pod)| (&**name, pod)).chain(taken)
    }

    /// Whether a pod is watched as one of this job, or as one that was taken from it.
    pub fn is_watched(&self, job: &ObjectKey, pod: Uid) -> bool {
        let known = [self.pods.owner_of(pod), self.taken_pods.owner_of(pod)];
        known.into_iter().flatten().any(|owner| **owner == *job)
    }

    /// The result slices of a job.
    pub fn ledger(&self, job: &ObjectKey) -> Option<&Ledger> {
        self.slices.of(job)
    }

    /// BroadcastJobs, and the owners of what belongs to one.
    pub(super) fn each_key(&self, each: &mut dyn FnMut(&Arc<ObjectKey>)) {
        let of_pods = self.pods.owners().chain(self.taken_pods.owners());
        let owners = of_pods.chain(self.slices.owners());
        self.by_key.keys().chain(owners).for_each(each);
    }
}
