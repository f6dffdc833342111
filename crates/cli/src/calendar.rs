//! `calendar`: a month of a CronJob.

use anyhow::Result;
use carillon_plan::cron_job::Children;
use carillon_plan::view::cron_job::clock_change::ClockChange;
use carillon_plan::view::cron_job::month::{Day, FEW, Month, month};
use carillon_plan::view::cron_job::overlap::{Overlap, Then};
use carillon_plan::view::cron_job::resource;
use jiff::Timestamp;
use jiff::civil::Date;

use crate::cron::{Found, Source};
use crate::exit::DONE;
use crate::flags::{Global, Output};
use crate::next::heading;
use crate::render::{Cell, Format, Screen, Table, Tone, count, duration};

/// Show a month of a CronJob: runs, outcomes, clock changes, and whether runs overlap
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Days and times are those of the schedule's time zone. Outcomes are of the jobs that are still there: how
many are kept is up to successfulJobsHistoryLimit and failedJobsHistoryLimit.

Examples:
  # This month
  kubectl carillon calendar close-books

  # The month in which clocks are put back
  kubectl carillon calendar close-books --month 2027-11

  # Of a file, before it is applied; a line for each day
  kubectl carillon calendar examples/cronjob-time-zone-and-dst.yaml -o wide")]
pub(crate) struct Calendar {
    #[command(flatten)]
    source: Source,
    /// Another month than this one, such as 2027-11
    #[arg(long, value_name = "YYYY-MM", value_parser = month_of)]
    month: Option<Date>,
    #[command(flatten)]
    output: Output,
}

/// The first day of `2027-11`.
fn month_of(text: &str) -> Result<Date, String> {
    format!("{text}-01")
        .parse()
        .map_err(|_| "write year and month, such as 2027-11".to_owned())
}

pub(crate) async fn run(global: &Global, args: &Calendar, screen: &mut Screen) -> Result<u8> {
    let found = args.source.read(global, screen).await?;
    let children = match &found {
        Found::Stored(api, stored) => match api.children(stored).await {
            Ok(children) => children,
            Err(error) => {
                screen.aside(&format!("{error:#}: what became of its runs is not known"));
                Children::new()
            }
        },
        Found::Manifests(_) | Found::Schedule(_) => Children::new(),
    };
    let now = Timestamp::now();
    let months = found.each(|one| {
        let zone = one
            .cron
            .timetable
            .as_ref()
            .map(|schedule| schedule.zone().clone());
        let today = zone
            .map(|zone| now.to_zoned(zone).date())
            .unwrap_or_default();
        month(one, &children, args.month.unwrap_or(today), now)
    })?;
    let format = args.output.output;
    if screen.documents(format, &months, !found.is_list())? {
        return Ok(DONE);
    }
    let headers = !args.output.no_headers;
    for (at, month) in months.iter().enumerate() {
        if format == Some(Format::Name) {
            let heading = &month.heading;
            screen.line(&format!("{}/{}", resource(heading.api), heading.name))?;
            continue;
        }
        if at > 0 {
            screen.blank()?;
        }
        let table = if format == Some(Format::Wide) {
            by_day(month)
        } else {
            grid(month)
        };
        if headers {
            for line in above(month) {
                screen.hint(&line)?;
            }
        }
        screen.table(&table, headers)?;
        for part in below(month) {
            screen.blank()?;
            screen.text(&format!("{part}\n"))?;
        }
    }
    Ok(DONE)
}

fn above(month: &Month) -> Vec<String> {
    let name = month.month.strftime("%B %Y");
    let today = month.days.iter().find(|day| day.today);
    let today = today.map(|today| format!(", [{}] is today", today.date.day()));
    let mut lines = heading(&month.heading);
    lines.extend([
        String::new(),
        format!("{name}{}", today.unwrap_or_default()),
    ]);
    lines
}

/// A week is up to three rows: the days, their runs, what came of them.
fn grid(month: &Month) -> Table {
    let mut table = Table::new(&["MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"]);
    let column = |day: &Day| day.date.weekday().to_monday_zero_offset() as usize;
    let mut days = month.days.as_slice();
    while let Some(first) = days.first() {
        let (week, rest) = days.split_at(days.len().min(7 - column(first)));
        days = rest;
        let row = |cell: fn(&Day) -> Cell| {
            let before = vec![Cell::from(""); column(first)];
            before.into_iter().chain(week.iter().map(cell))
        };
        if table.height() > 0 {
            table.row([]);
        }
        table.row(row(number));
        table.row(row(runs));
        if week.iter().any(|day| !outcome(day).is_empty()) {
            table.row(row(|day| Cell::new(outcome(day), tone(day))));
        }
    }
    table
}

fn number(day: &Day) -> Cell {
    let number = day.date.day();
    let number = if day.today {
        format!("[{number}]")
    } else {
        number.to_string()
    };
    if day.clock_change {
        Cell::new(format!("{number} *"), Tone::Care)
    } else {
        number.into()
    }
}

fn runs(day: &Day) -> Cell {
    match day.runs {
        0 if day.left_out => Cell::new("no such day", Tone::Care),
        0 => Cell::new("-", Tone::Faint),
        few if few <= FEW as u64 => times(day).into(),
        many => format!("{many} runs").into(),
    }
}

fn times(day: &Day) -> String {
    let times = day.times.iter().map(|time| {
        let format = if time.second() == 0 {
            "%H:%M"
        } else {
            "%H:%M:%S"
        };
        time.strftime(format).to_string()
    });
    times.collect::<Vec<_>>().join(" ")
}

fn outcome(day: &Day) -> String {
    let parts = [
        (day.succeeded, "ok"),
        (day.failed, "failed"),
        (day.running, "running"),
    ];
    let parts = parts.iter().filter(|(number, _)| *number > 0);
    let parts: Vec<String> = parts
        .map(|(number, word)| format!("{number} {word}"))
        .collect();
    parts.join(", ")
}

fn tone(day: &Day) -> Tone {
    match (day.failed, day.succeeded) {
        (1.., _) => Tone::Bad,
        (0, 1..) => Tone::Good,
        _ => Tone::Plain,
    }
}

/// A line for each day.
fn by_day(month: &Month) -> Table {
    let mut table = Table::new(&["DAY", "RUNS", "TIMES", "OK", "FAILED", "RUNNING", "CLOCK"]);
    for day in &month.days {
        let more = if day.runs > FEW as u64 { " …" } else { "" };
        let change = month
            .clock_changes
            .iter()
            .find(|change| change.date == day.date);
        let day_name = day.date.strftime("%a %Y-%m-%d").to_string();
        table.row([
            Cell::from(if day.today {
                format!("{day_name} (today)")
            } else {
                day_name
            }),
            day.runs.to_string().into(),
            format!("{}{more}", times(day)).into(),
            day.succeeded.to_string().into(),
            day.failed.to_string().into(),
            day.running.to_string().into(),
            Cell::new(
                change.map(ClockChange::effect).unwrap_or_default(),
                Tone::Care,
            ),
        ]);
    }
    table
}

/// What is to be said about the days, and about runs that overlap.
fn below(month: &Month) -> Vec<String> {
    let changes = month.clock_changes.iter().map(|change| {
        let (date, what, effect) = (change.date, change.what(), change.effect());
        format!("* {date}: {what}; {effect}")
    });
    let mut parts = vec![changes.collect::<Vec<_>>().join("\n")];
    parts.extend(month.overlap.as_ref().map(sentence));
    if let (1.., Some(last)) = (month.missed_runs, month.last_missed) {
        let runs = count(month.missed_runs as usize, "run");
        parts.push(format!(
            "{runs} could not be started in time so far, the last one of {last}."
        ));
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// How long runs took, and what that means for those after them.
fn sentence(overlap: &Overlap) -> String {
    let (half, longest) = (
        duration(overlap.median_seconds),
        duration(overlap.longest_seconds),
    );
    let took = match overlap.runs {
        1 => format!("The last run took {longest}."),
        runs => format!("Of the last {runs} runs half took up to {half}, the longest {longest}."),
    };
    if overlap.compared == 0 {
        return took;
    }
    let gap = duration(overlap.shortest_gap_seconds);
    let gap = if overlap.even {
        format!("the {gap} to the next run")
    } else {
        format!("the time to the next run, {gap} at the least")
    };
    let of = match overlap.compared {
        runs if runs == overlap.runs => String::new(),
        runs => format!(" of {runs} by schedule"),
    };
    match overlap.longer {
        0 => format!("{took} None{of} was longer than {gap}."),
        longer => {
            let verb = if longer == 1 { "was" } else { "were" };
            let then = then(overlap.then);
            format!("{took}\n{longer}{of} {verb} longer than {gap}; {then}.")
        }
    }
}

fn then(then: Then) -> String {
    match then {
        Then::RunsBeside => "with concurrencyPolicy Allow both run then".to_owned(),
        Then::Replaces => {
            "with concurrencyPolicy Replace the earlier one is deleted then".to_owned()
        }
        Then::Waits => "with concurrencyPolicy Forbid the next one waits then".to_owned(),
        Then::WaitsAtMost(seconds) => format!(
            "with concurrencyPolicy Forbid the next one waits then, {} at most, and is missed after that",
            duration(seconds)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::Style;
    use carillon_plan::cron_job::ChildKind;
    use carillon_plan::view::cron_job::read;
    use serde_json::{Value, json};

    const UID: &str = "4e0c5d6a-0b1c-4d2e-8f3a-000000000001";

    fn of(spec: &Value, children: &Children, month_: &str, now: &str) -> Month {
        let stored = read::cron(&json!({
            "apiVersion": "carillon.dev/v1alpha1",
            "metadata": {"name": "report", "uid": UID,
                         "creationTimestamp": "2011-01-01T00:00:00Z"},
            "spec": spec,
        }));
        month(
            &stored,
            children,
            month_of(month_).unwrap(),
            now.parse().unwrap(),
        )
        .unwrap()
    }

    fn printed(month: &Month) -> String {
        let grid = grid(month).render(Style {
            headers: true,
            ..Style::default()
        });
        let (above, below) = (above(month).join("\n"), below(month).join("\n\n"));
        format!("{above}\n{grid}\n{below}\n")
    }

    #[test]
    fn a_month_is_a_grid_and_a_clock_change_is_explained_below() {
        let spec = json!({"schedule": "30 1 * * *", "timeZone": "America/New_York"});
        let month = of(&spec, &Children::new(), "2027-11", "2027-11-09T12:00:00Z");
        let expected = "\
cronjob.carillon.dev/report: \"30 1 * * *\" in America/New_York

November 2027, [9] is today
MON     TUE     WED     THU     FRI     SAT     SUN
1       2       3       4       5       6       7 *
01:30   01:30   01:30   01:30   01:30   01:30   01:30 01:30

8       [9]     10      11      12      13      14
01:30   01:30   01:30   01:30   01:30   01:30   01:30

15      16      17      18      19      20      21
01:30   01:30   01:30   01:30   01:30   01:30   01:30

22      23      24      25      26      27      28
01:30   01:30   01:30   01:30   01:30   01:30   01:30

29      30
01:30   01:30

* 2027-11-07: the clock is set back from 02:00 to 01:00; 01:30 comes twice: two runs
";
        assert_eq!(printed(&month), expected);
    }

    #[test]
    fn a_day_that_the_clock_leaves_out_is_in_the_grid_and_said_to_be() {
        let spec = json!({"schedule": "0 */6 * * *", "timeZone": "Pacific/Apia"});
        let month = of(&spec, &Children::new(), "2011-12", "2011-12-01T20:00:00Z");
        let text = printed(&month);
        assert!(text.contains("30 *"), "{text}");
        assert!(text.contains("no such day"), "{text}");
        assert!(
            text.contains(
                "* 2011-12-30: the clock is set forward from 00:00 to 2011-12-31 00:00; \
             4 times from 00:00 to 18:00 do not exist: no runs\n"
            ),
            "{text}"
        );
        let first = text.lines().nth(4).unwrap();
        assert!(
            first.starts_with("                "),
            "December 2011 begins on a Thursday: {text}"
        );
    }

    /// Hourly jobs from midnight on, of which each third failed after two hours.
    fn jobs() -> Children {
        let jobs: Vec<Value> = (0..6)
            .map(|hour: u32| {
                let fails = hour % 3 == 2;
                let end = hour + if fails { 2 } else { 0 };
                let end = format!("2027-02-03T{end:02}:10:00Z");
                let type_ = if fails { "Failed" } else { "Complete" };
                json!({
                    "metadata": {
                        "name": format!("report-{hour}"),
                        "uid": format!("4e0c5d6a-0b1c-4d2e-8f3a-0000000000{hour:02}"),
                        "annotations": {"batch.kubernetes.io/cronjob-scheduled-timestamp":
                                        format!("2027-02-03T{hour:02}:00:00Z")},
                        "ownerReferences": [{"kind": "CronJob", "uid": UID, "controller": true}],
                    },
                    "status": {
                        "startTime": format!("2027-02-03T{hour:02}:00:00Z"),
                        "completionTime": end,
                        "conditions": [{"type": type_, "status": "True", "lastTransitionTime": end}],
                    },
                })
            })
            .collect();
        read::children(UID.parse().unwrap(), ChildKind::Job, &jobs)
    }

    #[test]
    fn outcomes_are_told_by_day_and_overlap_with_what_the_policy_makes_of_it() {
        let spec = json!({"schedule": "0 * * * *", "concurrencyPolicy": "Forbid"});
        let month = of(&spec, &jobs(), "2027-02", "2027-02-04T12:00:00Z");
        let text = printed(&month);
        assert!(text.contains("4 ok, 2 failed"), "{text}");
        assert!(text.ends_with(
            "\nOf the last 6 runs half took up to 10m, the longest 130m.\n\
             2 were longer than the 60m to the next run; with concurrencyPolicy Forbid the next one \
             waits then.\n"
        ), "{text}");
        let days = by_day(&month).render(Style::default());
        assert!(
            days.contains("Wed 2027-02-03           24   00:00 01:00 …   4   2   0\n"),
            "{days}"
        );
    }

    #[test]
    fn every_policy_says_what_becomes_of_the_next_run() {
        for (what, says) in [
            (Then::RunsBeside, "both run"),
            (Then::Replaces, "deleted"),
            (Then::Waits, "waits then"),
            (Then::WaitsAtMost(60), "60s at most, and is missed"),
        ] {
            assert!(then(what).contains(says), "{what:?}");
        }
    }

    #[test]
    fn a_month_is_a_year_and_a_number() {
        assert_eq!(month_of("2027-11"), Ok("2027-11-01".parse().unwrap()));
        for wrong in ["2027", "11-2027", "2027-13", "2027-11-02", ""] {
            assert!(month_of(wrong).is_err(), "{wrong:?}");
        }
    }
}
