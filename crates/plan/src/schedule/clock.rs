//! From times of a wall clock to instants: what a time zone does to a calendar.
//!
//! Between two changes of its offset a zone is just a wall clock. Each such stretch is asked by
//! itself, so a change can neither hide a time nor bring one up twice.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::calendar::{self, Calendar, Wall};

/// So many years that follow are searched: a 29th of February may be eight years off, and changes of a
/// clock have left out the same time for seventeen years.
const YEARS: i32 = 20;

/// An instant as seconds since 1970-01-01T00:00:00Z.
pub(super) type Instant = i64;

/// What becomes of times that a change of the clock repeats or leaves out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Changes {
    /// They count as often as the clock shows them: twice, or not at all.
    AsWritten,
    /// Each counts once. One that is left out counts when the clock has moved on.
    Once,
}

/// Time during which the offset does not change.
struct Stretch {
    /// Seconds that the wall clock is ahead of UTC.
    offset: i64,
    /// The first instant after it.
    end: Option<Instant>,
}

/// The first instant after `after` at which the clock of `zone` shows a time of `calendar`.
pub(super) fn next(
    calendar: &Calendar,
    zone: &TimeZone,
    changes: Changes,
    after: Instant,
) -> Option<Instant> {
    if calendar.is_empty() {
        return None;
    }
    let mut from = after.checked_add(1)?;
    let mut stretch = stretch(zone, from)?;
    let last_year = calendar::year(from + stretch.offset)? + YEARS;
    // No time matches between these two; so most stretches need not be searched.
    let mut bare: Option<(Wall, Wall)> = None;
    loop {
        let mut shown = from - 1 + stretch.offset;
        if changes == Changes::Once
            && let Some((begin, before)) = change(zone, from)
        {
            let (left, entered) = (begin + before, begin + stretch.offset);
            if from == begin
                && left < entered
                && calendar
                    .next(left - 1, last_year)
                    .is_some_and(|time| time < entered)
            {
                return Some(begin);
            }
            shown = shown.max(left - 1);
        }
        let candidate = match bare {
            Some((begin, end)) if begin <= shown && shown < end => end,
            _ => calendar.next(shown, last_year).unwrap_or(Wall::MAX),
        };
        let end = stretch.end.unwrap_or(Instant::MAX);
        if candidate < end.saturating_add(stretch.offset) {
            return Some(candidate - stretch.offset);
        }
        bare = Some((shown, candidate));
        from = stretch.end?;
        stretch = self::stretch(zone, from)?;
        if calendar::year(from + stretch.offset)? > last_year {
            return None;
        }
    }
}

fn stretch(zone: &TimeZone, at: Instant) -> Option<Stretch> {
    let at = Timestamp::from_second(at).ok()?;
    let end = zone.following(at).next();
    Some(Stretch {
        offset: i64::from(zone.to_offset(at).seconds()),
        end: end.map(|change| change.timestamp().as_second()),
    })
}

/// When the stretch that `at` lies in began, and the offset that was in force before.
fn change(zone: &TimeZone, at: Instant) -> Option<(Instant, i64)> {
    let past = Timestamp::from_second(at.checked_add(1)?).ok()?;
    let begin = zone.preceding(past).next()?.timestamp().as_second();
    let before = Timestamp::from_second(begin.checked_sub(1)?).ok()?;
    Some((begin, i64::from(zone.to_offset(before).seconds())))
}
