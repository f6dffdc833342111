//! `suspend`, and `resume` of CronJobs.

use anyhow::{Error, Result};
use carillon_plan::cron_job::Unusable;
use carillon_plan::view::cron_job::read::{self, StoredCron};
use carillon_plan::view::cron_job::resource;
use carillon_plan::view::cron_job::suspend::{Resumed, resumed, suspend};
use jiff::Timestamp;
use serde_json::Value;

use crate::client::Api;
use crate::cron::Cron;
use crate::exit::DONE;
use crate::flags::DryRun;
use crate::render::{SAMPLE, Screen, count, duration, sample};

/// Start no further run of a CronJob; those that run are left alone
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Sets spec.suspend, of a CronJob of carillon.dev or else of batch/v1. `kubectl carillon trigger` still
starts runs.

Examples:
  kubectl carillon suspend close-books
  kubectl carillon resume cronjob/close-books")]
pub(crate) struct Suspend {
    #[command(flatten)]
    cron: Cron,
    #[command(flatten)]
    dry: DryRun,
}

pub(crate) async fn run(api: &Api, args: &Suspend, screen: &mut Screen) -> Result<u8> {
    let stored = read::cron(&api.cron(&args.cron.cron).await?);
    if !write(api, &stored, (true, args.dry), screen).await? {
        return Ok(DONE);
    }
    let active: Vec<String> = stored
        .cron
        .status
        .active
        .iter()
        .map(|run| run.name.clone())
        .collect();
    if !active.is_empty() {
        let (runs, names) = (count(active.len(), "run"), sample(&active, SAMPLE));
        let verb = if active.len() == 1 { "goes" } else { "go" };
        screen.line(&format!("{runs} {verb} on: {names}"))?;
    }
    Ok(DONE)
}

/// Lets a CronJob go on, and says what that brings.
pub(crate) async fn resume(
    api: &Api,
    object: &Value,
    dry: DryRun,
    screen: &mut Screen,
) -> Result<u8> {
    let stored = read::cron(object);
    // Which runs are in the way is only known to those who may list jobs. Asked before: the operator may
    // start the run that is made up for before it can be told of.
    let now = Timestamp::now();
    let children = api.children(&stored).await;
    if !write(api, &stored, (false, dry), screen).await? {
        return Ok(DONE);
    }
    match &stored.cron.timetable {
        Err(Unusable::Schedule(error) | Unusable::TimeZone(error)) => {
            screen.aside(&format!("It will not run, though. {error}"));
        }
        Ok(schedule) => match children {
            Ok(children) => {
                let resumed = resumed(&stored, &children, now);
                let zone = schedule.zone();
                let shown = |at: Timestamp| {
                    at.to_zoned(zone.clone())
                        .strftime("%Y-%m-%d %H:%M:%S %:z")
                        .to_string()
                };
                for line in sentences(&resumed, &stored, shown, now) {
                    screen.line(&line)?;
                }
            }
            Err(error) => screen.aside(&format!("{error:#}: what is made up for is not known")),
        },
    }
    Ok(DONE)
}

/// Sends the patch that makes it so, unless it is so; whether it was sent.
async fn write(
    api: &Api,
    stored: &StoredCron,
    (on, dry): (bool, DryRun),
    screen: &mut Screen,
) -> Result<bool> {
    let cron = &stored.cron;
    let (side, name) = (cron.api, cron.meta.owner.name.as_str());
    let resource = resource(side);
    let Some(patch) = suspend(stored, on).map_err(Error::msg)? else {
        let so = if on {
            "suspended already"
        } else {
            "not suspended"
        };
        screen.line(&format!("{resource}/{name} is {so}"))?;
        return Ok(false);
    };
    if let Err(error) = api.merge_cron((side, name), dry.dry_run, &patch).await {
        let what = format!("changing {resource}/{name}");
        return Err(api.explain(error, &what).await);
    }
    let done = if on { "suspended" } else { "resumed" };
    screen.line(&format!("{resource}/{name} {done}{}", dry.mark()))?;
    Ok(true)
}

/// What is made up for, what is not, and when the next run is due.
fn sentences(
    resumed: &Resumed,
    stored: &StoredCron,
    shown: impl Fn(Timestamp) -> String,
    now: Timestamp,
) -> Vec<String> {
    let mut lines = Vec::new();
    let names = |names: &[String]| sample(names, SAMPLE);
    let when = match (resumed.waits_for.as_slice(), resumed.replaces.as_slice()) {
        ([], []) => "at once".to_owned(),
        ([], replaced) => format!("at once, in place of {}", names(replaced)),
        (others, _) => format!("once {} has ended", names(others)),
    };
    match resumed.runs.as_slice() {
        [] => {}
        [one] => lines.push(format!("The run of {} is made up for {when}", shown(*one))),
        [first, .., last] => {
            let order = if resumed.one_by_one {
                ", one after the other"
            } else {
                ""
            };
            lines.push(format!(
                "{} are made up for {when}{order}: those of {} to {}",
                count(resumed.runs.len(), "run"),
                shown(*first),
                shown(*last)
            ));
        }
    }
    if resumed.missed > 0 {
        let (verb, runs) = match resumed.missed {
            1 => ("is", "1 run".to_owned()),
            missed => ("are", format!("{missed} runs")),
        };
        let policy = format!("missedRunPolicy {:?}", stored.cron.missed);
        let why = match stored.cron.deadline {
            None => policy,
            Some(deadline) => {
                format!("{policy}, startingDeadlineSeconds {}", deadline.as_secs())
            }
        };
        lines.push(format!(
            "{runs} that came before {verb} not made up for ({why})"
        ));
    }
    match resumed.next {
        Some(next) => {
            let starts = next.checked_add(stored.cron.offset).unwrap_or(next);
            let distance = duration(starts.duration_since(now).as_secs());
            lines.push(format!(
                "The next run is that of {}, in {distance}",
                shown(next)
            ));
        }
        None => lines.push("There is no next run: no time matches spec.schedule".to_owned()),
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use carillon_plan::cron_job::Children;
    use serde_json::json;

    fn said(more: &Value) -> Vec<String> {
        let mut spec = json!({"schedule": "0 * * * *", "suspend": true});
        spec.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let stored = read::cron(&json!({
            "apiVersion": "carillon.dev/v1alpha1",
            "metadata": {"name": "report", "uid": "4e0c5d6a-0b1c-4d2e-8f3a-000000000001",
                         "creationTimestamp": "2026-01-01T10:30:00Z"},
            "spec": spec,
        }));
        let now = "2026-01-01T14:05:00Z".parse().unwrap();
        let resumed = resumed(&stored, &Children::new(), now);
        sentences(
            &resumed,
            &stored,
            |at| at.strftime("%H:%M").to_string(),
            now,
        )
    }

    #[test]
    fn what_is_made_up_for_and_what_not_is_said() {
        let next = "The next run is that of 15:00, in 55m";
        assert_eq!(
            said(&json!({})),
            [
                "The run of 14:00 is made up for at once",
                "3 runs that came before are not made up for (missedRunPolicy Latest)",
                next,
            ]
        );
        assert_eq!(
            said(&json!({"missedRunPolicy": "All", "concurrencyPolicy": "Forbid"})),
            [
                "4 runs are made up for at once, one after the other: those of 11:00 to 14:00",
                next,
            ]
        );
        assert_eq!(
            said(&json!({"startingDeadlineSeconds": 60})),
            [
                "4 runs that came before are not made up for (missedRunPolicy Latest, \
                 startingDeadlineSeconds 60)",
                next,
            ]
        );
    }

    #[test]
    fn runs_that_are_in_the_way_are_named() {
        let stored = read::cron(&json!({"spec": {"schedule": "0 * * * *"}}));
        let at: Timestamp = "2026-01-01T14:00:00Z".parse().unwrap();
        let first = |resumed: Resumed| {
            let lines = sentences(&resumed, &stored, |at| at.strftime("%H:%M").to_string(), at);
            lines[0].clone()
        };
        let base = || Resumed {
            runs: vec![at],
            ..Resumed::default()
        };
        let waits = first(Resumed {
            waits_for: vec!["report-1".to_owned()],
            ..base()
        });
        assert_eq!(
            waits,
            "The run of 14:00 is made up for once report-1 has ended"
        );
        let replaces = first(Resumed {
            replaces: vec!["report-1".to_owned()],
            ..base()
        });
        assert_eq!(
            replaces,
            "The run of 14:00 is made up for at once, in place of report-1"
        );
    }
}
