//! The examples that the contract gives for the dialect, by their numbers.

use jiff::Timestamp;

use super::Schedule;

/// A Thursday.
const BASE: &str = "2026-01-01T00:00Z";

/// Number, schedules, strictly after, and what follows. Less than four: just the beginning.
type Case = (
    u32,
    &'static [&'static str],
    &'static str,
    &'static [&'static str],
);

#[rustfmt::skip]
const CASES: &[Case] = &[
    (1, &["* * * * *"], BASE, &["2026-01-01T00:01Z", "2026-01-01T00:02Z"]),
    (2, &["*/5 * * * *"], BASE, &["2026-01-01T00:05Z", "2026-01-01T00:10Z"]),
    (3, &["0/15 * * * *"], BASE, &["2026-01-01T00:15Z", "2026-01-01T00:30Z"]),
    (4, &["5/15 * * * *"], BASE, &["2026-01-01T00:05Z", "2026-01-01T00:20Z", "2026-01-01T00:35Z"]),
    (5, &["*/35 * * * *"], BASE, &["2026-01-01T00:35Z", "2026-01-01T01:00Z", "2026-01-01T01:35Z"]),
    (6, &["59/2 * * * *"], BASE, &["2026-01-01T00:59Z", "2026-01-01T01:59Z"]),
    (7, &["*/100 * * * *"], BASE, &["2026-01-01T01:00Z", "2026-01-01T02:00Z"]),
    (8, &["1-5/2 * * * *"], BASE, &["2026-01-01T00:01Z", "2026-01-01T00:03Z", "2026-01-01T00:05Z"]),
    (9, &["? ? ? ? ?"], BASE, &["2026-01-01T00:01Z"]),
    (10, &["*-7 * * * *"], BASE, &["2026-01-01T00:01Z", "2026-01-01T00:02Z"]),
    (11, &["1,,2 * * * *"], BASE, &["2026-01-01T00:01Z", "2026-01-01T00:02Z", "2026-01-01T01:01Z"]),
    (12, &[", * * * *"], BASE, &[]),
    (13, &["+5 * * * *"], BASE, &["2026-01-01T00:05Z"]),
    (13, &["05 07 * * *"], BASE, &["2026-01-01T07:05Z"]),
    (14, &["0 0 * * 0", "0 0 * * SUN"], BASE, &["2026-01-04T00:00Z", "2026-01-11T00:00Z"]),
    (15, &["0 0 * * sun-tue"], BASE, &["2026-01-04T00:00Z", "2026-01-05T00:00Z", "2026-01-06T00:00Z"]),
    (16, &["0 0 * * Mon/2"], BASE, &["2026-01-02T00:00Z", "2026-01-05T00:00Z", "2026-01-07T00:00Z"]),
    (18, &["0 0 13 * 5"], BASE, &["2026-01-02T00:00Z", "2026-01-09T00:00Z", "2026-01-13T00:00Z"]),
    (19, &["0 0 */10 * 0"], BASE, &["2026-01-04T00:00Z", "2026-01-11T00:00Z", "2026-01-18T00:00Z"]),
    (20, &["0 0 */2 * 0"], BASE, &["2026-01-03T00:00Z", "2026-01-04T00:00Z", "2026-01-05T00:00Z"]),
    (21, &["0 0 ?/2 * 1"], BASE, &["2026-01-03T00:00Z", "2026-01-05T00:00Z", "2026-01-07T00:00Z"]),
    (22, &["0 0 1,15 * ?/1"], BASE, &["2026-01-15T00:00Z", "2026-02-01T00:00Z", "2026-02-15T00:00Z"]),
    (23, &["0 0 */1 * MON"], "2026-01-30T00:00Z", &["2026-02-02T00:00Z", "2026-02-09T00:00Z"]),
    (24, &["0 0 1-31 * MON"], "2026-01-30T00:00Z", &["2026-01-31T00:00Z", "2026-02-01T00:00Z", "2026-02-02T00:00Z"]),
    (25, &["0 0 1-7 * MON"], "2026-01-30T00:00Z", &["2026-02-01T00:00Z", "2026-02-02T00:00Z", "2026-02-03T00:00Z", "2026-02-04T00:00Z"]),
    (26, &["0 0 1 JAN-dec/3 *"], BASE, &["2026-04-01T00:00Z", "2026-07-01T00:00Z", "2026-10-01T00:00Z"]),
    (27, &["0 0 * 1-mar 1"], BASE, &["2026-01-05T00:00Z", "2026-01-12T00:00Z"]),
    (29, &["0 0 29 2 *"], BASE, &["2028-02-29T00:00Z", "2032-02-29T00:00Z"]),
    (30, &["59 23 31 2 *", "0 0 31 4 ?"], BASE, &[]),
    (31, &["0 0 31 * *"], "2026-01-31T00:00Z", &["2026-03-31T00:00Z", "2026-05-31T00:00Z", "2026-07-31T00:00Z"]),
    (36, &["@weekly"], BASE, &["2026-01-04T00:00Z"]),
    (36, &["@monthly"], BASE, &["2026-02-01T00:00Z"]),
    (36, &["@yearly"], BASE, &["2027-01-01T00:00Z"]),
    (36, &["@midnight"], BASE, &["2026-01-02T00:00Z"]),
    (37, &["@every 90s"], BASE, &["2026-01-01T00:01:30Z"]),
    (37, &["@every 1.5h"], BASE, &["2026-01-01T01:30Z"]),
    (37, &["@every 1500ms", "@every -5m"], BASE, &["2026-01-01T00:00:01Z"]),
    (40, &["CRON_TZ=Asia/Tokyo  0 0 * * *"], BASE, &["2026-01-02T00:00+09"]),
    (41, &["TZ=Asia/Shanghai 0 10 * * ?"], "2022-09-05T09:01Z", &["2022-09-06T02:00Z"]),
    (42, &["TZ=America/New_York 30 2 * * *"], "2026-03-07T12:00-05", &["2026-03-09T02:30-04"]),
    (43, &["TZ=America/New_York 30 2 8 3 ?"], "2026-03-08T00:00-05", &["2027-03-08T02:30-05"]),
    (44, &["TZ=America/New_York 0 * * * *"], "2026-03-08T00:30-05", &["2026-03-08T01:00-05", "2026-03-08T03:00-04", "2026-03-08T04:00-04"]),
    (45, &["TZ=America/New_York 30 1 * * *"], "2026-10-31T12:00-04", &["2026-11-01T01:30-04", "2026-11-01T01:30-05", "2026-11-02T01:30-05"]),
    (46, &["TZ=America/New_York */30 * * * *"], "2026-11-01T00:45-04", &["2026-11-01T01:00-04", "2026-11-01T01:30-04", "2026-11-01T01:00-05", "2026-11-01T01:30-05", "2026-11-01T02:00-05"]),
    (47, &["TZ=America/New_York 30 0 1 11 *"], "2026-11-01T01:10-05", &["2027-11-01T00:30-04"]),
    (48, &["TZ=Europe/London 30 1 * * *"], "2026-03-28T12:00Z", &["2026-03-30T01:30+01"]),
    (49, &["TZ=Europe/Berlin 30 2 * * *"], "2026-10-24T12:00+02", &["2026-10-25T02:30+02", "2026-10-25T02:30+01", "2026-10-26T02:30+01"]),
    (50, &["TZ=America/Sao_Paulo 0 0 * * *"], "2018-11-03T12:00-03", &["2018-11-05T00:00-02"]),
    (51, &["TZ=America/Sao_Paulo 0 9 10 * ?"], "2018-10-17T05:00-04", &["2018-11-10T09:00-02"]),
    (52, &["30 6-16/4 * * 1-5"], "2016-05-19T10:30Z", &["2016-05-19T14:30Z", "2016-05-20T06:30Z", "2016-05-20T10:30Z"]),
    (53, &["TZ=Asia/Kolkata 0 9 * * *"], BASE, &["2026-01-01T09:00+05:30"]),
    (54, &["TZ=Africa/Cairo 0 0 * * *"], "2026-04-23T12:00+02", &["2026-04-25T00:00+03"]),
];

#[rustfmt::skip]
const REFUSED: &[(u32, &[&str])] = &[
    (17, &["0 0 * * 7", "0 0 * * 5-7", "0 0 * * FRI-MON"]),
    (28, &["0 0 1 January *", "MON * * * *"]),
    (32, &["60 * * * *", "* 24 * * *", "* * 0 * *", "* * 32 * *", "* * * 0 *", "* * * 13 *"]),
    (33, &["*/0 * * * *", "*/-1 * * * *", "5-1 * * * *", "1--5 * * * *", "1-5-7 * * * *", "1/2/3 * * * *"]),
    (34, &["* * * *", "* * * * * *", "0 0 0 1 1 ? 2030"]),
    (35, &[" @daily", "@daily ", "@Daily", "@reboot"]),
    (38, &["@every 1d", "@every  5m", "@every 5"]),
    (39, &["TZ=UTC", "TZ=0", "CRON_TZ=UTC", "TZ="]),
];

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

#[test]
fn the_examples_of_the_contract_hold() {
    for (number, specs, from, expected) in CASES {
        for spec in *specs {
            let schedule = Schedule::parse(spec).unwrap();
            let mut last = at(from);
            for next in *expected {
                assert_eq!(schedule.next(last), Some(at(next)), "{number}: {spec}");
                last = at(next);
            }
            if expected.is_empty() {
                assert_eq!(schedule.next(last), None, "{number}: {spec}");
                assert!(schedule.never_fires(), "{number}: {spec}");
            }
        }
    }
    for (number, specs) in REFUSED {
        for spec in *specs {
            assert!(Schedule::parse(spec).is_err(), "{number}: {spec}");
        }
    }
    let cases = CASES.iter().map(|case| case.0);
    let numbers = cases.chain(REFUSED.iter().map(|refused| refused.0));
    let numbers: std::collections::BTreeSet<u32> = numbers.collect();
    assert_eq!(numbers, (1..=54).collect());
}

#[test]
fn the_search_goes_on_after_the_fifth_year() {
    let leap_day = Schedule::parse("0 0 29 2 *").unwrap();
    let next = Some(at("2104-02-29T00:00Z"));
    for from in [
        "2096-02-29T00:00Z",
        "2096-03-01T00:00Z",
        "2099-01-01T00:00Z",
    ] {
        assert_eq!(leap_day.next(at(from)), next, "{from}");
    }
    assert!(!leap_day.never_fires());
}

#[test]
fn a_fraction_of_a_second_is_cut_from_the_start() {
    let minutely = Schedule::parse("* * * * *").unwrap();
    let start = at("2026-01-01T00:00:59.999Z");
    assert_eq!(minutely.next(start), Some(at("2026-01-01T00:01Z")));
    let every = Schedule::parse("@every 90s").unwrap();
    assert_eq!(every.next(start), Some(at("2026-01-01T00:02:29Z")));
    let early = at("1969-12-31T23:59:58.5Z");
    assert_eq!(every.next(early), Some(at("1970-01-01T00:01:28Z")));
    assert_eq!(minutely.count(early, at("1970-01-01T00:00:00.5Z"), 9), 1);
}

#[test]
fn a_zone_in_the_text_goes_before_any_other() {
    let berlin = super::zone::load("Europe/Berlin").unwrap();
    let daily = Schedule::parse("@daily").unwrap().in_zone(berlin.clone());
    assert_eq!(daily.next(at(BASE)), Some(at("2026-01-02T00:00+01")));
    assert_eq!(daily.zone(), &berlin);
    assert!(!daily.has_inline_zone());
    let daily = Schedule::parse("TZ=Asia/Tokyo @daily").unwrap();
    let daily = daily.in_zone(berlin);
    assert_eq!(daily.next(at(BASE)), Some(at("2026-01-02T00:00+09")));
    assert_eq!(daily.zone().iana_name(), Some("Asia/Tokyo"));
    assert!(daily.has_inline_zone());
}

#[test]
fn once_per_wall_clock_neither_repeats_nor_loses_a_time() {
    let ticks = |spec: &str, from: &str, until: &str| {
        let schedule = Schedule::parse(spec).unwrap().once_per_wall_clock();
        schedule.oldest(at(from), at(until), 100)
    };
    // Set back at 02:00-04.
    let half_hours = ticks(
        "TZ=America/New_York */30 * * * *",
        "2026-11-01T00:45-04",
        "2026-11-01T02:15-05",
    );
    let expected = ["01:00-04", "01:30-04", "02:00-05"];
    assert_eq!(
        half_hours,
        expected.map(|time| at(&format!("2026-11-01T{time}")))
    );
    // Set forward at 02:00-05: three are left out and make one, the next is as written.
    let quarters = ticks(
        "TZ=America/New_York 5,20,35 2-3 * * *",
        "2026-03-08T01:00-05",
        "2026-03-08T03:10-04",
    );
    let expected = ["03:00-04", "03:05-04"];
    assert_eq!(
        quarters,
        expected.map(|time| at(&format!("2026-03-08T{time}")))
    );
    // A midnight that is not there.
    let midnight = ticks(
        "TZ=Africa/Cairo 0 0 * * *",
        "2026-04-23T12:00+02",
        "2026-04-25T12:00+03",
    );
    assert_eq!(
        midnight,
        ["2026-04-24T01:00+03", "2026-04-25T00:00+03"].map(at)
    );
    // A whole day that is not there.
    let day = ticks(
        "TZ=Pacific/Apia 0 9,15 * * *",
        "2011-12-29T14:00-10",
        "2011-12-31T10:00+14",
    );
    assert_eq!(
        day,
        [
            "2011-12-29T15:00-10",
            "2011-12-31T00:00+14",
            "2011-12-31T09:00+14"
        ]
        .map(at)
    );
}
