//! `cargo xtask bench`: what Carillon costs, also beside what kube-controller-manager costs for the
//! same.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use carillon_testbed::Fate;
use carillon_testbed::carillon::{self, Profile, Program};
use clap::Subcommand;
use serde::Serialize;
use serde_json::{Value, json};

use crate::interrupt::{self, Interrupt};

mod api_writes;
mod broadcastjob;
mod cronjob;
mod daemonset;
mod dashboard;
mod failover;
mod job;
mod machine;
mod meter;
mod neighbour;
mod plan;
mod quantile;
mod reads;
mod report;
mod server;
mod side_by_side;
mod webhook;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// A BroadcastJob served by Carillon, and a native Job of as many pods
    Broadcastjob(Run),
    /// Native CronJobs that are all due at once, served by Carillon and by kube-controller-manager
    Cronjob(cronjob::Args),
    /// DaemonSets that are created, updated, and joined by nodes, served by Carillon and by kube-controller-manager
    Daemonset(daemonset::Args),
    /// The dashboard in a browser, while 2,000 nodes a second change
    Dashboard(dashboard::Args),
    /// For how long nobody works when the leader is killed, told to stop, or frozen
    Failover(failover::Args),
    /// Jobs of which a few pods fail, served by Carillon and by kube-controller-manager
    Job(job::Args),
    /// A small job in one namespace, alone and beside another namespace full of trouble
    Neighbour(neighbour::Args),
    /// What the operator reads for a BroadcastJob, where it serves Jobs, too, and where not
    Reads(reads::Args),
    /// A BroadcastJob whose pods a webhook admits after 0, 2 and 5 seconds each
    Webhook(webhook::Args),
    /// A sync without its requests: the plan, the interlock, the digest, on up to 100,000 nodes
    Plan,
}

#[derive(clap::Args)]
pub(crate) struct Run {
    /// How many nodes, and so pods
    #[arg(long, default_value_t = 1000)]
    nodes: usize,
    /// How often each of the two is measured
    #[arg(long, default_value_t = 2)]
    rounds: usize,
    /// Also write all figures to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    match &args.command {
        Command::Broadcastjob(run) => broadcastjob::run(run),
        Command::Cronjob(args) => cronjob::run(args),
        Command::Daemonset(args) => daemonset::run(args),
        Command::Dashboard(args) => dashboard::run(args),
        Command::Failover(args) => failover::run(args),
        Command::Job(args) => job::run(args),
        Command::Neighbour(args) => neighbour::run(args),
        Command::Reads(args) => reads::run(args),
        Command::Webhook(args) => webhook::run(args),
        Command::Plan => plan::run(),
    }
}

/// Measures, prints the report and keeps all figures. `None`: somebody wanted us to end.
fn reported<R: Serialize>(
    measure: impl FnOnce(&Interrupt) -> Result<R>,
    print: impl FnOnce(&R),
    json: Option<&Path>,
) -> Result<Option<R>> {
    let interrupt = Interrupt::catch()?;
    let report = measure(&interrupt);
    if interrupt.came() {
        eprintln!("interrupted; everything that was started has ended");
        return Ok(None);
    }
    let report = report?;
    println!();
    print(&report);
    if let Some(path) = json {
        let text = serde_json::to_string_pretty(&report)? + "\n";
        fs::write(path, text).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(Some(report))
}

/// The same, of what has no more to say than its report.
fn measured<R: Serialize>(
    measure: impl FnOnce(&Interrupt) -> Result<R>,
    print: impl FnOnce(&R),
    json: Option<&Path>,
) -> Result<ExitCode> {
    Ok(match reported(measure, print, json)? {
        Some(_) => ExitCode::SUCCESS,
        None => ExitCode::from(interrupt::EXIT_CODE),
    })
}

/// A pod that runs for a second.
fn template() -> Value {
    json!({
        "metadata": {"annotations": Fate::default().with("run-time", "1s").annotations()},
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "busybox:1.37", "command": ["true"]}],
        },
    })
}

fn build_operator() -> Result<()> {
    eprintln!("building the operator in the release profile (the first time: about 5 minutes)");
    carillon::build(Program::Operator, Profile::Release)?;
    Ok(())
}

/// From a page of metrics: bytes of each kind of object in our cache.
fn bytes_per_cached(metrics: &str) -> BTreeMap<String, f64> {
    let series = |name: &str| -> BTreeMap<String, f64> {
        let prefix = format!("{name}{{kind=\"");
        let one = |line: &str| {
            let (kind, value) = line.strip_prefix(&prefix)?.split_once("\"} ")?;
            Some((kind.to_owned(), value.parse().ok()?))
        };
        metrics.lines().filter_map(one).collect()
    };
    let (bytes, rows) = (
        series("carillon_store_bytes"),
        series("carillon_store_rows"),
    );
    let each = |(kind, bytes): (String, f64)| {
        let rows = rows.get(&kind).copied().filter(|rows| *rows > 0.0)?;
        Some((kind, bytes / rows))
    };
    bytes.into_iter().filter_map(each).collect()
}
