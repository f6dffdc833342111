//! Objects that wait: which, for what, and what to type.

use carillon_api::condition::{reasons, types};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::{Check, Finding, Severity, count};
use crate::condition;
use crate::view::broadcast_job::ledger::Ledger;
use crate::view::broadcast_job::progress::{Progress, Standing};
use crate::view::cron_job::read::cron;
use crate::view::daemon_set::progress::{Progress as SetProgress, Standing as SetStanding};
use crate::view::daemon_set::read as sets;
use crate::view::read;
use crate::view::read::{list, text};

/// So long an operator may take to act on an object that somebody has just written.
const JUST: SignedDuration = SignedDuration::from_secs(30);

/// The name of the check.
pub const CHECK: &str = "objects";

/// All that was read of objects of ours.
#[derive(Clone, Copy, Debug, Default)]
pub struct Objects<'a> {
    /// BroadcastJobs.
    pub jobs: &'a [Value],
    /// CronJobs of carillon.dev.
    pub crons: &'a [Value],
    /// DaemonSets of carillon.dev.
    pub sets: &'a [Value],
}

/// Says which of them wait, and for what.
pub fn check(objects: Objects<'_>, now: Timestamp) -> Check {
    let jobs = objects.jobs.iter();
    let mut findings: Vec<Finding> = jobs.filter_map(|one| job(one, now)).collect();
    findings.extend(objects.crons.iter().filter_map(cron_job));
    findings.extend(objects.sets.iter().filter_map(|one| set(one, now)));
    let found = format!(
        "{}, {}, {}",
        count(objects.jobs.len(), "BroadcastJob"),
        count(objects.crons.len(), "CronJob"),
        count(objects.sets.len(), "DaemonSet")
    );
    Check::made(CHECK, found, findings)
}

/// Whether somebody has written an object a moment ago. A status or a mark of ours is no such thing.
fn is_new(object: &Value, now: Timestamp) -> bool {
    let meta = &object["metadata"];
    let entries = list(&meta["managedFields"]);
    let wanted = entries.filter(|one| one["subresource"].is_null() && one["manager"] != "carillon");
    let times = wanted
        .map(|one| &one["time"])
        .chain([&meta["creationTimestamp"]]);
    let last = times
        .filter_map(|time| text(time).parse::<Timestamp>().ok())
        .max();
    last.is_some_and(|last| now.duration_since(last) < JUST)
}

fn job(object: &Value, now: Timestamp) -> Option<Finding> {
    let stored = read::job(object);
    let progress = Progress::of(&stored, &Ledger::default());
    let (namespace, name) = (&progress.namespace, &progress.name);
    let finding = |severity| {
        let place = format!("BroadcastJob {namespace}/{name}");
        Finding::new(CHECK, severity, place, progress.headline())
    };
    let carillon = |verb: &str| format!("kubectl carillon -n {namespace} {verb} {name}");
    Some(match progress.standing {
        Standing::Running | Standing::Complete | Standing::Failed | Standing::Stopping => {
            return None;
        }
        Standing::NotStarted if is_new(object, now) => return None,
        Standing::NotStarted => finding(Severity::Warning).or(
            "see whether an operator leads and serves this namespace, above",
            "",
        ),
        Standing::Stalled => finding(Severity::Problem).or("see why", carillon("explain")),
        Standing::Paused if progress.reason == reasons::PAUSED_BY_FAILURE => {
            finding(Severity::Warning)
                .or("see what has failed", carillon("results --failed"))
                .or("or go on", carillon("resume"))
        }
        Standing::Paused => finding(Severity::Info).or("go on", carillon("resume")),
        Standing::Waiting => finding(Severity::Info).or("see for which nodes", carillon("explain")),
    })
}

fn cron_job(object: &Value) -> Option<Finding> {
    let stored = cron(object).cron;
    let owner = &stored.meta.owner;
    let (namespace, name) = (&owner.namespace, &owner.name);
    let place = format!("CronJob {namespace}/{name}");
    let conditions = &stored.status.conditions;
    if let Some(stalled) = condition::find(conditions, types::STALLED)
        && stalled.status == "True"
    {
        let what = format!("Stalled: {} {}", stalled.reason, stalled.message);
        let look = format!("kubectl describe -n {namespace} ccj/{name}");
        let finding = Finding::new(CHECK, Severity::Problem, place, what.trim());
        return Some(finding.or("see why", look));
    }
    if stored.suspended {
        let finding = Finding::new(
            CHECK,
            Severity::Info,
            place,
            "suspended: no run is started by schedule",
        );
        let resume = format!("kubectl carillon -n {namespace} resume cronjob/{name}");
        return Some(finding.or("go on", resume));
    }
    None
}

fn set(object: &Value, now: Timestamp) -> Option<Finding> {
    let progress = SetProgress::of(&sets::set(object));
    let (namespace, name) = (&progress.namespace, &progress.name);
    let finding = |severity| {
        let place = format!("DaemonSet {namespace}/{name}");
        Finding::new(CHECK, severity, place, progress.headline())
    };
    let carillon = |verb: &str| format!("kubectl carillon -n {namespace} {verb} cds/{name}");
    let waiting: Option<String> = progress.waiting_for.iter().find_map(|nodes| {
        let node = nodes.sample.first()?;
        Some(format!(
            "kubectl carillon -n {namespace} explain cds/{name} --node {node}"
        ))
    });
    let look = waiting.unwrap_or_else(|| carillon("explain"));
    Some(match progress.standing {
        SetStanding::Complete => return None,
        SetStanding::OldPodsKept => finding(Severity::Info).or("see which", carillon("explain")),
        SetStanding::NotStarted if is_new(object, now) => return None,
        SetStanding::NotStarted => finding(Severity::Warning).or(
            "see whether an operator leads and serves this namespace, above",
            "",
        ),
        SetStanding::Updating => finding(Severity::Info).or("see why", look),
        SetStanding::Unavailable => finding(Severity::Warning).or("see why", look),
        SetStanding::Paused => finding(Severity::Info).or("go on", carillon("rollout resume")),
        SetStanding::Stalled => finding(Severity::Problem).or("see why", look).or(
            "or go back to the template before",
            carillon("rollout undo"),
        ),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::view::doctor::Outcome;

    fn at(second: i64) -> Timestamp {
        let begin: Timestamp = "2026-01-01T00:10:00Z".parse().unwrap();
        begin + SignedDuration::from_secs(second)
    }

    fn with(conditions: &[(&str, &str)], spec: &Value) -> Value {
        let conditions = conditions.iter().map(|(type_, reason)| {
            json!({"type": type_, "status": "True", "reason": reason, "message": "",
                   "lastTransitionTime": "2026-01-01T00:00:00Z"})
        });
        let conditions: Vec<Value> = conditions.collect();
        json!({"apiVersion": "carillon.dev/v1alpha1",
               "metadata": {"namespace": "ops", "name": "x", "generation": 1},
               "spec": spec, "status": {"observedGeneration": 1, "conditions": conditions}})
    }

    #[test]
    fn a_job_that_waits_is_told_with_the_verb_to_type() {
        for (conditions, result, write) in [
            (vec![("Complete", "AllNodesSucceeded")], Outcome::Ok, ""),
            (vec![("Reconciling", "Running")], Outcome::Ok, ""),
            (
                vec![("Reconciling", "WaitingForNodes")],
                Outcome::Info,
                "-n ops explain x",
            ),
            (
                vec![("Paused", "PausedByUser")],
                Outcome::Info,
                "-n ops resume x",
            ),
            (
                vec![("Paused", "PausedByFailure")],
                Outcome::Warning,
                "-n ops results --failed x",
            ),
            (
                vec![("Stalled", "QuotaExceeded")],
                Outcome::Problem,
                "-n ops explain x",
            ),
            (vec![], Outcome::Warning, ""),
        ] {
            let jobs = [with(&conditions, &json!({}))];
            let check = check(
                Objects {
                    jobs: &jobs,
                    ..Objects::default()
                },
                at(0),
            );
            assert_eq!(check.result, result, "{check:?}");
            let first = check
                .findings
                .first()
                .map_or("", |one| &*one.remedies[0].write);
            assert!(first.ends_with(write), "{first}");
        }
    }

    #[test]
    fn what_was_written_a_moment_ago_may_still_be_acted_on() {
        let mut object = with(&[], &json!({}));
        object["metadata"]["creationTimestamp"] = json!(at(-3600).to_string());
        let check_at = |object: &Value, second| {
            let objects = [object.clone()];
            let jobs = Objects {
                jobs: &objects,
                ..Objects::default()
            };
            let sets = Objects {
                sets: &objects,
                ..Objects::default()
            };
            [
                check(jobs, at(second)).result,
                check(sets, at(second)).result,
            ]
        };
        assert_eq!(check_at(&object, 0), [Outcome::Warning; 2]);
        let field =
            |manager: &str, second| json!({"manager": manager, "time": at(second).to_string()});
        object["metadata"]["managedFields"] = json!([field("kubectl", 0), field("carillon", 35)]);
        assert_eq!(check_at(&object, 20), [Outcome::Ok; 2]);
        assert_eq!(check_at(&object, 40), [Outcome::Warning; 2]);
    }

    #[test]
    fn a_cron_job_that_is_stalled_or_suspended_is_told() {
        for (conditions, spec, result) in [
            (
                vec![("Scheduled", "Scheduled")],
                json!({"schedule": "* * * * *"}),
                Outcome::Ok,
            ),
            (
                vec![],
                json!({"schedule": "* * * * *", "suspend": true}),
                Outcome::Info,
            ),
            (
                vec![("Stalled", "InvalidSchedule")],
                json!({"schedule": "x"}),
                Outcome::Problem,
            ),
        ] {
            let crons = [with(&conditions, &spec)];
            let check = check(
                Objects {
                    crons: &crons,
                    ..Objects::default()
                },
                at(0),
            );
            assert_eq!(check.result, result, "{check:?}");
        }
    }

    #[test]
    fn an_update_that_waits_says_for_what_and_one_that_stands_still_is_a_problem() {
        for (conditions, result) in [
            (vec![("Ready", "UpdateComplete")], Outcome::Ok),
            (
                vec![("Stalled", "ProgressDeadlineExceeded")],
                Outcome::Problem,
            ),
            (vec![], Outcome::Warning),
        ] {
            let mut set = with(&conditions, &json!({}));
            let waiting = json!([{"reason": "PodNotStarted", "count": 1, "sample": ["n1"]}]);
            set["status"]["waitingFor"] = waiting;
            let sets = [set];
            let check = check(
                Objects {
                    sets: &sets,
                    ..Objects::default()
                },
                at(0),
            );
            assert_eq!(check.result, result, "{check:?}");
            if result == Outcome::Problem {
                let found = &check.findings[0];
                assert!(
                    found.what.contains("1 node PodNotStarted (n1)"),
                    "{found:?}"
                );
                assert!(found.remedies[0].write.ends_with("explain cds/x --node n1"));
            }
        }
    }
}
