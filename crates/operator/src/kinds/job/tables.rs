//! What is cached of Jobs of batch/v1, of their pods, and of pods that nothing controls.

use std::sync::Arc;

use carillon_plan::job::{Job, JobPod, JobPods, is_ours};
use carillon_plan::{ObjectKey, object_key};
use tokio::sync::watch;

use super::index::JobIndex;
use super::watch_counts::WatchCounts;
use crate::store::dependents::Dependents;

/// Name of the controller in logs, metrics and the work queue.
pub const CONTROLLER: &str = "job";
/// Name of the controller of pods of no Job.
pub(crate) const ORPHAN_PODS: &str = "job_orphan_pod";

/// See the module.
#[derive(Debug, Default)]
pub struct JobTables {
    pub(super) by_key: JobIndex,
    /// Whether those that name nobody to serve them are left to others.
    pub(super) leaves_native: bool,
    pub(super) pods: Dependents<JobPod>,
    pub(super) counts: WatchCounts,
    /// Whether a Job was seen that is to be served by us and nobody else.
    pub(super) has_managed: watch::Sender<bool>,
}

impl JobTables {
    /// Whether a Job is ours to serve.
    pub fn is_ours(&self, job: &Job) -> bool {
        is_ours(job.spec.managed_by.as_deref(), !self.leaves_native)
    }

    /// A Job.
    pub fn get(&self, key: &ObjectKey) -> Option<&Arc<Job>> {
        self.by_key.get(key)
    }

    /// All of them.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<Job>> {
        self.by_key.values()
    }

    /// The pods of a Job.
    pub fn pods(&self, job: &ObjectKey) -> Option<&JobPods> {
        self.pods.of(job)
    }

    /// The pods of a namespace that nothing controls.
    pub fn orphans(&self, namespace: &str) -> Option<&JobPods> {
        self.pods.orphans(namespace)
    }

    /// A pod that nothing controls.
    pub fn orphan(&self, key: &ObjectKey) -> Option<&JobPod> {
        let pod = self.orphans(&key.namespace)?.get(&*key.name)?;
        Some(pod).filter(|pod| pod.uid == key.uid)
    }

    /// What the watches have told of Jobs so far, in numbers.
    pub fn counts(&self) -> &WatchCounts {
        &self.counts
    }

    /// Jobs that are ours to serve, and the owners of pods.
    pub(super) fn each_key(&self, each: &mut dyn FnMut(&Arc<ObjectKey>)) {
        let ours = self.iter().filter(|job| self.is_ours(job));
        let ours = ours.map(|job| &job.meta.owner);
        ours.chain(self.pods.owners()).for_each(each);
    }

    /// Pods that wait for a Job to count them, and that none controls.
    pub(super) fn each_orphan(&self, each: &mut dyn FnMut(&Arc<ObjectKey>)) {
        for (namespace, pods) in self.pods.all_orphans() {
            for (name, pod) in pods.iter().filter(|(_, pod)| pod.tracked) {
                let (namespace, name) = (&**namespace, &**name);
                each(&ObjectKey::of(object_key::POD, namespace, name, pod.uid));
            }
        }
    }
}
