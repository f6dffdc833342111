//! `cargo xtask soak`: a month of the operator, in simulated time; whether what it remembers stays flat.

mod real;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use carillon_testbed::carillon::workspace;
use serde::Deserialize;

use crate::{metadata, plot};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many days pass
    #[arg(long, value_name = "N", default_value_t = 30)]
    days: u32,
    /// Of everything that is left to chance
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
    /// On a real control plane, for this many minutes
    #[arg(long, value_name = "MINUTES", num_args = 0..=1, default_missing_value = "60", conflicts_with_all = ["days", "seed"])]
    real: Option<u64>,
    /// Draw the memory as SVG: bytes allocated at each midnight, or those of each replica
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
}

/// What a day has brought.
#[derive(Deserialize)]
struct Day {
    day: u32,
    allocated: f64,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if let Some(minutes) = args.real {
        return real::run(minutes, args.picture.as_deref());
    }
    let figures = workspace().join("target");
    fs::create_dir_all(&figures).with_context(|| figures.display().to_string())?;
    let figures = figures.join("soak.json");
    let (days, seed) = (args.days.to_string(), args.seed.to_string());
    metadata::run_cargo(&[
        "run",
        "--profile=proof",
        "--package=carillon-proof",
        "--bin=carillon-soak",
        "--",
        "--days",
        &days,
        "--seed",
        &seed,
        "--json",
        &figures.to_string_lossy(),
    ])?;
    let Some(picture) = &args.picture else {
        return Ok(());
    };
    let text = fs::read(&figures).with_context(|| figures.display().to_string())?;
    let days: Vec<Day> = serde_json::from_slice(&text)?;
    let points = days.iter();
    let points = points.map(|day| (f64::from(day.day), day.allocated / 1e6));
    let line = ("operators and cluster".to_owned(), points.collect());
    let title = "Bytes allocated at midnight: three processes and the simulated cluster";
    plot::lines(picture, title, ("day", "MB"), &[line])
}
