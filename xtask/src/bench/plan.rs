//! The example `bench` of carillon-plan, in the release profile.

use std::process::ExitCode;

use anyhow::Result;

use super::machine;
use crate::metadata::run_cargo;

pub(super) fn run() -> Result<ExitCode> {
    println!("{}\n", machine::line_alone());
    run_cargo(&[
        "run",
        "--quiet",
        "--release",
        "--package=carillon-plan",
        "--example=bench",
    ])?;
    Ok(ExitCode::SUCCESS)
}
