//! `pause` and `resume`.

use anyhow::{Error, Result};
use carillon_plan::broadcast_job::Job;
use carillon_plan::view::{pause, read};
use jiff::Timestamp;
use serde_json::Value;

use crate::DONE;
use crate::args::JobName;
use crate::client::Api;
use crate::render::Screen;

/// Start no further pod of a job; those that run are left alone
#[derive(Debug, clap::Args)]
pub(crate) struct Pause {
    #[command(flatten)]
    job: JobName,
}

/// Let a job go on, whoever or whatever paused it; failures so far are accepted
#[derive(Debug, clap::Args)]
pub(crate) struct Resume {
    #[command(flatten)]
    job: JobName,
}

pub(crate) async fn pause(api: &Api, args: &Pause, screen: &mut Screen) -> Result<u8> {
    change(api, &args.job, "paused", pause::pause, screen).await
}

pub(crate) async fn resume(api: &Api, args: &Resume, screen: &mut Screen) -> Result<u8> {
    let patch = |job: &Job| pause::resume(job, Timestamp::now());
    change(api, &args.job, "resumed", patch, screen).await
}

/// Sends the patch that makes it so, unless it is so.
async fn change(
    api: &Api,
    job: &JobName,
    done: &str,
    patch: impl FnOnce(&Job) -> Result<Option<Value>, String>,
    screen: &mut Screen,
) -> Result<u8> {
    let name = &job.job;
    let stored = read::job(&api.job(name).await?);
    let Some(patch) = patch(&stored.job).map_err(Error::msg)? else {
        let so = if done == "paused" {
            "paused already"
        } else {
            "not paused"
        };
        screen.line(&format!("broadcastjob.carillon.dev/{name} is {so}"))?;
        return Ok(DONE);
    };
    if let Err(error) = api.merge(name, &patch).await {
        return Err(api
            .explain(error, &format!("changing BroadcastJob {name}"))
            .await);
    }
    screen.line(&format!("broadcastjob.carillon.dev/{name} {done}"))?;
    Ok(DONE)
}
