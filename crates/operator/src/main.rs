//! The process `carillon`.

use std::process::ExitCode;

use carillon_operator::args::Task;
use carillon_operator::transport::{self, BatchWindow};
use carillon_operator::{run, telemetry};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

// One thread: the work is waiting, and planning takes milliseconds. The lease has a thread of its own.
fn main() -> ExitCode {
    match transport::runtime() {
        Ok((runtime, window)) => runtime.block_on(work(window)),
        Err(error) => failed(&error.into()),
    }
}

async fn work(window: BatchWindow) -> ExitCode {
    let config = match Task::from_process() {
        Task::Operate(config) => config,
        Task::Check(check) => return check.run().await,
    };
    let outcome = match telemetry::init(config.log_format, config.log_level) {
        Ok(()) => match stop_on_signal() {
            Ok(stop) => run::run(config, window, stop).await,
            Err(error) => Err(error.into()),
        },
        Err(error) => Err(error),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

fn failed(error: &anyhow::Error) -> ExitCode {
    eprintln!("carillon: {error:#}");
    ExitCode::FAILURE
}

/// A token that SIGTERM or SIGINT cancels. A second signal ends the process at once.
fn stop_on_signal() -> std::io::Result<CancellationToken> {
    let stop = CancellationToken::new();
    let (mut term, mut int) = (
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
    );
    let token = stop.clone();
    tokio::spawn(async move {
        for again in [false, true] {
            tokio::select! { _ = term.recv() => {}, _ = int.recv() => {} }
            if again {
                std::process::exit(1);
            }
            token.cancel();
        }
    });
    Ok(stop)
}
