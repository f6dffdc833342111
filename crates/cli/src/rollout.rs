//! `rollout`: the update of a DaemonSet, as `kubectl rollout` does it for kinds of Kubernetes.

mod history;
mod set;
mod status;
mod switch;
mod undo;

use anyhow::Result;
use clap::{Args, Subcommand};

use self::history::History;
use self::status::Status;
use self::switch::{Pause, Restart, Resume};
use self::undo::Undo;
use crate::client::Api;
use crate::render::Screen;

/// Follow the update of a DaemonSet, look at its revisions, undo, pause, resume or restart it
#[derive(Debug, Args)]
#[command(after_help = "\
For DaemonSets of carillon.dev, and for those of apps/v1 (ds/NAME), which have no pause.

Examples:
  kubectl carillon rollout status agent --timeout 30m
  kubectl carillon rollout history agent --revision 3
  kubectl carillon rollout undo agent --to-revision 3")]
pub(crate) struct Rollout {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Status(Status),
    History(History),
    Undo(Undo),
    Pause(Pause),
    Resume(Resume),
    Restart(Restart),
}

pub(crate) async fn run(api: &Api, args: &Rollout, screen: &mut Screen) -> Result<u8> {
    match &args.verb {
        Verb::Status(args) => status::run(api, args, screen).await,
        Verb::History(args) => history::run(api, args, screen).await,
        Verb::Undo(args) => undo::run(api, args, screen).await,
        Verb::Pause(args) => switch::pause(api, args, screen).await,
        Verb::Resume(args) => switch::resume(api, args, screen).await,
        Verb::Restart(args) => switch::restart(api, args, screen).await,
    }
}
