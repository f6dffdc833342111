//! `cargo xtask fuzz`: strange bytes for everything that reads what others have written.
//!
//! The targets are the tests called `fuzz::NAME` of each crate; `cargo test` gives each a few thousand inputs.

use anyhow::{Result, ensure};

/// Crates that have targets.
const PACKAGES: [&str; 4] = [
    "--package=carillon-api",
    "--package=carillon-plan",
    "--package=carillon-operator",
    "--package=carillon-cli",
];

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How long each target is tried; 60 when absent, unless a seed is to be repeated
    #[arg(long, value_name = "N")]
    seconds: Option<u64>,
    /// Only this target, such as list or schedule
    #[arg(long, value_name = "NAME")]
    target: Option<String>,
    /// The seed that a failure has printed; a fresh one when absent
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let seconds = args.seconds.or_else(|| args.seed.is_none().then_some(60));
    let filter = match &args.target {
        Some(name) => vec![format!("fuzz::{name}"), "--exact".to_owned()],
        None => vec!["fuzz::".to_owned()],
    };
    let mut cargo = carillon_testbed::cargo::command();
    cargo
        .args(["test", "--profile=proof", "--lib", "--bins"])
        .args(PACKAGES)
        .args(["--", "--nocapture", "--test-threads=1"])
        .args(filter);
    let set = [
        ("CARILLON_FUZZ_SECONDS", seconds),
        ("CARILLON_FUZZ_SEED", args.seed),
    ];
    for (variable, value) in set {
        if let Some(value) = value {
            cargo.env(variable, value.to_string());
        }
    }
    let status = cargo.status()?;
    ensure!(status.success(), "cargo test: {status}");
    Ok(())
}
