//! The example `bench` of carillon-plan, in the release profile.

use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use carillon_testbed::carillon::workspace;

use super::machine;
use crate::metadata::cargo;

pub(super) fn run() -> Result<ExitCode> {
    let mut bench = Command::new(cargo());
    bench.current_dir(workspace()).args([
        "run",
        "--quiet",
        "--release",
        "--package=carillon-plan",
        "--example=bench",
    ]);
    println!("{}\n", machine::line_alone());
    let status = bench.status().context("cargo run")?;
    ensure!(status.success(), "the benchmark ended with {status}");
    Ok(ExitCode::SUCCESS)
}
