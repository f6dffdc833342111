//! The pure queue: no clock, no locks, `now` is an argument.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::{Duration, Instant},
};

use super::Key;
use crate::share::Share;

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

/// The pure queue; see [the module above](super) for its rules.
#[derive(Debug)]
pub struct Queue<K> {
    backoff: Backoff,
    /// Keys to hand out, with the time they became ready; and the workers, which namespaces share.
    pub(super) ready: Share<(K, Instant)>,
    /// Keys that need to be processed: those in `ready`, and those of `processing` added again.
    dirty: HashSet<K>,
    pub(super) processing: HashMap<K, Instant>,
    /// Delayed adds by due time; the number keeps keys of the same instant apart and in order.
    pub(super) delayed: BTreeMap<(Instant, u64), K>,
    due: HashMap<K, (Instant, u64)>,
    sequence: u64,
    pub(super) failures: HashMap<K, u32>,
}

impl<K: Key> Queue<K> {
    /// An empty queue, for so many workers.
    pub fn new(backoff: Backoff, workers: usize) -> Self {
        Self {
            backoff,
            ready: Share::of(workers),
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
        if self.dirty.contains(&key) {
            return false;
        }
        if !self.processing.contains_key(&key) {
            self.ready(&key, now);
        }
        self.dirty.insert(key)
    }

    fn ready(&mut self, key: &K, now: Instant) {
        self.ready.push(key.namespace(), 1, (key.clone(), now));
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

    /// Hands out the next key and the time it has been ready since, unless all that are ready are of namespaces
    /// which have their share of the workers. It must be given back through [`Queue::done`].
    pub fn pop(&mut self, now: Instant) -> Option<(K, Instant)> {
        self.promote(now);
        let (key, since) = self.ready.pop()?.who;
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
        self.ready.give_back(key.namespace(), 1);
        if self.dirty.contains(key) {
            self.ready(key, now);
        }
        Some(began)
    }

    /// Keys that wait to be handed out.
    pub fn depth(&self) -> usize {
        self.ready.waiting_in_all()
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

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn core() -> (Queue<&'static str>, Instant) {
        let backoff = Backoff {
            base: 5 * MS,
            max: 60 * MS,
        };
        (Queue::new(backoff, 100), Instant::now())
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
    fn workers_are_shared_by_namespace_and_a_key_that_has_to_wait_is_not_lost() {
        const SLOW: [&str; 10] = [
            "slow/0", "slow/1", "slow/2", "slow/3", "slow/4", "slow/5", "slow/6", "slow/7",
            "slow/8", "slow/9",
        ];
        let (_, t) = core();
        let mut q = Queue::new(Backoff::default(), 8);
        for key in SLOW {
            q.add(key, t);
        }
        assert_eq!(keys(&mut q, t), SLOW[..7], "one worker is spare");
        q.add("quiet/0", t);
        q.add("quiet/1", t);
        assert_eq!(keys(&mut q, t), ["quiet/0"]);
        assert_eq!(q.depth(), 4);
        // Added while it is processed, it takes its turn after.
        q.add(SLOW[0], t);
        q.done(&SLOW[0], t);
        q.done(&SLOW[1], t);
        assert_eq!(keys(&mut q, t), ["quiet/1"], "the other one has half");
        q.done(&"quiet/0", t);
        q.done(&"quiet/1", t);
        assert_eq!(keys(&mut q, t), SLOW[7..9]);
        for key in &SLOW[2..] {
            q.done(key, t);
            keys(&mut q, t);
        }
        assert_eq!(q.depth(), 0);
        assert!(q.processing.contains_key(SLOW[0]));
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
}
