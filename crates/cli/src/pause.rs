//! `pause` and `resume`.

use anyhow::{Error, Result, bail};
use carillon_plan::broadcast_job::BroadcastJob;
use carillon_plan::view::broadcast_job::pause;
use carillon_plan::view::read;
use clap_complete::ArgValueCandidates;
use jiff::Timestamp;
use serde_json::Value;

use crate::client::Api;
use crate::exit::DONE;
use crate::flags::{DryRun, JobName};
use crate::names::{ApiName, cron_name, job_name};
use crate::render::Screen;
use crate::{candidates, suspend};

/// Start no further pod of a job; those that run are left alone
#[derive(Debug, clap::Args)]
pub(crate) struct Pause {
    #[command(flatten)]
    job: JobName,
    #[command(flatten)]
    dry: DryRun,
}

/// Let a job or a CronJob go on, whoever or whatever paused or suspended it
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Of a BroadcastJob, failures so far are accepted. Of a CronJob, it is said which runs are made up for.

Examples:
  # The BroadcastJob of this name, or else the CronJob
  kubectl carillon resume fix-kernel

  # Whatever else is called so
  kubectl carillon resume cbj/fix-kernel
  kubectl carillon resume cronjob/close-books")]
pub(crate) struct Resume {
    /// Name of a BroadcastJob or else of a CronJob; as cbj/NAME or cronjob/NAME only the one or the
    /// other
    #[arg(value_name = "JOB|CRON", value_parser = target,
          add = ArgValueCandidates::new(candidates::jobs_and_crons))]
    target: Target,
    #[command(flatten)]
    dry: DryRun,
}

/// What is to go on.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Target {
    /// A BroadcastJob.
    Job(String),
    /// A CronJob.
    Cron(ApiName),
    /// Either, by name.
    Any(String),
}

fn target(text: &str) -> Result<Target, String> {
    if !text.contains('/') {
        return job_name(text).map(Target::Any);
    }
    let target = job_name(text).map(Target::Job);
    target
        .or_else(|_| cron_name(text).map(Target::Cron))
        .map_err(|_| "write NAME, cbj/NAME or cronjob/NAME".to_owned())
}

pub(crate) async fn pause(api: &Api, args: &Pause, screen: &mut Screen) -> Result<u8> {
    change(
        api,
        (&args.job.job, args.dry),
        "paused",
        pause::pause,
        screen,
    )
    .await
}

pub(crate) async fn resume(api: &Api, args: &Resume, screen: &mut Screen) -> Result<u8> {
    let patch = |job: &BroadcastJob| pause::resume(job, Timestamp::now());
    let name = match &args.target {
        Target::Cron(name) => {
            let cron = api.cron(name).await?;
            return suspend::resume(api, &cron, args.dry, screen).await;
        }
        Target::Job(name) => {
            return change(api, (name, args.dry), "resumed", patch, screen).await;
        }
        Target::Any(name) => name,
    };
    let job = api.job_if_any(name).await?;
    let any = ApiName::any(name);
    let cron = match api.cron_if_any(&any).await {
        // Whoever may not see CronJobs means the job.
        Err(_) if job.is_some() => None,
        cron => cron?,
    };
    match (job, cron) {
        (Some(_), Some(_)) => bail!(
            "there are a BroadcastJob and a CronJob {name}: write cbj/{name} or cronjob/{name}"
        ),
        (Some(_), None) => change(api, (name, args.dry), "resumed", patch, screen).await,
        (None, Some(cron)) => suspend::resume(api, &cron, args.dry, screen).await,
        (None, None) => Err(api.nothing_called(name).await),
    }
}

/// Sends the patch that makes it so, unless it is so.
async fn change(
    api: &Api,
    (name, dry): (&str, DryRun),
    done: &str,
    patch: impl FnOnce(&BroadcastJob) -> Result<Option<Value>, String>,
    screen: &mut Screen,
) -> Result<u8> {
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
    if let Err(error) = api.merge(name, dry.dry_run, &patch).await {
        return Err(api
            .explain(error, &format!("changing BroadcastJob {name}"))
            .await);
    }
    screen.line(&format!(
        "broadcastjob.carillon.dev/{name} {done}{}",
        dry.mark()
    ))?;
    Ok(DONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_name_may_be_a_job_or_a_cron_job_and_a_kind_decides() {
        assert_eq!(target("fix"), Ok(Target::Any("fix".to_owned())));
        assert_eq!(target("cbj/fix"), Ok(Target::Job("fix".to_owned())));
        for text in ["cronjob/fix", "ccj/fix", "cj/fix"] {
            assert!(matches!(target(text), Ok(Target::Cron(_))), "{text}");
        }
        for wrong in ["", "pod/fix", "cbj/", "a/b/c"] {
            assert!(target(wrong).is_err(), "{wrong:?}");
        }
    }
}
