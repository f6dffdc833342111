//! Keys for later, each once: the earliest add wins. Pure.

use std::{
    collections::{BTreeMap, HashMap},
    hash::Hash,
};

/// Keys by when they are due. Times are of a clock that only goes on, or of one that people set.
#[derive(Debug)]
pub(super) struct Later<T, K> {
    /// The number keeps keys of the same time apart and in order.
    keys: BTreeMap<(T, u64), K>,
    due: HashMap<K, (T, u64)>,
    sequence: u64,
}

impl<T, K> Default for Later<T, K> {
    fn default() -> Self {
        Self {
            keys: BTreeMap::new(),
            due: HashMap::new(),
            sequence: 0,
        }
    }
}

impl<T: Copy + Ord, K: Clone + Eq + Hash> Later<T, K> {
    /// Adds `key`, or leaves an earlier add of it as it is. True when something changed.
    pub(super) fn add(&mut self, key: K, at: T) -> bool {
        if let Some(&earlier) = self.due.get(&key) {
            if earlier.0 <= at {
                return false;
            }
            self.keys.remove(&earlier);
        }
        self.sequence += 1;
        let slot = (at, self.sequence);
        self.keys.insert(slot, key.clone());
        self.due.insert(key, slot);
        true
    }

    pub(super) fn remove(&mut self, key: &K) {
        if let Some(slot) = self.due.remove(key) {
            self.keys.remove(&slot);
        }
    }

    /// The first key, if it is due by now, and since when.
    pub(super) fn pop(&mut self, now: T) -> Option<(T, K)> {
        let first = self.keys.first_entry()?;
        let at = first.key().0;
        if at > now {
            return None;
        }
        let key = first.remove();
        self.due.remove(&key);
        Some((at, key))
    }

    /// When the first one is due.
    pub(super) fn next(&self) -> Option<T> {
        self.keys.first_key_value().map(|((at, _), _)| *at)
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// All of them, the first one first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (T, &K)> {
        self.keys.iter().map(|((at, _), key)| (*at, key))
    }
}
