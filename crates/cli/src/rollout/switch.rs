//! `rollout pause`, `resume` and `restart`.

use anyhow::{Error, Result};
use carillon_plan::view::daemon_set::change;
use carillon_plan::view::daemon_set::read::{self, StoredSet};
use carillon_plan::view::daemon_set::resource;
use jiff::Timestamp;
use serde_json::Value;

use super::set::SetName;
use crate::client::Api;
use crate::exit::DONE;
use crate::flags::DryRun;
use crate::render::Screen;

/// Replace no further pod; nodes without a pod still get one
#[derive(Debug, clap::Args)]
pub(super) struct Pause {
    #[command(flatten)]
    set: SetName,
    #[command(flatten)]
    dry: DryRun,
}

/// Let a paused update go on
#[derive(Debug, clap::Args)]
pub(super) struct Resume {
    #[command(flatten)]
    set: SetName,
    #[command(flatten)]
    dry: DryRun,
}

/// Replace all pods by others of the same template, as an update does
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Sets the annotation kubectl.kubernetes.io/restartedAt of the template, as kubectl rollout restart does.")]
pub(super) struct Restart {
    #[command(flatten)]
    set: SetName,
    #[command(flatten)]
    dry: DryRun,
}

pub(super) async fn pause(api: &Api, args: &Pause, screen: &mut Screen) -> Result<u8> {
    let stored = stored(api, &args.set).await?;
    let patch = change::pause(&stored.set).map_err(Error::msg)?;
    let Some(patch) = patch else {
        return already(&stored, "is paused already", screen);
    };
    write(api, &stored, args.dry, (&patch, "paused"), screen).await
}

pub(super) async fn resume(api: &Api, args: &Resume, screen: &mut Screen) -> Result<u8> {
    let stored = stored(api, &args.set).await?;
    let patch = change::resume(&stored.set).map_err(Error::msg)?;
    let Some(patch) = patch else {
        return already(&stored, "is not paused", screen);
    };
    write(api, &stored, args.dry, (&patch, "resumed"), screen).await
}

pub(super) async fn restart(api: &Api, args: &Restart, screen: &mut Screen) -> Result<u8> {
    let stored = stored(api, &args.set).await?;
    let patch = change::restart(&stored.set, Timestamp::now()).map_err(Error::msg)?;
    write(api, &stored, args.dry, (&patch, "restarted"), screen).await
}

async fn stored(api: &Api, name: &SetName) -> Result<StoredSet> {
    Ok(read::set(&api.set(&name.set).await?))
}

fn already(stored: &StoredSet, so: &str, screen: &mut Screen) -> Result<u8> {
    let set = &stored.set;
    screen.line(&format!("{}/{} {so}", resource(set), set.meta.owner.name))?;
    Ok(DONE)
}

async fn write(
    api: &Api,
    stored: &StoredSet,
    dry: DryRun,
    (patch, done): (&Value, &str),
    screen: &mut Screen,
) -> Result<u8> {
    let set = &stored.set;
    api.merge_set(set, dry.dry_run, patch).await?;
    let (resource, name) = (resource(set), &set.meta.owner.name);
    screen.line(&format!("{resource}/{name} {done}{}", dry.mark()))?;
    Ok(DONE)
}
