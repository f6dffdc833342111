//! One of the five fields of a schedule: `*/5`, `mon-fri`, `1,15`.
//!
//! Source of the grammar: robfig/cron v3.0.1, `getField` and `getRange`.

use std::fmt;

const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// The fields, in the order they are written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Field {
    /// 0 to 59.
    Minute,
    /// 0 to 23.
    Hour,
    /// 1 to 31.
    DayOfMonth,
    /// 1 to 12, or `jan` to `dec`.
    Month,
    /// 0 (Sunday) to 6, or `sun` to `sat`.
    DayOfWeek,
}

impl Field {
    /// What it is called, its lowest and its highest value, and their names, beginning with the lowest.
    fn row(self) -> (&'static str, (u32, u32), &'static [&'static str]) {
        match self {
            Self::Minute => ("minute", (0, 59), &[]),
            Self::Hour => ("hour", (0, 23), &[]),
            Self::DayOfMonth => ("day of month", (1, 31), &[]),
            Self::Month => ("month", (1, 12), &MONTHS),
            Self::DayOfWeek => ("day of week", (0, 6), &DAYS),
        }
    }

    pub(super) fn bounds(self) -> (u32, u32) {
        self.row().1
    }

    fn names(self) -> &'static [&'static str] {
        self.row().2
    }

    /// `0 to 6 or sun to sat`.
    fn allowed(self) -> String {
        let (min, max) = self.bounds();
        match self.names() {
            [first, .., last] => format!("{min} to {max} or {first} to {last}"),
            _ => format!("{min} to {max}"),
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.row().0)
    }
}

/// The values that a field allows.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Values {
    /// Bit n is set when n is allowed.
    bits: u64,
    /// Whether `*` or `?`, without a step above 1, is in the list. Decides how days of the month
    /// and of the week are joined.
    pub(super) star: bool,
}

impl Values {
    /// All values of a field, as `*` gives them.
    pub(super) fn all(field: Field) -> Self {
        let (min, max) = field.bounds();
        let bits = (min..=max).fold(0, |bits, value| bits | 1 << value);
        Self { bits, star: true }
    }

    /// Whether `value` is allowed.
    pub(super) fn contains(self, value: u32) -> bool {
        value < u64::BITS && self.bits & (1 << value) != 0
    }

    /// Whether nothing is allowed, as `,` gives it.
    pub(super) fn is_empty(self) -> bool {
        self.bits == 0
    }

    /// The allowed values, ascending.
    pub(super) fn iter(self) -> impl Iterator<Item = u32> {
        (0..u64::BITS).filter(move |&value| self.contains(value))
    }

    /// Whether all values of the field are allowed.
    pub(super) fn is_full(self, field: Field) -> bool {
        self.bits == Self::all(field).bits
    }
}

/// What is wrong with an item of a field.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{field}: {item:?} {reason}")]
pub struct FieldError {
    /// The field it is in.
    pub field: Field,
    /// The item between commas, clipped to 32 characters.
    pub item: String,
    /// Why it is refused, and what to write instead.
    pub reason: String,
}

/// Reads a comma-separated list. Items that are empty are dropped, so `,` allows nothing.
pub(super) fn parse(field: Field, text: &str) -> Result<Values, FieldError> {
    let mut values = Values::default();
    for item in text.split(',').filter(|item| !item.is_empty()) {
        let found = parse_item(field, item).map_err(|reason| FieldError {
            field,
            item: clip(item),
            reason,
        })?;
        values.bits |= found.bits;
        values.star |= found.star;
    }
    Ok(values)
}

/// What a person needs to see of something they wrote.
pub(super) fn clip(text: &str) -> String {
    text.chars().take(32).collect()
}

/// `lo`, `lo-hi`, `lo/step`, `lo-hi/step`, with `*` or `?` as `lo` for the whole range.
fn parse_item(field: Field, item: &str) -> Result<Values, String> {
    let (min, max) = field.bounds();
    let (range, step) = match item.split_once('/') {
        None => (item, None),
        Some((_, rest)) if rest.contains('/') => {
            return Err("has more than one slash; write start-end/step".to_owned());
        }
        Some((range, step)) => (range, Some(parse_step(step)?)),
    };
    let (low, high) = match range.split_once('-') {
        None => (range, None),
        Some((low, high)) => (low, Some(high)),
    };
    let star = low == "*" || low == "?";
    let (start, end) = if star {
        // Upstream never looks at what stands behind the hyphen.
        (i64::from(min), i64::from(max))
    } else {
        let start = value(field, low)?;
        let end = match high {
            // `5/15` is `5-59/15`.
            None if step.is_some() => i64::from(max),
            None => start,
            Some(high) if high.contains('-') => {
                return Err("has more than one hyphen; write start-end".to_owned());
            }
            Some(high) => value(field, high)?,
        };
        (start, end)
    };
    for bound in [start, end] {
        if bound < i64::from(min) || bound > i64::from(max) {
            return Err(out_of_range(field, bound));
        }
    }
    if start > end {
        return Err(backwards(field, start, end, step));
    }
    let step = step.unwrap_or(1);
    let mut bits = 0;
    let mut next = Some(start);
    while let Some(value) = next.filter(|&value| value <= end) {
        bits |= 1 << value;
        next = value.checked_add(step);
    }
    Ok(Values {
        bits,
        star: star && step == 1,
    })
}

/// At least 1; there is no upper bound.
fn parse_step(text: &str) -> Result<i64, String> {
    match text.parse() {
        Ok(step) if step >= 1 => Ok(step),
        Ok(_) => Err("has a step below 1; write 1 or more behind the slash".to_owned()),
        Err(_) => Err("has no whole number behind the slash; write one, as in */5".to_owned()),
    }
}

/// A number, or a name of three letters.
fn value(field: Field, text: &str) -> Result<i64, String> {
    // As Go folds case: `İ` is the only letter outside of ASCII that becomes one of ours.
    let folded = text.replace('İ', "i").to_ascii_lowercase();
    let named = field.names().iter().position(|name| *name == folded);
    if let Some(position) = named {
        return Ok(position as i64 + i64::from(field.bounds().0));
    }
    let allowed = field.allowed();
    text.parse().map_err(|_| {
        let full = field.names().iter().find(|name| folded.starts_with(**name));
        if let Some(name) = full {
            format!("is no name; write the first three letters, {name}")
        } else if text.is_empty() {
            format!("lacks a value; allowed are {allowed}")
        } else if folded.contains(['l', 'w', '#']) {
            format!("is not understood: there is no L, W or #; allowed are {allowed}")
        } else {
            format!("is not understood; allowed are {allowed}")
        }
    })
}

fn out_of_range(field: Field, value: i64) -> String {
    let (min, max) = field.bounds();
    if field == Field::DayOfWeek && value == 7 {
        return "has a day above 6; write 0 for Sunday".to_owned();
    }
    let allowed = field.allowed();
    if value < i64::from(min) {
        format!("is below {min}; allowed are {allowed}")
    } else {
        format!("is above {max}; allowed are {allowed}")
    }
}

fn backwards(field: Field, start: i64, end: i64, step: Option<i64>) -> String {
    let (min, max) = field.bounds();
    match step {
        None => format!("goes backwards; write {start}-{max},{min}-{end}"),
        Some(_) => "goes backwards; the end must not be below the start".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(field: Field, text: &str) -> Vec<u32> {
        parse(field, text).unwrap().iter().collect()
    }

    #[test]
    fn lists_ranges_steps_and_names_are_joined() {
        assert_eq!(listed(Field::Hour, "1,,3-5,20/2"), [1, 3, 4, 5, 20, 22]);
        assert_eq!(listed(Field::Month, "JAN-dec/3"), [1, 4, 7, 10]);
        assert_eq!(listed(Field::DayOfWeek, "Mon/2"), [1, 3, 5]);
        assert_eq!(listed(Field::DayOfWeek, "FRİ"), [5]);
        assert_eq!(listed(Field::Minute, "*/100,+05"), [0, 5]);
        assert_eq!(listed(Field::Minute, "*/9223372036854775807"), [0]);
        assert!(parse(Field::Minute, ",").unwrap().is_empty());
    }

    #[test]
    fn the_star_survives_a_step_of_one_only() {
        for (text, star) in [
            ("*", true),
            ("?", true),
            ("*/1", true),
            ("*-7", true),
            ("1,*", true),
            ("*/2", false),
            ("1-31", false),
        ] {
            assert_eq!(parse(Field::DayOfMonth, text).unwrap().star, star, "{text}");
        }
    }

    #[test]
    fn what_is_refused_says_what_to_write() {
        for (field, text, says) in [
            (
                Field::DayOfWeek,
                "7",
                "day of week: \"7\" has a day above 6; write 0 for Sunday",
            ),
            (
                Field::DayOfWeek,
                "FRI-MON",
                "day of week: \"FRI-MON\" goes backwards; write 5-6,0-1",
            ),
            (
                Field::Minute,
                "60",
                "minute: \"60\" is above 59; allowed are 0 to 59",
            ),
            (
                Field::DayOfMonth,
                "1,0",
                "day of month: \"0\" is below 1; allowed are 1 to 31",
            ),
            (
                Field::Month,
                "January",
                "month: \"January\" is no name; write the first three letters, jan",
            ),
            (
                Field::DayOfMonth,
                "L",
                "day of month: \"L\" is not understood: there is no L, W or #; allowed are 1 to 31",
            ),
            (
                Field::Hour,
                "mon",
                "hour: \"mon\" is not understood; allowed are 0 to 23",
            ),
            (
                Field::Hour,
                "1-",
                "hour: \"1-\" lacks a value; allowed are 0 to 23",
            ),
            (
                Field::Hour,
                "*/0",
                "hour: \"*/0\" has a step below 1; write 1 or more behind the slash",
            ),
            (
                Field::Hour,
                "1-2-3",
                "hour: \"1-2-3\" has more than one hyphen; write start-end",
            ),
            (
                Field::Hour,
                "1/2/3",
                "hour: \"1/2/3\" has more than one slash; write start-end/step",
            ),
        ] {
            assert_eq!(parse(field, text).unwrap_err().to_string(), says);
        }
    }
}
