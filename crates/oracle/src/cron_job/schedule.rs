//! What a schedule says, read from its text and looked up minute by minute.
//!
//! The dialect is that of robfig's `ParseStandard`, which Kubernetes uses.

use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Span, Timestamp};
use serde_json::Value;

use crate::object::text;

const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const MINUTE: SignedDuration = SignedDuration::from_mins(1);

/// When a CronJob is to run, by its spec.
#[derive(Clone, Debug)]
pub struct Schedule {
    times: Times,
    zone: TimeZone,
    /// Each wall time counts once: the first time where it comes twice; where the clock is set forward,
    /// all that it leaves out count together right after.
    once: bool,
}

#[derive(Clone, Debug)]
enum Times {
    /// Minute, hour, day of month, month, day of week.
    Clock([Field; 5]),
    /// So long after each other.
    Every(SignedDuration),
}

/// The values of a field.
#[derive(Clone, Debug)]
struct Field {
    values: Vec<u8>,
    /// Every value, by a star: the day rule asks for it.
    star: bool,
}

impl Schedule {
    /// That of the spec of a CronJob: `schedule`, `timeZone` (default UTC), and `dstPolicy`, of which
    /// `Once` says that each wall time counts once: the first time where it comes twice, and where the
    /// clock is set forward, all that it leaves out together right after. `None`: it cannot be read.
    pub fn of(spec: &Value) -> Option<Self> {
        let zone = text(spec, &["timeZone"]);
        let mut schedule = Self::parse(text(spec, &["schedule"]), zone)?;
        schedule.once = text(spec, &["dstPolicy"]) == "Once";
        Some(schedule)
    }

    /// Reads a schedule; a zone in front of it (`TZ=…`) counts more than `zone`.
    pub fn parse(schedule: &str, zone: &str) -> Option<Self> {
        let prefix = ["TZ=", "CRON_TZ="];
        let inline = prefix.iter().find_map(|key| schedule.strip_prefix(key));
        let (zone, rest) = match inline {
            Some(inline) => {
                let (zone, rest) = inline.split_once(' ')?;
                (zone, rest.trim())
            }
            None => (zone, schedule),
        };
        let zone = match zone {
            "" | "UTC" => TimeZone::UTC,
            zone => TimeZoneDatabase::bundled().get(zone).ok()?,
        };
        let times = match rest.strip_prefix('@') {
            Some(word) => described(word)?,
            None => clock(rest)?,
        };
        Some(Self {
            times,
            zone,
            once: false,
        })
    }

    /// Whether this instant is one of its times. `bases` are the times from which an interval may
    /// have been counted.
    pub fn matches(&self, instant: Timestamp, bases: &[Timestamp]) -> bool {
        match &self.times {
            Times::Clock(fields) => {
                let wall = self.zone.to_datetime(instant);
                if wall.second() != 0 || wall.subsec_nanosecond() != 0 {
                    return false;
                }
                if !self.once {
                    return fits(fields, wall);
                }
                fits(fields, wall) && self.comes_first(wall, instant)
                    || self.left_out(instant).any(|wall| fits(fields, wall))
            }
            Times::Every(interval) => bases.iter().any(|base| {
                let passed = instant.as_second() - base.as_second();
                instant.subsec_nanosecond() == 0 && passed > 0 && passed % interval.as_secs() == 0
            }),
        }
    }

    /// All of its times after `after`, up to and with `until`, in order; an interval counts from
    /// `after`.
    pub fn ticks(&self, after: Timestamp, until: Timestamp) -> Vec<Timestamp> {
        self.each(after, until).collect()
    }

    /// The first of them.
    pub fn first(&self, after: Timestamp, until: Timestamp) -> Option<Timestamp> {
        self.each(after, until).next()
    }

    fn each(&self, after: Timestamp, until: Timestamp) -> impl Iterator<Item = Timestamp> {
        let (first, step) = match self.times {
            Times::Clock(_) => {
                let minute = after.as_second().div_euclid(60) * 60;
                (Timestamp::from_second(minute), MINUTE)
            }
            Times::Every(interval) => (Timestamp::from_second(after.as_second()), interval),
        };
        let first = first.unwrap_or(after);
        let all = std::iter::successors(Some(first), move |time| time.checked_add(step).ok());
        all.skip(1)
            .take_while(move |time| *time <= until)
            .filter(move |time| self.matches(*time, &[after]))
    }

    /// The minutes that the clock leaves out when it gets to this instant.
    fn left_out(&self, instant: Timestamp) -> impl Iterator<Item = DateTime> {
        let minute = instant.checked_sub(MINUTE).unwrap_or(instant);
        let (before, now) = (
            self.zone.to_datetime(minute),
            self.zone.to_datetime(instant),
        );
        let minutes = std::iter::successors(Some(before), |wall| wall.checked_add(MINUTE).ok());
        minutes.skip(1).take_while(move |wall| *wall < now)
    }

    /// Whether there is none of its days within eight years, leap years or not.
    pub fn never_fires(&self, from: Timestamp) -> bool {
        let Times::Clock(fields) = &self.times else {
            return false;
        };
        let [minute, hour, ..] = fields;
        let (Some(minute), Some(hour)) = (minute.values.first(), hour.values.first()) else {
            return true;
        };
        let today = self.zone.to_datetime(from).date();
        let mut days = today.series(Span::new().days(1)).take(8 * 366);
        !days.any(|day| fits(fields, day.at(*hour as i8, *minute as i8, 0, 0)))
    }

    /// Whether this is the first time that the clock shows this.
    fn comes_first(&self, wall: DateTime, instant: Timestamp) -> bool {
        match self.zone.to_ambiguous_timestamp(wall).offset() {
            AmbiguousOffset::Fold { before, .. } => before
                .to_timestamp(wall)
                .is_ok_and(|earlier| earlier == instant),
            _ => true,
        }
    }
}

fn fits([minute, hour, day, month, weekday]: &[Field; 5], wall: DateTime) -> bool {
    let has = |field: &Field, value: i8| field.values.contains(&value.unsigned_abs());
    let by_date = has(day, wall.day());
    let by_weekday = has(weekday, wall.weekday().to_sunday_zero_offset());
    let on_day = if day.star || weekday.star {
        by_date && by_weekday
    } else {
        by_date || by_weekday
    };
    has(minute, wall.minute()) && has(hour, wall.hour()) && has(month, wall.month()) && on_day
}

fn described(word: &str) -> Option<Times> {
    let written_out = match word {
        "yearly" | "annually" => "0 0 1 1 *",
        "monthly" => "0 0 1 * *",
        "weekly" => "0 0 * * 0",
        "daily" | "midnight" => "0 0 * * *",
        "hourly" => "0 * * * *",
        _ => {
            let seconds = go_duration(word.strip_prefix("every ")?)?;
            // Shorter ones are a second, and fractions do not count.
            let whole = SignedDuration::from_secs((seconds as i64).max(1));
            return Some(Times::Every(whole));
        }
    };
    clock(written_out)
}

/// Seconds of a duration as Go writes it: `1h30m`, `1.5h`, `-5m`.
fn go_duration(text: &str) -> Option<f64> {
    let (sign, mut rest) = match text.as_bytes().first()? {
        b'-' => (-1.0, &text[1..]),
        b'+' => (1.0, &text[1..]),
        _ => (1.0, text),
    };
    if rest == "0" {
        return Some(0.0);
    }
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(digits);
        let end = tail.find(|c: char| c.is_ascii_digit() || c == '.');
        let (unit, tail) = tail.split_at(end.unwrap_or(tail.len()));
        let scale = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" | "μs" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        seconds += number.parse::<f64>().ok()? * scale;
        rest = tail;
    }
    (!text.is_empty()).then_some(sign * seconds)
}

fn clock(text: &str) -> Option<Times> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [minute, hour, day, month, weekday] = words[..] else {
        return None;
    };
    Some(Times::Clock([
        field(minute, 0, 59, &[])?,
        field(hour, 0, 23, &[])?,
        field(day, 1, 31, &[])?,
        field(month, 1, 12, &MONTHS)?,
        field(weekday, 0, 6, &DAYS)?,
    ]))
}

fn field(text: &str, min: u8, max: u8, names: &[&str]) -> Option<Field> {
    let mut field = Field {
        values: Vec::new(),
        star: false,
    };
    for item in text.split(',').filter(|item| !item.is_empty()) {
        let mut parts = item.split('/');
        let (range, step) = (parts.next()?, parts.next());
        if parts.next().is_some() {
            return None;
        }
        let step_by: u32 = match step {
            Some(step) => number(step)?,
            None => 1,
        };
        let mut ends = range.split('-');
        let low = ends.next()?;
        let all = matches!(low, "*" | "?");
        let (from, to) = if all {
            (min, max)
        } else {
            let from = value(low, min, names)?;
            let to = match ends.next() {
                Some(high) => value(high, min, names)?,
                None if step.is_some() => max,
                None => from,
            };
            (from, to)
        };
        if step_by == 0 || from < min || to > max || from > to || !all && ends.next().is_some() {
            return None;
        }
        field.star |= all && step_by == 1;
        let fits = |value: &u8| u32::from(value - from).is_multiple_of(step_by);
        field.values.extend((from..=to).filter(fits));
    }
    Some(field)
}

/// A number, or a name, of which the first has the least value.
fn value(text: &str, min: u8, names: &[&str]) -> Option<u8> {
    match names
        .iter()
        .position(|name| text.eq_ignore_ascii_case(name))
    {
        Some(place) => Some(min + place as u8),
        None => u8::try_from(number(text)?).ok(),
    }
}

fn number(text: &str) -> Option<u32> {
    let digits = text.strip_prefix('+').unwrap_or(text);
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(schedule: &str, zone: &str, from: &str, count: usize) -> Vec<String> {
        let schedule = Schedule::parse(schedule, zone).unwrap();
        let from: Timestamp = from.parse().unwrap();
        let until = from + SignedDuration::from_hours(24 * 40);
        let ticks = schedule.ticks(from, until).into_iter();
        ticks.take(count).map(|tick| tick.to_string()).collect()
    }

    const BASE: &str = "2026-01-01T00:00:00Z";

    #[test]
    fn the_times_of_a_schedule_are_those_of_kubernetes() {
        for (schedule, times) in [
            ("* * * * *", ["01-01T00:01", "01-01T00:02"]),
            ("5/15 * * * *", ["01-01T00:05", "01-01T00:20"]),
            ("*/35 * * * *", ["01-01T00:35", "01-01T01:00"]),
            ("59/2 * * * *", ["01-01T00:59", "01-01T01:59"]),
            ("*/100 * * * *", ["01-01T01:00", "01-01T02:00"]),
            ("1-5/2 * * * *", ["01-01T00:01", "01-01T00:03"]),
            ("*-7 * * * *", ["01-01T00:01", "01-01T00:02"]),
            ("1,,2 * * * *", ["01-01T00:01", "01-01T00:02"]),
            ("+5 * * * *", ["01-01T00:05", "01-01T01:05"]),
            ("0 0 * * SUN", ["01-04T00:00", "01-11T00:00"]),
            ("0 0 * * Mon/2", ["01-02T00:00", "01-05T00:00"]),
            ("0 0 13 * 5", ["01-02T00:00", "01-09T00:00"]),
            ("0 0 */10 * 0", ["01-04T00:00", "01-11T00:00"]),
            ("0 0 1,15 * ?/1", ["01-15T00:00", "02-01T00:00"]),
            ("0 0 */1 * MON", ["01-05T00:00", "01-12T00:00"]),
            ("@midnight", ["01-02T00:00", "01-03T00:00"]),
        ] {
            let times = times.map(|time| format!("2026-{time}:00Z"));
            assert_eq!(next(schedule, "", BASE, 2), times, "{schedule}");
        }
        for never in [", * * * *", "59 23 31 2 *"] {
            assert_eq!(next(never, "", BASE, 2), [""; 0], "{never}");
        }
    }

    #[test]
    fn what_kubernetes_does_not_read_is_not_read() {
        for wrong in [
            "0 0 * * 7",
            "0 0 * * FRI-MON",
            "0 0 1 January *",
            "MON * * * *",
            "60 * * * *",
            "* * 0 * *",
            "*/0 * * * *",
            "*/-1 * * * *",
            "5-1 * * * *",
            "1--5 * * * *",
            "1-5-7 * * * *",
            "1/2/3 * * * *",
            "* * * *",
            "* * * * * *",
            " @daily",
            "@daily ",
            "@Daily",
            "@reboot",
            "@every 1d",
            "@every  5m",
            "@every 5",
            "TZ=UTC",
            "TZ=",
        ] {
            assert!(Schedule::parse(wrong, "").is_none(), "{wrong}");
        }
        assert!(Schedule::parse("* * * * *", "No/Where").is_none());
    }

    #[test]
    fn an_interval_counts_from_its_base() {
        assert_eq!(
            next("@every 1.5h", "", BASE, 2),
            ["2026-01-01T01:30:00Z", "2026-01-01T03:00:00Z"]
        );
        assert_eq!(next("@every -5m", "", BASE, 1), ["2026-01-01T00:00:01Z"]);
        let schedule = Schedule::parse("@every 90s", "").unwrap();
        let at = |text: &str| text.parse().unwrap();
        let bases = [at(BASE), at("2026-01-01T00:00:10Z")];
        assert!(schedule.matches(at("2026-01-01T00:01:40Z"), &bases));
        assert!(!schedule.matches(at("2026-01-01T00:01:40Z"), &bases[..1]));
        assert!(!schedule.matches(at(BASE), &bases));
    }

    #[test]
    fn a_zone_decides_which_wall_clock_is_read() {
        let new_york = "America/New_York";
        assert_eq!(
            next("30 2 * * *", new_york, "2026-03-07T17:00:00Z", 1),
            ["2026-03-09T06:30:00Z"]
        );
        assert_eq!(
            next("30 1 * * *", new_york, "2026-10-31T16:00:00Z", 3),
            [
                "2026-11-01T05:30:00Z",
                "2026-11-01T06:30:00Z",
                "2026-11-02T06:30:00Z"
            ]
        );
        assert_eq!(
            next("CRON_TZ=Asia/Tokyo  0 0 * * *", new_york, BASE, 1),
            ["2026-01-01T15:00:00Z"]
        );
    }

    #[test]
    fn a_wall_time_that_comes_twice_may_count_once() {
        let spec = serde_json::json!({
            "schedule": "30 1 * * *", "timeZone": "America/New_York", "dstPolicy": "Once",
        });
        let schedule = Schedule::of(&spec).unwrap();
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let ticks = schedule.ticks(at("2026-10-31T16:00:00Z"), at("2026-11-02T12:00:00Z"));
        assert_eq!(
            ticks,
            [at("2026-11-01T05:30:00Z"), at("2026-11-02T06:30:00Z")]
        );
    }
    #[test]
    fn wall_times_that_are_left_out_may_count_together() {
        let ticks = |policy: &str, schedule: &str| {
            let spec = serde_json::json!({
                "schedule": schedule, "timeZone": "Europe/Berlin", "dstPolicy": policy,
            });
            let at = |text: &str| text.parse::<Timestamp>().unwrap();
            let (from, until) = (at("2026-03-29T00:50:00Z"), at("2026-03-29T01:20:00Z"));
            let ticks = Schedule::of(&spec).unwrap().ticks(from, until);
            let minutes = ticks.iter().map(|tick| tick.to_string()[11..16].to_owned());
            minutes.collect::<Vec<_>>()
        };
        let left_out = "0,15,59 2 * * *";
        assert_eq!(ticks("AsWritten", left_out), [""; 0]);
        assert_eq!(ticks("Once", left_out), ["01:00"]);
        assert_eq!(ticks("Once", "*/15 2,3 * * *"), ["01:00", "01:15"]);
        assert_eq!(ticks("Once", "10 3 * * *"), ["01:10"]);
    }

    #[test]
    fn a_day_that_does_not_exist_never_comes() {
        let never = |text| {
            Schedule::parse(text, "")
                .unwrap()
                .never_fires(BASE.parse().unwrap())
        };
        for text in ["0 0 31 2 *", ", * * * *", "* , * * *"] {
            assert!(never(text), "{text}");
        }
        for text in ["0 0 29 2 *", "@yearly", "@every 1h", "0 0 31 * 1"] {
            assert!(!never(text), "{text}");
        }
    }
}
