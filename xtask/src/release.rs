//! `cargo xtask image`, `dist` and `release`: passed on to the program that makes what a release consists of. It is a
//! crate of its own, so that the demo and the tests do not have to build what only a release needs.

use std::env;
use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::{Context, Result};
use carillon_testbed::cargo;
use carillon_testbed::carillon::workspace;

use crate::exit_code;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Passed on as they are
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

pub(crate) fn run(command: &str, args: &Args) -> Result<ExitCode> {
    let manifest = workspace().join("Cargo.toml");
    let status = cargo::command()
        // Paths in the arguments are those of who typed them.
        .current_dir(env::current_dir()?)
        .args(["run", "--quiet", "--manifest-path"])
        .arg(manifest)
        .args(["--package", "carillon-release", "--", command])
        .args(&args.args)
        .status()
        .context("running cargo")?;
    Ok(exit_code(status))
}
