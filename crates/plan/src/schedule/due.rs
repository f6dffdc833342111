//! Which ticks lie between two instants, exactly.
//!
//! Upstream estimates how many ticks were missed from the distance of the first two, and loses runs
//! of schedules that are not even. Here every tick is one that [`Schedule::next`] gives.

use std::iter;

use jiff::Timestamp;

use super::clock::Instant;
use super::{Rhythm, Schedule, second, timestamp};

/// A search of this many seconds never reaches the year after which `next` gives up.
const REACH: i64 = 1820 * 86_400;

impl Schedule {
    /// The last tick after `after` that is not after `until`: the one that going from tick to tick
    /// would end with. Takes some dozens of steps, however many ticks there are.
    pub fn latest(&self, after: Timestamp, until: Timestamp) -> Option<Timestamp> {
        timestamp(self.latest_second(second(after), second(until))?)
    }

    /// How many ticks there are after `after` and not after `until`, but no more than `limit`.
    pub fn count(&self, after: Timestamp, until: Timestamp, limit: u64) -> u64 {
        let (after, until) = (second(after), second(until));
        if let Rhythm::Every(distance) = self.rhythm {
            return limit.min((until - after).max(0) as u64 / distance as u64);
        }
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        self.ticks(after, until).take(limit).count() as u64
    }

    /// The first `n` ticks after `after` that are not after `until`, ascending.
    pub fn oldest(&self, after: Timestamp, until: Timestamp, n: usize) -> Vec<Timestamp> {
        let ticks = self.ticks(second(after), second(until));
        ticks.take(n).filter_map(timestamp).collect()
    }

    /// The first `n` ticks that are the first of their minute. Each has a run of its own: the name of a run has the
    /// minute.
    pub fn oldest_runs(&self, after: Timestamp, until: Timestamp, n: usize) -> Vec<Timestamp> {
        let until = second(until);
        let next = |&last: &Instant| self.next_minute(last);
        let runs = iter::successors(self.next_second(second(after)), next);
        let runs = runs.take_while(|&tick| tick <= until).take(n);
        runs.filter_map(timestamp).collect()
    }

    /// The first tick in a later minute than that of the tick `last`.
    fn next_minute(&self, last: Instant) -> Option<Instant> {
        match self.rhythm {
            Rhythm::Every(distance) => {
                let left = 59 - last.rem_euclid(60);
                Some(last + (left / distance + 1) * distance)
            }
            Rhythm::Calendar(_) => self.next_second(last),
        }
    }

    fn ticks(&self, after: Instant, until: Instant) -> impl Iterator<Item = Instant> {
        let next = move |&last: &Instant| self.next_second(last);
        iter::successors(self.next_second(after), next).take_while(move |&tick| tick <= until)
    }

    fn latest_second(&self, after: Instant, until: Instant) -> Option<Instant> {
        if let Rhythm::Every(distance) = self.rhythm {
            let passed = (until - after).max(0) / distance;
            return (passed > 0).then(|| after + passed * distance);
        }
        let first = self.next_second(after).filter(|&tick| tick <= until)?;
        // From the end: a stored time may be centuries ago.
        let mut end = until;
        while end > first {
            let from = first.max(end - REACH);
            if let Some(tick) = self.latest_within_reach(from, end) {
                return Some(tick);
            }
            end = from;
        }
        Some(first)
    }

    /// The same for `until` within [`REACH`] of `after`.
    fn latest_within_reach(&self, after: Instant, until: Instant) -> Option<Instant> {
        let until_then = |from, end| self.next_second(from).filter(|&tick| tick <= end);
        let mut tick = until_then(after, until)?;
        // There is no tick after `end`. Looks back, twice as far each time, until there is one.
        let mut end = until;
        let mut back = 60;
        while until - back > tick {
            let from = until - back;
            if let Some(found) = until_then(from, end) {
                tick = found;
                break;
            }
            end = from;
            back *= 2;
        }
        // The last one lies between the two.
        while tick < end {
            let middle = tick + (end - tick) / 2;
            match until_then(middle, end) {
                Some(found) => tick = found,
                None => end = middle,
            }
        }
        Some(tick)
    }
}
