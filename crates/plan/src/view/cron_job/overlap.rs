//! How long runs took, and how often the next one was due before they had ended.

use carillon_api::{ConcurrencyPolicy, MissedRunPolicy};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::read::StoredCron;
use crate::cron_job::{Child, Children};
use crate::schedule::Schedule;
use crate::view::median;

/// Runs that are looked at: the last ones.
pub const LAST: usize = 20;

/// What runs that have ended took.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Overlap {
    /// Runs that have ended, of those that are kept: at most the last twenty.
    pub runs: usize,
    /// Seconds that half of them took at most.
    pub median_seconds: i64,
    /// Seconds that the longest took.
    pub longest_seconds: i64,
    /// Runs by schedule among them, of which it is known when the next one was due.
    pub compared: usize,
    /// Those of them that took longer than the time until the next.
    pub longer: usize,
    /// Seconds until the next run: the least of those compared.
    pub shortest_gap_seconds: i64,
    /// It was the same after each of them.
    pub even: bool,
    /// What a run means that is due while another has not ended.
    pub then: Then,
}

/// What becomes of a run that is due while another has not ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(tag = "next", content = "seconds")]
pub enum Then {
    /// Allow: both run.
    RunsBeside,
    /// Replace: the old one is deleted.
    Replaces,
    /// Forbid: it waits.
    Waits,
    /// Forbid: it waits so many seconds at most, and is missed then.
    WaitsAtMost(i64),
}

/// What the children of a CronJob that have ended tell; `None` when there are none.
pub fn overlap(stored: &StoredCron, children: &Children) -> Option<Overlap> {
    let schedule = stored.cron.timetable.as_ref().ok()?;
    let ended = children.values().filter_map(|child| {
        let (started, end) = (child.started?, child.ended?.at?);
        Some((started, end.duration_since(started).as_secs().max(0), child))
    });
    let mut ended: Vec<(Timestamp, i64, &Child)> = ended.collect();
    ended.sort_by_key(|(started, ..)| *started);
    let ended = ended.split_off(ended.len().saturating_sub(LAST));
    let mut seconds: Vec<i64> = ended.iter().map(|(_, took, _)| *took).collect();
    seconds.sort_unstable();
    let compared = ended.iter();
    let compared =
        compared.filter_map(|(_, took, child)| Some((*took, gap(stored, schedule, child)?)));
    let compared: Vec<(i64, i64)> = compared.collect();
    let gaps = || compared.iter().map(|(_, gap)| *gap);
    Some(Overlap {
        runs: seconds.len(),
        median_seconds: median(&seconds)?,
        longest_seconds: *seconds.last()?,
        compared: compared.len(),
        longer: compared.iter().filter(|(took, gap)| took > gap).count(),
        shortest_gap_seconds: gaps().min().unwrap_or(0),
        even: gaps().min() == gaps().max(),
        then: then(stored),
    })
}

/// Seconds from the tick of a child to the next; `None` for a run on request, or of a schedule
/// that was another one.
fn gap(stored: &StoredCron, schedule: &Schedule, child: &Child) -> Option<i64> {
    let by_schedule = child.request.is_none() && !child.by_hand;
    let tick = child.scheduled.filter(|_| by_schedule)?;
    let before = tick.checked_sub(SignedDuration::from_secs(1)).ok()?;
    let next = schedule.next(tick)?;
    // Any tick may be one of `@every`.
    let fits = stored.is_every() || schedule.next(before) == Some(tick);
    fits.then(|| next.duration_since(tick).as_secs())
}

fn then(stored: &StoredCron) -> Then {
    let cron = &stored.cron;
    match cron.concurrency {
        ConcurrencyPolicy::Allow => Then::RunsBeside,
        ConcurrencyPolicy::Replace => Then::Replaces,
        ConcurrencyPolicy::Forbid => match (cron.deadline, cron.missed) {
            (Some(deadline), _) => Then::WaitsAtMost(deadline.as_secs()),
            (None, MissedRunPolicy::Skip) => Then::WaitsAtMost(crate::cron_job::IN_TIME.as_secs()),
            (None, _) => Then::Waits,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::cron_job::samples::{hourly, run};
    use serde_json::{Value, json};

    fn of(spec: &Value, children: &Children) -> Overlap {
        overlap(&hourly(spec, &json!({})), children).unwrap()
    }

    /// Hourly runs of 10 minutes, of which the first three took two hours.
    fn three_of_twenty() -> Children {
        let mut children = Children::new();
        for hour in 0..20 {
            let took = if hour < 3 { 7200 } else { 600 };
            let tick = format!("2026-01-01T{hour:02}:00:00Z");
            run(&mut children, &tick, Some(took), hour % 2 == 0);
        }
        children
    }

    #[test]
    fn runs_that_took_longer_than_the_time_to_the_next_are_counted() {
        let found = of(&json!({}), &three_of_twenty());
        let expected = Overlap {
            runs: 20,
            median_seconds: 600,
            longest_seconds: 7200,
            compared: 20,
            longer: 3,
            shortest_gap_seconds: 3600,
            even: true,
            then: Then::RunsBeside,
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn only_the_last_twenty_count_and_those_that_run_do_not() {
        let mut children = three_of_twenty();
        run(&mut children, "2026-01-01T21:00:00Z", Some(60), true);
        run(&mut children, "2026-01-01T22:00:00Z", None, true);
        let found = of(&json!({}), &children);
        assert_eq!((found.runs, found.longer), (20, 2));
    }

    #[test]
    fn a_run_on_request_and_one_of_an_earlier_schedule_have_no_next_one() {
        let mut children = Children::new();
        run(&mut children, "2026-01-01T10:00:00Z", Some(90), true);
        run(&mut children, "2026-01-01T10:07:00Z", Some(90), true);
        for child in children.values_mut().take(1) {
            child.request = Some("now".into());
        }
        let found = of(&json!({}), &children);
        assert_eq!(
            (found.runs, found.compared, found.longest_seconds),
            (2, 0, 90)
        );
        let every = of(&json!({"schedule": "@every 1m"}), &children);
        assert_eq!((every.compared, every.longer), (1, 1));
    }

    #[test]
    fn uneven_times_between_runs_are_told_as_such() {
        let mut children = Children::new();
        run(&mut children, "2026-01-01T10:00:00Z", Some(90), true);
        run(&mut children, "2026-01-01T10:30:00Z", Some(90), true);
        let found = of(&json!({"schedule": "0,30 10 * * *"}), &children);
        assert_eq!((found.shortest_gap_seconds, found.even), (1800, false));
    }

    #[test]
    fn what_becomes_of_the_next_run_is_up_to_the_policies() {
        let then = |spec: Value| of(&spec, &three_of_twenty()).then;
        assert_eq!(
            then(json!({"concurrencyPolicy": "Replace"})),
            Then::Replaces
        );
        let forbid = |more: Value| {
            let mut spec = json!({"concurrencyPolicy": "Forbid"});
            spec.as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            then(spec)
        };
        assert_eq!(forbid(json!({})), Then::Waits);
        assert_eq!(
            forbid(json!({"missedRunPolicy": "Skip"})),
            Then::WaitsAtMost(60)
        );
        assert_eq!(
            forbid(json!({"startingDeadlineSeconds": 5})),
            Then::WaitsAtMost(5)
        );
    }

    #[test]
    fn without_a_run_that_has_ended_nothing_is_told() {
        assert_eq!(
            overlap(&hourly(&json!({}), &json!({})), &Children::new()),
            None
        );
    }
}
