//! When a job may be done, and which nodes are slow.

use carillon_api::NodeState;
use jiff::Timestamp;

use super::ledger::Ledger;
use crate::broadcast_job::BroadcastJob;
use crate::record::Record;

/// A straggler runs so many times as long as the median.
const STRAGGLES: f64 = 3.0;
/// Attempts from which a median is taken.
const ENOUGH: usize = 5;

/// When a job may be done, in seconds from now. `None` while no attempt has ended, or nothing remains.
///
/// With `d` the median duration of the attempts that ended as Succeeded or Failed, `w` the pods that
/// may run at a time and `r` the nodes without an outcome, there are two estimates:
///
/// - `d × r / w`, at least `d`: what the durations promise. Used until `w` attempts have ended.
/// - `r × t / n`: what really came out lately. The `n` attempts that ended last, `2 × w` at most,
///   took `t` together: from the first start to the last end, but of a time in which none of them
///   ran at most `d`, as the job may have been paused then.
pub fn eta(job: &BroadcastJob, ledger: &Ledger<'_>) -> Option<i64> {
    let status = &job.status;
    let remaining = (status.desired - status.succeeded - status.failed).max(0) as usize;
    if remaining == 0 {
        return None;
    }
    let width = job.parallelism.of(status.desired as usize);
    let width = width.min(status.desired as usize).max(1);
    let mut ended: Vec<(Timestamp, Timestamp)> = ledger.all().filter_map(ended).collect();
    ended.sort_by_key(|(_, finished)| *finished);
    let median = median(&ended)?;
    let seconds = if ended.len() < width {
        median * (remaining as f64 / width as f64).max(1.0)
    } else {
        let lately = ended.split_off(ended.len().saturating_sub(2 * width));
        let number = lately.len() as f64;
        took(lately, median) / number * remaining as f64
    };
    Some(seconds.ceil() as i64)
}

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
        let ended: Vec<_> = ledger.all().filter_map(ended).collect();
        let median_seconds = median(&ended).filter(|_| ended.len() >= ENOUGH)?;
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

/// Start and end of an attempt that ran to an outcome.
fn ended(record: &Record) -> Option<(Timestamp, Timestamp)> {
    matches!(record.state, NodeState::Succeeded | NodeState::Failed)
        .then_some((record.started?, record.finished?))
}

/// Seconds from the first start to the last end, of each gap between them at most `gap`.
fn took(mut attempts: Vec<(Timestamp, Timestamp)>, gap: f64) -> f64 {
    attempts.sort_unstable();
    let mut covered: Option<Timestamp> = None;
    let mut seconds = 0.0;
    for (started, finished) in attempts {
        let from = covered.map_or(started, |covered| covered.max(started));
        let idle = covered.map_or(0.0, |covered| from.duration_since(covered).as_secs_f64());
        seconds += idle.min(gap) + finished.duration_since(from).as_secs_f64().max(0.0);
        covered = Some(from.max(finished));
    }
    seconds
}

fn median(ended: &[(Timestamp, Timestamp)]) -> Option<f64> {
    let durations = ended.iter().map(|(started, finished)| {
        let took = finished.duration_since(*started);
        took.as_secs_f64().max(0.0)
    });
    let mut durations: Vec<f64> = durations.collect();
    durations.sort_by(f64::total_cmp);
    durations.get(durations.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use serde_json::{Value, json};

    use super::*;
    use crate::view::broadcast_job::samples::{at, job, record, slice};

    fn seconds(parallelism: &Value, done: i32, records: Vec<Record>) -> Option<i64> {
        let job = job(
            &json!({"parallelism": parallelism}),
            &json!({"desired": 100, "succeeded": done}),
        );
        let slices = slice(records);
        eta(&job.job, &Ledger::read(&slices))
    }

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
    fn nothing_is_promised_before_an_attempt_has_ended_or_when_nothing_remains() {
        assert_eq!(seconds(&json!(10), 0, vec![]), None);
        let running = vec![record("n1", 1, NodeState::Started)];
        assert_eq!(seconds(&json!(10), 0, running), None);
        assert_eq!(seconds(&json!(10), 100, rounds(100, 10, 30)), None);
    }

    #[test]
    fn the_first_estimate_is_of_durations_the_later_of_what_came_out() {
        // 3 of 10 have ended: 97 remain, 10 at a time, 30 s each.
        assert_eq!(seconds(&json!(10), 3, rounds(3, 10, 30)), Some(291));
        // 40 have ended at 10 in 30 s: 60 remain.
        assert_eq!(seconds(&json!("10%"), 40, rounds(40, 10, 30)), Some(180));
        // Without a limit all run at once; what remains takes no longer than one.
        let unlimited = seconds(&json!(i32::MAX), 50, rounds(50, 100, 30));
        assert_eq!(unlimited, Some(30));
    }

    #[test]
    fn an_old_pause_does_not_slow_the_estimate_down() {
        let mut records = rounds(40, 10, 30);
        for old in &mut records[..20] {
            let long_ago = SignedDuration::from_hours(-5);
            old.started = old.started.map(|at| at + long_ago);
            old.finished = old.finished.map(|at| at + long_ago);
        }
        assert_eq!(seconds(&json!(10), 40, records.clone()), Some(180));
        // One in the midst of what is looked at counts as one median.
        for old in &mut records[20..30] {
            let before = SignedDuration::from_hours(-1);
            old.started = old.started.map(|at| at + before);
            old.finished = old.finished.map(|at| at + before);
        }
        assert_eq!(seconds(&json!(10), 40, records), Some(270));
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
