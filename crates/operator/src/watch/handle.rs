//! What is known of the loops of a kind, and what is asked of them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::source::Source;

/// A watch that was silent for so long is none: the kind should have been listed after half of that, which failed.
pub const SILENT_FOR_GOOD: Duration = Duration::from_mins(12);

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
    /// By loop.
    known: Arc<Mutex<Vec<Known>>>,
    /// Whether objects are to be watched whatever their labels.
    wants_all: Arc<AtomicBool>,
    /// By loop: the namespace that it is over; `None`: all.
    scopes: Arc<[Option<String>]>,
}

/// What a loop has told of itself.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// When it last heard something of the server, or was made.
    heard: Instant,
    /// Whether its last list was of all objects.
    has_all: bool,
}

impl Handle {
    /// Of no loop: nothing is waited for. `prepare` gives those of loops.
    pub fn without_loops(kind: &'static str) -> Self {
        Self {
            kind,
            asked: watch::Sender::new(1),
            needed: watch::Sender::new(1),
            answered: watch::Sender::new(Vec::new()),
            known: Arc::default(),
            wants_all: Arc::new(true.into()),
            scopes: Arc::default(),
        }
    }

    /// Of loops over these scopes, of which none has begun.
    pub(super) fn of_loops(source: &Source, scopes: &[Option<&str>]) -> Self {
        let mut handle = Self::without_loops(source.kind);
        handle.wants_all = Arc::new(source.labels.is_empty().into());
        let owned = scopes.iter().map(|scope| scope.map(str::to_owned));
        handle.scopes = owned.collect();
        handle.answered.send_replace(vec![0; scopes.len()]);
        let new = Known {
            heard: Instant::now(),
            has_all: false,
        };
        *handle.lock() = vec![new; scopes.len()];
        handle
    }

    /// Tells of each list that is asked for.
    pub(super) fn asked(&self) -> watch::Receiver<u64> {
        self.asked.subscribe()
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

    /// Has objects watched whatever their labels, each loop as soon as it has listed them all. Until then it goes on
    /// with those that its labels select.
    pub fn select_all(&self) {
        self.wants_all.store(true, Ordering::Relaxed);
        self.relist();
    }

    pub(super) fn wants_all(&self) -> bool {
        self.wants_all.load(Ordering::Relaxed)
    }

    /// Whether the last list of every loop over a namespace was of all objects, whatever their labels.
    pub fn has_all_in(&self, namespace: &str) -> bool {
        let known = self.lock();
        let mut loops = known.iter().zip(&*self.scopes);
        loops.all(|(known, scope)| known.has_all || !concerns(scope.as_deref(), Some(namespace)))
    }

    /// For how long a loop of the kind has heard nothing: the one that was silent for longest. A healthy one hears
    /// something about once a minute.
    pub fn silence(&self) -> Duration {
        self.silence_in(None)
    }

    /// The same of the loops that show a namespace; of all loops without one.
    pub fn silence_in(&self, namespace: Option<&str>) -> Duration {
        let known = self.lock();
        let loops = known.iter().zip(&*self.scopes);
        let concerned = loops.filter(|(_, scope)| concerns(scope.as_deref(), namespace));
        let silences = concerned.map(|(known, _)| known.heard.elapsed());
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

    pub(super) fn silence_of(&self, number: usize) -> Duration {
        let known = self.lock().get(number).copied();
        known.map_or(Duration::ZERO, |known| known.heard.elapsed())
    }

    pub(super) fn heard(&self, number: usize) {
        if let Some(known) = self.lock().get_mut(number) {
            known.heard = Instant::now();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Known>> {
        // What is known stays whole: its parts are set one by one.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A loop has delivered a list that it began when so many were asked for.
    pub(super) fn listed(&self, number: usize, asked: u64, all: bool) {
        if let Some(known) = self.lock().get_mut(number) {
            *known = Known {
                heard: Instant::now(),
                has_all: all,
            };
        }
        self.answered.send_modify(|answered| {
            if let Some(answered) = answered.get_mut(number) {
                *answered = asked;
            }
        });
    }

    /// Whether a loop has to list anew before anything is decided.
    pub(super) fn is_awaited(&self, number: usize) -> bool {
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
