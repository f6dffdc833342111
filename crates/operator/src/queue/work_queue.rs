//! The queue that workers and watches share.

use std::{
    fmt::Debug,
    sync::{Arc, Mutex},
    time::Duration,
};

use jiff::Timestamp;
use tokio::sync::Notify;

use super::{
    claim::Claim,
    core::{Backoff, Queue},
    key::Key,
    shared::{Shared, State},
};
use crate::{
    clock::{self, Clock},
    metrics::Metrics,
};

/// The queue that workers and watches share; clones are the same queue.
///
/// A poisoned lock is taken over: the core is never left half-changed by a panic of ours, and a
/// queue that stops for ever would be worse than one whose counters are off.
pub struct WorkQueue<K: Key>(pub(super) Arc<Shared<K>>);

impl<K: Key> Clone for WorkQueue<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K: Key> Debug for WorkQueue<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("WorkQueue").field(&self.0).finish()
    }
}

impl<K: Key> WorkQueue<K> {
    /// An empty queue for so many workers, whose metrics carry `name`.
    pub fn new(
        name: &str,
        backoff: Backoff,
        workers: usize,
        clock: &Clock,
        metrics: &Metrics,
    ) -> Self {
        let m = &metrics.workqueue;
        let queue = Self(Arc::new(Shared {
            name: name.to_owned(),
            state: Mutex::new(State {
                queue: Queue::new(backoff, workers),
                shutdown: false,
            }),
            changed: Notify::new(),
            clock: clock.clone(),
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
        if state.queue.add(key, clock::instant()) {
            self.0.adds.inc();
            self.0.changed_while(state, false);
        }
    }

    /// Adds `key` after `delay`, or earlier if an earlier delayed add exists.
    pub fn add_after(&self, key: K, delay: Duration) {
        let mut state = self.0.lock();
        let ready = state.queue.depth();
        if state.queue.add_after(key, delay, clock::instant()) {
            if state.queue.depth() > ready {
                self.0.adds.inc();
            }
            self.0.changed_while(state, true);
        }
    }

    /// Adds `key` when it is `time` by the clock, or earlier if it was added for an earlier time.
    pub fn add_at(&self, key: K, time: Timestamp) {
        let mut state = self.0.lock();
        if state.queue.add_at(key, time) {
            self.0.changed_while(state, true);
        }
    }

    /// Clears failures and the adds of `key` for later, for an object that is gone.
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
                let (now, time) = (clock::instant(), self.0.clock.now());
                let promoted = state.queue.promote(now, time);
                self.0.adds.inc_by(promoted as u64);
                if let Some((key, since)) = state.queue.pop(now) {
                    self.0
                        .queue_duration
                        .observe(now.saturating_duration_since(since).as_secs_f64());
                    // This worker may have been the one that slept towards the next delayed key.
                    self.0.changed_while(state, true);
                    return Some(Claim::new(Arc::clone(&self.0), key));
                }
                state.queue.next_due(now, time)
            };
            let changed = self.0.changed.notified();
            match due {
                None => changed.await,
                Some(due) => tokio::select! {
                    biased;
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

    /// Keys that are to be handed out later, and those that have failed.
    pub fn later(&self) -> [(&'static str, usize); 2] {
        let state = self.0.lock();
        let queue = &state.queue;
        let timers = queue.delayed.len() + queue.timed.len();
        [("timers", timers), ("failures", queue.failures.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    impl Key for u32 {
        fn namespace(&self) -> &'static str {
            "ns"
        }
    }

    impl Key for &'static str {
        fn namespace(&self) -> &'static str {
            self.split('/').next().unwrap_or_default()
        }
    }

    fn shell() -> (WorkQueue<u32>, Arc<Metrics>) {
        let metrics = Metrics::new().unwrap();
        (
            WorkQueue::new("t", Backoff::default(), 4, &Clock::system(), &metrics),
            metrics,
        )
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
