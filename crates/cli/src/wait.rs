//! `wait`: until a job has ended.

use std::time::{Duration, Instant};

use anyhow::Result;
use carillon_plan::view::broadcast_job::ledger::Ledger;
use carillon_plan::view::broadcast_job::pause::{End, end};
use carillon_plan::view::broadcast_job::progress::Progress;
use carillon_plan::view::read;
use jiff::SignedDuration;

use crate::client::Api;
use crate::exit::{DONE, FAILED, NEEDS_HELP, NOT_ALL};
use crate::flags::JobName;
use crate::render::{Parts, Screen};

const EVERY: Duration = Duration::from_secs(1);

/// Wait until a job has ended
#[derive(Debug, clap::Args)]
#[command(after_help = "\
On a terminal a bar shows how far it is: = done, x failed, > under way.
A job with completionPolicy Never does not end: for it, every node of now must be served.
A job that is paused on request is waited for.

Exit codes: 0 Complete; 1 error, or the job is deleted; 2 not within the time; 3 Failed, or with
--require-success: nodes have failed; 4 Stalled, or paused by failures: it needs a person.")]
pub(crate) struct Wait {
    #[command(flatten)]
    job: JobName,
    /// How long at most, such as 90s or 1h30m; without a limit when absent
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    timeout: Option<Duration>,
    /// Nodes that have failed are a failure, though the job is Complete
    #[arg(long)]
    require_success: bool,
}

/// `90s`, `1h30m`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let read = text.parse::<SignedDuration>().ok();
    read.and_then(|read| Duration::try_from(read).ok())
        .ok_or_else(|| "write a duration such as 90s, 10m or 1h30m".to_owned())
}

pub(crate) async fn run(api: &Api, args: &Wait, screen: &mut Screen) -> Result<u8> {
    let look = async || {
        let job = read::job(&api.job(&args.job.job).await?);
        let progress = Progress::of(&job, &Ledger::default());
        let (name, done, desired) = (&progress.name, progress.done, progress.desired);
        let code = end(&job.job).map(|end| match end {
            End::Served if args.require_success && progress.failed > 0 => FAILED,
            End::Served => DONE,
            End::Failed => FAILED,
            End::NeedsHelp => NEEDS_HELP,
        });
        Ok(Seen {
            line: format!("{name}: {done}/{desired} {}", progress.headline()),
            parts: Parts {
                done: progress.succeeded,
                failed: progress.failed,
                active: progress.active,
                all: desired,
            },
            code,
        })
    };
    until_ended(args.timeout, screen, look).await
}

/// How far it is.
pub(crate) struct Seen {
    /// In words.
    pub(crate) line: String,
    /// In numbers.
    pub(crate) parts: Parts,
    /// What to exit with, if it has ended.
    pub(crate) code: Option<u8>,
}

/// Looks every second until it has ended or the time is over, and tells each change.
pub(crate) async fn until_ended(
    timeout: Option<Duration>,
    screen: &mut Screen,
    mut look: impl AsyncFnMut() -> Result<Seen>,
) -> Result<u8> {
    let start = Instant::now();
    let over = || timeout.is_some_and(|limit| start.elapsed() >= limit);
    let (mut said, mut reached) = (String::new(), false);
    loop {
        let Seen { line, parts, code } = match look().await {
            Ok(seen) => seen,
            // A server that does not answer for a moment has not ended it.
            Err(error) if reached && error.is::<kube::Error>() && !over() => {
                screen.aside(&format!("{error:#}"));
                tokio::time::sleep(EVERY).await;
                continue;
            }
            Err(error) => return Err(error),
        };
        reached = true;
        if let Some(code) = code {
            screen.line(&line)?;
            return Ok(code);
        }
        if over() {
            screen.line(&line)?;
            screen.aside(&format!("not within {:?}", timeout.unwrap_or_default()));
            return Ok(NOT_ALL);
        }
        screen.progress(parts, &line, &mut said);
        tokio::time::sleep(EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_as_everywhere() {
        assert_eq!(duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("1h30m"), Ok(Duration::from_mins(90)));
        assert_eq!(duration("0s"), Ok(Duration::ZERO));
        for wrong in ["", "90", "-5s", "soon"] {
            assert!(duration(wrong).is_err(), "{wrong:?}");
        }
    }
}
