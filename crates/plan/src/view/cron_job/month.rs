//! A month of a CronJob: its runs day by day, and what became of those that are over.

use std::collections::BTreeMap;

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};
use serde::Serialize;

use super::clock_change::{ClockChange, changes};
use super::overlap::{Overlap, overlap};
use super::read::StoredCron;
use super::{Heading, step_from, timetable};
use crate::cron_job::Children;
use crate::schedule::Schedule;

/// Times of a day that are listed; of more only the number is.
pub const FEW: usize = 2;

/// More than a month has minutes, each of which has one run at most.
const MOST: usize = 60 * 24 * 32;

/// A month.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Month {
    /// Of what.
    #[serde(flatten)]
    pub heading: Heading,
    /// Its first day.
    pub month: Date,
    /// Each day, in order.
    pub days: Vec<Day>,
    /// Changes of the clock in it.
    pub clock_changes: Vec<ClockChange>,
    /// `status.missedRuns`: runs that were due and never started, in all.
    pub missed_runs: i64,
    /// The time of the last of them.
    pub last_missed: Option<Timestamp>,
    /// What the runs took that have ended.
    pub overlap: Option<Overlap>,
}

/// A day.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Day {
    /// Its date.
    pub date: Date,
    /// It is today, in the zone of the schedule.
    pub today: bool,
    /// The clock leaves all of it out.
    pub left_out: bool,
    /// The clock leaves out a part of it, or repeats one.
    pub clock_change: bool,
    /// Runs of the schedule, since the CronJob was created.
    pub runs: u64,
    /// The first two of them, as the clock shows them.
    pub times: Vec<DateTime>,
    /// Of the jobs that are kept those that completed.
    pub succeeded: usize,
    /// Those that failed.
    pub failed: usize,
    /// Those that have not ended.
    pub running: usize,
}

/// The month that `day` is in.
pub fn month(
    stored: &StoredCron,
    children: &Children,
    day: Date,
    now: Timestamp,
) -> Result<Month, String> {
    let schedule = timetable(stored, now)?;
    let zone = schedule.zone();
    let first = day.first_of_month();
    let dates = first.series(1.day()).take(first.days_in_month() as usize);
    let today = now.to_zoned(zone.clone()).date();
    let mut days: BTreeMap<Date, Day> = dates
        .map(|date| {
            let day = Day {
                date,
                today: date == today,
                left_out: begin(zone, date) == begin(zone, date.saturating_add(1.day())),
                ..Day::default()
            };
            (date, day)
        })
        .collect();
    // A change right at the begin or the end of the month may concern a day beyond.
    let (from, until) = (
        begin(zone, first),
        begin(zone, first.saturating_add(1.month())),
    );
    let around = SignedDuration::from_hours(25);
    let mut clock_changes = changes(
        stored,
        zone,
        from.saturating_sub(around).unwrap_or(from),
        until.saturating_add(around).unwrap_or(until),
    );
    clock_changes.retain(|change| match days.get_mut(&change.date) {
        Some(day) => {
            day.clock_change = true;
            true
        }
        None => false,
    });
    put_runs(stored, schedule, &mut days, from, until, now);
    put_outcomes(children, zone, &mut days);
    let status = &stored.cron.status;
    Ok(Month {
        heading: Heading::of(stored, schedule),
        month: first,
        days: days.into_values().collect(),
        clock_changes,
        missed_runs: status.missed_runs,
        last_missed: status.last_missed_time.as_ref().map(|time| time.0),
        overlap: overlap(stored, children),
    })
}

/// The first instant of a day, or of the first after it that exists.
fn begin(zone: &TimeZone, date: Date) -> Timestamp {
    let midnight = zone.to_ambiguous_zoned(date.at(0, 0, 0, 0)).compatible();
    midnight.map_or(Timestamp::MAX, |midnight| midnight.timestamp())
}

fn put_runs(
    stored: &StoredCron,
    schedule: &Schedule,
    days: &mut BTreeMap<Date, Day>,
    from: Timestamp,
    until: Timestamp,
    now: Timestamp,
) {
    let second = SignedDuration::from_secs(1);
    let before = |at: Timestamp| at.saturating_sub(second).unwrap_or(at);
    let zone = schedule.zone();
    let created = stored.exists().then_some(stored.cron.meta.created);
    let after = before(from).max(created.unwrap_or(Timestamp::MIN));
    // An hour that is shown twice may be that around midnight: so by date, not by its bounds.
    let start = step_from(stored, schedule, after, now);
    for tick in schedule.oldest_runs(start, before(until), MOST) {
        let time = zone.to_datetime(tick);
        if let Some(day) = days.get_mut(&time.date()) {
            day.runs += 1;
            if day.times.len() < FEW {
                day.times.push(time);
            }
        }
    }
}

fn put_outcomes(children: &Children, zone: &TimeZone, days: &mut BTreeMap<Date, Day>) {
    for child in children.values() {
        let Some(at) = child.scheduled.or(child.started) else {
            continue;
        };
        let Some(day) = days.get_mut(&zone.to_datetime(at).date()) else {
            continue;
        };
        match child.ended {
            Some(ended) if ended.succeeded() => day.succeeded += 1,
            Some(_) => day.failed += 1,
            None => day.running += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::cron_job::clock_change::Effect;
    use crate::view::cron_job::samples::{at, hourly, in_zone, run};
    use serde_json::json;

    const NOW: &str = "2026-02-03T23:30:00Z";

    fn of(stored: &StoredCron, month_: &str) -> Month {
        let day = format!("{month_}-01").parse().unwrap();
        month(stored, &Children::new(), day, at(NOW)).unwrap()
    }

    fn runs(month: &Month) -> Vec<u64> {
        month.days.iter().map(|day| day.runs).collect()
    }

    #[test]
    fn a_leap_february_has_29_days_and_today_is_that_of_the_zone() {
        let stored = in_zone("0 12 29 2 *", "Europe/Berlin", "AsWritten");
        let leap = of(&stored, "2028-02");
        assert_eq!(leap.days.len(), 29);
        assert_eq!(
            leap.days[28].times,
            ["2028-02-29T12:00:00".parse().unwrap()]
        );
        assert_eq!(runs(&leap).iter().sum::<u64>(), 1);
        let now = of(&stored, "2026-02");
        let today: Vec<_> = now.days.iter().filter(|day| day.today).collect();
        // Past midnight in Berlin.
        assert_eq!(today[0].date, "2026-02-04".parse().unwrap());
        assert_eq!((today.len(), now.days.len()), (1, 28));
    }

    #[test]
    fn every_minute_of_a_day_is_counted_also_when_the_clock_changes() {
        let count = |month, day: usize| {
            runs(&of(
                &in_zone("* * * * *", "Europe/Berlin", "AsWritten"),
                month,
            ))[day - 1]
        };
        assert_eq!(count("2027-03", 27), 1440);
        assert_eq!(count("2027-03", 28), 1380);
        assert_eq!(count("2027-10", 31), 1500);
        let once = of(&in_zone("* * * * *", "Europe/Berlin", "Once"), "2027-10");
        assert_eq!(runs(&once)[30], 1440);
    }

    #[test]
    fn days_with_a_change_are_marked_and_what_it_does_is_told() {
        let autumn = of(
            &in_zone("30 1 * * *", "America/New_York", "AsWritten"),
            "2027-11",
        );
        let marked: Vec<_> = autumn.days.iter().filter(|day| day.clock_change).collect();
        assert_eq!(marked.len(), 1);
        assert_eq!((marked[0].date.day(), marked[0].runs), (7, 2));
        assert_eq!(autumn.clock_changes[0].effect, Effect::RunTwice);
        let spring = of(
            &in_zone("30 2 * * *", "America/New_York", "AsWritten"),
            "2027-03",
        );
        assert_eq!(
            (spring.days[13].runs, spring.days[13].clock_change),
            (0, true)
        );
        assert_eq!(spring.clock_changes[0].effect, Effect::NotRun);
        let once = of(
            &in_zone("30 2 * * *", "America/New_York", "Once"),
            "2027-03",
        );
        let at_three = "2027-03-14T03:00:00".parse().unwrap();
        assert_eq!(once.days[13].times, [at_three]);
    }

    #[test]
    fn apia_has_no_thirtieth_of_december_2011() {
        let mut stored = in_zone("0 12 * * *", "Pacific/Apia", "AsWritten");
        stored.cron.meta.created = at("2011-01-01T00:00:00Z");
        let december = of(&stored, "2011-12");
        assert_eq!(december.days.len(), 31);
        let left_out: Vec<_> = december.days.iter().filter(|day| day.left_out).collect();
        assert_eq!(left_out.len(), 1);
        assert_eq!((left_out[0].date.day(), left_out[0].runs), (30, 0));
        assert!(left_out[0].clock_change);
        assert_eq!(runs(&december).iter().sum::<u64>(), 30);
    }

    #[test]
    fn every_is_counted_from_its_last_run_in_both_directions_but_not_before_its_creation() {
        // Created on 1 January at 10:30.
        let stored = hourly(&json!({"schedule": "@every 6h"}), &json!({}));
        let january = runs(&of(&stored, "2026-01"));
        assert_eq!(january[..3], [2, 4, 4]);
        let ran = json!({"lastScheduleTime": "2026-03-01T00:00:00Z"});
        let stored = hourly(&json!({"schedule": "@every 6h"}), &ran);
        assert_eq!(runs(&of(&stored, "2026-02")), [4; 28]);
        let seconds = hourly(&json!({"schedule": "@every 1s"}), &json!({}));
        assert_eq!(runs(&of(&seconds, "2026-02")), [1440; 28]);
        let slower = hourly(&json!({"schedule": "@every 90s"}), &ran);
        assert_eq!(runs(&of(&slower, "2026-02")), [960; 28]);
    }

    #[test]
    fn children_are_counted_on_the_day_of_their_time() {
        let mut children = Children::new();
        // In Berlin it is the 4th.
        run(&mut children, "2026-02-03T23:00:00Z", None, true);
        run(&mut children, "2026-02-03T22:00:00Z", Some(60), true);
        run(&mut children, "2026-02-03T21:00:00Z", Some(60), false);
        let stored = in_zone("0 * * * *", "Europe/Berlin", "AsWritten");
        let day = "2026-02-15".parse().unwrap();
        let february = month(&stored, &children, day, at(NOW)).unwrap();
        let (third, fourth) = (&february.days[2], &february.days[3]);
        assert_eq!((third.succeeded, third.failed, third.running), (1, 1, 0));
        assert_eq!((fourth.succeeded, fourth.failed, fourth.running), (0, 0, 1));
        assert_eq!(february.overlap.unwrap().runs, 2);
    }

    #[test]
    fn what_never_fires_has_no_calendar() {
        let never = hourly(&json!({"schedule": "0 0 30 2 *"}), &json!({}));
        let day = "2026-02-01".parse().unwrap();
        assert!(month(&never, &Children::new(), day, at(NOW)).is_err());
    }
}
