//! What must hold for every schedule, tried on many.

use fastrand::Rng;
use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};

use super::brute_force::{self, instant};
use super::{Schedule, zone};

const DAY: i64 = 86_400;
/// 2000 and 2040.
const YEARS: std::ops::Range<i64> = 946_684_800..2_208_988_800;

/// Clocks that are changed in all the ways there are.
const ZONES: [&str; 12] = [
    "UTC",
    "Africa/Cairo",
    "Africa/Casablanca",
    "America/Havana",
    "America/New_York",
    "America/St_Johns",
    "Antarctica/Casey",
    "Antarctica/Troll",
    "Asia/Tehran",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Pacific/Chatham",
];

fn spec(rng: &mut Rng) -> String {
    let mut field = |low: u32, high: u32, stars: u32| {
        if rng.u32(0..10) < stars {
            return "*".to_owned();
        }
        let start = rng.u32(low..=high);
        let end = rng.u32(start..=high);
        match rng.u32(0..5) {
            0 => format!("{start}-{end}"),
            1 => format!("*/{}", rng.u32(1..=high)),
            2 => format!("{start}-{end}/{},{start}", rng.u32(1..=high)),
            3 => format!("{start},{end}"),
            _ => format!("{start}"),
        }
    };
    [
        field(0, 59, 2),
        field(0, 23, 4),
        field(1, 31, 6),
        field(1, 12, 7),
        field(0, 6, 6),
    ]
    .join(" ")
}

/// Half of them close to a change of the clock.
fn start(rng: &mut Rng, zone: &TimeZone) -> i64 {
    let any = rng.i64(YEARS);
    match zone.following(instant(any)).next() {
        Some(change) if rng.bool() => change.timestamp().as_second() + rng.i64(-DAY..DAY),
        _ => any,
    }
}

#[test]
fn ticks_are_what_the_clock_shows() {
    let mut rng = Rng::with_seed(1);
    for _ in 0..300 {
        let spec = spec(&mut rng);
        let zone = zone::load(rng.choice(ZONES).unwrap()).unwrap();
        let after = start(&mut rng, &zone);
        let until = after + rng.i64(0..3 * DAY);
        let fields = brute_force::fields(&spec).unwrap();
        let schedule = Schedule::parse(&spec).unwrap().in_zone(zone.clone());
        let (from, to) = (instant(after), instant(until));
        let expected = brute_force::as_written(&fields, &zone, after, until);
        let found = seconds(&schedule.oldest(from, to, usize::MAX));
        assert_eq!(found, expected, "{spec} in {zone:?} after {from}");
        let schedule = schedule.once_per_wall_clock();
        let expected = brute_force::once(&fields, &zone, after, until);
        let found = seconds(&schedule.oldest(from, to, usize::MAX));
        assert_eq!(found, expected, "once: {spec} in {zone:?} after {from}");
    }
}

fn seconds(ticks: &[Timestamp]) -> Vec<i64> {
    ticks.iter().map(|tick| tick.as_second()).collect()
}

#[test]
fn ticks_only_go_forward() {
    let mut rng = Rng::with_seed(2);
    for _ in 0..300 {
        let spec = spec(&mut rng);
        let zone = zone::load(rng.choice(ZONES).unwrap()).unwrap();
        let mut last = instant(start(&mut rng, &zone));
        let mut schedule = Schedule::parse(&spec).unwrap().in_zone(zone);
        if rng.bool() {
            schedule = schedule.once_per_wall_clock();
        }
        assert!(
            !schedule.never_fires() || schedule.next(last).is_none(),
            "{spec}"
        );
        for _ in 0..20 {
            let Some(next) = schedule.next(last) else {
                break;
            };
            assert!(last < next && next.subsec_nanosecond() == 0, "{spec}");
            last = next;
        }
    }
}

#[test]
fn latest_count_and_oldest_are_what_going_from_tick_to_tick_gives() {
    let mut rng = Rng::with_seed(3);
    for _ in 0..300 {
        let spec = match rng.u32(0..8) {
            0 => format!("@every {}s", rng.u32(0..100_000)),
            1 => "0 0 29 2 *".to_owned(),
            2 => format!("@every {}s", rng.u32(0..100)),
            _ => spec(&mut rng),
        };
        let zone = zone::load(rng.choice(ZONES).unwrap()).unwrap();
        let after = instant(start(&mut rng, &zone));
        let mut schedule = Schedule::parse(&spec).unwrap().in_zone(zone);
        if rng.bool() {
            schedule = schedule.once_per_wall_clock();
        }
        let mut ticks = Vec::new();
        let mut last = after;
        while let Some(next) = schedule.next(last).filter(|_| ticks.len() < 300) {
            if next.as_second() > 2 * YEARS.end {
                break;
            }
            ticks.push(next);
            last = next;
        }
        let latest_end = last.as_second().max(after.as_second() + 1);
        for _ in 0..4 {
            let until = instant(rng.i64(after.as_second() - 9..latest_end));
            let passed = ticks.iter().take_while(|&&tick| tick <= until).count();
            let latest = ticks[..passed].last().copied();
            assert_eq!(
                schedule.latest(after, until),
                latest,
                "{spec} after {after} until {until}"
            );
            let limit = rng.u64(0..600);
            assert_eq!(
                schedule.count(after, until, limit),
                limit.min(passed as u64),
                "{spec}"
            );
            let n = rng.usize(0..10);
            let oldest = schedule.oldest(after, until, n);
            assert_eq!(oldest, ticks[..passed.min(n)], "{spec}");
            let mut runs = ticks[..passed].to_vec();
            runs.dedup_by_key(|tick| tick.as_second().div_euclid(60));
            runs.truncate(n);
            assert_eq!(schedule.oldest_runs(after, until, n), runs, "{spec}");
        }
    }
}

#[test]
fn the_latest_of_a_century_of_minutes_is_found_at_once() {
    let at = |text: &str| text.parse::<Timestamp>().unwrap();
    let (begin, end) = (at("1970-01-01T00:00Z"), at("2070-07-01T00:00:30Z"));
    for (spec, latest) in [
        ("* * * * *", Some("2070-07-01T00:00Z")),
        ("* * 1 1 *", Some("2070-01-01T23:59Z")),
        ("@every 7s", Some("2070-07-01T00:00:26Z")),
        ("0 0 29 2 *", Some("2068-02-29T00:00Z")),
        ("0 0 30 2 *", None),
    ] {
        let schedule = Schedule::parse(spec).unwrap();
        assert_eq!(schedule.latest(begin, end), latest.map(at), "{spec}");
        assert_eq!(schedule.latest(end, begin), None);
        assert_eq!(schedule.latest(end, end), None);
    }
}

#[test]
fn latest_jumps_every_hole_that_next_jumps() {
    let at = |text: &str| text.parse::<Timestamp>().unwrap();
    let leap_day = Schedule::parse("0 0 29 2 *").unwrap();
    for (until, expected) in [("2104-02-28", "2096-02-29"), ("2200-01-01", "2196-02-29")] {
        let until = at(&format!("{until}T00:00Z"));
        let latest = leap_day.latest(at("2080-01-01T00:00Z"), until);
        assert_eq!(latest, Some(at(&format!("{expected}T00:00Z"))));
    }
    // Clocks in Iraq left this time out on the first of April, for seventeen years.
    let baghdad = Schedule::parse("TZ=Asia/Baghdad 30 3 1 4 *").unwrap();
    let latest = baghdad.latest(at("1985-01-01T00:00Z"), at("2008-03-31T00:00Z"));
    assert_eq!(latest, Some(at("1990-04-01T03:30+04")));
    let next = baghdad.next(at("1990-04-01T03:30+04"));
    assert_eq!(next, Some(at("2008-04-01T03:30+03")));
    let latest = baghdad.latest(at("1985-01-01T00:00Z"), at("2020-01-01T00:00Z"));
    assert_eq!(latest, Some(at("2019-04-01T03:30+03")));
}

#[test]
fn the_ends_of_time_are_no_trouble() {
    for spec in ["* * * * *", "0 0 29 2 *", "@every 2562047h", "@every 1s"] {
        let schedule = Schedule::parse(spec).unwrap();
        let berlin = zone::load("Europe/Berlin").unwrap();
        for schedule in [
            schedule.clone(),
            schedule.in_zone(berlin).once_per_wall_clock(),
        ] {
            assert_eq!(schedule.next(Timestamp::MAX), None, "{spec}");
            assert!(schedule.next(Timestamp::MIN).is_some(), "{spec}");
            assert!(schedule.latest(Timestamp::MIN, Timestamp::MAX).is_some());
            assert_eq!(schedule.count(Timestamp::MIN, Timestamp::MAX, 5), 5);
            assert_eq!(schedule.oldest(Timestamp::MIN, Timestamp::MAX, 5).len(), 5);
        }
    }
}

#[test]
fn no_text_makes_the_parser_panic() {
    let mut rng = Rng::with_seed(4);
    let mut read = 0;
    for round in 0..20_000 {
        let mut bytes = match round % 3 {
            0 => (0..rng.usize(0..40)).map(|_| rng.u8(..)).collect(),
            1 => format!("TZ=Asia/Tokyo {}", spec(&mut rng)).into_bytes(),
            _ => format!("@every {}h{}.{}ms", rng.i32(..), rng.u64(..), rng.u64(..)).into_bytes(),
        };
        for _ in 0..rng.usize(0..3) {
            let at = rng.usize(0..=bytes.len());
            match rng.choice(b"*/-,@ =0972LTZ.s\xc2\xb5\x80".iter()) {
                Some(&byte) if at == bytes.len() || rng.bool() => bytes.insert(at, byte),
                _ => _ = bytes.remove(at.min(bytes.len() - 1)),
            }
        }
        match Schedule::parse(&String::from_utf8_lossy(&bytes)) {
            Ok(schedule) => {
                read += 1;
                let _ = schedule.next(instant(YEARS.start));
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    assert!(read > 1000, "{read}");
}

/// What `once_per_wall_clock` takes for granted: one change has no part in the next one.
#[test]
fn no_clock_is_changed_twice_within_two_days() {
    let bundled = TimeZoneDatabase::bundled();
    for name in bundled.available() {
        let zone = bundled.get(name.as_str()).unwrap();
        let changes = zone.following(instant(0));
        let changes = changes.map(|change| change.timestamp().as_second());
        let changes: Vec<i64> = changes.take_while(|&at| at < YEARS.end).collect();
        for pair in changes.windows(2) {
            assert!(pair[1] - pair[0] > 2 * DAY, "{}: {pair:?}", name.as_str());
        }
    }
}
