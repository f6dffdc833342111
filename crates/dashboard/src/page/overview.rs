//! All objects, and the runs of all CronJobs.

use carillon_api::Refused;
use carillon_plan::view::broadcast_job::ledger::Ledger;
use carillon_plan::view::broadcast_job::progress::{Progress, Standing};
use carillon_plan::view::cron_job::read::{Controller, cron};
use carillon_plan::view::cron_job::runs::runs as runs_of;
use carillon_plan::view::daemon_set::progress::{Progress as SetProgress, Standing as SetStanding};
use carillon_plan::view::daemon_set::read::set;
use carillon_plan::view::job;
use carillon_plan::view::read;
use carillon_plan::view::squares::Counts;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::cron_job::{all_runs, headline};
use super::{Page, Sources};
use crate::cluster::{
    BROADCAST_JOBS, CRON_JOBS, Cluster, DAEMON_SETS, LISTED, NATIVE_CRON_JOBS, NATIVE_DAEMON_SETS,
    Resource,
};

/// Runs of one CronJob that the page of all runs shows, the last ones.
const RUNS_SHOWN: usize = 40;

/// All objects, a row for each.
pub(super) fn objects(cluster: &Cluster) -> Page {
    let mut sources = Sources::default();
    let mut rows = Vec::new();
    for resource in LISTED {
        let table = cluster.all(resource);
        sources.add(resource.name(), table.reading());
        rows.extend(table.map(|_, object| row(resource, object)));
    }
    Page {
        head: json!({
            "page": "overview", "rows": rows, "namespace": cluster.namespace(),
            "loading": sources.loading(), "sources": sources.told(),
        }),
        fleet: None,
    }
}

fn row(resource: Resource, object: &Value) -> Value {
    let meta = &object["metadata"];
    let (counts, headline, tone) = match resource {
        BROADCAST_JOBS => broadcast_job(object),
        DAEMON_SETS | NATIVE_DAEMON_SETS => daemon_set(object),
        CRON_JOBS | NATIVE_CRON_JOBS => cron_job(object),
        _ => native_job(object),
    };
    let owner = meta["ownerReferences"]
        .as_array()
        .and_then(|all| all.first());
    json!({
        "resource": resource.name(), "kind": resource.kind, "api": resource.group,
        "namespace": meta["namespace"], "name": meta["name"], "created": meta["creationTimestamp"],
        "counts": counts, "headline": headline, "tone": tone,
        "next": object["status"]["nextScheduleTime"],
        "owner": owner.map(|owner| json!({"kind": owner["kind"], "name": owner["name"]})),
    })
}

/// How worried one should be.
type Tone = &'static str;
const GOOD: Tone = "good";
const PLAIN: Tone = "plain";
const CARE: Tone = "care";
const BAD: Tone = "bad";

fn broadcast_job(object: &Value) -> (Option<Counts>, String, Tone) {
    let stored = read::job(object);
    let progress = Progress::of(&stored, &Ledger::default());
    let count = |number: i32| usize::try_from(number).unwrap_or(0);
    let [done, active, failed, left_out] = [
        progress.succeeded,
        progress.active,
        progress.failed,
        progress.refused,
    ]
    .map(count);
    let nodes = (count(progress.desired) + left_out).max(done + active + failed + left_out);
    let rest = nodes - done - active - failed - left_out;
    // What a job that has ended has not started, it never will.
    let ended = progress.standing.has_ended();
    let counts = Counts {
        nodes,
        done,
        active,
        failed,
        waiting: if ended { 0 } else { rest },
        left_out: if ended { left_out + rest } else { left_out },
    };
    let tone = match progress.standing {
        Standing::Complete if failed == 0 => GOOD,
        Standing::Running | Standing::NotStarted => PLAIN,
        Standing::Complete | Standing::Waiting | Standing::Paused => CARE,
        Standing::Stalled | Standing::Stopping | Standing::Failed => BAD,
    };
    (Some(counts), progress.headline(), tone)
}

/// Of nodes with an old pod the status does not say which are available: those of the new template come first.
fn daemon_set(object: &Value) -> (Option<Counts>, String, Tone) {
    let progress = SetProgress::of(&set(object));
    let count = |number: i32| usize::try_from(number).unwrap_or(0);
    let [desired, updated, available] =
        [progress.desired, progress.updated, progress.available].map(count);
    let sum = |all: &[Refused]| -> usize { all.iter().map(|one| count(one.count)).sum() };
    let left_out = sum(&progress.refused);
    let unavailable = desired.saturating_sub(available);
    // Whoever may write a status may write numbers that do not fit together. Who is excused has an old pod that is sick.
    let failed = sum(&progress.excused).min(unavailable);
    let done = updated.saturating_sub(unavailable - failed);
    let done = done.min(desired - failed);
    let active = (unavailable - failed).min(desired - done - failed);
    let counts = Counts {
        nodes: desired + left_out,
        done,
        active,
        failed,
        waiting: desired - done - active - failed,
        left_out,
    };
    let tone = match progress.standing {
        SetStanding::Complete | SetStanding::OldPodsKept => GOOD,
        SetStanding::NotStarted | SetStanding::Updating => PLAIN,
        SetStanding::Unavailable | SetStanding::Paused => CARE,
        SetStanding::Stalled => BAD,
    };
    (Some(counts), progress.headline(), tone)
}

fn cron_job(object: &Value) -> (Option<Counts>, String, Tone) {
    let stored = cron(object);
    let headline = headline(&stored, object);
    let tone = match &stored.cron.timetable {
        Err(_) => BAD,
        Ok(_) if headline.starts_with("Stalled") => BAD,
        Ok(_) if stored.cron.suspended => CARE,
        Ok(_) => PLAIN,
    };
    (None, headline, tone)
}

fn native_job(object: &Value) -> (Option<Counts>, String, Tone) {
    let (headline, ended) = job::headline(object);
    let tone = match &*headline {
        "Complete" => GOOD,
        _ if ended => BAD,
        _ if headline.starts_with("Suspended") => CARE,
        _ => PLAIN,
    };
    (Some(super::job::by_status(object)), headline, tone)
}

/// The runs of all CronJobs, a row for each CronJob.
pub(super) fn runs(cluster: &Cluster, now: Timestamp) -> Page {
    let mut sources = Sources::default();
    let mut rows = Vec::new();
    let mut runs_by_cron = all_runs(cluster, &mut sources);
    for resource in [CRON_JOBS, NATIVE_CRON_JOBS] {
        let table = cluster.all(resource);
        sources.add(resource.name(), table.reading());
        for object in table.map(|_, object| object.clone()) {
            let stored = cron(&object);
            let children = runs_by_cron.remove(&Controller::stored(&stored));
            let mut runs = runs_of(&children.unwrap_or_default(), now);
            let runs = runs.split_off(runs.len().saturating_sub(RUNS_SHOWN));
            rows.push(json!({
                "resource": resource.name(), "namespace": object["metadata"]["namespace"],
                "name": object["metadata"]["name"], "schedule": stored.cron.written,
                "headline": headline(&stored, &object), "suspended": stored.cron.suspended,
                "next": object["status"]["nextScheduleTime"],
                "missed": object["status"]["missedRuns"], "runs": runs,
            }));
        }
    }
    Page {
        head: json!({
            "page": "runs", "rows": rows, "namespace": cluster.namespace(),
            "loading": sources.loading(), "sources": sources.told(),
        }),
        fleet: None,
    }
}

#[cfg(test)]
mod tests {
    use carillon_plan::view::squares::Class;

    use super::*;

    #[test]
    fn nodes_that_were_sick_before_an_update_are_counted_as_on_the_page_of_their_daemon_set() {
        let excused = json!([{"reason": "PodNotReady", "count": 2}]);
        let status = json!({
            "desiredNumberScheduled": 10, "updatedNumberScheduled": 6, "numberAvailable": 7, "excused": excused,
            "refused": [{"reason": "NodeUnschedulable", "count": 1}],
        });
        let object = json!({"apiVersion": "carillon.dev/v1alpha1", "status": status});
        let expected = Counts {
            nodes: 11,
            done: 5,
            active: 1,
            failed: 2,
            waiting: 2,
            left_out: 1,
        };
        assert_eq!(daemon_set(&object).0, Some(expected));
    }

    #[test]
    fn counts_sum_up_whatever_somebody_has_written_into_a_status() {
        let numbers = [-1, 0, 3, 9];
        for desired in numbers {
            for updated in numbers {
                for available in numbers {
                    let status = json!({
                        "desiredNumberScheduled": desired, "updatedNumberScheduled": updated,
                        "numberAvailable": available, "desired": desired, "succeeded": updated,
                        "failed": available, "active": updated,
                        "excused": [{"reason": "PodNotReady", "count": updated}],
                    });
                    let object = json!({"apiVersion": "apps/v1", "status": status});
                    for (counts, ..) in [
                        daemon_set(&object),
                        broadcast_job(&object),
                        native_job(&object),
                    ] {
                        let counts = counts.unwrap();
                        let sum: usize =
                            Class::ALL.iter().map(|class| counts.of_class(*class)).sum();
                        assert_eq!(sum, counts.nodes, "{status}");
                    }
                }
            }
        }
    }
}
