//! Durations of flags.

use std::time::Duration;

/// A duration as Go and kubectl write it: `500ms`, `15s`, `1m30s`, `1.5h`; `0` needs no unit.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("'{text}' is not a duration, write for example 500ms, 15s, 1m30s or 2h");
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut total = Duration::ZERO;
    let mut rest = text;
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .ok_or_else(wrong)?;
        let (number, tail) = rest.split_at(digits);
        let unit_end = tail
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        let seconds = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 0.001,
            "us" | "µs" => 0.000_001,
            "ns" => 0.000_000_001,
            _ => return Err(wrong()),
        };
        let number: f64 = number.parse().map_err(|_| wrong())?;
        total = Duration::try_from_secs_f64(number * seconds)
            .ok()
            .and_then(|part| total.checked_add(part))
            .ok_or_else(wrong)?;
        rest = tail;
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, millis) in [
            ("0", 0),
            ("500ms", 500),
            ("15s", 15_000),
            ("1m30s", 90_000),
            ("1.5s", 1_500),
            ("2h", 7_200_000),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in [
            "",
            "5",
            "s",
            "1m30",
            "-1s",
            "1d",
            "1..5s",
            "1 s",
            "99999999999999999999h",
        ] {
            assert!(duration(text).is_err(), "{text} is accepted");
        }
    }
}
