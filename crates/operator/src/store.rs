//! The cache: what the watches have told us, by owner, in compact rows.
//!
//! One task per kind writes (through its [`StoreSink`]), workers read borrowed rows under the
//! shared lock while they plan, which takes milliseconds. Each change says which jobs it concerns.

mod broadcast_job;
mod broadcast_job_pod;
mod child;
mod cron_job;
mod free_pod;
mod job;
mod job_pod;
mod journal;
mod key;
mod node;
pub mod observe;
mod owned;
mod pod;
mod pod_rows;
mod queues;
mod retry;
mod sink;
mod size;
mod slice;
mod taken;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use carillon_plan::broadcast_job::{Job, TakenPods};
use carillon_plan::cron_job::{Children, CronJob};
use carillon_plan::job::{Job as NativeJob, JobPods, is_ours};
use carillon_plan::node::Nodes;
use carillon_plan::{ObjectKey, Uid, object_key};
use tokio::sync::watch;

pub use self::broadcast_job::is_open;
use self::job::NativeJobs;
pub use self::journal::Journal;
pub use self::key::{Key, Wake, controller};
use self::owned::Owned;
pub use self::pod_rows::PodRows;
pub use self::queues::{EachKey, Queue, Queues};
use self::retry::Retries;
pub use self::sink::StoreSink;
pub use self::slice::Ledger;
use crate::gate::{Kind, Versions};
use crate::protobuf::{Message, POD};
use crate::slim::{
    CronJobRow, Interner, Side, SlimBroadcastJob, SlimCronJob, SlimJob, SlimNativeJob, SlimNode,
    SlimPod, SlimSlice,
};
use crate::transport::Pace;
use crate::watch::{Held, Listed, Watched};

/// Everything cached.
#[derive(Debug, Default)]
pub struct Tables {
    jobs: HashMap<Arc<ObjectKey>, Arc<Job>>,
    retries: Retries,
    nodes: Nodes,
    node_changes: Journal,
    pods: Owned<PodRows>,
    taken_pods: Owned<TakenPods>,
    slices: Owned<Ledger>,
    cron_jobs: HashMap<Arc<ObjectKey>, CronJobRow>,
    families: Owned<Children>,
    native_jobs: NativeJobs,
    /// Whether those that name nobody to serve them are left to others.
    leaves_native_jobs: bool,
    job_pods: Owned<JobPods>,
    /// Pods that nothing controls, by namespace and name.
    free_pods: HashMap<Arc<str>, JobPods>,
    tallied: Tallied,
    /// Whether a Job was seen that is to be served by us and nobody else.
    has_managed_job: watch::Sender<bool>,
    /// What those watches have seen that look at all namespaces.
    seen_everywhere: Versions,
    /// What those have seen that look at one.
    seen_in: HashMap<String, Versions>,
    strings: Interner,
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
        for (namespace, pods) in &self.free_pods {
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
    fn seen_by(&mut self, namespace: Option<&str>) -> &mut Versions {
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
    kept: HashSet<Uid>,
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
    fn manages(&mut self, name: &str) {
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

/// The shared cache.
#[derive(Clone, Debug)]
pub struct Store(Arc<RwLock<Tables>>);

impl Default for Store {
    fn default() -> Self {
        Self::new()
    }
}

impl Store {
    /// An empty cache.
    pub fn new() -> Self {
        Self(Arc::new(RwLock::new(Tables::default())))
    }

    /// Borrows the tables. Hold it for a plan, not for a request.
    pub fn read(&self) -> RwLockReadGuard<'_, Tables> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Turns true with the first Job that names us as its manager, and stays so.
    pub fn has_managed_job(&self) -> watch::Receiver<bool> {
        self.read().has_managed_job.subscribe()
    }

    /// Jobs that name nobody to serve them are left to others: of those little is kept.
    pub fn leave_native_jobs(&self) {
        self.write().leaves_native_jobs = true;
    }

    fn write(&self) -> RwLockWriteGuard<'_, Tables> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A kind that is cached.
pub trait Row: Watched {
    /// Its kind.
    const KIND: Kind;
    /// How soon its changes are read.
    const PACE: Pace = Pace::Gathered;
    /// Enters it.
    fn enter(self, tables: &mut Tables, wakes: &mut Vec<Wake>);
    /// Removes it.
    fn leave(self, tables: &mut Tables, wakes: &mut Vec<Wake>);
    /// Removes every row of `namespace` (all when `None`) that is not in `listed`.
    fn sweep(
        tables: &mut Tables,
        namespace: Option<&str>,
        listed: &HashSet<Uid>,
        wakes: &mut Vec<Wake>,
    );
    /// What is held of an object.
    fn held(tables: &Tables, object: &Listed) -> Held;
    /// Names every row of `namespace` (all when `None`), with its uid and resourceVersion.
    fn each_held(tables: &Tables, namespace: Option<&str>, each: &mut dyn FnMut(&str, Uid, u64));
}

macro_rules! watched {
    ($($slim:ty $(where $side:ident)? $(as $message:ident)?),*) => {$(
        impl$(<$side: Side>)? Watched for $slim {
            $(const PROTOBUF: Option<&'static Message> = Some(&$message);)?

            fn resource_version(&self) -> Option<u64> {
                Some(self.metadata.rv()).filter(|rv| *rv > 0)
            }

            fn uid(&self) -> Option<Uid> {
                self.metadata.uid()
            }
        }
    )*};
}
watched!(
    SlimBroadcastJob,
    SlimNode,
    SlimPod as POD,
    SlimSlice,
    SlimNativeJob,
    SlimJob,
    SlimCronJob<S> where S
);

fn held_at(rv: Option<u64>) -> Held {
    rv.map_or(Held::Nothing, Held::At)
}

fn in_scope(namespace: &str, scope: Option<&str>) -> bool {
    scope.is_none_or(|scope| scope == namespace)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn uid(n: u64) -> String {
        format!("4e0c5d6a-0b1c-4d2e-8f3a-{n:012x}")
    }

    /// Metadata of an object that belongs to job 1.
    fn meta(n: u64, rv: u64) -> Value {
        json!({
            "name": format!("o{n}"), "namespace": "ops", "uid": uid(n), "resourceVersion": rv.to_string(),
            "labels": {"carillon.dev/broadcastjob-uid": uid(1), "carillon.dev/slice-index": "0"},
            "ownerReferences": [{"apiVersion": "carillon.dev/v1alpha1", "kind": "BroadcastJob",
                "name": "o1", "uid": uid(1), "controller": true}],
        })
    }

    /// What is held of the object after it was entered, and what was before.
    fn audit<R: Row>(tables: &mut Tables, metadata: &Value, more: &Value) -> [Held; 2] {
        let mut object = more.clone();
        object["metadata"] = metadata.clone();
        let object: R = serde_json::from_value(object).unwrap();
        let listed: Listed = serde_json::from_value(metadata.clone()).unwrap();
        let before = R::held(tables, &listed);
        object.enter(tables, &mut Vec::new());
        let mut named = None;
        R::each_held(tables, Some("ops"), &mut |_, uid, rv| {
            if Some(uid) == listed.uid() {
                named = Some(rv);
            }
        });
        let after = R::held(tables, &listed);
        assert_eq!(held_at(named) == after, after != Held::LeftOut);
        [before, after]
    }

    #[test]
    fn what_is_held_of_each_kind_is_known_by_uid_and_version() {
        let tables = &mut Tables::default();
        let job = json!({"spec": {"template": {"spec": {"containers": [{"name": "c"}]}}}});
        // The second time nothing but the version is new, as in a node's heartbeat.
        for (rv, before) in [(5, None), (6, Some(5))] {
            let expected = [held_at(before), Held::At(rv)];
            assert_eq!(
                audit::<SlimBroadcastJob>(tables, &meta(1, rv), &job),
                expected
            );
            assert_eq!(
                audit::<SlimNode>(tables, &meta(2, rv), &json!({})),
                expected
            );
            assert_eq!(audit::<SlimPod>(tables, &meta(3, rv), &json!({})), expected);
            assert_eq!(
                audit::<SlimSlice>(tables, &meta(4, rv), &json!({})),
                expected
            );
        }
    }

    #[test]
    fn what_has_no_row_on_purpose_is_left_out() {
        let tables = &mut Tables::default();
        let mut foreign = meta(3, 5);
        foreign["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet",
            "name": "web", "uid": "w", "controller": true}]);
        let left_out = [Held::LeftOut; 2];
        let mut unmarked = foreign.clone();
        unmarked["labels"] = json!({});
        assert_eq!(audit::<SlimPod>(tables, &unmarked, &json!({})), left_out);
        assert_eq!(audit::<SlimPod>(tables, &foreign, &json!({})), left_out);
        // What has the labels alone, and such a name, may have been taken from its job.
        let mut taken = foreign.clone();
        taken["name"] = json!("o1-bcdfghjklm");
        taken["labels"]["carillon.dev/broadcastjob-name"] = json!("o1");
        let taken = audit::<SlimPod>(tables, &taken, &json!({}));
        assert_eq!(taken, [Held::Nothing, Held::At(5)]);
        assert_eq!(audit::<SlimSlice>(tables, &foreign, &json!({})), left_out);
        // Unreadable, and yet not to be taken for lost.
        let unreadable = json!({"results": [{"state": "Later"}]});
        let held = audit::<SlimSlice>(tables, &meta(4, 5), &unreadable);
        assert_eq!(held, [Held::Nothing, Held::At(5)]);
        // Two slices of one index: the later one is kept.
        audit::<SlimSlice>(tables, &meta(5, 6), &json!({}));
        let listed: Listed = serde_json::from_value(meta(6, 7)).unwrap();
        assert_eq!(SlimSlice::held(tables, &listed), Held::LeftOut);
    }

    #[test]
    fn what_is_seen_everywhere_does_not_hide_what_is_seen_in_a_namespace() {
        let mut tables = Tables::default();
        let mut saw = |scope: Option<&str>, kind, rv| {
            tables.seen_by(scope).raise(kind, rv);
        };
        saw(None, Kind::Node, 9);
        saw(Some("a"), Kind::Pod, 7);
        saw(Some("b"), Kind::Pod, 8);
        let seen = |namespace| Kind::ALL.map(|kind| tables.seen(namespace).of(kind));
        assert_eq!(seen("a")[..4], [7, 0, 0, 9]);
        assert_eq!(seen("b")[..4], [8, 0, 0, 9]);
        assert_eq!(seen("c")[..4], [0, 0, 0, 9]);
    }
}
