//! Schedules: ours and the native ones are the same.

use serde_json::{Value, json};

use super::{NATIVE, OURS, cron_job, not_refused, try_create, with};

/// What Kubernetes reads as a schedule, odd as it may be.
#[rustfmt::skip]
const ACCEPTED: &[&str] = &[
    "* * * * *", "*/5 * * * *", "0/15 * * * *", "5/15 * * * *", "*/35 * * * *", "59/2 * * * *", "1-5/2 * * * *",
    "30 6-16/4 * * 1-5", "0 9 10 * ?", "30 10,11,12 * * 1-5",
    // Steps have no upper bound.
    "*/100 * * * *", "*/99999999 * * * *", "*/+2 * * * *", "*/007 * * * *",
    // A star is a star whatever follows it, and a question mark is one, in each field.
    "? ? ? ? ?", "*-7 * * * *", "* ?-99 * * *", "* * *-x * *", "* * * *-*/2 *", "* * * * *--1-2/3", "*-/2 * * * *",
    // Empty items are none.
    "1,,2 * * * *", ", * * * *", ",,, , , , ,", ",5 * * * *", "5, * * * *", "* * * * 0,",
    // Signs and leading zeros.
    "+5 * * * *", "05 07 * * *", "0000000005 * * * *", "+005-+0010 * * * *", "00 00 01 01 00",
    // Names, in any case, mixed with numbers.
    "0 0 * * SUN", "0 0 * * sun-tue", "0 0 * * Mon/2", "0 0 * * mOn-FRI", "0 0 1 JAN-dec/3 *", "0 0 * 1-mar 1",
    "0 0 * feb-12 *", "0 0 * * 0-sat", "0 0 * * tue-6", "0 0 * dec,jan,5 sun,3", "0 0 * may-may *",
    // Bounds.
    "0 0 1 1 0", "59 23 31 12 6", "0-59 0-23 1-31 1-12 0-6", "5-5 * * * *", "09-10 * * * *", "9-10,19-20 * * * *",
    // Both days.
    "0 0 13 * 5", "0 0 */10 * 0", "0 0 ?/2 * 1", "0 0 1,15 * ?/1", "0 0 */1 * MON", "0 0 1-31 * MON", "0 0 1-7 * MON",
    // Days that come rarely or never.
    "0 0 29 2 *", "59 23 31 2 *", "0 0 31 4 ?", "0 0 31 * *",
    // White space is Unicode's.
    "  *   *\t* *\n* ", "*\u{a0}*\u{2003}*\u{3000}*\u{85}*", "\u{2028}* *\u{b}*\u{c}* *\u{1680}",
    "@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly",
    "@every 90s", "@every 1.5h", "@every 1500ms", "@every -5m", "@every +1h2m3s", "@every 0", "@every .5s", "@every 1.s",
    "@every 3us", "@every 3µs", "@every 3μs", "@every 1h1h", "@every 100ns",
];

/// What it does not, with our words.
#[rustfmt::skip]
const REFUSED: &[(&str, &str)] = &[
    ("0 0 * * 7", "spec.schedule: Invalid value: \"0 0 * * 7\": the day of week must be 0 to 6 or sun to sat; Sunday is 0, not 7"),
    ("0 0 * * 5-7", "the day of week must be 0 to 6"),
    ("0 0 * * FRI-MON", "has a range that runs backwards: write it as two, e.g. fri-sat,sun-mon in place of fri-mon"),
    ("0 0 * * fri-1", "has a range that runs backwards"),
    ("0 0 * * 1,6-mon", "has a range that runs backwards"),
    ("0 0 * dec-jan/2 *", "has a range that runs backwards"),
    ("0 0 * dec-011 *", "has a range that runs backwards"),
    ("0 0 * 10-feb *", "has a range that runs backwards"),
    ("5-1 * * * *", "has a range that runs backwards"),
    ("10-9 * * * *", "has a range that runs backwards"),
    ("* +023-0022 * * *", "has a range that runs backwards"),
    ("*-3,31-29 * * * *", "has a range that runs backwards"),
    ("0 0 1 January *", "the month must be 1 to 12 or jan to dec: a *, numbers, ranges such as 1-5 and steps such as */2"),
    ("MON * * * *", "the minute must be 0 to 59"),
    ("0 0 * mon *", "the month must be 1 to 12"),
    ("0 0 * * jan", "the day of week must be 0 to 6"),
    ("0 0 L * *", "the day of month must be 1 to 31"),
    ("0 0 * * 5#2", "the day of week must be 0 to 6"),
    ("60 * * * *", "the minute must be 0 to 59"),
    ("* 24 * * *", "the hour must be 0 to 23"),
    ("* * 0 * *", "the day of month must be 1 to 31"),
    ("* * 32 * *", "the day of month must be 1 to 31"),
    ("* * * 0 *", "the month must be 1 to 12"),
    ("* * * 13 *", "the month must be 1 to 12"),
    ("*/0 * * * *", "steps such as */2 (1 or more)"),
    ("*/+00 * * * *", "steps such as */2 (1 or more)"),
    ("*/-1 * * * *", "the minute must be 0 to 59"),
    ("*/mon * * * *", "the minute must be 0 to 59"),
    ("*/ * * * *", "the minute must be 0 to 59"),
    ("1--5 * * * *", "the minute must be 0 to 59"),
    ("-5 * * * *", "the minute must be 0 to 59"),
    ("1-5-7 * * * *", "the minute must be 0 to 59"),
    ("1-* * * * *", "the minute must be 0 to 59"),
    ("1/2/3 * * * *", "the minute must be 0 to 59"),
    ("** * * * *", "the minute must be 0 to 59"),
    ("*5 * * * *", "the minute must be 0 to 59"),
    ("1.5 * * * *", "the minute must be 0 to 59"),
    ("5;6 * * * *", "the minute must be 0 to 59"),
    ("  99 * * * *", "the minute must be 0 to 59"),
    ("1\u{200b} * * * *", "the minute must be 0 to 59"),
    ("\u{661} * * * *", "the minute must be 0 to 59"),
    ("* * * *", "must have five fields (minute, hour, day of month, month, day of week), e.g. \"30 2 * * mon-fri\""),
    ("* * * * * *", "must have five fields"),
    ("0 0 0 1 1 ? 2030", "must have five fields"),
    (" ", "must have five fields"),
    (" @daily", "must have five fields"),
    ("daily", "must have five fields"),
    ("@daily ", "must be one of @yearly, @annually, @monthly, @weekly, @daily, @midnight and @hourly, in lower case"),
    ("@Daily", "must be one of @yearly"),
    ("@reboot", "there is no @reboot"),
    ("@", "must be one of @yearly"),
    ("@every", "or @every with a duration in h, m and s, e.g. @every 1h30m"),
    ("@every ", "or @every with a duration"),
    ("@every 1d", "or @every with a duration"),
    ("@every  5m", "or @every with a duration"),
    ("@every 5", "or @every with a duration"),
    ("@every .s", "or @every with a duration"),
    ("@every 5m ", "or @every with a duration"),
    ("TZ=UTC", "must have five fields"),
    ("TZ=Asia/Tokyo 0 10 * * *", "spec.schedule: Forbidden: cannot use TZ or CRON_TZ in schedule: use the timeZone field instead"),
    ("CRON_TZ=Asia/Tokyo 0 10 * * *", "cannot use TZ or CRON_TZ in schedule"),
    ("TZ=UTC @daily", "cannot use TZ or CRON_TZ in schedule"),
    ("TZ=0", "cannot use TZ or CRON_TZ in schedule"),
    ("0 10 * * TZ", "cannot use TZ or CRON_TZ in schedule"),
];

fn with_schedule(api_version: &str, schedule: &str) -> Value {
    with(
        cron_job(api_version, "x"),
        "/spec/schedule",
        json!(schedule),
    )
}

#[test]
fn each_schedule_that_batch_v1_accepts_is_accepted() {
    for api_version in [OURS, NATIVE] {
        super::each_is_accepted(ACCEPTED.iter().map(|schedule| {
            (
                format!("{api_version} {schedule:?}"),
                with_schedule(api_version, schedule),
            )
        }));
    }
}

#[test]
fn each_refused_schedule_is_refused_with_what_to_write() {
    let mut wrong = Vec::new();
    for (schedule, words) in REFUSED {
        if let Some(complaint) = not_refused(&with_schedule(OURS, schedule), words) {
            wrong.push(format!("{schedule:?}: {complaint}"));
        }
        if try_create(&with_schedule(NATIVE, schedule)).is_ok() {
            wrong.push(format!("{schedule:?}: batch/v1 accepts it"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Numbers that only arithmetic could compare with their bound. The operator says so in the status.
#[test]
fn a_schedule_with_a_number_too_large_for_any_integer_is_left_to_the_operator() {
    for schedule in ["*/99999999999999999999 * * * *", "@every 9999999999h"] {
        try_create(&with_schedule(OURS, schedule)).unwrap();
        try_create(&with_schedule(NATIVE, schedule)).unwrap_err();
    }
}

/// Every pair of numbers and names: which ranges run backwards is written out in the CRD.
#[test]
fn ranges_run_forwards_or_are_refused() {
    let names = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
    let months = [
        "", "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ];
    let words = |place: usize, names: &[&str]| {
        let mut words = vec![place.to_string()];
        words.extend(names.get(place).map(|name| (*name).to_owned()));
        words
    };
    let mut wrong = Vec::new();
    for (field, first, last, names) in [
        (0, 0, 59, &[][..]),
        (3, 1, 12, &months[..]),
        (4, 0, 6, &names[..]),
    ] {
        for (low, high) in
            (first..=last).flat_map(|low| (first..=last).map(move |high| (low, high)))
        {
            // Minutes: enough of them to meet each digit in each place.
            if field == 0 && (low * 7 + high) % 11 != 0 {
                continue;
            }
            for low_word in words(low, names) {
                for high_word in words(high, names) {
                    let mut fields = ["*"; 5].map(str::to_owned);
                    fields[field] = format!("{low_word}-{high_word}");
                    let schedule = fields.join(" ");
                    let accepted = try_create(&with_schedule(OURS, &schedule)).is_ok();
                    if accepted != (low <= high) {
                        wrong.push(schedule);
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
