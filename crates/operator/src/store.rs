//! The cache: what the watches have told us, by owner, in compact rows.
//!
//! One task per kind writes (through its [`StoreSink`]), workers read borrowed rows under the
//! shared lock while they plan, which takes milliseconds. Each change says which jobs it concerns.

mod job;
mod node;
mod pod;
mod sink;
mod slice;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use carillon_plan::Uid;
use carillon_plan::broadcast_job::Job;
use carillon_plan::node::{NodeRow, Nodes};
use carillon_plan::pod::PodRow;
use carillon_plan::record::{Record, Slice};

pub use self::job::is_open;
pub use self::pod::OwnedPods;
pub use self::sink::StoreSink;
pub use self::slice::Ledger;
use crate::gate::{Kind, Versions};
use crate::slim::{Interner, SlimJob, SlimNode, SlimPod, SlimSlice};
use crate::watch::Watched;

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
        let rest = |pod: &PodRow| {
            let waiting = pod.waiting.as_ref();
            let failure = pod.failure.as_ref();
            waiting.map_or(0, |w| size_of_val(&**w) + w.message.len())
                + failure.map_or(0, |f| {
                    size_of_val(&**f) + size_of_val(&*f.exits) + size_of_val(&*f.conditions)
                })
        };
        // A hash table keeps an eighth free and a byte of tag per entry.
        let entry = |bytes: usize| (bytes + 1) * 8 / 7;
        let pods = self.pods.values().flat_map(|of_job| &of_job.pods);
        let pods = pods.map(|(name, pod)| (&**name, pod));
        let pod_bytes = |(name, pod): (&str, &PodRow)| {
            entry(size_of::<Box<str>>() + size_of_val(pod)) + text(name) + end(pod) + rest(pod)
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
