//! `next`: when a CronJob runs next.

use anyhow::{Result, anyhow, bail};
use carillon_plan::printable::quoted;
use carillon_plan::schedule::zone;
use carillon_plan::view::cron_job::clock_change::{ClockChange, Effect, Pass};
use carillon_plan::view::cron_job::next::{Outlook, Run, next};
use carillon_plan::view::cron_job::read::StoredCron;
use carillon_plan::view::cron_job::{Heading, resource};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use crate::cron::{Found, Source};
use crate::exit::DONE;
use crate::flags::{Global, Output};
use crate::render::{Cell, Format, Screen, Table, Tone, seconds};

/// Runs that are shown when nothing else is said.
const COUNT: u16 = 10;

/// Show when a CronJob runs next, in its time zone and in yours
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # The next ten runs of a CronJob, of carillon.dev or else of batch/v1
  kubectl carillon next close-books

  # Of a file, before it is applied
  kubectl carillon next examples/cronjob-time-zone-and-dst.yaml

  # What a change of the clock does to a schedule
  kubectl carillon next --schedule '30 2 * * *' --time-zone Europe/Berlin --after 2027-03-26 -c 3

  # Only the time of the next one
  kubectl carillon next close-books -c 1 -o json | jq -r '.runs[0].starts'

A number as -n is taken as --count: `-n 10` are ten runs, and no namespace.")]
pub(crate) struct Next {
    #[command(flatten)]
    source: Source,
    /// How many runs; 10 when absent
    #[arg(short, long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=1000))]
    count: Option<u16>,
    /// Your time zone; that of this machine when absent
    #[arg(long, value_name = "ZONE")]
    zone: Option<String>,
    /// Only runs after this date or time, such as 2027-03-26 or 2027-03-26T09:00, in the time zone of
    /// the schedule; now when absent
    #[arg(long, value_name = "TIME", value_parser = time)]
    after: Option<DateTime>,
    #[command(flatten)]
    output: Output,
}

fn time(text: &str) -> Result<DateTime, String> {
    text.parse()
        .map_err(|_| "write a date or time such as 2027-03-26 or 2027-03-26T09:00".to_owned())
}

pub(crate) async fn run(global: &Global, args: &Next, screen: &mut Screen) -> Result<u8> {
    let (count, global) = count(global, args.count);
    let yours = match &args.zone {
        None => TimeZone::system(),
        Some(name) => zone::load(name).map_err(|error| anyhow!("--zone: {error}"))?,
    };
    let found = args.source.read(&global, screen).await?;
    let now = Timestamp::now();
    let outlooks = found.each(|one| {
        let after = args.after.and_then(|after| instant(one, after));
        next(one, &yours, after, now, count.into())
    })?;
    let format = args.output.output;
    if screen.documents(format, &outlooks, !found.is_list())? {
        return Ok(DONE);
    }
    if format == Some(Format::Name) {
        if let Found::Schedule(_) = found {
            bail!("-o name: a schedule has no names; leave it out, or name a CronJob");
        }
        for run in outlooks.iter().flat_map(|outlook| &outlook.runs) {
            screen.line(&run.resource().unwrap_or_default())?;
        }
        return Ok(DONE);
    }
    let headers = !args.output.no_headers;
    for (at, (outlook, one)) in outlooks.iter().zip(found.crons()).enumerate() {
        if at > 0 {
            screen.blank()?;
        }
        if headers {
            for line in heading(&outlook.heading) {
                screen.hint(&line)?;
            }
            screen.blank()?;
        }
        let wide = format == Some(Format::Wide);
        let zones = (&zone_of(one), &yours);
        screen.table(&table(outlook, zones, wide), headers)?;
    }
    Ok(DONE)
}

/// How many runs, and the flags without the number that was meant so.
fn count(global: &Global, count: Option<u16>) -> (u16, Global) {
    let mut global = global.clone();
    let number = global
        .namespace
        .as_deref()
        .and_then(|text| text.parse().ok());
    match (count, number) {
        (None, Some(number @ 1..=1000)) => {
            global.namespace = None;
            (number, global)
        }
        (count, _) => (count.unwrap_or(COUNT), global),
    }
}

fn zone_of(one: &StoredCron) -> TimeZone {
    let schedule = one.cron.timetable.as_ref();
    schedule.map_or(TimeZone::UTC, |schedule| schedule.zone().clone())
}

fn instant(one: &StoredCron, after: DateTime) -> Option<Timestamp> {
    let zoned = zone_of(one).to_zoned(after).ok()?;
    Some(zoned.timestamp())
}

/// What is asked about, and what holds for all of its runs: a line each.
pub(crate) fn heading(heading: &Heading) -> Vec<String> {
    let Heading { name, schedule, .. } = heading;
    let resource = resource(heading.api);
    let who = match name.as_str() {
        "" => String::new(),
        name => format!("{resource}/{name}: "),
    };
    let once = if heading.once { ", dstPolicy Once" } else { "" };
    let mut lines = vec![format!(
        "{who}{} in {}{once}",
        quoted(schedule),
        heading.time_zone
    )];
    if heading.suspended {
        let stored = heading.delay_seconds.is_some();
        let until = stored.then(|| format!(" until `kubectl carillon resume {resource}/{name}`"));
        let until = until.unwrap_or_default();
        lines.push(format!("Suspended: nothing is started by schedule{until}"));
    }
    let most = heading.jitter_seconds;
    match heading.delay_seconds {
        _ if most == 0 => {}
        Some(delay) => lines.push(format!(
            "Each run starts {delay} s later: the share of this CronJob of jitterSeconds {most}"
        )),
        None => lines.push(format!(
            "Each run starts up to {most} s later (jitterSeconds): how much, is known once the CronJob \
             is created"
        )),
    }
    lines
}

/// `Sun 2027-11-07 01:30 -04:00`, with seconds where there are any.
fn shown(at: Timestamp, zone: &TimeZone, with_seconds: bool) -> String {
    let format = if with_seconds {
        "%a %Y-%m-%d %H:%M:%S %:z"
    } else {
        "%a %Y-%m-%d %H:%M %:z"
    };
    at.to_zoned(zone.clone()).strftime(format).to_string()
}

fn table(outlook: &Outlook, (zone, yours): (&TimeZone, &TimeZone), wide: bool) -> Table {
    let (name, your_name) = (&outlook.heading.time_zone, &outlook.your_time_zone);
    let two_zones = outlook.runs.iter().any(|run| run.local != run.yours);
    let late = wide && outlook.heading.delay_seconds.is_some_and(|delay| delay > 0);
    let job = wide && outlook.runs.iter().any(|run| run.name.is_some());
    let mut headers = vec![format!("SCHEDULED ({name})")];
    headers.extend(two_zones.then(|| format!("YOURS ({your_name})")));
    headers.extend(late.then(|| "STARTS".to_owned()));
    headers.push("IN".to_owned());
    headers.extend(job.then(|| "JOB".to_owned()));
    let clock = !outlook.clock_changes.is_empty();
    headers.extend(clock.then(|| "CLOCK".to_owned()));

    let any_seconds = |time: fn(&Run) -> Timestamp| {
        outlook
            .runs
            .iter()
            .any(|run| time(run).as_second() % 60 != 0)
    };
    let (precise, starts_precise) = (
        any_seconds(|run| run.scheduled),
        any_seconds(|run| run.starts),
    );
    let mut table = Table::new(&headers);
    let between = headers.len() - 2;
    let mut left_out = outlook
        .clock_changes
        .iter()
        .filter(|change| change.effect == Effect::NotRun)
        .peekable();
    for run in &outlook.runs {
        while let Some(change) = left_out.next_if(|change| change.at <= run.scheduled) {
            let mut row = vec![Cell::from(change.date.strftime("%a %Y-%m-%d").to_string())];
            row.extend(vec![Cell::from("-"); between]);
            row.push(Cell::new(change.effect(), Tone::Care));
            table.row(row);
        }
        let mut row = vec![Cell::from(shown(run.scheduled, zone, precise))];
        row.extend(two_zones.then(|| shown(run.scheduled, yours, precise).into()));
        row.extend(late.then(|| shown(run.starts, zone, starts_precise).into()));
        row.push(seconds(Some(run.in_seconds)).into());
        row.extend(job.then(|| Cell::from(run.resource().unwrap_or_default())));
        row.extend(clock.then(|| Cell::new(note(outlook, run), Tone::Care)));
        table.row(row);
    }
    table
}

/// What a change of the clock has to do with a run.
fn note(outlook: &Outlook, run: &Run) -> String {
    if run.for_left_out {
        let mut changes = outlook.clock_changes.iter();
        let change = changes.find(|change| change.at == run.scheduled);
        let which = change.and_then(ClockChange::which).unwrap_or_default();
        return format!("for {which}, left out by the clock");
    }
    let text = match (run.pass, outlook.heading.once) {
        (None, _) => "",
        (Some(Pass::First), true) => "comes twice: only this time",
        (Some(Pass::First), false) => "comes twice: the first time",
        (Some(Pass::Second), _) => "comes twice: the second time",
    };
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::Style;
    use carillon_plan::view::cron_job::read::cron;
    use serde_json::{Value, json};

    fn printed(spec: &Value, now: &str, yours: &str, wide: bool) -> String {
        let mut stored = cron(&json!({
            "apiVersion": "carillon.dev/v1alpha1",
            "metadata": {"name": "report", "uid": "4e0c5d6a-0b1c-4d2e-8f3a-000000000001"},
            "spec": spec,
        }));
        if stored.jitter > 0 {
            stored.cron.offset = jiff::SignedDuration::from_secs(37);
        }
        let yours = zone::load(yours).unwrap();
        let outlook = next(&stored, &yours, None, now.parse().unwrap(), 3).unwrap();
        let table = table(&outlook, (&zone_of(&stored), &yours), wide);
        let heading = heading(&outlook.heading).join("\n");
        format!(
            "{heading}\n\n{}",
            table.render(Style {
                headers: true,
                ..Style::default()
            })
        )
    }

    #[test]
    fn a_time_that_does_not_exist_has_a_row_without_a_run() {
        let spec = json!({"schedule": "30 2 * * *", "timeZone": "America/New_York"});
        let expected = "\
cronjob.carillon.dev/report: \"30 2 * * *\" in America/New_York

SCHEDULED (America/New_York)   YOURS (Europe/Berlin)         IN      CLOCK
Sat 2027-03-13 02:30 -05:00    Sat 2027-03-13 08:30 +01:00   7h30m
Sun 2027-03-14                 -                             -       02:30 does not exist: no run
Mon 2027-03-15 02:30 -04:00    Mon 2027-03-15 07:30 +01:00   2d6h
Tue 2027-03-16 02:30 -04:00    Tue 2027-03-16 07:30 +01:00   3d6h
";
        let text = printed(&spec, "2027-03-13T00:00:00Z", "Europe/Berlin", false);
        assert_eq!(text, expected);
    }

    #[test]
    fn a_time_that_comes_twice_says_which_run_it_is() {
        let run = |policy: &str| {
            let spec = json!({"schedule": "30 1 * * *", "timeZone": "America/New_York",
                              "dstPolicy": policy});
            let text = printed(&spec, "2027-11-06T23:00:00Z", "America/New_York", false);
            text.lines().skip(2).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(
            run("AsWritten"),
            [
                "SCHEDULED (America/New_York)   IN      CLOCK",
                "Sun 2027-11-07 01:30 -04:00    6h30m   comes twice: the first time",
                "Sun 2027-11-07 01:30 -05:00    7h30m   comes twice: the second time",
                "Mon 2027-11-08 01:30 -05:00    31h",
            ]
        );
        assert_eq!(
            run("Once")[1],
            "Sun 2027-11-07 01:30 -04:00    6h30m   comes twice: only this time"
        );
    }

    #[test]
    fn with_once_the_run_at_the_end_says_what_it_stands_for() {
        let spec =
            json!({"schedule": "30 2 * * *", "timeZone": "Europe/Berlin", "dstPolicy": "Once"});
        let text = printed(&spec, "2027-03-28T00:00:00Z", "Europe/Berlin", false);
        let row = "Sun 2027-03-28 03:00 +02:00   60m   for 02:30, left out by the clock\n";
        assert!(text.contains(row), "{text}");
        assert!(
            text.contains("in Europe/Berlin, dstPolicy Once\n"),
            "{text}"
        );
    }

    #[test]
    fn jitter_and_suspension_are_told_and_wide_has_when_it_really_starts_and_as_what() {
        let spec = json!({"schedule": "0 * * * *", "jitterSeconds": 600, "suspend": true});
        let text = printed(&spec, "2027-01-01T00:10:00Z", "UTC", true);
        let expected = "\
cronjob.carillon.dev/report: \"0 * * * *\" in UTC
Suspended: nothing is started by schedule until `kubectl carillon resume cronjob.carillon.dev/report`
Each run starts 37 s later: the share of this CronJob of jitterSeconds 600

SCHEDULED (UTC)               STARTS                           IN     JOB
Fri 2027-01-01 01:00 +00:00   Fri 2027-01-01 01:00:37 +00:00   50m    job.batch/report-29979420
Fri 2027-01-01 02:00 +00:00   Fri 2027-01-01 02:00:37 +00:00   110m   job.batch/report-29979480
Fri 2027-01-01 03:00 +00:00   Fri 2027-01-01 03:00:37 +00:00   170m   job.batch/report-29979540
";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_number_as_namespace_is_a_count() {
        let global = |text: &str| Global {
            namespace: Some(text.to_owned()),
            ..Global::default()
        };
        let (ten, rest) = count(&global("3"), None);
        assert_eq!((ten, rest.namespace), (3, None));
        let (ten, rest) = count(&global("ops"), None);
        assert_eq!((ten, rest.namespace.as_deref()), (COUNT, Some("ops")));
        let (five, rest) = count(&global("3"), Some(5));
        assert_eq!((five, rest.namespace.as_deref()), (5, Some("3")));
    }

    #[test]
    fn times_to_start_from_are_dates_or_times() {
        assert_eq!(
            time("2027-03-26"),
            Ok("2027-03-26T00:00:00".parse().unwrap())
        );
        assert_eq!(
            time("2027-03-26T09:00"),
            Ok("2027-03-26T09:00:00".parse().unwrap())
        );
        assert!(time("tomorrow").is_err());
    }
}
