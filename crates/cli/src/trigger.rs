//! `trigger`: a run now, whatever the schedule says.

use std::time::{Duration, Instant};

use anyhow::{Error, Result, anyhow, bail};
use carillon_plan::cron_job::Ended;
use carillon_plan::view::cron_job::next::child_resource;
use carillon_plan::view::cron_job::read::{self, StoredCron};
use carillon_plan::view::cron_job::resource;
use carillon_plan::view::cron_job::trigger::{Refusal, Request, Standing, request, standing};
use jiff::Timestamp;
use serde_json::Value;

use crate::client::{Api, code};
use crate::cron::Cron;
use crate::exit::{DONE, FAILED, NOT_ALL};
use crate::flags::DryRun;
use crate::names::ApiName;
use crate::render::{Parts, SAMPLE, Screen, sample};
use crate::wait::duration;

/// How often a CronJob that changes meanwhile is read again.
const TRIES: usize = 5;
/// How long an operator may take to act.
const PATIENCE: Duration = Duration::from_secs(10);
const EVERY: Duration = Duration::from_millis(500);

/// Start a run of a CronJob now, whatever its schedule says, also while it is suspended
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The run is asked for by a new value of the annotation carillon.dev/run-now, and prints the name of its
job. concurrencyPolicy holds for it: with Forbid it waits for the run before.

Examples:
  # Run now
  kubectl carillon trigger close-books

  # Run now, and wait for what comes of it
  kubectl carillon trigger close-books --wait --timeout 10m

Exit codes: 0 done, with --wait: the run is Complete; 1 error; with --wait: 2 not within the time, 3 the run
has Failed, or nodes of it have.")]
pub(crate) struct Trigger {
    #[command(flatten)]
    cron: Cron,
    /// Wait until the run has ended
    #[arg(long, conflicts_with = "dry_run")]
    wait: bool,
    /// How long at most, such as 90s or 1h30m; without a limit when absent
    #[arg(long, value_name = "DURATION", value_parser = duration, requires = "wait")]
    timeout: Option<Duration>,
    #[command(flatten)]
    dry: DryRun,
}

pub(crate) async fn run(api: &Api, args: &Trigger, screen: &mut Screen) -> Result<u8> {
    let start = Instant::now();
    let wanted = &args.cron.cron;
    let Some((stored, request)) = ask(api, wanted, args.dry.dry_run).await? else {
        bail!(
            "CronJob {} changed {TRIES} times meanwhile: try again",
            wanted.name
        );
    };
    let cron = format!("{}/{}", resource(stored.cron.api), wanted.name);
    let job = format!("{}/{}", child_resource(request.kind.kind()), request.name);
    if args.dry.dry_run {
        screen.line(&format!("{cron} would run once more{}", args.dry.mark()))?;
        return Ok(DONE);
    }
    let limit = args.timeout.unwrap_or(Duration::MAX);
    let mut told = false;
    loop {
        let stands = stands(api, wanted, &request).await?;
        let late = start.elapsed() >= PATIENCE;
        match stands {
            Standing::Started | Standing::Promised => break,
            Standing::WaitsFor(others) if !told => {
                told = true;
                let others = sample(&others, SAMPLE);
                screen.line(&format!(
                    "{cron} runs {job} once {others} has ended (concurrencyPolicy Forbid)"
                ))?;
            }
            Standing::Refused(why) if late => bail!(
                "{cron} was asked to run {job}, and the API server refuses that job. It is tried again \
                 until it is accepted. {why}"
            ),
            Standing::NotSeen if late && !args.wait => {
                screen.line(&format!("{cron} was asked to run {job}"))?;
                screen.aside(&format!(
                    "No operator has acted on that within {} s: does one run?",
                    PATIENCE.as_secs()
                ));
                return Ok(DONE);
            }
            _ => {}
        }
        if told && !args.wait {
            return Ok(DONE);
        }
        if args.wait && start.elapsed() >= limit {
            screen.aside(&format!("not within {limit:?}"));
            return Ok(NOT_ALL);
        }
        tokio::time::sleep(EVERY).await;
    }
    if !told {
        screen.line(&format!("{cron} runs {job}"))?;
    }
    if args.wait {
        return ended(api, &request, &job, start, limit, screen).await;
    }
    Ok(DONE)
}

/// Writes the request; `None` when the CronJob changed each time.
async fn ask(api: &Api, wanted: &ApiName, dry_run: bool) -> Result<Option<(StoredCron, Request)>> {
    for _ in 0..TRIES {
        let object = api.cron(wanted).await?;
        let stored = read::cron(&object);
        let children = api.children_if_allowed(&stored).await?;
        let request = match request(&stored, &children, Timestamp::now()) {
            Ok(request) => request,
            // In a moment its job is there.
            Err(Refusal::Pending(Standing::Promised)) => {
                tokio::time::sleep(EVERY).await;
                continue;
            }
            Err(refusal) => return Err(refused(api, &stored, refusal)),
        };
        let patch = request.patch(&object["metadata"]["resourceVersion"]);
        let id = (stored.cron.api, wanted.name.as_str());
        match api.merge_cron(id, dry_run, &patch).await {
            Ok(_) => return Ok(Some((stored, request))),
            Err(error) if code(&error) == Some(409) => {}
            Err(error) => {
                let what = format!("changing CronJob {}", wanted.name);
                return Err(api.explain(error, &what).await);
            }
        }
    }
    Ok(None)
}

/// Why nothing is asked for, and what to do.
fn refused(api: &Api, stored: &StoredCron, refusal: Refusal) -> Error {
    let name = &stored.cron.meta.owner.name;
    let pending = match refusal {
        Refusal::Native => {
            return anyhow!(
                "CronJob {name} is one of batch/v1, where the annotation carillon.dev/run-now means \
                 nothing. Use: kubectl create job {name}-{} --from=cronjob.batch/{name} -n {}",
                Timestamp::now().as_second(),
                api.namespace
            );
        }
        Refusal::Deleting => return anyhow!("CronJob {name} is being deleted"),
        Refusal::Pending(standing) => standing,
    };
    let why = match pending {
        Standing::WaitsFor(others) => {
            format!(
                "it waits for {} (concurrencyPolicy Forbid)",
                sample(&others, SAMPLE)
            )
        }
        Standing::Refused(why) => format!("the API server refuses its job: {why}"),
        Standing::NotSeen | Standing::Promised | Standing::Started => {
            "no operator has acted on it yet".to_owned()
        }
    };
    anyhow!(
        "CronJob {name} was asked for a run already that has not started: {why}; ask again once it has"
    )
}

async fn stands(api: &Api, wanted: &ApiName, request: &Request) -> Result<Standing> {
    let stored = read::cron(&api.cron(wanted).await?);
    let children = api.children_if_allowed(&stored).await?;
    Ok(standing(&stored, &children, request))
}

/// Waits until the job of a run has ended, and says how.
async fn ended(
    api: &Api,
    request: &Request,
    job: &str,
    start: Instant,
    limit: Duration,
    screen: &mut Screen,
) -> Result<u8> {
    let (mut seen, mut said) = (false, String::new());
    loop {
        match api.child(request.kind, &request.name).await? {
            Some(child) => {
                seen = true;
                if let Some(end) = read::child(&child).ended {
                    screen.line(&format!("{job} {}", outcome(&child, end)))?;
                    return Ok(if end.succeeded() { DONE } else { FAILED });
                }
                let parts = parts(&child);
                let done = parts.done + parts.failed;
                let line = format!("{job}: {done}/{} done, {} active", parts.all, parts.active);
                screen.progress(parts, &line, &mut said);
            }
            None if seen => bail!("{job} is gone, and what came of it is not known"),
            // Only promised yet.
            None if start.elapsed() < limit.min(PATIENCE) => {}
            None => bail!("{job} is not there: it was deleted, or was not created yet"),
        }
        if start.elapsed() >= limit {
            screen.aside(&format!("{job} has not ended within {limit:?}"));
            return Ok(NOT_ALL);
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// How far a Job or BroadcastJob is. A pod of a Job that has failed is no end of anything, but of an index.
fn parts(child: &Value) -> Parts {
    let (spec, status) = (&child["spec"], &child["status"]);
    let number = |value: &Value| value.as_i64().and_then(|number| i32::try_from(number).ok());
    let count = |field: &str| number(&status[field]).unwrap_or(0);
    let job = child["kind"] == "Job";
    let all = if job {
        number(&spec["completions"]).or_else(|| number(&spec["parallelism"]))
    } else {
        number(&status["desired"])
    };
    Parts {
        done: count("succeeded"),
        failed: if job { 0 } else { count("failed") },
        active: count("active"),
        all: all.unwrap_or(1),
    }
}

/// `Failed: BackoffLimitExceeded Job has reached the specified backoff limit`.
fn outcome(child: &Value, end: Ended) -> String {
    let type_ = end.condition();
    let mut conditions = child["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten();
    let condition = conditions.find(|condition| condition["type"] == type_);
    let text = |field: &str| {
        let value = condition.and_then(|condition| condition[field].as_str());
        value
            .filter(|_| !end.succeeded())
            .unwrap_or_default()
            .to_owned()
    };
    let why = format!("{} {}", text("reason"), text("message"));
    match why.trim() {
        "" => type_.to_owned(),
        why => format!("{type_}: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use carillon_plan::cron_job::RunOutcome;
    use serde_json::json;

    use super::*;

    fn told(child: &Value, outcome: RunOutcome) -> String {
        super::outcome(child, Ended { outcome, at: None })
    }

    #[test]
    fn how_far_a_run_is_is_read_of_both_kinds() {
        let numbers = |child: &Value| {
            let Parts {
                done,
                failed,
                active,
                all,
            } = parts(child);
            [done, failed, active, all]
        };
        let status = json!({"succeeded": 2, "failed": 1, "active": 3, "desired": 9});
        let job = |spec: Value| json!({"kind": "Job", "spec": spec, "status": status});
        assert_eq!(
            numbers(&job(json!({"completions": 5, "parallelism": 3}))),
            [2, 0, 3, 5]
        );
        assert_eq!(numbers(&job(json!({}))), [2, 0, 3, 1]);
        let broadcast = json!({"kind": "BroadcastJob", "status": status});
        assert_eq!(numbers(&broadcast), [2, 1, 3, 9]);
        assert_eq!(numbers(&json!({"kind": "BroadcastJob"})), [0, 0, 0, 1]);
    }

    #[test]
    fn a_failure_is_told_with_its_reason() {
        let child = json!({"status": {"conditions": [
            {"type": "Failed", "reason": "DeadlineExceeded", "message": "too late"},
            {"type": "Complete", "reason": "CompletionsReached", "message": "Reached"},
        ]}});
        assert_eq!(
            told(&child, RunOutcome::Failed),
            "Failed: DeadlineExceeded too late"
        );
        assert_eq!(told(&child, RunOutcome::Succeeded), "Complete");
        let some_failed = json!({"status": {"conditions": [
            {"type": "Complete", "reason": "CompletedWithFailures", "message": "1 of 2 nodes failed"},
        ]}});
        assert_eq!(
            told(&some_failed, RunOutcome::CompletedWithFailures),
            "Complete: CompletedWithFailures 1 of 2 nodes failed"
        );
        assert_eq!(told(&json!({}), RunOutcome::Failed), "Failed");
    }
}
