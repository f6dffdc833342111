//! `get`: how far BroadcastJobs and DaemonSets are, why they stand where they stand, and when they may be done.

mod columns;
pub(crate) mod daemon_sets;

use anyhow::Result;
use carillon_plan::cron_job::Api as Side;
use carillon_plan::view::broadcast_job::ledger::Ledger;
use carillon_plan::view::broadcast_job::progress::{Progress, Standing, standing};
use carillon_plan::view::daemon_set::progress::Progress as SetProgress;
use carillon_plan::view::read::{self, StoredJob};
use clap_complete::ArgValueCandidates;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use self::columns::{Columns, WHY};
use crate::candidates;
use crate::client::{Api, Asked};
use crate::exit::DONE;
use crate::flags::Output;
use crate::render::{Cell, Format, Screen, Table, Tone, age, seconds};
use crate::target::{Found, Target, target};
use crate::two_apis::SETS;

/// Show BroadcastJobs and DaemonSets: how far, why not further, and when they may be done
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # BroadcastJobs and DaemonSets of carillon.dev
  kubectl carillon get

  # Only DaemonSets of carillon.dev; those of apps/v1
  kubectl carillon get cds
  kubectl carillon get ds

  # One, with the nodes that it waits for
  kubectl carillon get cds/agent")]
pub(crate) struct Get {
    /// Name of a BroadcastJob or else of a DaemonSet, also as cbj/NAME, cds/NAME or ds/NAME (one of apps/v1); or a
    /// kind: cbj, cds, ds. All of carillon.dev in the namespace when absent
    #[arg(value_name = "NAME|KIND", value_parser = wanted,
          add = ArgValueCandidates::new(candidates::jobs_and_sets))]
    wanted: Option<Wanted>,
    /// Those of all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    #[command(flatten)]
    output: Output,
}

/// What is asked about.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Wanted {
    /// All BroadcastJobs.
    Jobs,
    /// All DaemonSets of an API.
    Sets(Side),
    /// One object.
    One(Target),
}

fn wanted(text: &str) -> Result<Wanted, String> {
    match text.to_ascii_lowercase().as_str() {
        "cbj" | "broadcastjob" | "broadcastjobs" => Ok(Wanted::Jobs),
        "cds" | "daemonsets.carillon.dev" => Ok(Wanted::Sets(Side::Carillon)),
        "ds" | "daemonset" | "daemonsets" | "daemonsets.apps" => Ok(Wanted::Sets(Side::Native)),
        _ => target(text).map(Wanted::One),
    }
}

/// One answer.
#[derive(Serialize)]
#[serde(untagged)]
enum Shown<'a> {
    Job(&'a Progress),
    Set(&'a SetProgress),
}

/// A job with what is shown of it.
struct Job {
    object: Value,
    stored: StoredJob,
    progress: Progress,
}

pub(crate) async fn run(api: &Api, args: &Get, screen: &mut Screen) -> Result<u8> {
    let alone = matches!(args.wanted, Some(Wanted::One(_)));
    let (objects, sets) = read_all(api, args, screen).await?;
    let mut jobs = Vec::new();
    for object in objects {
        jobs.push(job(api, object).await?);
    }
    let mut shown_sets = Vec::new();
    for object in &sets {
        shown_sets.push(daemon_sets::progress(api, object, alone).await?);
    }
    let shown = jobs.iter().map(|job| Shown::Job(&job.progress));
    let shown: Vec<Shown<'_>> = shown.chain(shown_sets.iter().map(Shown::Set)).collect();
    let format = args.output.output;
    if screen.documents(format, &shown, alone)? {
        return Ok(DONE);
    }
    if shown.is_empty() {
        screen.aside(&nothing(api, args));
        return Ok(DONE);
    }
    if format == Some(Format::Name) {
        return print_names(&shown, screen);
    }
    let columns = Columns {
        namespace: args.all_namespaces,
        wide: format == Some(Format::Wide),
    };
    let headers = !args.output.no_headers;
    // As kubectl does: of several kinds each name tells which.
    let both = !jobs.is_empty() && !shown_sets.is_empty();
    let prefix = |prefix| if both { prefix } else { "" };
    if !jobs.is_empty() {
        let mut table = Table::new(&headers_of_jobs(columns));
        let now = Timestamp::now();
        for job in &jobs {
            table.row(row(columns, prefix("cbj/"), now, job));
        }
        screen.table(&table, headers)?;
    }
    if both {
        screen.blank()?;
    }
    if let [first, ..] = &*shown_sets {
        let all: Vec<&SetProgress> = shown_sets.iter().collect();
        let table = daemon_sets::table(&all, columns, prefix("cds/"));
        screen.table(&table, headers)?;
        if alone {
            daemon_sets::print_nodes(first, headers, screen)?;
        }
    }
    Ok(DONE)
}

/// The BroadcastJobs and the DaemonSets that are asked about.
async fn read_all(api: &Api, args: &Get, screen: &mut Screen) -> Result<(Vec<Value>, Vec<Value>)> {
    let all = args.all_namespaces;
    match &args.wanted {
        Some(Wanted::One(target)) => match target.find(api).await? {
            Found::Job(job) => Ok((vec![job], Vec::new())),
            Found::Set(set) => Ok((Vec::new(), vec![set])),
        },
        Some(Wanted::Jobs) => Ok((api.jobs(all).await?, Vec::new())),
        Some(Wanted::Sets(side)) => match api.all_of((&SETS, *side), all).await? {
            Asked::Found(sets) => Ok((Vec::new(), sets)),
            Asked::Missing => Err(api.not_served(&SETS, *side)),
            Asked::NotAllowed => Err(api.not_allowed(&SETS, *side)),
        },
        None => {
            let sets = api.all_of((&SETS, Side::Carillon), all).await?;
            let sets = match sets {
                Asked::Found(sets) => sets,
                Asked::Missing => Vec::new(),
                Asked::NotAllowed => {
                    screen.aside("note: you may not list DaemonSets of carillon.dev");
                    Vec::new()
                }
            };
            Ok((api.jobs(all).await?, sets))
        }
    }
}

async fn job(api: &Api, object: Value) -> Result<Job> {
    let stored = read::job(&object);
    // Only what has not ended needs its records: for the estimate, and to name a failure.
    let slices = if standing(&stored.job).0.has_ended() {
        Vec::new()
    } else {
        api.slices(&stored).await?
    };
    let progress = Progress::of(&stored, &Ledger::read(&slices));
    Ok(Job {
        object,
        stored,
        progress,
    })
}

fn print_names(shown: &[Shown<'_>], screen: &mut Screen) -> Result<u8> {
    for one in shown {
        let (kind, name) = match one {
            Shown::Job(job) => ("broadcastjob.carillon.dev", &job.name),
            Shown::Set(set) => (set.resource, &set.name),
        };
        screen.line(&format!("{kind}/{name}"))?;
    }
    Ok(DONE)
}

fn nothing(api: &Api, args: &Get) -> String {
    let what = match args.wanted {
        Some(Wanted::Jobs) => "BroadcastJobs",
        Some(Wanted::Sets(Side::Carillon)) => "DaemonSets of carillon.dev",
        Some(Wanted::Sets(Side::Native)) => "DaemonSets of apps/v1",
        _ => "BroadcastJobs and no DaemonSets of carillon.dev",
    };
    if args.all_namespaces {
        format!("No {what} found.")
    } else {
        format!("No {what} found in {} namespace.", api.namespace)
    }
}

fn headers_of_jobs(columns: Columns) -> Vec<&'static str> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_alone_is_all_of_that_kind_and_anything_else_a_name() {
        assert_eq!(wanted("cds"), Ok(Wanted::Sets(Side::Carillon)));
        assert_eq!(wanted("DaemonSets"), Ok(Wanted::Sets(Side::Native)));
        assert_eq!(wanted("cbj"), Ok(Wanted::Jobs));
        for name in ["fix", "cbj/cds", "ds/agent"] {
            assert!(matches!(wanted(name), Ok(Wanted::One(_))), "{name}");
        }
        assert!(wanted("pod/fix").is_err());
    }
}
