//! `cargo xtask bench`: what Carillon costs, also beside what kube-controller-manager costs for the
//! same.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

mod api_writes;
mod broadcastjob;
mod cronjob;
mod machine;
mod plan;
mod report;

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
        Command::Plan => plan::run(),
    }
}
