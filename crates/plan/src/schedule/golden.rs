//! Agreement with robfig/cron itself, over thousands of schedules. `cargo xtask golden` asks it.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use serde::Deserialize;

use super::brute_force::{self, instant};
use super::{Rhythm, Schedule, zone};

const GOLDEN: &str = include_str!("golden.jsonl");

/// No further time.
const NONE: i64 = 0;
/// robfig never comes back.
const STUCK: i64 = -1;

/// Where robfig is known to be wrong, as docs/decisions/0016 explains one by one.
const DEFECTS: [&str; 20] = [
    "Africa/Cairo",
    "Africa/Casablanca",
    "America/Asuncion",
    "America/Caracas",
    "America/Santiago",
    "America/Sao_Paulo",
    "America/Scoresbysund",
    "America/St_Johns",
    "Antarctica/Casey",
    "Antarctica/Troll",
    "Asia/Amman",
    "Asia/Beirut",
    "Asia/Damascus",
    "Asia/Gaza",
    "Asia/Pyongyang",
    "Asia/Tehran",
    "Atlantic/Azores",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Pacific/Chatham",
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    spec: String,
    #[serde(default)]
    zone: String,
    #[serde(default)]
    error: bool,
    /// Each a start and what follows.
    #[serde(default)]
    runs: Vec<Vec<i64>>,
}

/// The file of a zone, in hex.
#[derive(Deserialize)]
struct Rules {
    zone: String,
    tzif: String,
}

#[derive(Deserialize)]
struct Names {
    zones: Vec<String>,
}

fn rows() -> impl Iterator<Item = Row> {
    let lines = GOLDEN.lines().filter(|line| line.starts_with(r#"{"spec""#));
    lines.map(|line| serde_json::from_str(line).unwrap())
}

/// The zones by the rules that robfig had, whatever has been decided since.
fn zones() -> BTreeMap<String, TimeZone> {
    let lines = GOLDEN
        .lines()
        .filter(|line| line.starts_with(r#"{"zone":"#));
    let mut zones: BTreeMap<String, TimeZone> = lines
        .map(|line| {
            let Rules { zone, tzif } = serde_json::from_str(line).unwrap();
            let digits = tzif.as_bytes().chunks(2);
            let bytes =
                digits.map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap());
            let rules = TimeZone::tzif(&zone, &bytes.collect::<Vec<u8>>()).unwrap();
            (zone, rules)
        })
        .collect();
    zones.insert(String::new(), TimeZone::UTC);
    zones
}

/// What follows, in the form of a run. Robfig gives up after the fifth year that follows.
fn ours(schedule: &Schedule, from: i64) -> Vec<i64> {
    let every = matches!(schedule.rhythm, Rhythm::Every(_));
    let year = |at: Timestamp| at.to_zoned(schedule.zone().clone()).year();
    let mut run = vec![from];
    while run.len() < 5 && run.last() != Some(&NONE) {
        let last = instant(*run.last().unwrap());
        let next = schedule.next(last);
        let next = next.filter(|next| every || year(*next) <= year(last) + 5);
        run.push(next.map_or(NONE, Timestamp::as_second));
    }
    run
}

/// Whether looking at the clock every minute gives this run.
fn defined(spec: &str, zone: &TimeZone, run: &[i64]) -> bool {
    let fields = brute_force::fields(spec).unwrap();
    let (from, ticks) = run.split_first().unwrap();
    let end = *ticks.last().unwrap();
    end != NONE && brute_force::as_written(&fields, zone, *from, end) == ticks
}

#[test]
fn robfig_agrees_but_for_its_own_defects() {
    let mut agreed = 0;
    let mut refused = 0;
    let mut defects: BTreeMap<String, usize> = BTreeMap::new();
    let mut wrong = Vec::new();
    let zones = zones();
    for row in rows() {
        let parsed = Schedule::parse(&row.spec);
        if row.error || parsed.is_err() {
            assert_eq!(parsed.is_err(), row.error, "{:?}: {parsed:?}", row.spec);
            refused += 1;
            continue;
        }
        let zone = &zones[&row.zone];
        let schedule = parsed.unwrap().in_zone(zone.clone());
        for run in &row.runs {
            let ours = ours(&schedule, run[0]);
            if ours == *run {
                agreed += 1;
            } else if DEFECTS.contains(&row.zone.as_str()) && defined(&row.spec, zone, &ours) {
                *defects.entry(row.zone.clone()).or_default() += 1;
            } else {
                let defined = defined(&row.spec, zone, &ours);
                wrong.push(format!(
                    "{:?} in {:?}: robfig {run:?}, ours {ours:?} {defined}",
                    row.spec, row.zone
                ));
            }
        }
    }
    println!("agreed: {agreed}; refused by both: {refused}; robfig's defects: {defects:?}");
    assert!(wrong.is_empty(), "{}: {wrong:#?}", wrong.len());
    assert!(agreed >= 2000 && refused >= 500);
    let seen: BTreeSet<&str> = defects.keys().map(String::as_str).collect();
    assert_eq!(seen, BTreeSet::from(DEFECTS), "a defect that no run shows");
    let stuck = rows().filter(|row| row.runs.iter().any(|run| run.ends_with(&[STUCK])));
    assert!(stuck.count() > 0, "no run shows robfig searching for ever");
}

#[test]
fn every_zone_that_go_knows_is_known_under_that_name() {
    let Names { zones } = serde_json::from_str(GOLDEN.lines().next().unwrap()).unwrap();
    assert!(zones.len() > 590, "{}", zones.len());
    for name in zones {
        let zone = zone::load(&name).unwrap();
        assert_eq!(zone.iana_name(), Some(name.as_str()));
        // Also where the system has none.
        let zone = TimeZoneDatabase::bundled().get(&name).unwrap();
        assert_eq!(zone.iana_name(), Some(name.as_str()));
    }
}
