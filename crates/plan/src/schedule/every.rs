//! `@every 1h30m`: a fixed distance, not a calendar.

use super::field::clip;

/// What is wrong with the duration behind `@every`.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("@every {found:?}: {reason}")]
pub struct EveryError {
    /// The duration, clipped to 32 characters.
    pub found: String,
    /// Why it is refused, and what to write instead.
    pub reason: String,
}

/// The distance in whole seconds, at least 1. A fraction is cut, and so is all that is less than a
/// second, zero and below.
pub(super) fn parse(text: &str) -> Result<i64, EveryError> {
    match nanoseconds(text) {
        Ok(nanoseconds) => Ok((nanoseconds / 1_000_000_000).max(1)),
        Err(reason) => Err(EveryError {
            found: clip(text),
            reason,
        }),
    }
}

/// Go's `time.ParseDuration`, down to its rounding.
fn nanoseconds(text: &str) -> Result<i64, String> {
    const LIMIT: u64 = 1 << 63;
    let too_long = || "is longer than 292 years".to_owned();
    let negative = text.starts_with('-');
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err("lacks a duration; write one, as in 1h30m".to_owned());
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (whole, after_whole) = split_digits(rest);
        let (fraction, after) = match after_whole.strip_prefix('.') {
            Some(after_point) => split_digits(after_point),
            None => ("", after_whole),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err("is no duration; write numbers with units, as in 1h30m".to_owned());
        }
        let end = after
            .find(|c: char| c == '.' || c.is_ascii_digit())
            .unwrap_or(after.len());
        let (name, remaining) = after.split_at(end);
        rest = remaining;
        let unit = unit(name)?;
        let value = whole_number(whole).ok_or_else(too_long)?;
        if value > LIMIT / unit {
            return Err(too_long());
        }
        let value = value * unit + part_of(fraction, unit);
        total = total.checked_add(value).ok_or_else(too_long)?;
        if total > LIMIT {
            return Err(too_long());
        }
    }
    if negative {
        return Ok(0_i64.saturating_sub_unsigned(total));
    }
    i64::try_from(total).map_err(|_| too_long())
}

/// Nanoseconds of a unit.
fn unit(name: &str) -> Result<u64, String> {
    Ok(match name {
        "ns" => 1,
        // The micro sign and the Greek letter.
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "" => return Err("lacks a unit; write h, m or s, as in 5m".to_owned()),
        "d" | "w" => return Err("has no unit for days; write hours, as in 24h".to_owned()),
        _ => {
            let name = clip(name);
            return Err(format!("has the unknown unit {name:?}; write h, m or s"));
        }
    })
}

fn split_digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit());
    text.split_at(end.unwrap_or(text.len()))
}

fn whole_number(digits: &str) -> Option<u64> {
    if digits.is_empty() {
        return Some(0);
    }
    digits.parse().ok().filter(|&value| value <= 1 << 63)
}

/// What the digits behind the point are of a unit. Go computes it in floating point, and so do we.
fn part_of(digits: &str, unit: u64) -> u64 {
    let mut value: u64 = 0;
    let mut scale = 1.0;
    for digit in digits.bytes() {
        let longer = value
            .checked_mul(10)
            .and_then(|value| value.checked_add(u64::from(digit - b'0')))
            .filter(|&value| value <= 1 << 63);
        // Further digits are too small to matter.
        let Some(longer) = longer else { break };
        value = longer;
        scale *= 10.0;
    }
    (value as f64 * (unit as f64 / scale)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_go_reads_them() {
        for (text, seconds) in [
            ("90s", 90),
            ("1.5h", 5400),
            ("1h1m1s", 3661),
            (".5m", 30),
            ("5.m", 300),
            ("+2m", 120),
            ("1500ms", 1),
            ("1999999999ns", 1),
            ("3000000us", 3),
            ("3000000\u{b5}s", 3),
            ("3000000\u{3bc}s", 3),
            ("0", 1),
            ("-0", 1),
            ("-5m", 1),
            ("2562047h47m16.854775807s", 9_223_372_036),
            ("-9223372036854775808ns", 1),
        ] {
            assert_eq!(parse(text), Ok(seconds), "{text}");
        }
    }

    #[test]
    fn other_durations_are_refused_with_what_to_write() {
        for (text, says) in [
            ("", "lacks a duration"),
            ("-", "lacks a duration"),
            ("5", "lacks a unit"),
            ("1d", "24h"),
            ("5M", "unknown unit \"M\""),
            (" 5m", "no duration"),
            ("5m ", "unknown unit \"m \""),
            (".m", "no duration"),
            ("--5m", "no duration"),
            ("2562048h", "longer"),
            ("9223372036854775808ns", "longer"),
            ("99999999999999999999s", "longer"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
