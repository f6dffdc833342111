//! Which times of a wall clock match. Zones are not known here.
//!
//! The only file that knows the crates `cron` and `chrono`. `cron` never sees what a user wrote: it
//! is given plain lists, and a clock that has no zone.

use std::str::FromStr;

use chrono::{DateTime, Datelike, NaiveDate, TimeDelta, Utc};

use super::field::{Field, Values};
use super::parse::Fields;

/// What a wall clock shows, as the number of seconds since it showed 1970-01-01T00:00:00.
pub(super) type Wall = i64;

/// `cron` knows these years.
const FIRST_YEAR: i32 = 1970;
const LAST_YEAR: i32 = 2100;
/// Among them is each kind of year: seven days to begin with, leap or not.
const EVERY_KIND_OF_YEAR: std::ops::Range<i32> = 2000..2028;

/// The times of a wall clock that five fields allow.
#[derive(Clone, Debug)]
pub(super) struct Calendar {
    /// Their union. `cron` joins its two lists of days by "and", so an "or" takes two. Empty when
    /// nothing ever matches.
    parts: Vec<cron::Schedule>,
}

impl Calendar {
    pub(super) fn new(fields: &Fields) -> Self {
        let parts = if fields.both_days() {
            vec![*fields]
        } else {
            let by_day_of_month = Fields {
                days_of_week: Values::all(Field::DayOfWeek),
                ..*fields
            };
            let by_day_of_week = Fields {
                days_of_month: Values::all(Field::DayOfMonth),
                ..*fields
            };
            vec![by_day_of_month, by_day_of_week]
        };
        let parts = parts.iter().filter(|fields| can_match(fields));
        // Every list is in range, so there is nothing that `cron` could refuse.
        let parts = parts.filter_map(|fields| cron::Schedule::from_str(&canonical(fields)).ok());
        Self {
            parts: parts.collect(),
        }
    }

    /// Whether no time matches, in any year.
    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// The first time after `after` that matches, up to the end of the year `last_year`.
    pub(super) fn next(&self, after: Wall, last_year: i32) -> Option<Wall> {
        let parts = self.parts.iter();
        parts
            .filter_map(|part| next_of(part, after, last_year))
            .min()
    }
}

/// The year that a wall clock shows.
pub(super) fn year(wall: Wall) -> Option<i32> {
    Some(DateTime::from_timestamp(wall, 0)?.year())
}

fn next_of(part: &cron::Schedule, after: Wall, last_year: i32) -> Option<Wall> {
    let mut after = DateTime::from_timestamp(after, 0)?;
    loop {
        let year = after.checked_add_signed(TimeDelta::seconds(1))?.year();
        if year > last_year {
            return None;
        }
        if (FIRST_YEAR..=LAST_YEAR).contains(&year) {
            let Some(next) = part.after(&after).next() else {
                after = begin(LAST_YEAR + 1)? - TimeDelta::seconds(1);
                continue;
            };
            return (next.year() <= last_year).then(|| next.timestamp());
        }
        // Beyond what `cron` knows, each year is asked for in the guise of one of its kind.
        let alike = alike(year)?;
        let shift = begin(alike)? - begin(year)?;
        if let Some(next) = part.after(&(after + shift)).next()
            && next.year() == alike
        {
            return Some((next - shift).timestamp());
        }
        after = begin(year + 1)? - TimeDelta::seconds(1);
    }
}

/// A year with the same days as `year`.
fn alike(year: i32) -> Option<i32> {
    let kind = |year| {
        let first = NaiveDate::from_ymd_opt(year, 1, 1)?;
        Some((first.weekday(), first.leap_year()))
    };
    let wanted = kind(year)?;
    EVERY_KIND_OF_YEAR
        .into_iter()
        .find(|&year| kind(year) == Some(wanted))
}

fn begin(year: i32) -> Option<DateTime<Utc>> {
    let first = NaiveDate::from_ymd_opt(year, 1, 1)?;
    Some(first.and_hms_opt(0, 0, 0)?.and_utc())
}

fn can_match(fields: &Fields) -> bool {
    let is_empty = |(_, list): &(Field, Values)| list.is_empty();
    let first_day = fields.days_of_month.iter().next().unwrap_or(u32::MAX);
    let longest = fields.months.iter().map(|month| match month {
        2 => 29,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    });
    !fields.lists().iter().any(is_empty) && longest.max().is_some_and(|days| first_day <= days)
}

/// Seconds, minutes, hours, days of month, months, days of week as `cron` writes them: Sunday is 1.
fn canonical(fields: &Fields) -> String {
    let lists = fields.lists().map(|(field, values)| {
        if values.is_full(field) {
            return "*".to_owned();
        }
        let plus = u32::from(field == Field::DayOfWeek);
        let values: Vec<String> = values.iter().map(|v| (v + plus).to_string()).collect();
        values.join(",")
    });
    format!("0 {}", lists.join(" "))
}
