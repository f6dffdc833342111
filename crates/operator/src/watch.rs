//! List and watch of one kind, into a [`Sink`].
//!
//! kube's own watcher keeps to itself what the gate needs: the resourceVersion of lists and
//! bookmarks. It also stops at the first object it cannot decode, and retries for ever where only
//! a new list helps. The loop here:
//!
//! - lists in pages by quorum read (no `resourceVersion`, never `0`): a list is never older than
//!   what was seen before, whichever API server answers;
//! - watches from the list's resourceVersion with bookmarks; a watch that ends goes on where it was;
//! - lists again after 410 (as event or as HTTP status), after two minutes of nothing but errors, and
//!   when asked to;
//! - asks how far the server has come when nothing was heard for long, and before it lists again: one that was restored
//!   from a backup is silent until it has made as many changes as it has lost. Lists again if the watch does not come
//!   that far, either;
//! - ends when the server's resourceVersions went back: what is remembered is of another history;
//! - skips an object that cannot be decoded, names it in the log, and tells the sink;
//! - compares what was delivered with a list of metadata once in a while, see `watch/audit.rs`.
//!
//! Each object is parsed once, from the bytes received, straight into the slim type. Lists are JSON;
//! a watch of pods is protobuf where the server speaks it, as API servers do.

mod address;
mod audit;
mod counters;
mod frames;
#[cfg(test)]
pub(crate) mod fuzz;
mod items;
mod list;
mod list_and_watch;
mod pages;
mod version;

use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use carillon_api::path::Resource;
use carillon_plan::Uid;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::time::Instant;

use self::address::Address;
use self::audit::Audit;
use self::counters::Counters;
pub use self::list_and_watch::{AnotherHistory, Loop};
use self::pages::PageSize;
use crate::{metrics::Metrics, protobuf::Message, slim::SlimMeta, transport::Transport};

/// A watch that was silent for so long is none: the kind should have been listed after half of that, which failed.
pub const SILENT_FOR_GOOD: Duration = Duration::from_mins(12);

/// An object that can be watched. Every [`kube::Resource`] is one; others say where their
/// resourceVersion and uid are.
pub trait Watched: DeserializeOwned + Send + 'static {
    /// How the API server encodes it for a watch, where that is known; JSON otherwise.
    const PROTOBUF: Option<&'static Message> = None;
    /// `metadata.resourceVersion`; `None` when it is missing or not a number.
    fn resource_version(&self) -> Option<u64>;
    /// `metadata.uid`; `None` when it is missing or no uid.
    fn uid(&self) -> Option<Uid>;
}

impl<K: kube::Resource + DeserializeOwned + Send + 'static> Watched for K {
    fn resource_version(&self) -> Option<u64> {
        self.meta().resource_version.as_deref()?.parse().ok()
    }

    fn uid(&self) -> Option<Uid> {
        self.meta().uid.as_deref()?.parse().ok()
    }
}

/// Where the objects of one loop go. Called synchronously, by one task, in the server's order.
///
/// A list is `relist_begin`, `relist_item`…, `relist_done`; objects held before that were not among
/// the items are gone. `relist_begin` may come again before `relist_done`, when a list had to be
/// started over.
pub trait Sink<K>: Send + 'static {
    /// A full list follows.
    fn relist_begin(&mut self);
    /// An object of the list.
    fn relist_item(&mut self, object: K);
    /// The list is complete and shows the state at `rv`.
    fn relist_done(&mut self, rv: u64);
    /// An object was created or changed. Its own resourceVersion has been reached.
    fn applied(&mut self, object: K);
    /// An object was deleted, or left the selector; this is its last state, whose resourceVersion
    /// is that of the deletion.
    fn deleted(&mut self, object: K);
    /// Every change up to `rv` has been delivered.
    fn progress(&mut self, rv: u64);
    /// An object cannot be decoded. In a list (`deleted` false) it exists all the same, and a row
    /// held for it must not be taken for gone.
    fn undecodable(&mut self, _id: &ObjectId, _deleted: bool) {}
    /// What is held of an object, for the audit.
    fn holds(&self, object: &Listed) -> Held;
    /// Names every object held to the audit, with its uid and resourceVersion.
    fn each_held(&self, each: &mut dyn FnMut(&str, Uid, u64));
}

/// What an audit reads of an object.
pub type Listed = SlimMeta;

/// What a sink holds of an object.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Held {
    /// Its state at this resourceVersion.
    At(u64),
    /// Nothing.
    Nothing,
    /// Nothing, and on purpose: it is not kept although it was delivered.
    LeftOut,
}

impl Held {
    /// What two who hold the same object hold of it.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::LeftOut, held) | (held, Self::LeftOut) => held,
            (Self::At(one), Self::At(other)) => Self::At(one.min(other)),
            (Self::Nothing, _) | (_, Self::Nothing) => Self::Nothing,
        }
    }
}

/// What could be read of an object that cannot be decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectId {
    /// `metadata.namespace`, or empty.
    pub namespace: String,
    /// `metadata.name`, or empty.
    pub name: String,
    /// `metadata.uid`, or empty.
    pub uid: String,
}

/// What to watch.
#[derive(Clone, Debug)]
pub struct Source {
    /// Name in logs and metrics.
    pub kind: &'static str,
    /// API group; empty for core.
    pub group: &'static str,
    /// API version.
    pub version: &'static str,
    /// The resource's name in URLs.
    pub plural: &'static str,
    /// Label selector; all objects when empty.
    pub labels: String,
    /// How often what was delivered is compared with a list; `None` means never.
    pub audit_period: Option<Duration>,
}

impl Source {
    fn resource(&self) -> Resource {
        Resource {
            group: self.group,
            version: self.version,
            plural: self.plural,
        }
    }
}

/// Knows and steers the loops of one kind; clones are the same.
#[derive(Clone, Debug)]
pub struct Handle {
    kind: &'static str,
    /// How many lists were asked for. The first is asked for by being there.
    asked: watch::Sender<u64>,
    /// Which of them must have been answered before anything is decided.
    needed: watch::Sender<u64>,
    /// By loop: which of them its last list has answered; 0: it has none.
    answered: watch::Sender<Vec<u64>>,
    /// By loop: when it last heard something of the server, or was made.
    heard: Arc<Mutex<Vec<Instant>>>,
    /// Whether objects are watched whatever their labels.
    selects_all: Arc<AtomicBool>,
    /// By loop: the namespace that it is over; `None`: all.
    scopes: Arc<[Option<String>]>,
}

impl Handle {
    /// Of no loop: nothing is waited for. `prepare` gives those of loops.
    pub fn without_loops(kind: &'static str) -> Self {
        Self {
            kind,
            asked: watch::Sender::new(1),
            needed: watch::Sender::new(1),
            answered: watch::Sender::new(Vec::new()),
            heard: Arc::default(),
            selects_all: Arc::new(true.into()),
            scopes: Arc::default(),
        }
    }

    /// The kind's name in logs and metrics.
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// Whether every loop of the kind has delivered a full list, begun after the last
    /// [`Handle::need_new_list`].
    pub fn is_synced(&self) -> bool {
        self.is_synced_in(None)
    }

    /// The same of the loops that show a namespace; of all loops without one.
    pub fn is_synced_in(&self, namespace: Option<&str>) -> bool {
        self.suffices(&self.answered.borrow(), namespace)
    }

    /// Waits until [`Handle::is_synced_in`].
    pub async fn synced_in(&self, namespace: Option<&str>) {
        let mut answered = self.answered.subscribe();
        let synced = answered.wait_for(|answered| self.suffices(answered, namespace));
        // The sender lives as long as `self`.
        let _ = synced.await;
    }

    fn suffices(&self, answered: &[u64], namespace: Option<&str>) -> bool {
        let needed = *self.needed.borrow();
        let mut loops = answered.iter().zip(&*self.scopes);
        loops.all(|(answered, scope)| *answered >= needed || !concerns(scope.as_deref(), namespace))
    }

    /// Asks every loop of the kind for a full list, soon. The number of that list.
    pub fn relist(&self) -> u64 {
        self.asked.send_modify(|n| *n += 1);
        *self.asked.borrow()
    }

    /// The number of the last list that every loop over a namespace has delivered. Those with a lower one have begun
    /// before [`Handle::relist`] has given it. Of a loop that is over another namespace nothing is to come.
    pub fn last_list(&self, namespace: &str) -> u64 {
        let answered = self.answered.borrow();
        let loops = answered.iter().zip(&*self.scopes);
        let concerned = loops.filter(|(_, scope)| concerns(scope.as_deref(), Some(namespace)));
        let numbers = concerned.map(|(answered, _)| *answered);
        numbers.min().unwrap_or(u64::MAX)
    }

    /// Nothing is to be decided before every loop has delivered a list that it begins from now on. One
    /// whose first list has not begun need not list twice.
    pub fn need_new_list(&self) {
        let number = self.relist();
        self.needed.send_replace(number);
    }

    /// Drops the label selector. Until every loop has listed what it had left out, the kind is not synced.
    pub fn select_all(&self) {
        self.selects_all.store(true, Ordering::Relaxed);
        self.need_new_list();
    }

    /// Whether objects are watched whatever their labels.
    pub fn selects_all(&self) -> bool {
        self.selects_all.load(Ordering::Relaxed)
    }

    /// For how long a loop of the kind has heard nothing: the one that was silent for longest. A healthy one hears
    /// something about once a minute.
    pub fn silence(&self) -> Duration {
        self.silence_in(None)
    }

    /// The same of the loops that show a namespace; of all loops without one.
    pub fn silence_in(&self, namespace: Option<&str>) -> Duration {
        let heard = self.lock();
        let loops = heard.iter().zip(&*self.scopes);
        let concerned = loops.filter(|(_, scope)| concerns(scope.as_deref(), namespace));
        let silences = concerned.map(|(heard, _)| heard.elapsed());
        silences.max().unwrap_or_default()
    }

    /// Whether the loops that show a namespace have delivered all, and of late; all loops without one.
    pub fn is_clear_in(&self, namespace: Option<&str>) -> bool {
        self.is_synced_in(namespace) && self.silence_in(namespace) <= SILENT_FOR_GOOD
    }

    /// Whether that holds for a namespace at least. One may have been deleted, with the rights in it.
    pub fn is_clear_somewhere(&self) -> bool {
        let mut scopes = self.scopes.iter();
        scopes.any(|scope| self.is_clear_in(scope.as_deref()))
    }

    fn silence_of(&self, number: usize) -> Duration {
        let heard = self.lock().get(number).copied();
        heard.map_or(Duration::ZERO, |heard| heard.elapsed())
    }

    fn heard(&self, number: usize) {
        if let Some(heard) = self.lock().get_mut(number) {
            *heard = Instant::now();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Instant>> {
        // A list of times stays whole.
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A loop has delivered a list that it began when so many were asked for.
    fn listed(&self, number: usize, asked: u64) {
        self.heard(number);
        self.answered.send_modify(|answered| {
            if let Some(answered) = answered.get_mut(number) {
                *answered = asked;
            }
        });
    }

    /// Whether a loop has to list anew before anything is decided.
    fn is_awaited(&self, number: usize) -> bool {
        let answered = self.answered.borrow().get(number).copied();
        answered.is_some_and(|answered| answered < *self.needed.borrow())
    }
}

/// Whether a loop over this scope has to do with a namespace, or with all.
fn concerns(scope: Option<&str>, namespace: Option<&str>) -> bool {
    match (scope, namespace) {
        (Some(scope), Some(namespace)) => scope == namespace,
        (None, _) | (_, None) => true,
    }
}

/// One loop for the whole cluster, or one per namespace when `namespaces` is not empty, each with
/// a sink of its own. Run each of them in a task of its own.
pub fn prepare<K: Watched, S: Sink<K>>(
    transport: &Transport,
    source: &Source,
    namespaces: &[String],
    mut sink: impl FnMut(Option<&str>) -> S,
    metrics: &Metrics,
) -> (Handle, Vec<Loop<K, S>>) {
    let scopes: Vec<Option<&str>> = if namespaces.is_empty() {
        vec![None]
    } else {
        namespaces.iter().map(|n| Some(n.as_str())).collect()
    };
    let mut handle = Handle::without_loops(source.kind);
    handle.scopes = scopes
        .iter()
        .map(|scope| scope.map(str::to_owned))
        .collect();
    handle.answered.send_replace(vec![0; scopes.len()]);
    *handle.lock() = vec![Instant::now(); scopes.len()];
    handle.selects_all = Arc::new(source.labels.is_empty().into());
    let counters = Counters::new(source.kind, metrics);
    let loops = scopes
        .into_iter()
        .enumerate()
        .map(|(number, namespace)| Loop {
            transport: transport.clone(),
            address: Address::new(source, namespace),
            page_size: PageSize::default(),
            audit: Audit::new(source.audit_period),
            sink: sink(namespace),
            counters: counters.clone(),
            asked: handle.asked.subscribe(),
            handle: handle.clone(),
            number,
            object: PhantomData,
        })
        .collect();
    (handle, loops)
}
