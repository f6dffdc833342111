//! All rows, by kind.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use carillon_plan::broadcast_job::{Job, TakenPods};
use carillon_plan::cron_job::{Children, CronJob};
use carillon_plan::job::{Job as NativeJob, JobPods, is_ours};
use carillon_plan::node::Nodes;
use carillon_plan::{ObjectKey, Uid, object_key};
use tokio::sync::watch;

use super::journal::Journal;
use super::ledger::Ledger;
use super::native_jobs::NativeJobs;
use super::owned::Owned;
use super::pod_rows::PodRows;
use super::retries::Retries;
use crate::gate::{Kind, Versions};
use crate::slim::{CronJobRow, Interner};

/// Everything cached.
#[derive(Debug, Default)]
pub struct Tables {
    pub(super) jobs: HashMap<Arc<ObjectKey>, Arc<Job>>,
    pub(super) retries: Retries,
    pub(super) nodes: Nodes,
    pub(super) node_changes: Journal,
    pub(super) pods: Owned<PodRows>,
    pub(super) taken_pods: Owned<TakenPods>,
    pub(super) slices: Owned<Ledger>,
    pub(super) cron_jobs: HashMap<Arc<ObjectKey>, CronJobRow>,
    pub(super) families: Owned<Children>,
    pub(super) native_jobs: NativeJobs,
    /// Whether those that name nobody to serve them are left to others.
    pub(super) leaves_native_jobs: bool,
    pub(super) job_pods: Owned<JobPods>,
    /// Pods that nothing controls, by namespace and name.
    pub(super) orphan_pods: HashMap<Arc<str>, JobPods>,
    pub(super) tallied: Tallied,
    /// Whether a Job was seen that is to be served by us and nobody else.
    pub(super) has_managed_job: watch::Sender<bool>,
    /// What those watches have seen that look at all namespaces.
    pub(super) seen_everywhere: Versions,
    /// What those have seen that look at one.
    pub(super) seen_in: HashMap<String, Versions>,
    pub(super) strings: Interner,
}

impl Tables {
    /// A BroadcastJob.
    pub fn job(&self, key: &ObjectKey) -> Option<&Arc<Job>> {
        self.jobs.get(key)
    }

    /// All BroadcastJobs.
    pub fn jobs(&self) -> impl Iterator<Item = &Arc<Job>> {
        self.jobs.values()
    }

    /// All nodes.
    pub fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// Which nodes have changed.
    pub fn node_changes(&self) -> &Journal {
        &self.node_changes
    }

    /// The pods of a job.
    pub fn pods(&self, job: &ObjectKey) -> Option<&PodRows> {
        self.pods.of(job)
    }

    /// The result slices of a job.
    pub fn ledger(&self, job: &ObjectKey) -> Option<&Ledger> {
        self.slices.of(job)
    }

    /// A CronJob.
    pub fn cron_job(&self, key: &ObjectKey) -> Option<&Arc<CronJob>> {
        self.cron_jobs.get(key).map(|row| &row.cron)
    }

    /// All CronJobs.
    pub fn cron_jobs(&self) -> impl Iterator<Item = &Arc<CronJob>> {
        self.cron_jobs.values().map(|row| &row.cron)
    }

    /// The children of a CronJob; or a child that is held and has lost its CronJob, by its own key.
    pub fn family(&self, cron_job: &ObjectKey) -> Option<&Children> {
        self.families.of(cron_job)
    }

    /// Whether a Job of batch/v1 is ours to serve.
    pub fn is_ours(&self, job: &NativeJob) -> bool {
        is_ours(job.spec.managed_by.as_deref(), !self.leaves_native_jobs)
    }

    /// A Job of batch/v1.
    pub fn native_job(&self, key: &ObjectKey) -> Option<&Arc<NativeJob>> {
        self.native_jobs.get(key)
    }

    /// All Jobs of batch/v1.
    pub fn native_jobs(&self) -> impl Iterator<Item = &Arc<NativeJob>> {
        self.native_jobs.values()
    }

    /// The pods of a Job of batch/v1.
    pub fn job_pods(&self, job: &ObjectKey) -> Option<&JobPods> {
        self.job_pods.of(job)
    }

    /// BroadcastJobs, and the owners of what belongs to one.
    pub fn each_broadcast_job(&self, each: &mut dyn FnMut(&Arc<ObjectKey>)) {
        let of_pods = self.pods.owners().chain(self.taken_pods.owners());
        let owners = of_pods.chain(self.slices.owners());
        self.jobs.keys().chain(owners).for_each(each);
    }

    /// CronJobs, and the owners of what one has started.
    pub fn each_cron_job(&self, each: &mut dyn FnMut(&Arc<ObjectKey>)) {
        let owners = self.families.owners();
        self.cron_jobs.keys().chain(owners).for_each(each);
    }

    /// Jobs of batch/v1 that are ours to serve, and the owners of pods.
    pub fn each_native_job(&self, each: &mut dyn FnMut(&Arc<ObjectKey>)) {
        let ours = self.native_jobs().filter(|job| self.is_ours(job));
        let ours = ours.map(|job| &job.meta.owner);
        ours.chain(self.job_pods.owners()).for_each(each);
    }

    /// Pods that wait for a Job to count them, and that none controls.
    pub fn each_orphan_pod(&self, each: &mut dyn FnMut(&Arc<ObjectKey>)) {
        for (namespace, pods) in &self.orphan_pods {
            for (name, pod) in pods.iter().filter(|(_, pod)| pod.tracked) {
                each(&ObjectKey::of(
                    object_key::POD,
                    &**namespace,
                    &**name,
                    pod.uid,
                ));
            }
        }
    }

    /// What the watches have told of Jobs so far, in numbers.
    pub fn tallied(&self) -> &Tallied {
        &self.tallied
    }

    /// What the caches have seen of objects of `namespace`. Some kinds may be watched everywhere,
    /// nodes always are, and others in each namespace.
    pub fn seen(&self, namespace: &str) -> Versions {
        let mut seen = self.seen_everywhere;
        if let Some(versions) = self.seen_in.get(namespace) {
            for kind in Kind::ALL {
                seen.raise(kind, versions.of(kind));
            }
        }
        seen
    }

    /// What a watch of `namespace`, or of all, has seen.
    pub(super) fn seen_by(&mut self, namespace: Option<&str>) -> &mut Versions {
        match namespace {
            Some(namespace) => self.seen_in.entry(namespace.to_owned()).or_default(),
            None => &mut self.seen_everywhere,
        }
    }
}

/// What the watches have told of Jobs so far, in numbers.
#[derive(Debug, Default)]
pub struct Tallied {
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

impl Tallied {
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
    pub fn let_go(&self) -> u64 {
        self.ever_kept.saturating_sub(self.kept.len() as u64)
    }
}
