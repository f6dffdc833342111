//! When a CronJob runs, in exactly the dialect that Kubernetes speaks.
//!
//! A schedule is read once and then asked. It holds no clock: the same question always has the same
//! answer, as long as the time zone's rules are the same. The crates behind it are in
//! `schedule/calendar.rs` alone.

use jiff::Timestamp;
use jiff::tz::TimeZone;

mod calendar;
mod clock;
mod due;
mod every;
mod field;
mod parse;
pub mod zone;

#[cfg(test)]
mod brute_force;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod table;

pub use every::EveryError;
pub use field::{Field, FieldError};
pub use parse::ScheduleError;
pub use zone::ZoneError;

use calendar::Calendar;
use clock::{Changes, Instant};

/// A schedule in a time zone.
#[derive(Clone, Debug)]
pub struct Schedule {
    rhythm: Rhythm,
    zone: TimeZone,
    has_inline_zone: bool,
    changes: Changes,
}

#[derive(Clone, Debug)]
enum Rhythm {
    /// Distance in seconds, at least 1.
    Every(i64),
    Calendar(Calendar),
}

impl Schedule {
    /// Reads a schedule: five fields, a name such as `@daily`, or `@every` with a duration; before
    /// them may stand a time zone as `TZ=` or `CRON_TZ=`. Without one it is in UTC.
    ///
    /// A schedule that never fires (`0 0 31 2 *`) is no error.
    ///
    /// Source of the grammar: robfig/cron v3.0.1, `ParseStandard`, as Kubernetes calls it.
    pub fn parse(text: &str) -> Result<Self, ScheduleError> {
        let parsed = parse::parse(text)?;
        Ok(Self {
            rhythm: match parsed.rhythm {
                parse::Rhythm::Every(distance) => Rhythm::Every(distance),
                parse::Rhythm::Calendar(fields) => Rhythm::Calendar(Calendar::new(&fields)),
            },
            has_inline_zone: parsed.zone.is_some(),
            zone: parsed.zone.unwrap_or(TimeZone::UTC),
            changes: Changes::AsWritten,
        })
    }

    /// The same in another time zone, unless the text has one of its own.
    #[must_use]
    pub fn in_zone(self, zone: TimeZone) -> Self {
        if self.has_inline_zone {
            return self;
        }
        Self { zone, ..self }
    }

    /// The same, but each time of the wall clock counts once: not again when the clock is set back,
    /// and when the clock is set forward, the times that are left out count together as one tick at
    /// the first instant after.
    ///
    /// Without this it is as Kubernetes does it: twice, and not at all. `@every` knows no wall
    /// clock, so nothing changes for it.
    #[must_use]
    pub fn once_per_wall_clock(self) -> Self {
        Self {
            changes: Changes::Once,
            ..self
        }
    }

    /// The times of its wall clock, as if it were in UTC; `None` for `@every`, which has none.
    pub fn wall_clock(&self) -> Option<Self> {
        matches!(self.rhythm, Rhythm::Calendar(_)).then(|| Self {
            zone: TimeZone::UTC,
            changes: Changes::AsWritten,
            ..self.clone()
        })
    }

    /// Whether the text has a zone of its own, which goes before any other.
    pub fn has_inline_zone(&self) -> bool {
        self.has_inline_zone
    }

    /// The time zone it is evaluated in.
    pub fn zone(&self) -> &TimeZone {
        &self.zone
    }

    /// Whether it can be told from the fields alone that no tick will ever come.
    pub fn never_fires(&self) -> bool {
        matches!(&self.rhythm, Rhythm::Calendar(calendar) if calendar.is_empty())
    }

    /// The first tick after `after`, a whole second. None when there is none until the end of the
    /// twentieth year that follows. Upstream gives up after the fifth, and then for ever.
    ///
    /// The phase of `@every` is that of `after`, without its fraction of a second.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        timestamp(self.next_second(second(after))?)
    }

    fn next_second(&self, after: Instant) -> Option<Instant> {
        match &self.rhythm {
            Rhythm::Every(distance) => after.checked_add(*distance),
            Rhythm::Calendar(calendar) => clock::next(calendar, &self.zone, self.changes, after),
        }
    }
}

/// The second that an instant lies in.
fn second(at: Timestamp) -> Instant {
    // jiff cuts toward zero, which before 1970 is forward.
    let cut = at.as_second();
    if at.subsec_nanosecond() < 0 {
        cut - 1
    } else {
        cut
    }
}

/// None beyond the year 9999.
fn timestamp(at: Instant) -> Option<Timestamp> {
    Timestamp::from_second(at).ok()
}
