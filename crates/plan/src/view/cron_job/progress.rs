//! Where a CronJob stands: what came of its last run, when the next one comes, or why none does.

use carillon_api::condition::types;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;

use super::next::{child_resource, next};
use super::read::StoredCron;
use super::{resource, write_api, zone_name};
use crate::condition;
use crate::cron_job::{Api, Child, Children, CronJob, RunOutcome};

/// One CronJob, as `get` shows it.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// `apiVersion`.
    #[serde(rename = "apiVersion", serialize_with = "write_api")]
    pub api: Api,
    /// `kind`.
    pub kind: &'static str,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// `spec.schedule`.
    pub schedule: String,
    /// Name of the zone it is evaluated in; as written where there is no such zone.
    pub time_zone: String,
    /// `spec.suspend`: nothing is started by schedule.
    pub suspended: bool,
    /// Runs that have not ended.
    pub active: usize,
    /// Runs that were due and never started; of batch/v1 nobody counts them.
    pub missed_runs: Option<i64>,
    /// The run that came last, as far as that is known.
    pub last_run: Option<LastRun>,
    /// When the next run starts; absent where there is none.
    pub next_run: Option<Timestamp>,
    /// Why nothing will run though it is not suspended, in words; empty when it will.
    pub problem: String,
    /// When it was created.
    pub created: Option<Timestamp>,
}

/// The run that came last.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LastRun {
    /// What came out.
    pub outcome: Outcome,
    /// When it ended, or for which time it runs.
    pub at: Option<Timestamp>,
    /// As in `job.batch/NAME`; absent where its job is gone or not known.
    pub job: Option<String>,
}

/// What came of a run.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub enum Outcome {
    /// It has not ended.
    Running,
    /// Complete.
    Succeeded,
    /// Complete, and nodes of the BroadcastJob failed.
    CompletedWithFailures,
    /// Failed.
    Failed,
}

impl Outcome {
    /// That of a job.
    pub(super) fn of(child: &Child) -> Self {
        match child.ended.map(|end| end.outcome) {
            None => Self::Running,
            Some(RunOutcome::Succeeded) => Self::Succeeded,
            Some(RunOutcome::CompletedWithFailures) => Self::CompletedWithFailures,
            Some(RunOutcome::Failed) => Self::Failed,
        }
    }
}

impl Progress {
    /// Where a CronJob stands. `children`: its jobs, as far as they are known.
    pub fn of(stored: &StoredCron, children: &Children, now: Timestamp) -> Self {
        let cron = &stored.cron;
        let zone = cron
            .timetable
            .as_ref()
            .map(|schedule| zone_name(schedule.zone()));
        let written = || cron.zone.clone().unwrap_or_else(|| "UTC".to_owned());
        let outlook = next(stored, &TimeZone::UTC, None, now, 1);
        let first = |starts: &super::next::Outlook| Some(starts.runs.first()?.starts);
        let (next_run, problem) = match (cron.suspended, stalled(cron), outlook) {
            (true, ..) => (None, String::new()),
            (false, Some(problem), _) | (false, None, Err(problem)) => (None, problem),
            (false, None, Ok(outlook)) => (first(&outlook), String::new()),
        };
        Self {
            api: cron.api,
            kind: "CronJob",
            namespace: cron.meta.owner.namespace.clone(),
            name: cron.meta.owner.name.clone(),
            schedule: cron.written.clone(),
            time_zone: zone.unwrap_or_else(|_| written()),
            suspended: cron.suspended,
            active: cron.status.active.len(),
            missed_runs: (!cron.is_native()).then_some(cron.status.missed_runs),
            last_run: last_run(cron, children),
            next_run,
            problem,
            created: stored.exists().then_some(cron.meta.created),
        }
    }

    /// As in `cronjob.carillon.dev`.
    pub fn resource(&self) -> &'static str {
        resource(self.api)
    }
}

/// Why it needs a person, as its status says.
fn stalled(cron: &CronJob) -> Option<String> {
    let stalled = condition::find(&cron.status.conditions, types::STALLED);
    let stalled = stalled.filter(|stalled| stalled.status == "True")?;
    let words = format!("{} {}", stalled.reason, stalled.message);
    Some(words.trim_end().to_owned())
}

/// The run that came last: of the jobs that are there, or else what the status remembers.
fn last_run(cron: &CronJob, children: &Children) -> Option<LastRun> {
    let came = |child: &Child| child.scheduled.max(child.started);
    let last = children.iter().max_by_key(|(_, child)| came(child));
    let status = &cron.status;
    let remembered = [
        (Outcome::Succeeded, &status.last_successful_time),
        (Outcome::Failed, &status.last_failure_time),
    ];
    let ended = remembered.into_iter();
    let ended = ended.filter_map(|(outcome, at)| Some((outcome, at.as_ref()?.0)));
    let ended = ended.max_by_key(|(_, at)| *at);
    match (last, ended) {
        // The history limits may have removed the job that ended last.
        (Some((_, child)), Some((outcome, at)))
            if child.ended.is_some_and(|end| end.at < Some(at)) =>
        {
            Some(LastRun {
                outcome,
                at: Some(at),
                job: None,
            })
        }
        (Some(((kind, name), child)), _) => Some(LastRun {
            outcome: Outcome::of(child),
            at: child.ended.map_or_else(|| came(child), |end| end.at),
            job: Some(format!("{}/{name}", child_resource(kind.kind()))),
        }),
        (None, _) if !status.active.is_empty() => Some(LastRun {
            outcome: Outcome::Running,
            at: status.last_schedule_time.as_ref().map(|time| time.0),
            job: None,
        }),
        (None, ended) => ended.map(|(outcome, at)| LastRun {
            outcome,
            at: Some(at),
            job: None,
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::view::cron_job::samples::{at, hourly, run};

    fn shown(spec: &Value, status: &Value, children: &Children) -> Progress {
        Progress::of(&hourly(spec, status), children, at("2026-01-01T14:20:00Z"))
    }

    #[test]
    fn the_next_run_is_told_or_why_there_is_none() {
        let none = Children::new();
        let fine = shown(
            &json!({"timeZone": "Europe/Berlin"}),
            &json!({"missedRuns": 3}),
            &none,
        );
        assert_eq!(fine.next_run, Some(at("2026-01-01T15:00:00Z")));
        assert_eq!(
            (&*fine.time_zone, fine.missed_runs),
            ("Europe/Berlin", Some(3))
        );
        assert_eq!((fine.last_run, &*fine.problem), (None, ""));
        let suspended = shown(&json!({"suspend": true}), &json!({}), &none);
        assert_eq!((suspended.next_run, &*suspended.problem), (None, ""));
        let wrong = shown(&json!({"timeZone": "Mars"}), &json!({}), &none);
        assert!(
            wrong.problem.starts_with("spec.timeZone: "),
            "{}",
            wrong.problem
        );
        assert_eq!(wrong.time_zone, "Mars");
        let condition = json!({"type": "Stalled", "status": "True", "reason": "TemplateRefused",
            "message": "no such field", "lastTransitionTime": "2026-01-01T10:00:00Z"});
        let refused = shown(&json!({}), &json!({"conditions": [condition]}), &none);
        assert_eq!(
            (refused.next_run, &*refused.problem),
            (None, "TemplateRefused no such field")
        );
    }

    #[test]
    fn the_last_run_is_the_one_that_came_last_whatever_has_been_removed() {
        let last = |status: &Value, children: &Children| {
            let last = shown(&json!({}), status, children).last_run;
            last.map(|run| {
                (
                    run.outcome,
                    run.at.map(|at| at.to_string()),
                    run.job.is_some(),
                )
            })
        };
        let (none, mut some) = (Children::new(), Children::new());
        run(&mut some, "2026-01-01T11:00:00Z", Some(60), true);
        run(&mut some, "2026-01-01T12:00:00Z", Some(60), false);
        let ended = |outcome, at: &str, known| Some((outcome, Some(at.to_owned()), known));
        let cases = [
            (json!({}), &none, None),
            (
                json!({}),
                &some,
                ended(Outcome::Failed, "2026-01-01T12:01:00Z", true),
            ),
            (
                json!({"lastSuccessfulTime": "2026-01-01T13:01:00Z", "lastFailureTime": "2026-01-01T12:01:00Z"}),
                &some,
                ended(Outcome::Succeeded, "2026-01-01T13:01:00Z", false),
            ),
            (
                json!({"lastFailureTime": "2026-01-01T12:01:00Z", "lastSuccessfulTime": "2026-01-01T11:01:00Z"}),
                &none,
                ended(Outcome::Failed, "2026-01-01T12:01:00Z", false),
            ),
            (
                json!({"active": [{"kind": "Job", "name": "a"}], "lastScheduleTime": "2026-01-01T14:00:00Z"}),
                &none,
                ended(Outcome::Running, "2026-01-01T14:00:00Z", false),
            ),
        ];
        for (status, children, expected) in cases {
            assert_eq!(last(&status, children), expected, "{status}");
        }
        run(&mut some, "2026-01-01T14:00:00Z", None, true);
        let status = json!({"lastFailureTime": "2026-01-01T12:01:00Z"});
        assert_eq!(
            last(&status, &some),
            ended(Outcome::Running, "2026-01-01T14:00:00Z", true)
        );
    }
}
