//! What a queue holds, for people.

use std::fmt::Debug;

use jiff::Timestamp;

use super::{key::Key, shared::since, work_queue::WorkQueue};
use crate::clock;

/// What a queue holds at one instant, for `/debug/queue`.
#[derive(Clone, Debug, serde::Serialize)]
pub struct QueueView {
    /// The queue's name.
    pub name: String,
    /// Keys waiting, about in the order in which they are handed out.
    pub ready: Vec<String>,
    /// Keys in work and for how many seconds.
    pub processing: Vec<(String, f64)>,
    /// Delayed keys and in how many seconds they are due, next first.
    pub delayed: Vec<(String, f64)>,
    /// Failing keys and their failures so far.
    pub failing: Vec<(String, u32)>,
}

impl<K: Key + Debug> WorkQueue<K> {
    /// A copy of what the queue holds now.
    pub fn view(&self) -> QueueView {
        let state = self.0.lock();
        let (queue, now, time) = (&state.queue, clock::instant(), self.0.clock.now());
        let show = |key: &K| format!("{key:?}");
        QueueView {
            name: self.0.name.clone(),
            ready: {
                let ready = queue.ready.waiting();
                ready.into_iter().map(|(key, _)| show(key)).collect()
            },
            processing: queue
                .processing
                .iter()
                .map(|(key, began)| (show(key), since(*began, now)))
                .collect(),
            delayed: {
                let delayed = queue.delayed.iter();
                let delayed = delayed.map(|(at, key)| (show(key), since(now, at)));
                let until = |at: Timestamp| at.duration_since(time).as_secs_f64().max(0.0);
                let timed = queue.timed.iter().map(|(at, key)| (show(key), until(at)));
                let mut all: Vec<_> = delayed.chain(timed).collect();
                all.sort_by(|a, b| a.1.total_cmp(&b.1));
                all
            },
            failing: queue.failures.iter().map(|(k, n)| (show(k), *n)).collect(),
        }
    }
}
