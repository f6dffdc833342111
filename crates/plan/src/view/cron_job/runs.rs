//! The runs of a CronJob that are kept, as a grid over time shows them.

use jiff::Timestamp;
use serde::Serialize;

use super::progress::Outcome;
use crate::cron_job::{Child, Children};

/// A run.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KeptRun {
    /// Kind of its job.
    pub kind: &'static str,
    /// Name of its job.
    pub name: String,
    /// What became of it.
    pub outcome: Outcome,
    /// The time of the schedule; absent for one on request.
    pub scheduled: Option<Timestamp>,
    /// When it started.
    pub started: Option<Timestamp>,
    /// When it ended.
    pub ended: Option<Timestamp>,
    /// Seconds from start to end, or until now.
    pub seconds: Option<i64>,
    /// Somebody has asked for it.
    pub by_hand: bool,
    /// It started before the one before it had ended.
    pub overlaps: bool,
}

/// The runs, by when they started; those that have not come last.
pub fn runs(children: &Children, now: Timestamp) -> Vec<KeptRun> {
    let mut runs: Vec<KeptRun> = children
        .iter()
        .map(|((kind, name), child)| kept(kind.kind(), name, child, now))
        .collect();
    runs.sort_by_key(|run| {
        (
            run.started.or(run.scheduled).unwrap_or(Timestamp::MAX),
            run.name.clone(),
        )
    });
    let mut busy_until: Option<Timestamp> = None;
    for run in &mut runs {
        let Some(started) = run.started else { continue };
        run.overlaps = busy_until.is_some_and(|until| started < until);
        let end = run.ended.unwrap_or(now);
        busy_until = Some(busy_until.map_or(end, |until| until.max(end)));
    }
    runs
}

fn kept(kind: &'static str, name: &str, child: &Child, now: Timestamp) -> KeptRun {
    let ended = child.ended.and_then(|ended| ended.at);
    let until = if child.ended.is_some() {
        ended
    } else {
        Some(now)
    };
    let took = child.started.zip(until);
    KeptRun {
        kind,
        name: name.to_owned(),
        outcome: Outcome::of(child),
        scheduled: child.scheduled,
        started: child.started,
        ended,
        seconds: took.map(|(from, to)| to.duration_since(from).as_secs().max(0)),
        by_hand: child.by_hand || child.request.is_some(),
        overlaps: false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::cron_job::ChildKind;
    use crate::view::cron_job::read;

    fn child(started: &str, completed: Option<&str>) -> Value {
        let mut status = json!({"startTime": started});
        if let Some(at) = completed {
            status["completionTime"] = at.into();
            status["conditions"] = json!([{"type": "Complete", "status": "True"}]);
        }
        json!({"status": status})
    }

    #[test]
    fn a_run_that_starts_while_another_is_under_way_overlaps() {
        let objects = [
            (
                "a",
                child("2026-01-01T00:00:00Z", Some("2026-01-01T00:00:50Z")),
            ),
            (
                "b",
                child("2026-01-01T00:01:00Z", Some("2026-01-01T00:03:00Z")),
            ),
            ("c", child("2026-01-01T00:02:00Z", None)),
        ];
        let children: Children = objects
            .iter()
            .map(|(name, object)| ((ChildKind::Job, (*name).into()), read::child(object)))
            .collect();
        let now = "2026-01-01T00:04:00Z".parse().unwrap();
        let told: Vec<String> = runs(&children, now)
            .iter()
            .map(|run| {
                format!(
                    "{} {:?} {:?} {}",
                    run.name, run.outcome, run.seconds, run.overlaps
                )
            })
            .collect();
        assert_eq!(
            told,
            [
                "a Succeeded Some(50) false",
                "b Succeeded Some(120) false",
                "c Running Some(120) true",
            ]
        );
    }
}
