//! The text of a schedule: a prefix with a time zone, then five fields or a name such as `@daily`.
//!
//! Source of the grammar: robfig/cron v3.0.1, `ParseStandard`, as Kubernetes calls it.

use jiff::tz::TimeZone;

use super::field::{self, Field, FieldError, Values, clip};
use super::zone::{self, ZoneError};
use super::{every, every::EveryError};

const PREFIXES: [&str; 2] = ["TZ=", "CRON_TZ="];
/// Names, and the fields that they stand for.
const NAMES: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// Why a text is no schedule. Says where, what was found, and what to write.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ScheduleError {
    /// There is nothing.
    #[error(
        "the schedule is empty; write five fields (minute, hour, day of month, month, day of week) \
         or a name such as @daily"
    )]
    Empty,
    /// Not five fields.
    #[error(
        "{found} fields found, five are needed: minute, hour, day of month, month, day of week\
         {}", more_hint(*.found)
    )]
    FieldCount {
        /// How many there are.
        found: usize,
    },
    /// A field that cannot be read.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// An unknown name behind `@`, clipped to 32 characters.
    #[error("{found:?} is not known; {}", name_hint(.found))]
    Name {
        /// The name.
        found: String,
    },
    /// An `@every` that cannot be read.
    #[error(transparent)]
    Every(#[from] EveryError),
    /// A prefix that is not followed by a space.
    #[error("a space must follow the time zone, as in CRON_TZ=Europe/Berlin 0 9 * * *")]
    OnlyZone,
    /// The zone of a prefix cannot be used.
    #[error(transparent)]
    Zone(#[from] ZoneError),
}

fn more_hint(found: usize) -> &'static str {
    match found {
        6.. => "; there are no seconds and no years",
        _ => "",
    }
}

fn name_hint(found: &str) -> String {
    let names = NAMES.map(|(name, _)| name);
    let plain = found.trim().to_ascii_lowercase();
    if names.contains(&&*plain) {
        return format!("write {plain}, in lower case and without blanks");
    }
    let names = names.join(", ");
    format!("write one of {names}, or @every with a duration, as in @every 5m")
}

/// What a text says.
#[derive(Clone, Debug)]
pub(super) struct Parsed {
    /// The zone of a prefix.
    pub(super) zone: Option<TimeZone>,
    pub(super) rhythm: Rhythm,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Rhythm {
    /// Distance in seconds, at least 1.
    Every(i64),
    Calendar(Fields),
}

/// The five fields.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Fields {
    pub(super) minutes: Values,
    pub(super) hours: Values,
    pub(super) days_of_month: Values,
    pub(super) months: Values,
    pub(super) days_of_week: Values,
}

impl Fields {
    /// Whether a day must be in both lists of days. Else one of them is enough.
    pub(super) fn both_days(&self) -> bool {
        self.days_of_month.star || self.days_of_week.star
    }

    /// In the order in which they are written.
    pub(super) fn lists(&self) -> [(Field, Values); 5] {
        [
            (Field::Minute, self.minutes),
            (Field::Hour, self.hours),
            (Field::DayOfMonth, self.days_of_month),
            (Field::Month, self.months),
            (Field::DayOfWeek, self.days_of_week),
        ]
    }
}

pub(super) fn parse(text: &str) -> Result<Parsed, ScheduleError> {
    let prefixed = PREFIXES.iter().find_map(|prefix| text.strip_prefix(prefix));
    let (zone, rest) = match prefixed {
        None => (None, text),
        Some(prefixed) => {
            // A plain space: a tab would belong to the name.
            let (name, rest) = prefixed.split_once(' ').ok_or(ScheduleError::OnlyZone)?;
            (Some(zone::inline(name)?), rest.trim())
        }
    };
    let rhythm = if rest.starts_with('@') {
        named(rest)?
    } else {
        Rhythm::Calendar(fields(rest)?)
    };
    Ok(Parsed { zone, rhythm })
}

fn fields(text: &str) -> Result<Fields, ScheduleError> {
    let texts: Vec<&str> = text.split_whitespace().collect();
    if texts.is_empty() {
        return Err(ScheduleError::Empty);
    }
    let [minutes, hours, days_of_month, months, days_of_week] = texts[..] else {
        return Err(ScheduleError::FieldCount { found: texts.len() });
    };
    Ok(Fields {
        minutes: field::parse(Field::Minute, minutes)?,
        hours: field::parse(Field::Hour, hours)?,
        days_of_month: field::parse(Field::DayOfMonth, days_of_month)?,
        months: field::parse(Field::Month, months)?,
        days_of_week: field::parse(Field::DayOfWeek, days_of_week)?,
    })
}

fn named(text: &str) -> Result<Rhythm, ScheduleError> {
    if let Some(duration) = text.strip_prefix("@every ") {
        return Ok(Rhythm::Every(every::parse(duration)?));
    }
    match NAMES.iter().find(|(name, _)| *name == text) {
        Some((_, meaning)) => Ok(Rhythm::Calendar(fields(meaning)?)),
        None => Err(ScheduleError::Name { found: clip(text) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(one: &str, other: &str) {
        assert_eq!(
            parse(one).unwrap().rhythm,
            parse(other).unwrap().rhythm,
            "{one} = {other}"
        );
    }

    #[test]
    fn names_stand_for_fields() {
        same("@yearly", "0 0 1 1 *");
        same("@annually", "0 0 1 1 *");
        same("@monthly", "0 0 1 * *");
        same("@weekly", "0 0 * * 0");
        same("@daily", "0 0 * * *");
        same("@midnight", "0 0 * * *");
        same("@hourly", "0 * * * *");
    }

    #[test]
    fn a_prefix_names_the_zone_and_blanks_around_the_rest_do_not_matter() {
        for text in [
            "TZ=Asia/Tokyo @daily",
            "CRON_TZ=Asia/Tokyo   @daily\t",
            "CRON_TZ=Asia/Tokyo 0\u{a0}0 *\t* * ",
        ] {
            let parsed = parse(text).unwrap();
            let zone = parsed.zone.unwrap();
            assert_eq!(zone.iana_name(), Some("Asia/Tokyo"), "{text}");
        }
        assert!(parse("@daily").unwrap().zone.is_none());
    }

    #[test]
    fn what_is_refused_says_what_to_write() {
        for (text, says) in [
            ("", "the schedule is empty; write five fields"),
            ("TZ=UTC  ", "the schedule is empty"),
            ("TZ=UTC", "a space must follow the time zone"),
            ("TZ=Europe/Bonn @daily", "\"Europe/Bonn\" is not known"),
            ("* * * *", "4 fields found, five are needed"),
            (
                "0 * * * * *",
                "6 fields found, five are needed: minute, hour, day of month, month, day of week; there are no seconds and no years",
            ),
            (
                "@Daily",
                "\"@Daily\" is not known; write @daily, in lower case and without blanks",
            ),
            ("@reboot", "write one of @yearly, "),
            (
                "@every 1d",
                "@every \"1d\": has no unit for days; write hours, as in 24h",
            ),
            (
                "0 0 * * 7",
                "day of week: \"7\" has a day above 6; write 0 for Sunday",
            ),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(says), "{text:?}: {error}");
        }
    }
}
