//! When a job may be done, and how sure that is.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use carillon_api::condition::types;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::durations::{Draws, Durations, Excess, Seen};
use super::ledger::Ledger;
use super::pace::median;
use crate::broadcast_job::BroadcastJob;
use crate::condition;
use crate::record::Record;

/// When the nodes that remain may be done, in seconds from now.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Estimate {
    /// As probably sooner as later.
    pub eta_seconds: i64,
    /// Sooner with one chance in twenty.
    pub eta_earliest_seconds: i64,
    /// Later with one chance in twenty, if nothing holds the job up.
    pub eta_latest_seconds: i64,
}

/// How often the rest is played.
const PLAYS: std::ops::RangeInclusive<usize> = 20..=60;
/// A page is made anew each second: with many places, fewer plays have to do.
const DRAWS: usize = 100_000;
/// The last nodes are played one by one, so many at least; of those before only the sum matters.
const ONE_BY_ONE: usize = 256;

/// When a job may be done. `None` while no attempt has ended, or nothing remains.
///
/// The rest of the job is played many times: each place takes the next node when it is free. How long an attempt
/// takes is drawn from [`Durations`], which know those that have ended and those that run. Between the end of an
/// attempt and the start of the next one lies the median of what lay between them before. Nodes need as many attempts
/// as they did so far, on average. Not foreseen are pauses, the time before a retry, and nodes that come and go.
pub fn estimate(job: &BroadcastJob, ledger: &Ledger<'_>, now: Timestamp) -> Option<Estimate> {
    let status = &job.status;
    let done = status.succeeded.saturating_add(status.failed).max(0) as usize;
    let desired = status.desired.max(0) as usize;
    let remaining = desired.checked_sub(done).filter(|left| *left > 0)?;
    let width = job.parallelism.of(desired).min(desired).max(1);
    let run = Run::of(job, ledger, width, now)?;
    let attempts = run.seen.iter().filter(|one| one.ended).count();
    let each =
        (attempts as f64 / done.max(1) as f64).clamp(1.0, 1.0 + job.policies.backoff_limit as f64);
    let each = if done == 0 { 1.0 } else { each };
    let wanted = (remaining as f64 * each).ceil() as usize;
    let queue = wanted.saturating_sub(run.ages.len());
    let draws = width + ONE_BY_ONE + run.seen.len();
    let plays = (DRAWS / draws).clamp(*PLAYS.start(), *PLAYS.end());
    let mut ends: Vec<f64> = (0..plays)
        .map(|nth| run.play(run.excess[nth % 2], (queue, width), &mut Draws(nth as u64)))
        .collect();
    ends.sort_by(f64::total_cmp);
    let of_twenty = |part: usize| ends[(plays - 1) * part / 20];
    Some(Estimate {
        eta_seconds: of_twenty(10).ceil() as i64,
        eta_earliest_seconds: of_twenty(1).floor() as i64,
        eta_latest_seconds: of_twenty(19).ceil() as i64,
    })
}

/// What has run and what runs.
#[derive(Debug)]
struct Run {
    /// Of all attempts, the shortest first.
    seen: Vec<Seen>,
    /// Each of the two is played in every other play.
    excess: [Excess; 2],
    /// How long those run that have not ended. Of those that are about to start it is less than nothing.
    ages: Vec<f64>,
    /// Seconds between the end of an attempt and the start of the next one in its place.
    between: f64,
}

impl Run {
    /// The start of an attempt is stored when it has ended. That of others follows from their place in the log: with
    /// `width` places, attempt `n` began when attempt `n - width` had ended, and a bit later, as its neighbours did; but
    /// not while the job was paused.
    fn of(job: &BroadcastJob, ledger: &Ledger<'_>, width: usize, now: Timestamp) -> Option<Self> {
        let ends = ledger.all().filter(|one| one.is_final());
        let mut ends: Vec<Timestamp> = ends.filter_map(|one| one.finished).collect();
        ends.sort_unstable();
        let first = ledger.all().filter_map(|one| one.started).min()?;
        let mut latest = first;
        let free = |at: usize, latest: Timestamp| match at.checked_sub(width) {
            None => Some(latest),
            Some(before) => ends.get(before).copied(),
        };
        let longest = ledger.all().filter_map(Record::took).fold(0.0, f64::max);
        let seconds = |from: Timestamp, to: Timestamp| to.duration_since(from).as_secs_f64();
        let paused = condition::find(&job.status.conditions, types::PAUSED);
        let resumed = paused.filter(|paused| paused.status != "True");
        let resumed = resumed.map(|paused| paused.last_transition_time.0);
        let (mut seen, mut open, mut gaps, mut gap) = (Vec::new(), Vec::new(), Vec::new(), 0.0);
        for (at, record) in ledger.all().enumerate() {
            let started = record.started.filter(|_| record.is_final());
            if let (Some(started), Some(free)) = (started, free(at, first)) {
                gap = seconds(free, started).max(0.0);
                gaps.extend((at >= width).then_some(gap));
                latest = latest.max(started);
            }
            if let Some(seconds) = record.took() {
                let ended = true;
                seen.push(Seen { seconds, ended });
            } else if !record.is_final() {
                let mut since = seconds(free(at, latest).unwrap_or(now), now).max(0.0);
                if let Some(resumed) = resumed.filter(|_| since - gap > longest) {
                    since = since.min(seconds(resumed, now)).max(0.0);
                }
                // In the first places nothing was before it.
                open.push((since, if at < width { 0.0 } else { gap }));
            }
        }
        seen.first()?;
        let begun = job.status.start_time.as_ref();
        let before_first = begun.map_or(0.0, |begun| seconds(begun.0, first).max(0.0));
        let between = median(gaps).unwrap_or(before_first);
        // As much later as its neighbour, unless that waited longer than there was time.
        let age = |(passed, gap): (f64, f64)| passed - if gap <= passed { gap } else { between };
        let ages: Vec<f64> = open.into_iter().map(age).collect();
        seen.extend(ages.iter().map(|age| Seen {
            seconds: age.max(0.0),
            ended: false,
        }));
        seen.sort_by(|a, b| {
            let time = a.seconds.total_cmp(&b.seconds);
            time.then(b.ended.cmp(&a.ended))
        });
        Some(Self {
            excess: Excess::both(&seen),
            seen,
            ages,
            between,
        })
    }

    /// Seconds until all has ended, once. `queue` attempts have not begun.
    fn play(&self, excess: Excess, (queue, width): (usize, usize), draws: &mut Draws) -> f64 {
        let durations = Durations::drawn(&self.seen, excess, draws);
        let mut free: Vec<f64> = self
            .ages
            .iter()
            .map(|age| durations.after(age.max(0.0), draws) - age)
            .collect();
        let mut last = free.iter().copied().fold(0.0, f64::max);
        // Where more run than may now, the last of them to end take no other node.
        free.sort_unstable_by(f64::total_cmp);
        free.resize(width, 0.0);
        let one_by_one = queue.min(ONE_BY_ONE.max(width));
        let others = (queue - one_by_one) as f64;
        let (mean, variance) = durations.moments();
        let off = draws.normal() * (others * variance).sqrt();
        let later = (others * (mean + self.between) + off).max(0.0) / width as f64;
        let places = free.into_iter().map(|end| Reverse(Moment(end + later)));
        let mut places: BinaryHeap<Reverse<Moment>> = places.collect();
        for _ in 0..one_by_one {
            let Some(Reverse(Moment(free))) = places.pop() else {
                break;
            };
            let end = free + self.between + durations.after(0.0, draws);
            last = last.max(end);
            places.push(Reverse(Moment(end)));
        }
        last
    }
}

/// Seconds from now, in their order.
#[derive(Debug, PartialEq)]
struct Moment(f64);

impl Eq for Moment {}

impl Ord for Moment {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Moment {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use carillon_api::NodeState;
    use serde_json::{Value, json};

    use super::*;
    use crate::view::broadcast_job::samples::{at, job, record, slice};

    /// 100 nodes, of which `done` are done.
    fn told(parallelism: &Value, done: i32, records: Vec<Record>, now: i64) -> Option<Estimate> {
        let job = job(
            &json!({"parallelism": parallelism}),
            &json!({"desired": 100, "succeeded": done}),
        );
        let slices = slice(records);
        estimate(&job.job, &Ledger::read(&slices), at(now))
    }

    fn seconds(told: Option<Estimate>) -> (i64, i64, i64) {
        let told = told.unwrap();
        (
            told.eta_earliest_seconds,
            told.eta_seconds,
            told.eta_latest_seconds,
        )
    }

    /// `count` attempts that succeeded, `width` at a time, each `took` seconds, one round after the other.
    fn rounds(count: i64, width: i64, took: i64) -> Vec<Record> {
        let of_round = |n: i64| {
            let mut record = record(&format!("n{n}"), 1, NodeState::Succeeded);
            record.started = Some(at(n / width * took));
            record.finished = Some(at((n / width + 1) * took));
            record
        };
        (0..count).map(of_round).collect()
    }

    /// The same, and then as many that still run.
    fn running(mut records: Vec<Record>, more: i64) -> Vec<Record> {
        let first = records.len() as i64;
        records.extend((first..first + more).map(|n| {
            let mut record = record(&format!("n{n}"), 1, NodeState::Started);
            record.started = None;
            record
        }));
        records
    }

    #[test]
    fn nothing_is_foretold_before_an_attempt_has_ended_or_when_nothing_remains() {
        assert_eq!(told(&json!(10), 0, vec![], 5), None);
        assert_eq!(told(&json!(10), 0, running(vec![], 10), 5), None);
        assert_eq!(told(&json!(10), 100, rounds(100, 10, 30), 300), None);
    }

    #[test]
    fn attempts_that_all_take_the_same_time_leave_no_doubt() {
        // Four rounds have ended, the fifth runs for ten seconds: 20 s of it and five more remain.
        let records = running(rounds(40, 10, 30), 10);
        assert_eq!(
            seconds(told(&json!("10%"), 40, records, 130)),
            (170, 170, 170)
        );
        // All places are free.
        assert_eq!(
            seconds(told(&json!(10), 40, rounds(40, 10, 30), 120)),
            (180, 180, 180)
        );
    }

    #[test]
    fn attempts_that_run_as_long_as_those_that_have_ended_will_take_longer() {
        // All run at once. Half of them have ended after 30 s; the others are about to, or will take twice as long.
        let records = running(rounds(50, 100, 30), 50);
        let (earliest, likely, latest) = seconds(told(&json!(i32::MAX), 50, records, 30));
        assert!(
            earliest > 0 && likely > earliest && latest < 400,
            "{earliest} {likely} {latest}"
        );
    }

    #[test]
    fn a_pause_before_an_attempt_of_now_is_not_its_age() {
        let mut records = rounds(40, 10, 30);
        // The last of four rounds began five hours later, and so did what runs.
        for late in &mut records[30..] {
            let later = jiff::SignedDuration::from_hours(5);
            late.started = late.started.map(|at| at + later);
            late.finished = late.finished.map(|at| at + later);
        }
        let now = 5 * 3600 + 130;
        let (earliest, _, latest) = seconds(told(&json!(10), 40, running(records, 10), now));
        assert!(earliest >= 150 && latest <= 190, "{earliest} {latest}");
    }

    #[test]
    fn what_has_begun_after_a_pause_is_as_old_as_the_pause_is_over() {
        let resumed = 120 + 5 * 3600;
        let job = job(
            &json!({"parallelism": 10}),
            &json!({"desired": 100, "succeeded": 40, "conditions": [{
                "type": "Paused", "status": "False", "reason": "Resumed", "message": "",
                "lastTransitionTime": at(resumed).to_string(),
            }]}),
        );
        let slices = slice(running(rounds(40, 10, 30), 10));
        let told = estimate(&job.job, &Ledger::read(&slices), at(resumed + 10));
        assert_eq!(seconds(told), (170, 170, 170));
    }

    #[test]
    fn what_was_running_before_a_short_pause_stays_as_old_as_it_is() {
        let hour = 3600;
        let job = job(
            &json!({"parallelism": 10}),
            &json!({"desired": 100, "succeeded": 90, "conditions": [{
                "type": "Paused", "status": "False", "reason": "Resumed", "message": "",
                "lastTransitionTime": at(10 * hour - 70).to_string(),
            }]}),
        );
        let slices = slice(running(rounds(90, 10, hour), 10));
        let told = estimate(&job.job, &Ledger::read(&slices), at(10 * hour - 60));
        assert_eq!(seconds(told), (60, 60, 60));
    }

    #[test]
    fn a_parallelism_that_was_lowered_counts_from_now_on() {
        // 100 run, and only one place is left for the 100 that wait.
        let job = job(
            &json!({"parallelism": 1}),
            &json!({"desired": 200, "succeeded": 10}),
        );
        let slices = slice(running(rounds(10, 110, 30), 90));
        let (earliest, ..) = seconds(estimate(&job.job, &Ledger::read(&slices), at(30)));
        assert!(earliest >= 100 * 30, "{earliest}");
    }

    #[test]
    fn all_places_work_until_nothing_waits() {
        // A thousand of 2,000 are done, the others begin now.
        let job = job(
            &json!({"parallelism": 1000}),
            &json!({"desired": 2000, "succeeded": 1000}),
        );
        let slices = slice(rounds(1000, 1000, 30));
        let told = estimate(&job.job, &Ledger::read(&slices), at(30));
        assert_eq!(seconds(told), (30, 30, 30));
    }

    #[test]
    fn before_a_place_was_taken_again_the_time_until_the_first_start_tells_how_long_that_takes() {
        let job = job(
            &json!({"parallelism": 10}),
            &json!({"desired": 20, "succeeded": 10, "startTime": at(-20).to_string()}),
        );
        let slices = slice(rounds(10, 10, 1));
        let told = estimate(&job.job, &Ledger::read(&slices), at(1));
        assert_eq!(seconds(told), (21, 21, 21));
    }

    #[test]
    fn attempts_that_differ_give_a_band_which_what_came_holds_in_nine_of_ten_runs() {
        let mut draws = Draws(42);
        let mut duration = || (30.0 * (0.5 * draws.normal()).exp()) as i64;
        let (mut held, mut sooner, runs) = (0, 0, 100);
        for run in 0..runs {
            // Each of five places takes the next node when it is free.
            let mut places = [0_i64; 5];
            let mut attempts: Vec<(i64, i64)> = Vec::new();
            for _ in 0..100 {
                let place = places.iter_mut().min().unwrap();
                let begun = *place;
                *place += duration();
                attempts.push((begun, *place));
            }
            let end = *places.iter().max().unwrap();
            let now = attempts[20 + run % 60].0;
            let begun = attempts
                .iter()
                .enumerate()
                .filter(|(_, (begun, _))| *begun <= now);
            let records: Vec<Record> = begun
                .map(|(n, (begun, ended))| {
                    let over = *ended <= now;
                    let state = if over {
                        NodeState::Succeeded
                    } else {
                        NodeState::Started
                    };
                    let mut record = record(&format!("n{n}"), 1, state);
                    record.started = over.then(|| at(*begun));
                    record.finished = over.then(|| at(*ended));
                    record
                })
                .collect();
            let done = records.iter().filter(|one| one.is_final()).count() as i32;
            let (earliest, likely, latest) = seconds(told(&json!(5), done, records, now));
            let left = end - now;
            held += usize::from((earliest..=latest).contains(&left));
            sooner += usize::from(left < likely);
        }
        assert!((80..=98).contains(&held), "{held} of {runs}");
        assert!((35..=65).contains(&sooner), "{sooner} of {runs}");
    }
}
