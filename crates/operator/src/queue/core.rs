//! The pure queue: no clock, no locks, `now` is an argument.

use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};

use jiff::{SignedDuration, Timestamp};

use super::{key::Key, later::Later};
use crate::share::Share;

/// A clock that goes back by more was set; by less, it is only kept right.
const SET_BACK: SignedDuration = SignedDuration::from_secs(1);
/// How long a worker sleeps at most towards a time of day.
const LONGEST_SLEEP: Duration = Duration::from_mins(1);

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
    pub(super) delayed: Later<Instant, K>,
    /// The time of day that was seen last.
    time: Timestamp,
    /// Adds for a time of day.
    pub(super) timed: Later<Timestamp, K>,
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
            delayed: Later::default(),
            time: Timestamp::MIN,
            timed: Later::default(),
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
        self.delayed.add(key, at)
    }

    /// Adds `key` when the time of day is `time`, or leaves an earlier one as it is. True when something changed.
    pub fn add_at(&mut self, key: K, time: Timestamp) -> bool {
        self.timed.add(key, time)
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

    /// Clears failures and the adds of `key` for later, for an object that is gone.
    pub fn drop_key(&mut self, key: &K) {
        self.failures.remove(key);
        self.delayed.remove(key);
        self.timed.remove(key);
    }

    /// Hands out the next key and the time it has been ready since, unless all that are ready are of namespaces
    /// which have their share of the workers. It must be given back through [`Queue::done`].
    pub fn pop(&mut self, now: Instant) -> Option<(K, Instant)> {
        let (key, since) = self.ready.pop()?.who;
        self.dirty.remove(&key);
        self.processing.insert(key.clone(), now);
        Some((key, since))
    }

    /// Moves what is due to the ready keys; returns how many became ready.
    ///
    /// When somebody has set the clock back, whatever waits for a time of day is ready: what is due by the new time was
    /// decided by the old one.
    pub fn promote(&mut self, now: Instant, time: Timestamp) -> usize {
        let set_back = self.time.duration_since(time) > SET_BACK;
        self.time = time;
        let time = if set_back { Timestamp::MAX } else { time };
        let mut added = 0;
        while let Some((at, key)) = self.delayed.pop(now) {
            // Ready since it was due, not since somebody looked.
            added += usize::from(self.add(key, at));
        }
        while let Some((_, key)) = self.timed.pop(time) {
            added += usize::from(self.add(key, now));
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

    /// When to [`promote`](Queue::promote) next. The time of day is looked at once a minute: somebody may set it.
    pub fn next_due(&self, now: Instant, time: Timestamp) -> Option<Instant> {
        let timed = self.timed.next().map(|at| {
            let wait = Duration::try_from(at.duration_since(time)).unwrap_or_default();
            now + wait.min(LONGEST_SLEEP)
        });
        self.delayed.next().into_iter().chain(timed).min()
    }

    /// Whether there is a key for later.
    pub fn has_later(&self) -> bool {
        self.delayed.next().is_some() || self.timed.next().is_some()
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
        queue.promote(now, Timestamp::UNIX_EPOCH);
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
        assert_eq!(q.next_due(t, Timestamp::UNIX_EPOCH), Some(t + 10 * MS));
        assert_eq!(keys(&mut q, t + 9 * MS), [""; 0]);
        assert_eq!(keys(&mut q, t + 10 * MS), ["a"]);
        q.done(&"a", t + 10 * MS);
        assert_eq!(
            q.next_due(t, Timestamp::UNIX_EPOCH),
            None,
            "the later adds are gone"
        );
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
        assert_eq!(q.next_due(t, Timestamp::UNIX_EPOCH), None);
        assert_eq!(q.failures(&"a"), 0);
        q.add_at("a", Timestamp::MAX);
        q.drop_key(&"a");
        assert!(!q.has_later());
    }

    #[test]
    fn a_key_for_a_time_of_day_comes_when_the_clock_shows_it_however_that_came_about() {
        let (mut q, t) = core();
        let at = |minutes: i64| Timestamp::from_second(60 * minutes).unwrap();
        q.add_at("late", at(600));
        assert!(q.add_at("a", at(300)));
        assert!(!q.add_at("a", at(301)), "the earliest wins");
        assert!(q.add_at("a", at(180)));
        // The clock is looked at once a minute, and when the time comes.
        assert_eq!(q.next_due(t, at(0)), Some(t + Duration::from_mins(1)));
        let soon = at(180) - SignedDuration::from_secs(7);
        assert_eq!(q.next_due(t, soon), Some(t + Duration::from_secs(7)));
        assert_eq!(q.promote(t, soon), 0);
        // No time has passed, and somebody has set the clock.
        assert_eq!(q.promote(t, at(180)), 1);
        assert_eq!(q.pop(t), Some(("a", t)));
        assert_eq!(q.next_due(t, at(700)), Some(t), "it is past");
        assert_eq!(q.pop(t), None);
        q.done(&"a", t);
        q.add_at("b", at(701));
        assert_eq!(q.promote(t, at(590)), 0);
        assert_eq!(q.promote(t, at(580)), 2, "set back, all is looked at anew");
    }

    #[test]
    fn a_delay_beyond_the_clock_is_never() {
        let (mut q, t) = core();
        assert!(!q.add_after("a", Duration::MAX, t));
        assert_eq!(q.next_due(t, Timestamp::UNIX_EPOCH), None);
    }
}
