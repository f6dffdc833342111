//! `cargo xtask prove`: that work is neither lost nor repeated, whatever goes wrong.
//!
//! `cargo xtask test` runs a sample of it.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::ValueEnum;

use crate::metadata;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these parts; can be repeated
    #[arg(long, value_enum, value_name = "PART")]
    only: Vec<Part>,
    /// Random schedules of each kind to try in the simulated cluster
    #[arg(long, value_name = "N", default_value_t = 2000)]
    seeds: u64,
    /// The first of these seeds; without it, one that nobody has chosen
    #[arg(long, value_name = "SEED")]
    first_seed: Option<u64>,
    /// Run the case that a failure has printed, and nothing else
    #[arg(long, value_name = "FILE", conflicts_with_all = ["only", "seeds", "first_seed"])]
    replay: Option<PathBuf>,
}

/// In the order they run.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Part {
    /// The real operator in a simulated cluster: crash points, random schedules, small worlds
    Sim,
    /// Published bugs put back one at a time: each has to be caught
    Zoo,
    /// A real control plane, judged by its etcd history; and native CronJobs beside kube-controller-manager
    Real,
}

impl Part {
    fn run(self, args: &Args) -> Result<()> {
        match self {
            Self::Sim => {
                let seeds = args.seeds.to_string();
                let first = args.first_seed.map(|first| first.to_string());
                let first = first.as_deref().map(|first| ["--first-seed", first]);
                let mut given = vec!["--seeds", &*seeds];
                given.extend(first.into_iter().flatten());
                sim(&given)
            }
            Self::Zoo => cargo(&[
                "test",
                "--profile=proof",
                "--package=carillon-proof",
                "--test=zoo",
                "--",
                "--nocapture",
            ]),
            Self::Real => cargo(&[
                "test",
                "--package=carillon-tests",
                "--test=real",
                "--",
                "--ignored",
                "--nocapture",
                "--test-threads=1",
                "proof::",
                "cron_parity::",
                "daemon_parity::native_daemon_sets",
                "daemon_parity::daemon_sets_that_are_not",
                "job_parity::jobs_managed_by_us",
                "job_parity::jobs_that_are_not_the_same",
            ]),
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if let Some(file) = &args.replay {
        let file = std::path::absolute(file).context("--replay")?;
        sim(&["--replay", &file.to_string_lossy()])?;
        return Ok(ExitCode::SUCCESS);
    }
    let begin = Instant::now();
    let wanted = |part: &Part| args.only.is_empty() || args.only.contains(part);
    for part in Part::value_variants().iter().copied().filter(wanted) {
        eprintln!("\n=== {part:?}");
        part.run(args)
            .with_context(|| format!("the part {part:?} of the proof does not hold"))?;
    }
    println!("\nproved in {} s", begin.elapsed().as_secs());
    Ok(ExitCode::SUCCESS)
}

fn sim(args: &[&str]) -> Result<()> {
    let run = ["run", "--profile=proof", "--package=carillon-proof", "--"];
    cargo(&[&run, args].concat())
}

fn cargo(args: &[&str]) -> Result<()> {
    eprintln!("cargo {}", args.join(" "));
    metadata::run_cargo(args)
}
