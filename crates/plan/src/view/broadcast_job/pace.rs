//! How fast attempts are, and which nodes are slow.

use jiff::Timestamp;

use super::ledger::Ledger;
use crate::record::Record;

/// A straggler runs so many times as long as the median.
const STRAGGLES: f64 = 3.0;
/// Attempts from which a median is taken.
const ENOUGH: usize = 5;

/// A node on which an attempt runs much longer than on others.
#[derive(Clone, Debug, PartialEq)]
pub struct Straggler {
    /// Name of the node.
    pub node: String,
    /// Since when its attempt runs.
    pub started: Timestamp,
}

/// How fast attempts are.
#[derive(Clone, Debug, PartialEq)]
pub struct Pace {
    /// Median duration of the attempts that have ended, in seconds.
    pub median_seconds: f64,
    /// The attempts that have run longest and have not ended, the oldest first. Which of them are stragglers
    /// depends on the time: see [`Pace::stragglers`].
    pub longest: Vec<Straggler>,
}

impl Pace {
    /// Takes it from attempts that have ended and from those that run now, at most `most` of them. `None` while too
    /// few have ended to say what is slow.
    pub fn of(
        ledger: &Ledger<'_>,
        running: impl IntoIterator<Item = (String, Timestamp)>,
        most: usize,
    ) -> Option<Self> {
        let ended: Vec<f64> = ledger.all().filter_map(Record::took).collect();
        let enough = ended.len() >= ENOUGH;
        let median_seconds = median(ended).filter(|_| enough)?;
        let mut longest: Vec<Straggler> = running
            .into_iter()
            .map(|(node, started)| Straggler { node, started })
            .collect();
        longest.sort_by(|a, b| (a.started, &a.node).cmp(&(b.started, &b.node)));
        longest.truncate(most);
        Some(Self {
            median_seconds,
            longest,
        })
    }

    /// Nodes that run much longer than others, each with how many times the median that is by now.
    pub fn stragglers(&self, now: Timestamp) -> impl Iterator<Item = (&Straggler, f64)> {
        // A median of no time makes everything slow.
        let median = self.median_seconds.max(1.0);
        self.longest.iter().filter_map(move |one| {
            let times = now.duration_since(one.started).as_secs_f64() / median;
            (times >= STRAGGLES).then_some((one, times))
        })
    }
}

/// The upper one of two in the middle.
pub(super) fn median(mut of: Vec<f64>) -> Option<f64> {
    of.sort_by(f64::total_cmp);
    of.get(of.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use carillon_api::NodeState;

    use super::*;
    use crate::view::broadcast_job::samples::{at, record, slice};

    /// `count` attempts that succeeded, `width` at a time, each `took` seconds, one round after
    /// the other.
    fn rounds(count: i64, width: i64, took: i64) -> Vec<Record> {
        (0..count)
            .map(|n| {
                let mut record = record(&format!("n{n}"), 1, NodeState::Succeeded);
                record.started = Some(at(n / width * took));
                record.finished = Some(at((n / width + 1) * took));
                record
            })
            .collect()
    }

    #[test]
    fn a_straggler_runs_three_times_as_long_as_the_median() {
        let slices = slice(rounds(20, 10, 30));
        let running = [("quick", 100), ("slow", 0), ("slowest", -60)];
        let running = running.map(|(node, started)| (node.to_owned(), at(started)));
        let pace = Pace::of(&Ledger::read(&slices), running.clone(), 2).unwrap();
        assert!((pace.median_seconds - 30.0).abs() < f64::EPSILON);
        let told = |now: i64| -> Vec<String> {
            let told = pace.stragglers(at(now));
            told.map(|(one, times)| format!("{} {times:.1}", one.node))
                .collect()
        };
        assert_eq!(told(29), [""; 0]);
        assert_eq!(told(89), ["slowest 5.0"]);
        assert_eq!(told(120), ["slowest 6.0", "slow 4.0"]);
        // Of four attempts nobody knows what is usual.
        let few = slice(rounds(4, 4, 30));
        assert_eq!(Pace::of(&Ledger::read(&few), running, 2), None);
    }
}
