//! BroadcastJobs in `get`.

use anyhow::Result;
use carillon_plan::view::broadcast_job::ledger::Ledger;
use carillon_plan::view::broadcast_job::progress::{Progress, Standing, standing};
use carillon_plan::view::read::{self, StoredJob};
use jiff::Timestamp;
use serde_json::Value;

use super::columns::Columns;
use crate::client::Api;
use crate::render::{Cell, Table, Tone, age, eta};

/// A job with what is shown of it.
pub(super) struct Job {
    pub(super) object: Value,
    stored: StoredJob,
    pub(super) progress: Progress,
}

/// Reads what is shown of a job.
pub(super) async fn job(api: &Api, object: Value) -> Result<Job> {
    let stored = read::job(&object);
    // Only what has not ended needs its records: for the estimate, and to name a failure.
    let slices = if standing(&stored.job).0.has_ended() {
        Vec::new()
    } else {
        api.slices(&stored).await?
    };
    let ledger = Ledger::read(&slices);
    let progress = Progress::of(&stored, &ledger).estimated(&stored, &ledger, Timestamp::now());
    Ok(Job {
        object,
        stored,
        progress,
    })
}

pub(super) fn table(jobs: &[&Job], columns: Columns, prefix: bool) -> Table {
    let mut table = Table::new(&headers(columns)).cut_unless(columns.wide, &["STATUS"]);
    let now = Timestamp::now();
    let prefix = if prefix { "cbj/" } else { "" };
    for job in jobs {
        table.row(row(columns, prefix, now, job));
    }
    table
}

fn headers(columns: Columns) -> Vec<&'static str> {
    let mut headers = Vec::new();
    headers.extend(columns.namespace.then_some("NAMESPACE"));
    headers.extend(["NAME", "DONE", "ACTIVE", "FAILED", "STATUS", "ETA", "AGE"]);
    if columns.wide {
        headers.extend([
            "SUCCEEDED",
            "DISRUPTED",
            "RETRYING",
            "LOST",
            "LEFT-OUT",
            "PARALLELISM",
            "ON-FAILURE",
            "RETRY-OF",
            "RETRIES",
            "IMAGE",
        ]);
    }
    headers
}

fn row(columns: Columns, prefix: &str, now: Timestamp, job: &Job) -> Vec<Cell> {
    let Job {
        object,
        stored,
        progress,
    } = job;
    let wide = columns.wide;
    let mut row: Vec<Cell> = Vec::new();
    if columns.namespace {
        row.push(Cell::from(&progress.namespace));
    }
    let failed = if progress.failed > 0 {
        Tone::Bad
    } else {
        Tone::Plain
    };
    let status = Cell::new(progress.headline(), tone(progress));
    row.extend([
        format!("{prefix}{}", progress.name).into(),
        format!("{}/{}", progress.done, progress.desired).into(),
        progress.active.to_string().into(),
        Cell::new(progress.failed.to_string(), failed),
        status,
        eta(progress.eta, wide).into(),
        age(progress.created, now).into(),
    ]);
    if wide {
        let spec = &object["spec"];
        let image = &spec["template"]["spec"]["containers"][0]["image"];
        row.extend([
            progress.succeeded.to_string().into(),
            progress.disrupted.to_string().into(),
            progress.retrying.to_string().into(),
            progress.lost.to_string().into(),
            progress.refused.to_string().into(),
            Cell::from(parallelism(spec)),
            Cell::from(format!("{:?}", stored.job.failure)),
            Cell::from(progress.retry_of.as_deref().unwrap_or("-")),
            Cell::from(match &*progress.retries {
                [] => "-".to_owned(),
                retries => retries.join(","),
            }),
            Cell::from(image.as_str().unwrap_or("-")),
        ]);
    }
    row
}

fn parallelism(spec: &Value) -> String {
    match &spec["parallelism"] {
        Value::Null => "all".to_owned(),
        Value::String(percent) => percent.clone(),
        number => number.to_string(),
    }
}

fn tone(progress: &Progress) -> Tone {
    match progress.standing {
        Standing::Complete if progress.failed > 0 => Tone::Care,
        Standing::Running => Tone::Plain,
        Standing::NotStarted => Tone::Faint,
        Standing::Complete => Tone::Good,
        Standing::Waiting | Standing::Paused => Tone::Care,
        Standing::Stalled | Standing::Stopping | Standing::Failed => Tone::Bad,
    }
}
