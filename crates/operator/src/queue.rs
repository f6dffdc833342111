//! A queue of keys, in the shape every reader of client-go knows.
//!
//! [`Queue`] is the pure core: no clock, no locks, `now` is an argument. [`WorkQueue`] puts a lock,
//! a timer and metrics around it.
//!
//! The rules:
//! - a key is handed to one worker at a time; added while it is processed, it runs once more after;
//! - adds of a waiting key collapse into one; keys leave in the order they came;
//! - of several delayed adds of one key the earliest wins;
//! - an add without delay leaves a delayed add in place: the key then runs now and again later.
//!   A deadline is therefore never lost to an event that came before it;
//! - a key that fails waits `base × 2ⁿ`, at most `max`, until it is forgotten.

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    fmt::Debug,
    hash::Hash,
    ops::Deref,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use prometheus::{Histogram, IntCounter, IntGauge};
use tokio::sync::Notify;

use crate::metrics::Metrics;

/// How long a failing key waits before it is tried again.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    /// Wait after the first failure.
    pub base: Duration,
    /// The longest wait.
    pub max: Duration,
}

impl Default for Backoff {
    /// client-go's: 5 ms, doubled up to 1000 s.
    fn default() -> Self {
        Self {
            base: Duration::from_millis(5),
            max: Duration::from_secs(1000),
        }
    }
}

impl Backoff {
    /// The wait after `failures` earlier failures.
    fn after(self, failures: u32) -> Duration {
        1_u32
            .checked_shl(failures)
            .and_then(|factor| self.base.checked_mul(factor))
            .map_or(self.max, |wait| wait.min(self.max))
    }
}

/// The pure queue; see the module for its rules.
#[derive(Debug)]
pub struct Queue<K> {
    backoff: Backoff,
    /// Keys to hand out, oldest first, with the time they became ready.
    ready: VecDeque<(K, Instant)>,
    /// Keys that need to be processed: those in `ready`, and those of `processing` added again.
    dirty: HashSet<K>,
    processing: HashMap<K, Instant>,
    /// Delayed adds by due time; the number keeps keys of the same instant apart and in order.
    delayed: BTreeMap<(Instant, u64), K>,
    due: HashMap<K, (Instant, u64)>,
    sequence: u64,
    failures: HashMap<K, u32>,
}

impl<K: Clone + Eq + Hash> Queue<K> {
    /// An empty queue.
    pub fn new(backoff: Backoff) -> Self {
        Self {
            backoff,
            ready: VecDeque::new(),
            dirty: HashSet::new(),
            processing: HashMap::new(),
            delayed: BTreeMap::new(),
            due: HashMap::new(),
            sequence: 0,
            failures: HashMap::new(),
        }
    }

    /// Adds `key` now. False when it was waiting already.
    pub fn add(&mut self, key: K, now: Instant) -> bool {
        if !self.dirty.insert(key.clone()) {
            return false;
        }
        if !self.processing.contains_key(&key) {
            self.ready.push_back((key, now));
        }
        true
    }

    /// Adds `key` at `now + delay`, or leaves an earlier delayed add as it is.
    /// True when something changed.
    pub fn add_after(&mut self, key: K, delay: Duration, now: Instant) -> bool {
        // A delay that overflows the clock is one nobody will live to see.
        let Some(at) = now.checked_add(delay) else {
            return false;
        };
        if delay.is_zero() {
            return self.add(key, now);
        }
        if let Some(&earlier) = self.due.get(&key) {
            if earlier.0 <= at {
                return false;
            }
            self.delayed.remove(&earlier);
        }
        self.sequence += 1;
        let slot = (at, self.sequence);
        self.delayed.insert(slot, key.clone());
        self.due.insert(key, slot);
        true
    }

    /// Counts a failure of `key` and adds it after its back-off, which is returned.
    pub fn add_rate_limited(&mut self, key: K, now: Instant) -> Duration {
        let failures = self.failures.entry(key.clone()).or_insert(0);
        let delay = self.backoff.after(*failures);
        *failures = failures.saturating_add(1);
        self.add_after(key, delay, now);
        delay
    }

    /// Clears the failures of `key`; its next failure waits `base` again.
    pub fn forget(&mut self, key: &K) {
        self.failures.remove(key);
    }

    /// Clears failures and the delayed add of `key`, for an object that is gone.
    pub fn drop_key(&mut self, key: &K) {
        self.failures.remove(key);
        if let Some(slot) = self.due.remove(key) {
            self.delayed.remove(&slot);
        }
    }

    /// Hands out the next key and the time it has been ready since. It must be given back
    /// through [`Queue::done`].
    pub fn pop(&mut self, now: Instant) -> Option<(K, Instant)> {
        self.promote(now);
        let (key, since) = self.ready.pop_front()?;
        self.dirty.remove(&key);
        self.processing.insert(key.clone(), now);
        Some((key, since))
    }

    /// Moves delayed adds that are due to the ready keys; returns how many became ready.
    pub fn promote(&mut self, now: Instant) -> usize {
        let mut added = 0;
        while let Some(entry) = self.delayed.first_entry() {
            let at = entry.key().0;
            if at > now {
                break;
            }
            let key = entry.remove();
            self.due.remove(&key);
            // Ready since it was due, not since somebody looked.
            added += usize::from(self.add(key, at));
        }
        added
    }

    /// Ends the processing of `key` and returns when it began. If it was added meanwhile it is
    /// ready again.
    pub fn done(&mut self, key: &K, now: Instant) -> Option<Instant> {
        let began = self.processing.remove(key)?;
        if self.dirty.contains(key) {
            self.ready.push_back((key.clone(), now));
        }
        Some(began)
    }

    /// Keys that wait to be handed out.
    pub fn depth(&self) -> usize {
        self.ready.len()
    }

    /// When the next delayed add is due.
    pub fn next_due(&self) -> Option<Instant> {
        self.delayed.first_key_value().map(|((at, _), _)| *at)
    }

    /// Earlier failures of `key`.
    pub fn failures(&self, key: &K) -> u32 {
        self.failures.get(key).copied().unwrap_or(0)
    }
}

/// What a queue holds at one instant, for `/debug/queue`.
#[derive(Clone, Debug, serde::Serialize)]
pub struct QueueView {
    /// The queue's name.
    pub name: String,
    /// Keys waiting, next first.
    pub ready: Vec<String>,
    /// Keys in work and for how many seconds.
    pub processing: Vec<(String, f64)>,
    /// Delayed keys and in how many seconds they are due, next first.
    pub delayed: Vec<(String, f64)>,
    /// Failing keys and their failures so far.
    pub failing: Vec<(String, u32)>,
}

/// The queue that workers and watches share; clones are the same queue.
///
/// A poisoned lock is taken over: the core is never left half-changed by a panic of ours, and a
/// queue that stops for ever would be worse than one whose counters are off.
pub struct WorkQueue<K: Clone + Eq + Hash>(Arc<Shared<K>>);

impl<K: Clone + Eq + Hash> Clone for WorkQueue<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K: Clone + Eq + Hash> Debug for WorkQueue<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("WorkQueue").field(&self.0.name).finish()
    }
}

struct Shared<K> {
    name: String,
    state: Mutex<State<K>>,
    changed: Notify,
    depth: IntGauge,
    adds: IntCounter,
    retries: IntCounter,
    queue_duration: Histogram,
    work_duration: Histogram,
}

struct State<K> {
    queue: Queue<K>,
    shutdown: bool,
}

impl<K: Clone + Eq + Hash + Send + 'static> WorkQueue<K> {
    /// An empty queue whose metrics carry `name`.
    pub fn new(name: &str, backoff: Backoff, metrics: &Metrics) -> Self {
        let m = &metrics.workqueue;
        let queue = Self(Arc::new(Shared {
            name: name.to_owned(),
            state: Mutex::new(State {
                queue: Queue::new(backoff),
                shutdown: false,
            }),
            changed: Notify::new(),
            depth: m.depth.with_label_values(&[name]),
            adds: m.adds.with_label_values(&[name]),
            retries: m.retries.with_label_values(&[name]),
            queue_duration: m.queue_duration.with_label_values(&[name]),
            work_duration: m.work_duration.with_label_values(&[name]),
        }));
        // Time of work still running is only known when asked for.
        let shared = Arc::downgrade(&queue.0);
        metrics.before_scrape(move |metrics| {
            if let Some(shared) = shared.upgrade() {
                shared.observe_running(metrics);
            }
        });
        queue
    }

    /// Adds `key` now.
    pub fn add(&self, key: K) {
        let mut state = self.0.lock();
        if state.queue.add(key, now()) {
            self.0.adds.inc();
            self.0.changed_while(state, false);
        }
    }

    /// Adds `key` after `delay`, or earlier if an earlier delayed add exists.
    pub fn add_after(&self, key: K, delay: Duration) {
        let mut state = self.0.lock();
        let ready = state.queue.depth();
        if state.queue.add_after(key, delay, now()) {
            if state.queue.depth() > ready {
                self.0.adds.inc();
            }
            self.0.changed_while(state, true);
        }
    }

    /// Counts a failure of `key`, adds it after its back-off and returns that.
    pub fn add_rate_limited(&self, key: K) -> Duration {
        let mut state = self.0.lock();
        let delay = state.queue.add_rate_limited(key, now());
        self.0.retries.inc();
        self.0.changed_while(state, true);
        delay
    }

    /// Clears the failures of `key`.
    pub fn forget(&self, key: &K) {
        self.0.lock().queue.forget(key);
    }

    /// Clears failures and the delayed add of `key`, for an object that is gone.
    pub fn drop_key(&self, key: &K) {
        self.0.lock().queue.drop_key(key);
    }

    /// Waits for the next key. `None` after [`WorkQueue::shutdown`].
    ///
    /// Cancel-safe: a key is taken only when it is returned.
    pub async fn get(&self) -> Option<Claim<K>> {
        loop {
            let due = {
                let mut state = self.0.lock();
                if state.shutdown {
                    // Each worker wakes the next one on its way out.
                    self.0.changed.notify_one();
                    return None;
                }
                let now = now();
                let promoted = state.queue.promote(now);
                self.0.adds.inc_by(promoted as u64);
                if let Some((key, since)) = state.queue.pop(now) {
                    self.0
                        .queue_duration
                        .observe(now.saturating_duration_since(since).as_secs_f64());
                    // This worker may have been the one that slept towards the next delayed key.
                    self.0.changed_while(state, true);
                    return Some(Claim {
                        queue: self.clone(),
                        key: Some(key),
                    });
                }
                state.queue.next_due()
            };
            let changed = self.0.changed.notified();
            match due {
                None => changed.await,
                Some(due) => tokio::select! {
                    () = changed => {}
                    () = tokio::time::sleep_until(due.into()) => {}
                },
            }
        }
    }

    /// Stops handing out keys; every [`WorkQueue::get`] returns `None`.
    pub fn shutdown(&self) {
        self.0.lock().shutdown = true;
        self.0.changed.notify_one();
    }

    /// Keys that wait to be handed out.
    pub fn depth(&self) -> usize {
        self.0.lock().queue.depth()
    }

    fn done(&self, key: &K, ended: Ended) -> Duration {
        let mut state = self.0.lock();
        let now = now();
        let delay = match ended {
            Ended::Failed => {
                self.0.retries.inc();
                state.queue.add_rate_limited(key.clone(), now)
            }
            Ended::Untried(delay) => {
                state.queue.add_after(key.clone(), delay, now);
                delay
            }
            Ended::Succeeded => {
                state.queue.forget(key);
                Duration::ZERO
            }
        };
        if let Some(began) = state.queue.done(key, now) {
            self.0
                .work_duration
                .observe(now.saturating_duration_since(began).as_secs_f64());
        }
        self.0.changed_while(state, ended != Ended::Succeeded);
        delay
    }
}

impl<K: Clone + Eq + Hash + Debug> WorkQueue<K> {
    /// A copy of what the queue holds now.
    pub fn view(&self) -> QueueView {
        let state = self.0.lock();
        let (queue, now) = (&state.queue, now());
        let show = |key: &K| format!("{key:?}");
        QueueView {
            name: self.0.name.clone(),
            ready: queue.ready.iter().map(|(key, _)| show(key)).collect(),
            processing: queue
                .processing
                .iter()
                .map(|(key, began)| (show(key), since(*began, now)))
                .collect(),
            delayed: queue
                .delayed
                .iter()
                .map(|((at, _), key)| (show(key), since(now, *at)))
                .collect(),
            failing: queue.failures.iter().map(|(k, n)| (show(k), *n)).collect(),
        }
    }
}

impl<K: Clone + Eq + Hash> Shared<K> {
    fn lock(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes a change and wakes one worker, which wakes the next if there is more to do:
    /// a `Notify` remembers one wake-up only, however many keys were added.
    /// `delayed`: somebody idle may have to sleep towards another delayed key than before.
    fn changed_while(&self, state: MutexGuard<'_, State<K>>, delayed: bool) {
        let depth = state.queue.depth();
        let wake = depth > 0 || (delayed && state.queue.next_due().is_some());
        drop(state);
        self.depth.set(depth as i64);
        if wake {
            self.changed.notify_one();
        }
    }

    fn observe_running(&self, metrics: &Metrics) {
        let now = now();
        let (mut sum, mut longest) = (0.0, 0.0_f64);
        for began in self.lock().queue.processing.values() {
            let seconds = since(*began, now);
            sum += seconds;
            longest = longest.max(seconds);
        }
        let m = &metrics.workqueue;
        m.unfinished_work.with_label_values(&[&self.name]).set(sum);
        m.longest_running_processor
            .with_label_values(&[&self.name])
            .set(longest);
    }
}

/// A key in work. Dropped without [`Claim::done`] or [`Claim::retry`] (a panic, a cancelled task)
/// it counts as failed and is tried again after its back-off, so it is never lost.
#[derive(Debug)]
pub struct Claim<K: Clone + Eq + Hash + Send + 'static> {
    queue: WorkQueue<K>,
    /// Taken by `done` and `retry`.
    key: Option<K>,
}

/// How the processing of a key ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Ended {
    Succeeded,
    Failed,
    Untried(Duration),
}

impl<K: Clone + Eq + Hash + Send + 'static> Claim<K> {
    /// The key succeeded: its failures are forgotten.
    pub fn done(mut self) {
        if let Some(key) = self.key.take() {
            self.queue.done(&key, Ended::Succeeded);
        }
    }

    /// Nothing was tried: the key comes again after `delay`, its failures as they are.
    pub fn later(mut self, delay: Duration) {
        if let Some(key) = self.key.take() {
            self.queue.done(&key, Ended::Untried(delay));
        }
    }

    /// The key failed: it is tried again after its back-off, which is returned.
    pub fn retry(mut self) -> Duration {
        self.key
            .take()
            .map_or(Duration::ZERO, |key| self.queue.done(&key, Ended::Failed))
    }
}

impl<K: Clone + Eq + Hash + Send + 'static> Deref for Claim<K> {
    type Target = K;

    fn deref(&self) -> &K {
        // `key` is taken only by methods that consume the claim.
        self.key.as_ref().expect("a claim holds its key")
    }
}

impl<K: Clone + Eq + Hash + Send + 'static> Drop for Claim<K> {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            self.queue.done(&key, Ended::Failed);
        }
    }
}

/// tokio's clock, so that tests can pause it.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

fn since(earlier: Instant, later: Instant) -> f64 {
    later.saturating_duration_since(earlier).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn core() -> (Queue<&'static str>, Instant) {
        let backoff = Backoff {
            base: 5 * MS,
            max: 60 * MS,
        };
        (Queue::new(backoff), Instant::now())
    }

    fn keys(queue: &mut Queue<&'static str>, now: Instant) -> Vec<&'static str> {
        std::iter::from_fn(|| queue.pop(now).map(|(key, _)| key)).collect()
    }

    #[test]
    fn keys_leave_in_the_order_they_came_and_once() {
        let (mut q, t) = core();
        assert!(q.add("a", t));
        assert!(q.add("b", t));
        assert!(!q.add("a", t));
        assert_eq!(q.depth(), 2);
        assert_eq!(keys(&mut q, t), ["a", "b"]);
    }

    #[test]
    fn a_key_added_while_processed_runs_once_more_afterwards() {
        let (mut q, t) = core();
        q.add("a", t);
        assert_eq!(q.pop(t).unwrap().0, "a");
        assert!(q.add("a", t));
        assert!(!q.add("a", t));
        assert_eq!(q.pop(t), None, "one worker at a time");
        q.done(&"a", t);
        assert_eq!(keys(&mut q, t), ["a"]);
        q.done(&"a", t);
        assert_eq!(keys(&mut q, t), [""; 0]);
    }

    #[test]
    fn the_earliest_delayed_add_wins() {
        let (mut q, t) = core();
        q.add_after("a", 20 * MS, t);
        assert!(!q.add_after("a", 30 * MS, t));
        assert!(q.add_after("a", 10 * MS, t));
        assert_eq!(q.next_due(), Some(t + 10 * MS));
        assert_eq!(keys(&mut q, t + 9 * MS), [""; 0]);
        assert_eq!(keys(&mut q, t + 10 * MS), ["a"]);
        q.done(&"a", t + 10 * MS);
        assert_eq!(q.next_due(), None, "the later adds are gone");
    }

    #[test]
    fn an_add_now_keeps_the_delayed_one() {
        let (mut q, t) = core();
        q.add_after("a", 20 * MS, t);
        q.add("a", t);
        assert_eq!(keys(&mut q, t), ["a"]);
        q.done(&"a", t);
        assert_eq!(keys(&mut q, t + 20 * MS), ["a"]);
    }

    #[test]
    fn delayed_keys_become_ready_in_due_order_even_while_one_is_processed() {
        let (mut q, t) = core();
        q.add_after("late", 3 * MS, t);
        q.add_after("b", 2 * MS, t);
        q.add_after("a", MS, t);
        q.add("a", t);
        assert_eq!(q.pop(t).unwrap().0, "a");
        assert_eq!(keys(&mut q, t + 2 * MS), ["b"]);
        q.done(&"a", t + 2 * MS);
        assert_eq!(keys(&mut q, t + 3 * MS), ["a", "late"]);
    }

    #[test]
    fn failures_double_the_wait_up_to_the_maximum_until_forgotten() {
        let (mut q, t) = core();
        let waits: Vec<_> = (0..6).map(|_| q.add_rate_limited("a", t)).collect();
        assert_eq!(waits, [5 * MS, 10 * MS, 20 * MS, 40 * MS, 60 * MS, 60 * MS]);
        assert_eq!(q.add_rate_limited("b", t), 5 * MS, "per key");
        q.forget(&"a");
        assert_eq!(q.add_rate_limited("a", t), 5 * MS);
    }

    #[test]
    fn any_number_of_failures_waits_the_maximum() {
        let backoff = Backoff::default();
        assert_eq!(backoff.after(31), backoff.max);
        assert_eq!(backoff.after(32), backoff.max);
        assert_eq!(backoff.after(u32::MAX), backoff.max);
    }

    #[test]
    fn a_dropped_key_leaves_nothing_behind() {
        let (mut q, t) = core();
        q.add_rate_limited("a", t);
        q.drop_key(&"a");
        assert_eq!(q.next_due(), None);
        assert_eq!(q.failures(&"a"), 0);
        assert!(q.due.is_empty() && q.delayed.is_empty());
    }

    #[test]
    fn a_delay_beyond_the_clock_is_never() {
        let (mut q, t) = core();
        assert!(!q.add_after("a", Duration::MAX, t));
        assert_eq!(q.next_due(), None);
    }

    fn shell() -> (WorkQueue<u32>, Arc<Metrics>) {
        let metrics = Metrics::new().unwrap();
        (WorkQueue::new("t", Backoff::default(), &metrics), metrics)
    }

    #[tokio::test(start_paused = true)]
    async fn many_adds_wake_many_workers() {
        let (q, _m) = shell();
        let workers: Vec<_> = (0..4)
            .map(|_| {
                let q = q.clone();
                tokio::spawn(async move {
                    let mut seen = 0;
                    while let Some(claim) = q.get().await {
                        tokio::time::sleep(Duration::from_secs(1)).await;
                        claim.done();
                        seen += 1;
                    }
                    seen
                })
            })
            .collect();
        tokio::task::yield_now().await;
        let begin = tokio::time::Instant::now();
        for key in 0..8 {
            q.add(key);
        }
        tokio::time::sleep(Duration::from_millis(2500)).await;
        q.shutdown();
        let mut seen = Vec::new();
        for worker in workers {
            seen.push(worker.await.unwrap());
        }
        assert_eq!(seen, [2, 2, 2, 2], "all four worked at once");
        assert!(begin.elapsed() < Duration::from_secs(3));
    }

    #[tokio::test(start_paused = true)]
    async fn a_worker_that_sleeps_towards_a_late_key_is_woken_for_an_earlier_one() {
        let (q, _m) = shell();
        let begin = tokio::time::Instant::now();
        q.add_after(1, Duration::from_mins(1));
        let worker = tokio::spawn({
            let q = q.clone();
            async move { q.get().await.map(|claim| *claim) }
        });
        tokio::time::sleep(Duration::from_secs(1)).await;
        q.add_after(2, Duration::from_secs(2));
        assert_eq!(worker.await.unwrap(), Some(2));
        assert_eq!(begin.elapsed().as_secs(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_does_not_lose_the_key() {
        let (q, metrics) = shell();
        q.add(7);
        let worker = tokio::spawn({
            let q = q.clone();
            async move {
                let _claim = q.get().await;
                panic!("in work");
            }
        });
        assert!(worker.await.is_err());
        let again = q.get().await.unwrap();
        assert_eq!(*again, 7);
        again.done();
        assert_eq!(metrics.workqueue.retries.with_label_values(&["t"]).get(), 1);
        assert_eq!(q.0.lock().queue.failures(&7), 0, "success forgets");
    }

    #[tokio::test(start_paused = true)]
    async fn retries_wait_longer_each_time() {
        let (q, _m) = shell();
        q.add(1);
        let waits = [
            q.get().await.unwrap().retry(),
            q.get().await.unwrap().retry(),
            q.get().await.unwrap().retry(),
        ];
        assert_eq!(waits, [5 * MS, 10 * MS, 20 * MS]);
    }

    #[tokio::test(start_paused = true)]
    async fn shutdown_ends_every_worker_and_metrics_tell_the_story() {
        let (q, metrics) = shell();
        q.add(1);
        q.add(2);
        let claim = q.get().await.unwrap();
        tokio::time::sleep(Duration::from_secs(3)).await;
        let text = String::from_utf8(metrics.encode().unwrap()).unwrap();
        for line in [
            "workqueue_depth{name=\"t\"} 1",
            "workqueue_adds_total{name=\"t\"} 2",
            "workqueue_unfinished_work_seconds{name=\"t\"} 3",
            "workqueue_longest_running_processor_seconds{name=\"t\"} 3",
        ] {
            assert!(text.contains(line), "{line} is missing in:\n{text}");
        }
        let view = q.view();
        assert_eq!((view.ready.len(), view.processing.len()), (1, 1));
        claim.done();
        q.shutdown();
        assert!(q.get().await.is_none());
        assert!(q.get().await.is_none());
    }
}
