//! The program `kubectl-carillon`: a kubectl plugin that also works alone.
//!
//! Each verb reads objects, asks `carillon-plan` what they mean, and prints the answer. There is no
//! rule about jobs, nodes or schedules in here.

// Everything goes over the screen, which makes harmless what others wrote.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod apply;
mod args;
mod calendar;
mod client;
mod complete;
mod cron;
mod explain;
mod family;
#[cfg(test)]
mod fuzz;
mod get;
mod manifest;
mod next;
mod pause;
mod plan;
mod problem;
mod render;
mod results;
mod retry;
mod suspend;
mod trigger;
mod uninstall;
mod wait;

use std::ffi::OsString;
use std::process::ExitCode;

use carillon_plan::printable::one_line;
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use clap_complete::CompleteEnv;

use self::args::{Cli, Verb};
use self::client::Api;
use self::render::Screen;

/// What was asked for was done.
const DONE: u8 = 0;
/// It was not: the message says why.
const ERROR: u8 = 1;
/// `plan`: not every node would be served. `wait`, `trigger --wait`: the time is over. `uninstall`:
/// something stays.
const NOT_ALL: u8 = 2;
/// `wait`, `trigger --wait`: the job has failed.
const FAILED: u8 = 3;
/// `wait`: the job goes on only after a person has changed something.
const NEEDS_HELP: u8 = 4;

fn main() -> ExitCode {
    CompleteEnv::with_factory(Cli::command).complete();
    let args = || std::env::args_os();
    let cli = match Cli::try_parse_from(args()) {
        Ok(cli) => cli,
        Err(error) => return not_understood(error, args()),
    };
    let mut screen = Screen::new(cli.global.color);
    match run(&cli, &mut screen) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            screen.error(&error);
            ExitCode::from(ERROR)
        }
    }
}

/// Prints help or what is wrong with the arguments, which may have been copied from anywhere: of those
/// that could mislead who reads the answer, it is given about what is left of them.
fn not_understood(error: clap::Error, args: impl Iterator<Item = OsString>) -> ExitCode {
    let clean = args.map(|arg| one_line(&arg.to_string_lossy()).into_owned());
    let error = Cli::try_parse_from(clean).err().unwrap_or(error);
    // Not clap's 2, which `plan` and `wait` give a meaning.
    let asked_for = matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    );
    let _ = error.print();
    ExitCode::from(if asked_for { DONE } else { ERROR })
}

fn run(cli: &Cli, screen: &mut Screen) -> anyhow::Result<u8> {
    let api = async || Api::connect(&cli.global).await;
    match &cli.verb {
        Verb::Get(args) => wait_for(async { get::run(&api().await?, args, screen).await }),
        Verb::Results(args) => wait_for(async { results::run(&api().await?, args, screen).await }),
        Verb::Explain(args) => wait_for(async { explain::run(&api().await?, args, screen).await }),
        Verb::Plan(args) => wait_for(async { plan::run(api().await?, args, screen).await }),
        Verb::Retry(args) => wait_for(async { retry::run(&api().await?, args, screen).await }),
        Verb::Pause(args) => wait_for(async { pause::pause(&api().await?, args, screen).await }),
        Verb::Resume(args) => wait_for(async { pause::resume(&api().await?, args, screen).await }),
        Verb::Wait(args) => wait_for(async { wait::run(&api().await?, args, screen).await }),
        Verb::Next(args) => wait_for(next::run(&cli.global, args, screen)),
        Verb::Calendar(args) => wait_for(calendar::run(&cli.global, args, screen)),
        Verb::Trigger(args) => wait_for(async { trigger::run(&api().await?, args, screen).await }),
        Verb::Suspend(args) => wait_for(async { suspend::run(&api().await?, args, screen).await }),
        Verb::Uninstall(args) => {
            wait_for(async { uninstall::run(&api().await?, &cli.global, args, screen).await })
        }
        Verb::Completion(args) => complete::print_script(args, screen),
        Verb::KubectlComplete(args) => complete::for_kubectl(args, screen),
        Verb::Version => {
            screen.line(concat!("kubectl-carillon ", env!("CARGO_PKG_VERSION")))?;
            Ok(DONE)
        }
    }
}

/// Runs what asks the API server to its end.
fn wait_for<T>(asked: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(asked)
}
