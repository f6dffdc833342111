//! What the clones of a queue share: its core under a lock, and who waits for it.

use std::{
    fmt::{self, Debug},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use prometheus::{Histogram, IntCounter, IntGauge};
use tokio::sync::Notify;

use super::{core::Queue, key::Key};
use crate::{
    clock::{self, Clock},
    metrics::Metrics,
};

pub(super) struct Shared<K> {
    pub(super) name: String,
    pub(super) state: Mutex<State<K>>,
    pub(super) changed: Notify,
    pub(super) clock: Clock,
    pub(super) depth: IntGauge,
    pub(super) adds: IntCounter,
    pub(super) retries: IntCounter,
    pub(super) queue_duration: Histogram,
    pub(super) work_duration: Histogram,
}

pub(super) struct State<K> {
    pub(super) queue: Queue<K>,
    pub(super) shutdown: bool,
}

/// How the processing of a key ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Ended {
    Succeeded,
    Failed,
    Untried(Duration),
}

impl<K> Debug for Shared<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name.fmt(f)
    }
}

impl<K: Key> Shared<K> {
    pub(super) fn lock(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes a change and wakes one worker, which wakes the next if there is more to do:
    /// a `Notify` remembers one wake-up only, however many keys were added.
    /// `delayed`: somebody idle may have to sleep towards another delayed key than before.
    pub(super) fn changed_while(&self, state: MutexGuard<'_, State<K>>, delayed: bool) {
        let depth = state.queue.depth();
        let wake = depth > 0 || (delayed && state.queue.has_later());
        drop(state);
        self.depth.set(depth as i64);
        if wake {
            self.changed.notify_one();
        }
    }

    pub(super) fn done(&self, key: &K, ended: Ended) -> Duration {
        let mut state = self.lock();
        let now = clock::instant();
        let delay = match ended {
            Ended::Failed => {
                self.retries.inc();
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
            self.work_duration
                .observe(now.saturating_duration_since(began).as_secs_f64());
        }
        self.changed_while(state, ended != Ended::Succeeded);
        delay
    }

    pub(super) fn observe_running(&self, metrics: &Metrics) {
        let now = clock::instant();
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

pub(super) fn since(earlier: Instant, later: Instant) -> f64 {
    later.saturating_duration_since(earlier).as_secs_f64()
}
