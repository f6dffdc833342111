//! The way to the API server: how long it takes, and what is sent.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use carillon_sim::faults::{Fate, Faults, Leg};
use carillon_sim::{Call, Clock};
use jiff::Timestamp;

use crate::report::Requests;

const READS: [&str; 3] = ["get", "list", "watch"];

/// A connection on which nothing goes wrong.
pub(crate) struct Connection {
    /// Half of the time from a request to its answer.
    leg: Duration,
    clock: Clock,
    begin: Timestamp,
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    by_verb: BTreeMap<&'static str, usize>,
    /// Writes in each second since the beginning in which there were any.
    writes: BTreeMap<i64, usize>,
}

impl Connection {
    pub(crate) fn new(latency: Duration, clock: Clock) -> Self {
        Self {
            leg: latency / 2,
            begin: clock.now(),
            clock,
            counts: Mutex::default(),
        }
    }

    /// Counts from now on only.
    pub(crate) fn count_anew(&self) {
        *self.counts() = Counts::default();
    }

    pub(crate) fn requests(&self) -> Requests {
        let counts = self.counts();
        Requests {
            writes: counts.writes.values().sum(),
            most_writes_per_second: counts.writes.values().copied().max().unwrap_or(0),
            by_verb: counts
                .by_verb
                .iter()
                .map(|(verb, count)| ((*verb).to_owned(), *count))
                .collect(),
        }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Faults for Connection {
    fn latency(&self, _: &Call, _: Leg) -> Duration {
        self.leg
    }

    fn on_request(&self, call: &Call) -> Fate {
        let second = self.clock.now().duration_since(self.begin).as_secs();
        let mut counts = self.counts();
        *counts.by_verb.entry(call.verb).or_default() += 1;
        if !READS.contains(&call.verb) {
            *counts.writes.entry(second).or_default() += 1;
        }
        Fate::pass()
    }
}
