//! `rollout status`.

use std::time::Duration;

use anyhow::Result;
use carillon_plan::view::daemon_set::progress::{End, Progress};
use carillon_plan::view::daemon_set::read;
use clap::ArgAction;

use super::set::SetName;
use crate::client::Api;
use crate::exit::{DONE, FAILED, NEEDS_HELP, NOT_ALL};
use crate::get::daemon_sets::look;
use crate::render::{Parts, Screen};
use crate::wait::{Seen, duration, until_ended};

/// Looks at a native DaemonSet's nodes and pods once in so many looks at its numbers.
const NOW_AND_THEN: u32 = 10;

/// Wait until an update is complete, and say what holds it up
#[derive(Debug, clap::Args)]
#[command(after_help = "\
An update that has come as far as partition and rollingUpdate.selector let it is complete.

Exit codes: 0 complete; 1 error, or the DaemonSet is deleted; 2 not complete within the time, or with
--watch=false: not yet; 3 ProgressDeadlineExceeded: no node has moved for ten minutes, though one could;
4 paused, Stalled for another reason, or of type OnDelete with old pods: it needs a person.")]
pub(super) struct Status {
    #[command(flatten)]
    set: SetName,
    /// Wait; with false it is only said how far it is
    #[arg(short, long, default_value_t = true, default_missing_value = "true", num_args = 0..=1,
          require_equals = true, action = ArgAction::Set, value_name = "true|false")]
    watch: bool,
    /// How long at most, such as 90s or 1h30m; without a limit when absent
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    timeout: Option<Duration>,
}

pub(super) async fn run(api: &Api, args: &Status, screen: &mut Screen) -> Result<u8> {
    let (mut looks, mut found) = (0, None);
    let mut see = async || {
        let object = api.set(&args.set.set).await?;
        let stored = read::set(&object);
        let mut progress = Progress::of(&stored);
        let code = progress.end().map(|end| match end {
            End::Done => DONE,
            End::StandsStill => FAILED,
            End::NeedsHelp => NEEDS_HELP,
        });
        if stored.set.native && code.is_none() {
            if looks % NOW_AND_THEN == 0 {
                look(api, &object, &mut progress).await?;
                found = Some(progress.why.clone());
            }
            looks += 1;
            progress.why = found.clone().unwrap_or_default();
        }
        Ok(Seen {
            line: progress.line(),
            parts: Parts {
                done: progress.updated.min(progress.available),
                failed: 0,
                active: progress.updated - progress.updated.min(progress.available),
                all: progress.desired,
            },
            code,
        })
    };
    if args.watch {
        return until_ended(args.timeout, screen, see).await;
    }
    let Seen { line, code, .. } = see().await?;
    screen.line(&line)?;
    Ok(code.unwrap_or(NOT_ALL))
}
