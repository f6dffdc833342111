//! A key in work.

use std::{ops::Deref, sync::Arc, time::Duration};

use super::{
    key::Key,
    shared::{Ended, Shared},
};

/// A key in work. Dropped without [`Claim::done`] or [`Claim::retry`] (a panic, a cancelled task)
/// it counts as failed and is tried again after its back-off, so it is never lost.
#[derive(Debug)]
pub struct Claim<K: Key> {
    queue: Arc<Shared<K>>,
    /// Taken by `done` and `retry`.
    key: Option<K>,
}

impl<K: Key> Claim<K> {
    pub(super) fn new(queue: Arc<Shared<K>>, key: K) -> Self {
        Self {
            queue,
            key: Some(key),
        }
    }

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

impl<K: Key> Deref for Claim<K> {
    type Target = K;

    fn deref(&self) -> &K {
        // `key` is taken only by methods that consume the claim.
        self.key.as_ref().expect("a claim holds its key")
    }
}

impl<K: Key> Drop for Claim<K> {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            self.queue.done(&key, Ended::Failed);
        }
    }
}
