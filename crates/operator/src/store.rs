//! The cache: what the watches have told us, by owner, in compact rows.
//!
//! One task per kind writes (through its [`StoreSink`]), workers read borrowed rows under the
//! shared lock while they plan, which takes milliseconds. Each change says which jobs it concerns.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use carillon_plan::Uid;
use carillon_plan::broadcast_job::Job;
use carillon_plan::condition;
use carillon_plan::eligibility;
use carillon_plan::node::{NodeRow, Nodes};
use carillon_plan::pod::{PodRow, Pods};
use carillon_plan::record::{Record, Slice};

use crate::gate::{Kind, Versions};
use crate::queue::WorkQueue;
use crate::slim::{Interner, SlimJob, SlimNode, SlimPod, SlimSlice};
use crate::watch::{ObjectId, Sink, Watched};

/// Everything cached.
#[derive(Debug, Default)]
pub struct Tables {
    jobs: HashMap<Uid, Arc<Job>>,
    nodes: Nodes,
    pods: HashMap<Uid, OwnedPods>,
    slices: HashMap<Uid, Ledger>,
    seen: HashMap<Option<String>, Versions>,
    strings: Interner,
}

/// The pods of one job.
#[derive(Debug, Default)]
pub struct OwnedPods {
    /// Their namespace.
    pub namespace: Arc<str>,
    /// Name of the job, as its label says.
    pub job: Arc<str>,
    /// By name.
    pub pods: Pods,
}

/// The result slices of one job.
#[derive(Debug, Default)]
pub struct Ledger {
    namespace: Arc<str>,
    /// By index.
    pub slices: Vec<Slice>,
    /// Slices that cannot be read, by uid, and why.
    unreadable: BTreeMap<Uid, String>,
}

impl Ledger {
    /// Why the ledger must not be acted on, if so. What a missing part hides might be run again.
    pub fn problem(&self) -> Option<String> {
        if let Some(problem) = self.unreadable.values().next() {
            return Some(problem.clone());
        }
        let gap = self
            .slices
            .iter()
            .zip(0..)
            .find(|(slice, index)| slice.index != *index);
        gap.map(|(_, index)| {
            format!(
                "NodeResultSlice with carillon.dev/slice-index={index} is missing; its results are \
                 lost, delete the job and create a new one"
            )
        })
    }

    fn put(&mut self, slice: Slice) {
        match self
            .slices
            .binary_search_by_key(&slice.index, |known| known.index)
        {
            Ok(at) => self.slices[at] = slice,
            Err(at) => self.slices.insert(at, slice),
        }
    }

    fn remove(&mut self, uid: Uid) {
        self.slices.retain(|slice| slice.uid != uid);
        self.unreadable.remove(&uid);
    }
}

impl Tables {
    /// A job by uid.
    pub fn job(&self, uid: Uid) -> Option<&Arc<Job>> {
        self.jobs.get(&uid)
    }

    /// All jobs.
    pub fn jobs(&self) -> impl Iterator<Item = &Arc<Job>> {
        self.jobs.values()
    }

    /// All nodes.
    pub fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// The pods of a job.
    pub fn pods(&self, job: Uid) -> Option<&OwnedPods> {
        self.pods.get(&job)
    }

    /// Uids of jobs that have pods.
    pub fn owners(&self) -> impl Iterator<Item = Uid> {
        self.pods.keys().copied()
    }

    /// The result slices of a job.
    pub fn ledger(&self, job: Uid) -> Option<&Ledger> {
        self.slices.get(&job)
    }

    /// What the caches have seen of objects of `namespace`. Some kinds may be watched everywhere,
    /// nodes always are, and others in each namespace.
    pub fn seen(&self, namespace: &str) -> Versions {
        let mut seen = Versions::default();
        for scope in [None, Some(namespace.to_owned())] {
            if let Some(versions) = self.seen.get(&scope) {
                for kind in Kind::ALL {
                    seen.raise(kind, versions.of(kind));
                }
            }
        }
        seen
    }

    /// Rows and estimated bytes held, by kind.
    pub fn size(&self) -> [(Kind, usize, usize); 4] {
        let text = |text: &str| text.len() + 16;
        let end = |pod: &PodRow| {
            pod.end.as_ref().map_or(0, |end| {
                size_of_val(&**end) + end.reason.len() + end.message.len()
            })
        };
        // A hash table keeps an eighth free and a byte of tag per entry.
        let entry = |bytes: usize| (bytes + 1) * 8 / 7;
        let pods = self.pods.values().flat_map(|of_job| &of_job.pods);
        let pods = pods.map(|(name, pod)| (&**name, pod));
        let pod_bytes = |(name, pod): (&str, &PodRow)| {
            entry(size_of::<Box<str>>() + size_of_val(pod)) + text(name) + end(pod)
        };
        let node_bytes = |(name, node): (&Arc<str>, &NodeRow)| {
            // A B-tree keeps about a third free.
            (size_of_val(name) + size_of_val(node)) * 3 / 2
                + text(name)
                + size_of_val(&*node.labels)
                + size_of_val(&*node.taints)
                + size_of_val(&*node.allocatable)
        };
        let slices = self.slices.values().flat_map(|ledger| &ledger.slices);
        let slice_bytes = |slice: &Slice| {
            let record = |r: &Record| size_of_val(r) + text(&r.pod) + text(&r.message);
            size_of_val(slice) + slice.records.iter().map(record).sum::<usize>()
        };
        let job_bytes = |job: &Arc<Job>| size_of_val(&**job) + job.template.to_string().len() * 3;
        [
            (Kind::Pod, pods.clone().count(), pods.map(pod_bytes).sum()),
            (
                Kind::Node,
                self.nodes.len(),
                self.nodes.iter().map(node_bytes).sum(),
            ),
            (
                Kind::Slice,
                slices.clone().count(),
                slices.map(slice_bytes).sum(),
            ),
            (
                Kind::Job,
                self.jobs.len(),
                self.jobs.values().map(job_bytes).sum(),
            ),
        ]
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

    fn write(&self) -> RwLockWriteGuard<'_, Tables> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which job a change concerns, and whether it can wait for others of its kind.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Wake {
    /// At once.
    Now(Uid),
    /// Together with what else happens within the batch period.
    Soon(Uid),
}

/// A kind that is cached.
pub trait Row: Watched {
    /// Its kind.
    const KIND: Kind;
    /// Its uid.
    fn uid(&self) -> Option<Uid>;
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
}

macro_rules! watched {
    ($($slim:ty),*) => {$(
        impl Watched for $slim {
            fn resource_version(&self) -> Option<u64> {
                Some(self.metadata.rv()).filter(|rv| *rv > 0)
            }
        }
    )*};
}
watched!(SlimJob, SlimNode, SlimPod, SlimSlice);

fn in_scope(namespace: &str, scope: Option<&str>) -> bool {
    scope.is_none_or(|scope| scope == namespace)
}

impl Row for SlimPod {
    const KIND: Kind = Kind::Pod;

    fn uid(&self) -> Option<Uid> {
        self.metadata.uid()
    }

    fn enter(self, tables: &mut Tables, wakes: &mut Vec<Wake>) {
        let Some(owner) = self.labelled_owner() else {
            return;
        };
        // The label is how pods are found, the reference is whose they are. Where the two differ
        // somebody else wrote the label.
        if self.metadata.broadcast_job() != Some(owner) {
            self.leave(tables, wakes);
            return;
        }
        let Some((name, mut row)) = self.row(&mut tables.strings) else {
            return;
        };
        let namespace = tables.strings.share(&self.metadata.namespace);
        let job = self
            .metadata
            .labels
            .as_ref()
            .map_or("", |labels| &labels.job_name);
        let job = tables.strings.share(job);
        let of_job = tables.pods.entry(owner).or_insert_with(|| OwnedPods {
            namespace,
            job,
            pods: Pods::default(),
        });
        let changed = match of_job.pods.get(&name).filter(|old| old.uid == row.uid) {
            Some(old) => {
                row.interrupted |= old.interrupted;
                PodRow {
                    rv: row.rv,
                    ..old.clone()
                } != row
            }
            None => true,
        };
        of_job.pods.insert(name, row);
        if changed {
            wakes.push(Wake::Soon(owner));
        }
    }

    fn leave(self, tables: &mut Tables, wakes: &mut Vec<Wake>) {
        let Some(owner) = self.labelled_owner() else {
            return;
        };
        let Some(of_job) = tables.pods.get_mut(&owner) else {
            return;
        };
        let same = of_job
            .pods
            .get(&*self.metadata.name)
            .is_some_and(|row| Some(row.uid) == self.metadata.uid());
        if same {
            of_job.pods.remove(&*self.metadata.name);
            wakes.push(Wake::Soon(owner));
        }
        if of_job.pods.is_empty() {
            tables.pods.remove(&owner);
        }
    }

    fn sweep(
        tables: &mut Tables,
        namespace: Option<&str>,
        listed: &HashSet<Uid>,
        wakes: &mut Vec<Wake>,
    ) {
        for (owner, of_job) in &mut tables.pods {
            if !in_scope(&of_job.namespace, namespace) {
                continue;
            }
            let before = of_job.pods.len();
            of_job.pods.retain(|_, row| listed.contains(&row.uid));
            if of_job.pods.len() != before {
                wakes.push(Wake::Soon(*owner));
            }
        }
        tables.pods.retain(|_, of_job| !of_job.pods.is_empty());
    }
}

impl SlimPod {
    fn labelled_owner(&self) -> Option<Uid> {
        self.metadata.labels.as_ref()?.job_uid.parse().ok()
    }
}

impl Row for SlimNode {
    const KIND: Kind = Kind::Node;

    fn uid(&self) -> Option<Uid> {
        self.metadata.uid()
    }

    fn enter(self, tables: &mut Tables, wakes: &mut Vec<Wake>) {
        let Some((name, row)) = self.row(&mut tables.strings) else {
            return;
        };
        let old = tables.nodes.get(&name);
        if old == Some(&row) {
            return;
        }
        wake_affected(tables, &name, old, Some(&row), wakes);
        tables.nodes.insert(name, row);
    }

    fn leave(self, tables: &mut Tables, wakes: &mut Vec<Wake>) {
        let name = &*self.metadata.name;
        let same = tables
            .nodes
            .get(name)
            .is_some_and(|row| Some(row.uid) == self.metadata.uid());
        if !same {
            return;
        }
        if let Some(old) = tables.nodes.remove(name) {
            wake_affected(tables, name, Some(&old), None, wakes);
        }
    }

    fn sweep(tables: &mut Tables, _: Option<&str>, listed: &HashSet<Uid>, wakes: &mut Vec<Wake>) {
        let gone: Vec<Arc<str>> = tables
            .nodes
            .iter()
            .filter(|(_, row)| !listed.contains(&row.uid))
            .map(|(name, _)| name.clone())
            .collect();
        for name in gone {
            if let Some(old) = tables.nodes.remove(&name) {
                wake_affected(tables, &name, Some(&old), None, wakes);
            }
        }
    }
}

/// Wakes the open jobs for which the change of a node makes a difference.
fn wake_affected(
    tables: &Tables,
    name: &str,
    old: Option<&NodeRow>,
    new: Option<&NodeRow>,
    wakes: &mut Vec<Wake>,
) {
    let replaced = old.map(|node| node.uid) != new.map(|node| node.uid);
    for job in tables.jobs.values().filter(|job| is_open(job)) {
        let reason = |node: Option<&NodeRow>| {
            node.map(|node| eligibility::refusal(&job.placement, name, node).map(|r| r.reason()))
        };
        if replaced || reason(old) != reason(new) {
            wakes.push(Wake::Soon(job.owner.uid));
        }
    }
}

/// Whether nodes still matter to a job.
pub fn is_open(job: &Job) -> bool {
    use carillon_api::condition::types::{COMPLETE, FAILED};
    let ended = |type_| condition::is_true(&job.status.conditions, type_);
    !(job.deleting || ended(COMPLETE) || ended(FAILED))
}

impl Row for SlimSlice {
    const KIND: Kind = Kind::Slice;

    fn uid(&self) -> Option<Uid> {
        self.metadata.uid()
    }

    fn enter(self, tables: &mut Tables, wakes: &mut Vec<Wake>) {
        let (Some(owner), Some(uid)) = (self.metadata.broadcast_job(), self.metadata.uid()) else {
            return;
        };
        let namespace = tables.strings.share(&self.metadata.namespace);
        let ledger = tables.slices.entry(owner).or_default();
        ledger.namespace = namespace;
        match self.row(&mut tables.strings) {
            Ok(slice) => {
                ledger.unreadable.remove(&uid);
                ledger.put(slice);
            }
            Err(problem) => {
                ledger.unreadable.insert(uid, problem);
            }
        }
        wakes.push(Wake::Soon(owner));
    }

    fn leave(self, tables: &mut Tables, wakes: &mut Vec<Wake>) {
        let (Some(owner), Some(uid)) = (self.metadata.broadcast_job(), self.metadata.uid()) else {
            return;
        };
        let Some(ledger) = tables.slices.get_mut(&owner) else {
            return;
        };
        ledger.remove(uid);
        if ledger.slices.is_empty() && ledger.unreadable.is_empty() {
            tables.slices.remove(&owner);
        }
        wakes.push(Wake::Soon(owner));
    }

    fn sweep(
        tables: &mut Tables,
        namespace: Option<&str>,
        listed: &HashSet<Uid>,
        wakes: &mut Vec<Wake>,
    ) {
        tables.slices.retain(|owner, ledger| {
            if !in_scope(&ledger.namespace, namespace) {
                return true;
            }
            let before = ledger.slices.len();
            ledger.slices.retain(|slice| listed.contains(&slice.uid));
            ledger.unreadable.retain(|uid, _| listed.contains(uid));
            if ledger.slices.len() != before {
                wakes.push(Wake::Soon(*owner));
            }
            !(ledger.slices.is_empty() && ledger.unreadable.is_empty())
        });
    }
}

impl Row for SlimJob {
    const KIND: Kind = Kind::Job;

    fn uid(&self) -> Option<Uid> {
        self.metadata.uid()
    }

    fn enter(self, tables: &mut Tables, wakes: &mut Vec<Wake>) {
        let Some(job) = self.job() else { return };
        let uid = job.owner.uid;
        let old = tables.jobs.insert(uid, Arc::new(job));
        let Some(new) = tables.jobs.get(&uid) else {
            return;
        };
        // A change of status is our own write coming back, unless somebody else wrote it.
        let only_status = old.as_ref().is_some_and(|old| {
            old.generation == new.generation
                && old.deleting == new.deleting
                && old.resume == new.resume
        });
        wakes.push(if only_status {
            Wake::Soon(uid)
        } else {
            Wake::Now(uid)
        });
    }

    fn leave(self, tables: &mut Tables, wakes: &mut Vec<Wake>) {
        if let Some(uid) = self.metadata.uid()
            && tables.jobs.remove(&uid).is_some()
        {
            wakes.push(Wake::Now(uid));
        }
    }

    fn sweep(
        tables: &mut Tables,
        namespace: Option<&str>,
        listed: &HashSet<Uid>,
        wakes: &mut Vec<Wake>,
    ) {
        tables.jobs.retain(|uid, job| {
            let keep = listed.contains(uid) || !in_scope(&job.owner.namespace, namespace);
            if !keep {
                wakes.push(Wake::Now(*uid));
            }
            keep
        });
    }
}

/// Brings one watch loop's objects into the cache and wakes the jobs concerned.
#[derive(Debug)]
pub struct StoreSink<K> {
    store: Store,
    queue: WorkQueue<Uid>,
    batch: Duration,
    namespace: Option<String>,
    /// Uids seen by the list under way.
    listed: HashSet<Uid>,
    kind: std::marker::PhantomData<fn(K)>,
}

impl<K: Row> StoreSink<K> {
    /// A sink for the loop over `namespace`, or over all.
    pub fn new(
        store: &Store,
        queue: &WorkQueue<Uid>,
        batch: Duration,
        namespace: Option<&str>,
    ) -> Self {
        Self {
            store: store.clone(),
            queue: queue.clone(),
            batch,
            namespace: namespace.map(str::to_owned),
            listed: HashSet::new(),
            kind: std::marker::PhantomData,
        }
    }

    fn change(&self, change: impl FnOnce(&mut Tables, &mut Vec<Wake>)) {
        let mut wakes = Vec::new();
        change(&mut self.store.write(), &mut wakes);
        for wake in wakes {
            match wake {
                Wake::Now(uid) => self.queue.add(uid),
                Wake::Soon(uid) => self.queue.add_after(uid, self.batch),
            }
        }
    }

    fn saw(&self, tables: &mut Tables, rv: u64) {
        tables
            .seen
            .entry(self.namespace.clone())
            .or_default()
            .raise(K::KIND, rv);
    }
}

impl<K: Row> Sink<K> for StoreSink<K> {
    fn relist_begin(&mut self) {
        self.listed.clear();
    }

    fn relist_item(&mut self, object: K) {
        self.listed.extend(object.uid());
        self.change(|tables, wakes| object.enter(tables, wakes));
    }

    fn relist_done(&mut self, rv: u64) {
        let listed = std::mem::take(&mut self.listed);
        self.change(|tables, wakes| {
            K::sweep(tables, self.namespace.as_deref(), &listed, wakes);
            tables
                .seen
                .entry(self.namespace.clone())
                .or_default()
                .reset(K::KIND, rv);
            tables.strings.sweep();
        });
    }

    fn applied(&mut self, object: K) {
        let rv = object.resource_version().unwrap_or(0);
        self.change(|tables, wakes| {
            object.enter(tables, wakes);
            self.saw(tables, rv);
        });
    }

    fn deleted(&mut self, object: K) {
        let rv = object.resource_version().unwrap_or(0);
        self.change(|tables, wakes| {
            object.leave(tables, wakes);
            self.saw(tables, rv);
        });
    }

    fn progress(&mut self, rv: u64) {
        self.change(|tables, _| self.saw(tables, rv));
    }

    fn undecodable(&mut self, id: &ObjectId, deleted: bool) {
        if !deleted {
            self.listed.extend(id.uid.parse::<Uid>());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_seen_everywhere_does_not_hide_what_is_seen_in_a_namespace() {
        let mut tables = Tables::default();
        let mut saw = |scope: Option<&str>, kind, rv| {
            let scope = scope.map(str::to_owned);
            tables.seen.entry(scope).or_default().raise(kind, rv);
        };
        saw(None, Kind::Node, 9);
        saw(Some("a"), Kind::Pod, 7);
        saw(Some("b"), Kind::Pod, 8);
        let seen = |namespace| Kind::ALL.map(|kind| tables.seen(namespace).of(kind));
        assert_eq!(seen("a"), [7, 0, 0, 9]);
        assert_eq!(seen("b"), [8, 0, 0, 9]);
        assert_eq!(seen("c"), [0, 0, 0, 9]);
    }
}
