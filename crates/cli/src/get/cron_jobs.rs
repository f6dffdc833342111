//! CronJobs in `get`.

use carillon_plan::cron_job::{Api as Side, Children};
use carillon_plan::view::cron_job::progress::{LastRun, Outcome, Progress};
use carillon_plan::view::cron_job::read;
use jiff::Timestamp;
use serde_json::Value;

use super::columns::Columns;
use crate::render::{Cell, Table, Tone, age, duration};

/// A CronJob with what is shown of it.
pub(super) struct Cron {
    object: Value,
    pub(super) progress: Progress,
}

/// Reads what is shown of a CronJob.
pub(super) fn cron(object: Value, children: &Children) -> Cron {
    let progress = Progress::of(&read::cron(&object), children, Timestamp::now());
    Cron { object, progress }
}

pub(super) fn prefix(side: Side) -> &'static str {
    match side {
        Side::Carillon => "ccj/",
        Side::Native => "cj/",
    }
}

pub(super) fn table(crons: &[&Cron], columns: Columns, prefixed: bool) -> Table {
    let mut headers = Vec::new();
    headers.extend(columns.namespace.then_some("NAMESPACE"));
    headers.extend([
        "NAME",
        "SCHEDULE",
        "TIME-ZONE",
        "SUSPENDED",
        "ACTIVE",
        "MISSED",
        "LAST-RUN",
        "NEXT-RUN",
        "AGE",
    ]);
    if columns.wide {
        headers.extend(["NEXT-TIME", "LAST-JOB", "CONCURRENCY", "MISSED-RUNS"]);
    }
    let mut table = Table::new(&headers).cut_unless(columns.wide, &["SCHEDULE", "NEXT-RUN"]);
    let now = Timestamp::now();
    for cron in crons {
        table.row(row(cron, columns, prefixed, now));
    }
    table
}

fn row(cron: &Cron, columns: Columns, prefixed: bool, now: Timestamp) -> Vec<Cell> {
    let one = &cron.progress;
    let mut row: Vec<Cell> = Vec::new();
    if columns.namespace {
        row.push(Cell::from(&one.namespace));
    }
    let prefix = if prefixed { prefix(one.api) } else { "" };
    let missed = one
        .missed_runs
        .map_or_else(|| "-".to_owned(), |runs| runs.to_string());
    let suspended = if one.suspended {
        Cell::new("yes", Tone::Care)
    } else {
        "no".into()
    };
    row.extend([
        format!("{prefix}{}", one.name).into(),
        Cell::from(&one.schedule),
        Cell::from(&one.time_zone),
        suspended,
        one.active.to_string().into(),
        Cell::from(missed),
        last(one.last_run.as_ref(), now),
        upcoming(one, now),
        age(one.created, now).into(),
    ]);
    if columns.wide {
        let spec = &cron.object["spec"];
        let policy = |field: &str, absent: &str| spec[field].as_str().unwrap_or(absent).to_owned();
        let job = one.last_run.as_ref().and_then(|run| run.job.as_deref());
        let missed = match one.api {
            Side::Carillon => policy("missedRunPolicy", "Latest"),
            Side::Native => "-".to_owned(),
        };
        let next = one
            .next_run
            .map_or_else(|| "-".to_owned(), |at| format!("{at:.0}"));
        row.extend([
            Cell::from(next),
            Cell::from(job.unwrap_or("-")),
            Cell::from(policy("concurrencyPolicy", "Allow")),
            Cell::from(missed),
        ]);
    }
    row
}

/// `Failed 5m ago`.
fn last(run: Option<&LastRun>, now: Timestamp) -> Cell {
    let Some(LastRun { outcome, at, .. }) = run else {
        return "-".into();
    };
    let tone = match outcome {
        Outcome::Succeeded => Tone::Good,
        Outcome::Failed => Tone::Bad,
        Outcome::CompletedWithFailures => Tone::Care,
        Outcome::Running => Tone::Plain,
    };
    let ago = at.map(|at| duration(now.duration_since(at).as_secs()));
    let when = match (outcome, ago) {
        (_, None) => String::new(),
        (Outcome::Running, Some(time)) => format!(" for {time}"),
        (_, Some(time)) => format!(" {time} ago"),
    };
    Cell::new(format!("{outcome:?}{when}"), tone)
}

/// `in 5h`, or why there is none.
fn upcoming(one: &Progress, now: Timestamp) -> Cell {
    match one.next_run {
        Some(at) => format!("in {}", duration(at.duration_since(now).as_secs())).into(),
        None if one.problem.is_empty() => "-".into(),
        None => Cell::new(format!("never: {}", one.problem), Tone::Bad),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::Style;
    use serde_json::json;

    #[test]
    fn a_row_has_what_came_last_and_what_comes_next() {
        let now: Timestamp = "2026-01-01T14:20:00Z".parse().unwrap();
        let shown = |spec: &Value, status: &Value| {
            let object = json!({
                "apiVersion": "carillon.dev/v1alpha1", "kind": "CronJob",
                "metadata": {"name": "report", "uid": "4e0c5d6a-0b1c-4d2e-8f3a-000000000001",
                             "creationTimestamp": "2026-01-01T10:20:00Z"},
                "spec": spec, "status": status,
            });
            let progress = Progress::of(&read::cron(&object), &Children::new(), now);
            let columns = Columns {
                namespace: false,
                wide: false,
            };
            let cron = Cron { object, progress };
            let mut table = Table::new(&[""; 9]);
            table.row(row(&cron, columns, true, now));
            table.render(Style::default())
        };
        let status = json!({"lastFailureTime": "2026-01-01T14:15:00Z", "missedRuns": 2});
        assert_eq!(
            shown(&json!({"schedule": "0 * * * *"}), &status),
            "ccj/report   0 * * * *   UTC   no   0   2   Failed 5m ago   in 40m   4h\n"
        );
        assert_eq!(
            shown(
                &json!({"schedule": "0 * * * *", "suspend": true, "timeZone": "Europe/Berlin"}),
                &json!({})
            ),
            "ccj/report   0 * * * *   Europe/Berlin   yes   0   0   -   -   4h\n"
        );
        let never = shown(&json!({"schedule": "0 0 31 2 *"}), &json!({}));
        assert!(never.contains("never: spec.schedule: "), "{never}");
    }
}
