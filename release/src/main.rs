//! Makes what a release consists of: one file per command.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod binary;
mod chart;
mod check;
mod dist;
mod image;
mod output;
mod packages;
mod sbom;
mod source;

#[derive(Parser)]
#[command(
    name = "cargo xtask",
    about = "What a release of Carillon consists of",
    max_term_width = 100
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Build the image of the operator, without Docker
    Image(image::Args),
    /// Build all files of a release: images, chart, manifests, plugin, bills of materials, checksums
    Dist(dist::Args),
    /// Check what has to be right before a release
    Release(check::Args),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Image(args) => image::run(&args),
        Command::Dist(args) => dist::run(&args),
        Command::Release(args) => check::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
