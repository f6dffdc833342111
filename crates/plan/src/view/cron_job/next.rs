//! When a CronJob runs next.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;

use super::clock_change::{ClockChange, Effect, Pass, changes, pass};
use super::read::StoredCron;
use super::{Heading, local, step_from, timetable, zone_name};
use crate::cron_job::ChildKind;

/// The next runs of a CronJob.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outlook {
    /// Of what.
    #[serde(flatten)]
    pub heading: Heading,
    /// Name of the zone of whoever asks.
    pub your_time_zone: String,
    /// In order.
    pub runs: Vec<Run>,
    /// Changes of the clock up to the last of the runs that concern the schedule.
    pub clock_changes: Vec<ClockChange>,
}

/// A run to come.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    /// The time of the schedule.
    pub scheduled: Timestamp,
    /// The same in the zone of the schedule.
    pub local: String,
    /// The same in the zone of whoever asks.
    pub yours: String,
    /// When it starts: later by the CronJob's share of the jitter.
    pub starts: Timestamp,
    /// Seconds until then.
    pub in_seconds: i64,
    /// Which of two passes, when the clock shows its time twice.
    pub pass: Option<Pass>,
    /// It stands for times that a change of the clock leaves out.
    pub for_left_out: bool,
    /// Kind of the job it will be.
    pub kind: &'static str,
    /// Name of that job; absent without a CronJob.
    pub name: Option<String>,
}

/// The first `count` runs that start after `now`, or of which the time is after `after`.
pub fn next(
    stored: &StoredCron,
    yours: &TimeZone,
    after: Option<Timestamp>,
    now: Timestamp,
    count: usize,
) -> Result<Outlook, String> {
    let schedule = timetable(stored, now)?;
    let zone = schedule.zone();
    let offset = stored.cron.offset;
    let from = after.unwrap_or_else(|| now.checked_sub(offset).unwrap_or(now));
    let from = step_from(stored, schedule, from, now);
    // The minute of the last run has had its run.
    let run = |tick| stored.cron.run_at(tick).name;
    let done = stored.cron.status.last_schedule_time.as_ref();
    let done = done.map(|time| run(time.0));
    let mut ticks = schedule.oldest_runs(from, Timestamp::MAX, count + 1);
    ticks.retain(|tick| Some(run(*tick)) != done);
    ticks.truncate(count);
    let last = ticks.last().copied().unwrap_or(from);
    let mut clock_changes = changes(stored, zone, from, last);
    clock_changes.retain(|change| change.effect != Effect::Unaffected);
    let child = stored.cron.child;
    let runs = ticks.into_iter().map(|tick| {
        let starts = tick.checked_add(offset).unwrap_or(tick);
        let is_end =
            |change: &ClockChange| change.at == tick && change.effect == Effect::RunAtTheEnd;
        Run {
            scheduled: tick,
            local: local(tick, zone),
            yours: local(tick, yours),
            starts,
            in_seconds: starts.duration_since(now).as_secs(),
            pass: pass(zone, tick).filter(|_| !stored.is_every()),
            for_left_out: clock_changes.iter().any(is_end),
            kind: child.kind(),
            name: (!stored.cron.meta.owner.name.is_empty()).then(|| run(tick)),
        }
    });
    Ok(Outlook {
        heading: Heading::of(stored, schedule),
        your_time_zone: zone_name(yours),
        runs: runs.collect(),
        clock_changes,
    })
}

impl Run {
    /// As kubectl names it: `job.batch/NAME`.
    pub fn resource(&self) -> Option<String> {
        let name = self.name.as_ref()?;
        Some(format!("{}/{name}", child_resource(self.kind)))
    }
}

/// As in `job.batch/NAME`.
pub fn child_resource(kind: &str) -> &'static str {
    if kind == ChildKind::Job.kind() {
        "job.batch"
    } else {
        "broadcastjob.carillon.dev"
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::cron_job::Children;
    use crate::schedule::zone;
    use crate::view::cron_job::foresee;
    use crate::view::cron_job::samples::{at, hourly, in_zone};
    use serde_json::json;

    fn runs(stored: &StoredCron, now: &str, count: usize) -> Outlook {
        next(stored, &TimeZone::UTC, None, at(now), count).unwrap()
    }

    fn locals(outlook: &Outlook) -> Vec<&str> {
        outlook.runs.iter().map(|run| run.local.as_str()).collect()
    }

    #[test]
    fn runs_are_told_in_both_zones_with_the_time_until_then() {
        let stored = in_zone("0 9 * * 1-5", "Europe/Berlin", "AsWritten");
        let tokyo = zone::load("Asia/Tokyo").unwrap();
        let outlook = next(&stored, &tokyo, None, at("2027-03-26T08:00:00Z"), 2).unwrap();
        assert_eq!(outlook.heading.time_zone, "Europe/Berlin");
        assert_eq!(outlook.your_time_zone, "Asia/Tokyo");
        assert_eq!(
            locals(&outlook),
            ["2027-03-29T09:00:00+02:00", "2027-03-30T09:00:00+02:00"]
        );
        assert_eq!(outlook.runs[0].yours, "2027-03-29T16:00:00+09:00");
        assert_eq!(outlook.runs[0].in_seconds, 71 * 3600);
        // The change between them concerns no time of the schedule.
        assert_eq!(outlook.clock_changes, []);
    }

    #[test]
    fn a_time_that_comes_twice_is_run_in_both_passes_or_in_the_first() {
        let now = "2027-11-07T00:00:00Z";
        let both = runs(
            &in_zone("30 1 * * *", "America/New_York", "AsWritten"),
            now,
            2,
        );
        assert_eq!(
            locals(&both),
            ["2027-11-07T01:30:00-04:00", "2027-11-07T01:30:00-05:00"]
        );
        assert_eq!(both.runs[0].pass, Some(Pass::First));
        assert_eq!(both.runs[1].pass, Some(Pass::Second));
        let once = runs(&in_zone("30 1 * * *", "America/New_York", "Once"), now, 2);
        assert_eq!(
            locals(&once),
            ["2027-11-07T01:30:00-04:00", "2027-11-08T01:30:00-05:00"]
        );
        assert_eq!(once.clock_changes[0].effect, Effect::RunTheFirstTime);
    }

    #[test]
    fn a_time_that_is_left_out_is_told_or_run_at_the_end() {
        let now = "2027-03-28T00:00:00Z";
        let left_out = runs(&in_zone("30 2 * * *", "Europe/Berlin", "AsWritten"), now, 1);
        assert_eq!(locals(&left_out), ["2027-03-29T02:30:00+02:00"]);
        assert_eq!(left_out.clock_changes[0].effect, Effect::NotRun);
        let once = runs(&in_zone("30 2 * * *", "Europe/Berlin", "Once"), now, 1);
        assert_eq!(locals(&once), ["2027-03-28T03:00:00+02:00"]);
        assert!(once.runs[0].for_left_out);
    }

    #[test]
    fn every_counts_from_the_last_run_and_not_from_now() {
        let ran = json!({"lastScheduleTime": "2026-01-01T11:00:10Z"});
        let stored = hourly(&json!({"schedule": "@every 1h"}), &ran);
        let outlook = runs(&stored, "2026-01-01T12:30:00Z", 2);
        assert_eq!(
            locals(&outlook),
            ["2026-01-01T13:00:10+00:00", "2026-01-01T14:00:10+00:00"]
        );
        let before = Some(at("2026-01-01T07:30:00Z"));
        let past = next(
            &stored,
            &TimeZone::UTC,
            before,
            at("2026-01-01T12:30:00Z"),
            1,
        )
        .unwrap();
        assert_eq!(locals(&past), ["2026-01-01T08:00:10+00:00"]);
    }

    #[test]
    fn a_minute_has_one_run_however_often_the_schedule_comes() {
        let ran = json!({"lastScheduleTime": "2026-01-01T12:00:10Z"});
        let stored = hourly(&json!({"schedule": "@every 20s"}), &ran);
        let outlook = runs(&stored, "2026-01-01T12:00:15Z", 3);
        assert_eq!(
            locals(&outlook),
            [
                "2026-01-01T12:01:10+00:00",
                "2026-01-01T12:02:10+00:00",
                "2026-01-01T12:03:10+00:00"
            ]
        );
        let names: BTreeSet<_> = outlook.runs.iter().map(|run| &run.name).collect();
        assert_eq!(names.len(), 3);
    }

    #[test]
    fn with_jitter_a_run_whose_time_has_passed_may_be_still_to_come() {
        let stored = hourly(&json!({"jitterSeconds": 3000}), &json!({}));
        let late = stored.cron.offset;
        assert!(late.as_secs() > 1, "{late:?}");
        let outlook = runs(&stored, "2026-01-01T12:00:01Z", 1);
        assert_eq!(locals(&outlook), ["2026-01-01T12:00:00+00:00"]);
        assert_eq!(outlook.runs[0].in_seconds, late.as_secs() - 1);
    }

    #[test]
    fn a_run_is_named_as_the_planner_names_it() {
        let stored = hourly(&json!({}), &json!({}));
        let outlook = runs(&stored, "2026-01-01T12:59:00Z", 1);
        let planned = foresee::creation(&stored.cron, &Children::new(), at("2026-01-01T13:00:00Z"));
        assert_eq!(outlook.runs[0].name, planned.map(|run| run.name));
    }

    #[test]
    fn what_can_never_run_is_an_error_that_names_the_field() {
        let fails = |spec| {
            let stored = hourly(&spec, &json!({}));
            next(&stored, &TimeZone::UTC, None, at("2026-01-01T12:00:00Z"), 1).unwrap_err()
        };
        let never = fails(json!({"schedule": "0 0 31 2 *"}));
        assert!(
            never.starts_with("spec.schedule: \"0 0 31 2 *\" never comes"),
            "{never}"
        );
        assert!(fails(json!({"schedule": "0 25 * * *"})).starts_with("spec.schedule: hour"));
        assert!(fails(json!({"timeZone": "Mars"})).starts_with("spec.timeZone: "));
    }
}
