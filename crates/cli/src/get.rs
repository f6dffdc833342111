//! `get`: how far jobs are, why they stand where they stand, and when they may be done.

use anyhow::Result;
use carillon_plan::view::broadcast_job::ledger::Ledger;
use carillon_plan::view::broadcast_job::progress::{Progress, Standing, standing};
use carillon_plan::view::read::{self, StoredJob};
use clap_complete::ArgValueCandidates;
use jiff::Timestamp;
use serde_json::Value;

use crate::candidates;
use crate::client::Api;
use crate::exit::DONE;
use crate::flags::Output;
use crate::names::job_name;
use crate::render::{Cell, Format, Screen, Table, Tone, age, seconds};

/// Longest reason in a table that is not wide.
const WHY: usize = 72;

/// Show jobs: how far, why not further, and when they may be done
#[derive(Debug, clap::Args)]
pub(crate) struct Get {
    /// Name of a BroadcastJob; all of the namespace when absent
    #[arg(value_parser = job_name, add = ArgValueCandidates::new(candidates::jobs))]
    job: Option<String>,
    /// Those of all namespaces
    #[arg(short = 'A', long, conflicts_with = "job")]
    all_namespaces: bool,
    #[command(flatten)]
    output: Output,
}

pub(crate) async fn run(api: &Api, args: &Get, screen: &mut Screen) -> Result<u8> {
    let objects = match &args.job {
        Some(name) => vec![api.job(name).await?],
        None => api.jobs(args.all_namespaces).await?,
    };
    let mut shown = Vec::new();
    for object in &objects {
        let job = read::job(object);
        // Only what has not ended needs its records: for the estimate, and to name a failure.
        let slices = if standing(&job.job).0.has_ended() {
            Vec::new()
        } else {
            api.slices(&job).await?
        };
        let progress = Progress::of(&job, &Ledger::read(&slices));
        shown.push((job, progress, object));
    }
    let progress: Vec<&Progress> = shown.iter().map(|(_, progress, _)| progress).collect();
    let format = args.output.output;
    if screen.documents(format, &progress, args.job.is_some())? {
        return Ok(DONE);
    }
    if shown.is_empty() {
        screen.aside(&nothing(api, args));
        return Ok(DONE);
    }
    if format == Some(Format::Name) {
        for one in progress {
            screen.line(&format!("broadcastjob.carillon.dev/{}", one.name))?;
        }
        return Ok(DONE);
    }
    let wide = format == Some(Format::Wide);
    let mut table = Table::new(&headers(args.all_namespaces, wide));
    let now = Timestamp::now();
    for (job, progress, object) in &shown {
        table.row(row(args.all_namespaces, wide, now, (job, progress, object)));
    }
    screen.table(&table, !args.output.no_headers)?;
    Ok(DONE)
}

fn nothing(api: &Api, args: &Get) -> String {
    if args.all_namespaces {
        "No BroadcastJobs found.".to_owned()
    } else {
        format!("No BroadcastJobs found in {} namespace.", api.namespace)
    }
}

fn headers(all: bool, wide: bool) -> Vec<&'static str> {
    let mut headers = Vec::new();
    headers.extend(all.then_some("NAMESPACE"));
    headers.extend(["NAME", "DONE", "ACTIVE", "FAILED", "STATUS", "ETA", "AGE"]);
    if wide {
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

fn row(
    all: bool,
    wide: bool,
    now: Timestamp,
    (job, progress, object): (&StoredJob, &Progress, &Value),
) -> Vec<Cell> {
    let mut row: Vec<Cell> = Vec::new();
    if all {
        row.push(Cell::from(&progress.namespace));
    }
    let failed = if progress.failed > 0 {
        Tone::Bad
    } else {
        Tone::Plain
    };
    let status = Cell::new(progress.headline(), tone(progress));
    row.extend([
        Cell::from(&progress.name),
        format!("{}/{}", progress.done, progress.desired).into(),
        progress.active.to_string().into(),
        Cell::new(progress.failed.to_string(), failed),
        if wide { status } else { status.cut(WHY) },
        seconds(progress.eta_seconds).into(),
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
            Cell::from(format!("{:?}", job.job.failure)),
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
        unlimited if *unlimited == carillon_api::broadcast_job::UNLIMITED_PARALLELISM => {
            "all".to_owned()
        }
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
