//! The program `kubectl-carillon`: a kubectl plugin that also works alone.
//!
//! Each verb reads objects, asks `carillon-plan` what they mean, and prints the answer. There is no
//! rule about jobs, nodes or schedules in here.

// Everything goes over the screen, which makes harmless what others wrote.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod apply;
mod args;
mod attempts;
mod calendar;
mod candidates;
mod client;
mod complete;
mod cron;
mod dashboard;
mod decisions;
mod doctor;
mod exit;
mod explain;
mod family;
mod flags;
#[cfg(test)]
mod fuzz;
mod get;
mod logs;
mod manifest;
mod names;
mod next;
mod nodes;
mod pause;
mod plan;
mod problem;
mod proxy;
mod render;
mod results;
mod retry;
mod rollout;
mod simulate;
mod suspend;
mod target;
mod top;
mod trigger;
mod two_apis;
mod uninstall;
mod unknown_verb;
mod wait;

use std::ffi::OsString;
use std::process::ExitCode;

use carillon_plan::printable::one_line;
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use clap_complete::CompleteEnv;

use self::args::{Cli, Verb};
use self::client::{Api, block_on};
use self::exit::{DONE, ERROR};
use self::render::{Color, Screen};

fn main() -> ExitCode {
    CompleteEnv::with_factory(Cli::command).complete();
    let args = || std::env::args_os();
    let cli = match Cli::try_parse_from(args()) {
        Ok(cli) => cli,
        Err(error) => {
            return not_understood(
                error,
                args(),
                &mut Screen::new(Color::default(), String::new()),
            );
        }
    };
    let mut screen = Screen::new(cli.global.color, cli.global.repeated());
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
fn not_understood(
    error: clap::Error,
    args: impl Iterator<Item = OsString>,
    screen: &mut Screen,
) -> ExitCode {
    let clean = args.map(|arg| one_line(&arg.to_string_lossy()).into_owned());
    let clean: Vec<String> = clean.collect();
    let error = Cli::try_parse_from(&clean).err().unwrap_or(error);
    // Not clap's 2, which `plan` and `wait` give a meaning.
    let asked_for = matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    );
    match unknown_verb::explained(&error, &clean, &Cli::command()) {
        Some(message) => screen.error(&anyhow::anyhow!(message)),
        None => drop(error.print()),
    }
    ExitCode::from(if asked_for { DONE } else { ERROR })
}

fn run(cli: &Cli, screen: &mut Screen) -> anyhow::Result<u8> {
    let api = async || Api::connect(&cli.global.target()).await;
    match &cli.verb {
        Verb::Get(args) => block_on(async { get::run(&api().await?, args, screen).await }),
        Verb::Results(args) => block_on(async { results::run(&api().await?, args, screen).await }),
        Verb::Logs(args) => block_on(async { logs::run(&api().await?, args, screen).await }),
        Verb::Explain(args) => block_on(async { explain::run(&api().await?, args, screen).await }),
        Verb::Decisions(args) => {
            block_on(async { decisions::run(&api().await?, args, screen).await })
        }
        Verb::Dashboard(args) => dashboard::run(&cli.global, args, screen),
        Verb::Top(args) => top::run(&cli.global, args, screen),
        Verb::Plan(args) => block_on(async { plan::run(api().await?, args, screen).await }),
        Verb::Simulate(args) => simulate::run(&cli.global, args, screen),
        Verb::Retry(args) => block_on(async { retry::run(&api().await?, args, screen).await }),
        Verb::Pause(args) => block_on(async { pause::pause(&api().await?, args, screen).await }),
        Verb::Resume(args) => block_on(async { pause::resume(&api().await?, args, screen).await }),
        Verb::Rollout(args) => block_on(async { rollout::run(&api().await?, args, screen).await }),
        Verb::Wait(args) => block_on(async { wait::run(&api().await?, args, screen).await }),
        Verb::Next(args) => block_on(next::run(&cli.global, args, screen)),
        Verb::Calendar(args) => block_on(calendar::run(&cli.global, args, screen)),
        Verb::Trigger(args) => block_on(async { trigger::run(&api().await?, args, screen).await }),
        Verb::Suspend(args) => block_on(async { suspend::run(&api().await?, args, screen).await }),
        Verb::Doctor(args) => {
            block_on(async { doctor::run(&api().await?, &cli.global, args, screen).await })
        }
        Verb::Uninstall(args) => {
            block_on(async { uninstall::run(&api().await?, &cli.global, args, screen).await })
        }
        Verb::Completion(args) => complete::print_script(args, screen),
        Verb::KubectlComplete(args) => complete::for_kubectl(&mut Cli::command(), args, screen),
        Verb::Version => {
            screen.line(concat!("kubectl-carillon ", env!("CARGO_PKG_VERSION")))?;
            Ok(DONE)
        }
    }
}
