//! Carillon's build system: one file per command.

use std::process::{ExitCode, ExitStatus};

use clap::{Parser, Subcommand};

mod bench;
mod cluster;
#[cfg(test)]
mod commands;
mod conformance;
mod crds;
#[cfg(test)]
mod decisions;
mod demo;
mod fuzz;
mod generated_part;
mod golden;
#[cfg(test)]
mod imports;
#[cfg(test)]
mod interlock;
mod interrupt;
#[cfg(test)]
mod layout;
mod metadata;
#[cfg(test)]
mod metric_names;
#[cfg(test)]
mod named_tests;
mod plot;
mod prove;
#[cfg(test)]
mod reasons;
mod release;
mod replicas;
mod rights;
mod soak;
mod test;
mod transcripts;
mod values;

#[derive(Parser)]
#[command(
    name = "cargo xtask",
    about = "Carillon's build system",
    max_term_width = 100
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Carillon measured against kube-controller-manager
    Bench(bench::Args),
    /// A real Kubernetes control plane with simulated nodes, on this machine
    Cluster(cluster::Args),
    /// Kubernetes' own tests of Jobs, CronJobs and DaemonSets, with its controllers and with ours (root, Linux)
    Conformance(conformance::Args),
    /// Write the CRDs to crds/ and the reference of their fields to docs/api/, or with --check compare them
    Crds(crds::Args),
    /// Carillon on fifty simulated nodes, running the examples to their end
    Demo(demo::Args),
    /// Build all files of a release: images, chart, manifests, plugin, bills of materials, checksums
    #[command(disable_help_flag = true)]
    Dist(release::Args),
    /// Strange bytes for everything that reads what others have written
    Fuzz(fuzz::Args),
    /// Ask the parser of Kubernetes' CronJobs what schedules mean, for our tests; or with --check compare
    Golden(golden::Args),
    /// Build the image of the operator, without Docker: an OCI layout, a docker-archive, a bill of materials
    #[command(disable_help_flag = true)]
    Image(release::Args),
    /// Prove that work is neither lost nor repeated: every crash point, random faults, a real cluster
    Prove(prove::Args),
    /// Check with --dry-run whether everything is right for a release of this commit
    #[command(disable_help_flag = true)]
    Release(release::Args),
    /// Write the table of SECURITY.md that says what the operator may do, or with --check compare it
    Rights(rights::Args),
    /// Let a month pass in the simulated cluster: whether promises are kept, and memory stays flat
    Soak(soak::Args),
    /// Everything a change must pass: formatting, lints, tests
    Test(test::Args),
    /// Run the commands shown in docs/kubectl-carillon.md and write what they print, or with --check compare
    Transcripts(transcripts::Args),
    /// Write what the chart's values.yaml says into its README and schema, or with --check compare it
    Values(values::Args),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Bench(args) => bench::run(&args),
        Command::Cluster(args) => cluster::run(&args),
        Command::Conformance(args) => conformance::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Crds(args) => crds::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Demo(args) => demo::run(&args),
        Command::Dist(args) => release::run("dist", &args),
        Command::Fuzz(args) => fuzz::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Golden(args) => golden::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Image(args) => release::run("image", &args),
        Command::Prove(args) => prove::run(&args),
        Command::Release(args) => release::run("release", &args),
        Command::Rights(args) => rights::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Soak(args) => soak::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Test(args) => test::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Transcripts(args) => transcripts::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Values(args) => values::run(&args).map(|()| ExitCode::SUCCESS),
    };
    result.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

/// That of a program which was run in our place; a failure if a signal ended it.
fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    code.map_or(ExitCode::FAILURE, ExitCode::from)
}
