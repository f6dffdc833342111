//! The definition of a tick, without any cleverness: look at the clock every minute.
//!
//! Shares only the reading of the fields with what it judges.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, TimeZone};

use super::field::Values;
use super::parse::{self, Fields, Rhythm};

const DAY: i64 = 86_400;

/// The fields of a schedule without prefix. None for `@every`.
pub(super) fn fields(spec: &str) -> Option<Fields> {
    match parse::parse(spec).unwrap().rhythm {
        Rhythm::Every(_) => None,
        Rhythm::Calendar(fields) => Some(fields),
    }
}

/// Every instant after `after` and not after `until` at which the clock of the zone matches.
pub(super) fn as_written(fields: &Fields, zone: &TimeZone, after: i64, until: i64) -> Vec<i64> {
    let days = after.div_euclid(DAY)..=until.div_euclid(DAY);
    days.filter(|&day| may_match(fields, day))
        .flat_map(|day| (day * DAY..(day + 1) * DAY).step_by(60))
        .filter(|&at| after < at && at <= until)
        .filter(|&at| matches(fields, zone.to_datetime(instant(at))))
        .collect()
}

/// Whether any clock of the world can show a day that matches during a day of UTC.
fn may_match(fields: &Fields, day: i64) -> bool {
    let near = [day - 1, day, day + 1];
    near.iter()
        .any(|day| day_matches(fields, TimeZone::UTC.to_datetime(instant(day * DAY)).date()))
}

/// The same with each time of the clock once, and left out times made up for.
pub(super) fn once(fields: &Fields, zone: &TimeZone, after: i64, until: i64) -> Vec<i64> {
    // What clocks show, as if it were UTC. None was ever a day or more away from it.
    let begin = (after - 2 * DAY).div_euclid(60) * 60;
    let mut ticks = Vec::new();
    for as_utc in (begin..until + 2 * DAY).step_by(60) {
        let shown = TimeZone::UTC.to_datetime(instant(as_utc));
        if !matches(fields, shown) {
            continue;
        }
        ticks.push(match zone.to_ambiguous_timestamp(shown).offset() {
            AmbiguousOffset::Unambiguous { offset } => as_utc - i64::from(offset.seconds()),
            AmbiguousOffset::Fold { before, .. } => as_utc - i64::from(before.seconds()),
            AmbiguousOffset::Gap { after, .. } => {
                // This is before the gap. The clock first shows a later time at its end.
                let mut at = as_utc - i64::from(after.seconds());
                while zone.to_datetime(instant(at)) <= shown {
                    at += 60;
                }
                at
            }
        });
    }
    ticks.retain(|&at| after < at && at <= until);
    ticks.sort_unstable();
    ticks.dedup();
    ticks
}

pub(super) fn instant(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn matches(fields: &Fields, shown: DateTime) -> bool {
    day_matches(fields, shown.date())
        && has(fields.hours, shown.hour())
        && has(fields.minutes, shown.minute())
        && shown.second() == 0
}

fn day_matches(fields: &Fields, date: Date) -> bool {
    let day_of_month = has(fields.days_of_month, date.day());
    let day_of_week = has(fields.days_of_week, date.weekday().to_sunday_zero_offset());
    let star = fields.days_of_month.star || fields.days_of_week.star;
    let day = if star {
        day_of_month && day_of_week
    } else {
        day_of_month || day_of_week
    };
    day && has(fields.months, date.month())
}

fn has(values: Values, value: i8) -> bool {
    values.contains(value.unsigned_abs().into())
}
