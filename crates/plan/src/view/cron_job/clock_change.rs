//! Changes of the clock in the zone of a CronJob, and what they make of its times.

use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::read::StoredCron;

/// Times of a change that are listed one by one.
pub const FEW: usize = 3;

/// Changes that are looked at; no zone has so many in the years a schedule looks ahead.
const MOST: usize = 64;

/// One change of the clock.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClockChange {
    /// When.
    pub at: Timestamp,
    /// The day on which times are left out or come twice.
    pub date: Date,
    /// What the clock would show then without it.
    pub from: DateTime,
    /// What it shows then.
    pub to: DateTime,
    /// Times of the schedule that are left out or come twice: how many.
    pub count: u64,
    /// The first three of them.
    pub times: Vec<DateTime>,
    /// The last one.
    pub last: Option<DateTime>,
    /// What becomes of them.
    pub effect: Effect,
}

/// What becomes of times that a change of the clock leaves out or repeats.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub enum Effect {
    /// There are none.
    Unaffected,
    /// They do not exist, and are not run.
    NotRun,
    /// They do not exist, and are run together when the clock has moved on.
    RunAtTheEnd,
    /// They come twice, and are run twice.
    RunTwice,
    /// They come twice, and are run the first time.
    RunTheFirstTime,
}

impl ClockChange {
    /// Whether the clock is set forward.
    pub fn is_forward(&self) -> bool {
        self.from < self.to
    }

    /// `the clock is set forward from 02:00 to 03:00`.
    pub fn what(&self) -> String {
        let way = if self.is_forward() { "forward" } else { "back" };
        let (from, to) = (self.show(self.from), self.show(self.to));
        format!("the clock is set {way} from {from} to {to}")
    }

    /// `02:30 does not exist: no run`.
    pub fn effect(&self) -> String {
        let Some(which) = self.which() else {
            return "no time of the schedule is concerned".to_owned();
        };
        let one = self.count == 1;
        let end = self.show(self.to);
        let becomes = match (self.effect, one) {
            (Effect::Unaffected, _) => return which,
            (Effect::NotRun, true) => "does not exist: no run".to_owned(),
            (Effect::NotRun, false) => "do not exist: no runs".to_owned(),
            (Effect::RunAtTheEnd, true) => format!("does not exist: run at {end}"),
            (Effect::RunAtTheEnd, false) => format!("do not exist: one run at {end} for them"),
            (Effect::RunTwice, true) => "comes twice: two runs".to_owned(),
            (Effect::RunTwice, false) => "come twice: two runs each".to_owned(),
            (Effect::RunTheFirstTime, true) => "comes twice: run the first time".to_owned(),
            (Effect::RunTheFirstTime, false) => "come twice: run the first time only".to_owned(),
        };
        format!("{which} {becomes}")
    }

    /// `02:30`, `60 times from 02:00 to 02:59`; `None` without any.
    pub fn which(&self) -> Option<String> {
        let last = self.last?;
        if self.count <= FEW as u64 {
            let times: Vec<String> = self.times.iter().map(|time| self.show(*time)).collect();
            return Some(times.join(", "));
        }
        let (first, last) = (self.show(*self.times.first()?), self.show(last));
        Some(format!("{} times from {first} to {last}", self.count))
    }

    /// The date only where it is another one.
    fn show(&self, time: DateTime) -> String {
        let format = if time.date() == self.date {
            "%H:%M"
        } else {
            "%Y-%m-%d %H:%M"
        };
        time.strftime(format).to_string()
    }
}

/// The changes after `after` and not after `until` in the zone of a CronJob.
pub fn changes(
    stored: &StoredCron,
    zone: &TimeZone,
    after: Timestamp,
    until: Timestamp,
) -> Vec<ClockChange> {
    let changes = zone.following(after).take(MOST);
    let changes = changes.map(|change| change.timestamp());
    let changes = changes.take_while(|at| *at <= until).filter_map(|at| {
        let before = at.checked_sub(SignedDuration::from_secs(1)).ok()?;
        change(stored, at, zone.to_offset(before), zone.to_offset(at))
    });
    changes.collect()
}

fn change(stored: &StoredCron, at: Timestamp, before: Offset, now: Offset) -> Option<ClockChange> {
    // Only the name of the zone's time changes, or what lies in its past.
    if before == now {
        return None;
    }
    let (from, to) = (before.to_datetime(at), now.to_datetime(at));
    let mut change = ClockChange {
        at,
        date: from.min(to).date(),
        from,
        to,
        count: 0,
        times: Vec::new(),
        last: None,
        effect: Effect::Unaffected,
    };
    let schedule = stored.cron.timetable.as_ref().ok();
    let Some(wall) = schedule.and_then(|schedule| schedule.wall_clock()) else {
        return Some(change);
    };
    // From the earlier to the later, without the later one: no more than a day.
    let first = second_before(from.min(to))?;
    let last = second_before(from.max(to))?;
    let shown = |time: Timestamp| Offset::UTC.to_datetime(time);
    change.count = wall.count(first, last, u64::MAX);
    let few = wall.oldest(first, last, FEW).into_iter();
    change.times = few.map(shown).collect();
    change.last = wall.latest(first, last).map(shown);
    change.effect = match (change.count, change.is_forward(), stored.is_once()) {
        (0, ..) => Effect::Unaffected,
        (_, true, false) => Effect::NotRun,
        (_, true, true) => Effect::RunAtTheEnd,
        (_, false, false) => Effect::RunTwice,
        (_, false, true) => Effect::RunTheFirstTime,
    };
    Some(change)
}

/// On a clock in UTC.
fn second_before(time: DateTime) -> Option<Timestamp> {
    let time = Offset::UTC.to_timestamp(time).ok()?;
    time.checked_sub(SignedDuration::from_secs(1)).ok()
}

/// Which of two passes of the clock over the same time a tick is in.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub enum Pass {
    /// The first.
    First,
    /// The second.
    Second,
}

/// The pass of a tick; `None` when its time comes once.
pub(super) fn pass(zone: &TimeZone, tick: Timestamp) -> Option<Pass> {
    let offset = zone.to_offset(tick);
    let shown = zone.to_ambiguous_timestamp(offset.to_datetime(tick));
    match shown.offset() {
        AmbiguousOffset::Fold { before, .. } if before == offset => Some(Pass::First),
        AmbiguousOffset::Fold { .. } => Some(Pass::Second),
        AmbiguousOffset::Unambiguous { .. } | AmbiguousOffset::Gap { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::zone;
    use crate::view::cron_job::samples::{at, in_zone};

    fn of_year(schedule: &str, name: &str, policy: &str, year: i16) -> Vec<ClockChange> {
        let zone = zone::load(name).unwrap();
        let stored = in_zone(schedule, name, policy);
        let start = at(&format!("{year}-01-01T00:00:00Z"));
        changes(
            &stored,
            &zone,
            start,
            at(&format!("{year}-12-31T23:59:59Z")),
        )
    }

    fn told(schedule: &str, name: &str, policy: &str, year: i16) -> Vec<String> {
        let changes = of_year(schedule, name, policy, year);
        let told = changes.iter();
        told.map(|change| format!("{}: {}; {}", change.date, change.what(), change.effect()))
            .collect()
    }

    #[test]
    fn a_time_of_spring_is_left_out_and_a_time_of_autumn_comes_twice() {
        let spring = "2027-03-14: the clock is set forward from 02:00 to 03:00";
        let autumn = "2027-11-07: the clock is set back from 02:00 to 01:00";
        let new_york = |schedule, policy| told(schedule, "America/New_York", policy, 2027);
        assert_eq!(
            new_york("30 2 * * *", "AsWritten"),
            [
                format!("{spring}; 02:30 does not exist: no run"),
                format!("{autumn}; no time of the schedule is concerned"),
            ]
        );
        assert_eq!(
            new_york("0,30 1,2 * * *", "Once"),
            [
                format!("{spring}; 02:00, 02:30 do not exist: one run at 03:00 for them"),
                format!("{autumn}; 01:00, 01:30 come twice: run the first time only"),
            ]
        );
        assert_eq!(
            new_york("30 1 * * *", "AsWritten")[1],
            format!("{autumn}; 01:30 comes twice: two runs")
        );
    }

    #[test]
    fn of_many_times_the_first_and_the_last_are_told() {
        assert_eq!(
            told("* * * * *", "Europe/Berlin", "AsWritten", 2027),
            [
                "2027-03-28: the clock is set forward from 02:00 to 03:00; \
                 60 times from 02:00 to 02:59 do not exist: no runs",
                "2027-10-31: the clock is set back from 03:00 to 02:00; \
                 60 times from 02:00 to 02:59 come twice: two runs each",
            ]
        );
    }

    #[test]
    fn a_whole_day_can_be_left_out() {
        let apia = told("0 12 * * *", "Pacific/Apia", "AsWritten", 2011);
        assert!(
            apia.contains(
                &"2011-12-30: the clock is set forward from 00:00 to 2011-12-31 00:00; \
                  12:00 does not exist: no run"
                    .to_owned()
            ),
            "{apia:?}"
        );
    }

    #[test]
    fn every_knows_no_wall_clock_and_utc_has_no_changes() {
        let every = of_year("@every 1h", "Europe/Berlin", "Once", 2027);
        assert!(
            every
                .iter()
                .all(|change| change.effect == Effect::Unaffected)
        );
        assert_eq!(every.len(), 2);
        assert_eq!(of_year("* * * * *", "Etc/UTC", "AsWritten", 2027), []);
    }

    #[test]
    fn a_tick_knows_which_of_two_passes_it_is_in() {
        let zone = zone::load("America/New_York").unwrap();
        for (tick, expected) in [
            ("2027-11-07T04:30:00Z", None),
            ("2027-11-07T05:30:00Z", Some(Pass::First)),
            ("2027-11-07T06:30:00Z", Some(Pass::Second)),
            ("2027-11-07T07:30:00Z", None),
            ("2027-03-14T07:00:00Z", None),
        ] {
            assert_eq!(pass(&zone, at(tick)), expected, "{tick}");
        }
    }
}
