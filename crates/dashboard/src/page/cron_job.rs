//! The page of a CronJob, of carillon.dev or of batch/v1.

use std::collections::BTreeMap;

use carillon_plan::cron_job::{ChildKind, Children, Unusable};
use carillon_plan::view::cron_job::next::next;
use carillon_plan::view::cron_job::overlap::overlap;
use carillon_plan::view::cron_job::read::{self, Controller, StoredCron};
use carillon_plan::view::cron_job::runs::runs;
use carillon_plan::view::cron_job::suspend::suspend;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::around::{head, verb};
use super::{ObjectAddress, Page, Sources, missing, zone};
use crate::cluster::{BROADCAST_JOBS, CRON_JOBS, Cluster, JOBS};

/// Runs to come that are shown.
const AHEAD: usize = 10;

pub(super) fn page(cluster: &Cluster, at: &ObjectAddress, now: Timestamp) -> Page {
    let mut sources = Sources::default();
    let crons = cluster.all(at.resource);
    sources.add(at.resource.name(), crons.reading());
    let Some(object) = crons.get(&at.namespace, &at.name) else {
        return missing(at, &sources);
    };
    let stored = read::cron(&object);
    let mut runs_of = all_runs(cluster, &mut sources);
    let children = runs_of
        .remove(&Controller::stored(&stored))
        .unwrap_or_default();
    if sources.loading() {
        return missing(at, &sources);
    }
    let mut page = head(cluster, at, &object, &mut sources);
    page["page"] = "cronjob".into();
    page["headline"] = headline(&stored, &object).into();
    page["schedule"] = stored.cron.written.clone().into();
    page["suspended"] = stored.cron.suspended.into();
    page["runs"] = json!(runs(&children, now));
    page["overlap"] = json!(overlap(&stored, &children));
    match next(&stored, &zone(&at.zone), None, now, AHEAD) {
        Ok(outlook) => page["outlook"] = json!(outlook),
        Err(why) => page["noOutlook"] = why.into(),
    }
    page["missed"] = json!({
        "count": object["status"]["missedRuns"], "last": object["status"]["lastMissedTime"],
    });
    page["verbs"] = verbs(&stored, at);
    page["sources"] = sources.told();
    Page {
        head: page,
        fleet: None,
    }
}

/// What CronJobs have started, as far as it is kept.
pub(super) fn all_runs(cluster: &Cluster, sources: &mut Sources) -> BTreeMap<Controller, Children> {
    let mut runs: BTreeMap<Controller, Children> = BTreeMap::new();
    for (kind, resource) in [
        (ChildKind::Job, JOBS),
        (ChildKind::BroadcastJob, BROADCAST_JOBS),
    ] {
        let table = cluster.all(resource);
        sources.add(resource.name(), table.reading());
        for (controller, name, child) in table
            .map(|_, object| read::run_of(object))
            .into_iter()
            .flatten()
        {
            runs.entry(controller)
                .or_default()
                .insert((kind, name), child);
        }
    }
    runs
}

/// Scheduled, Suspended, or why it stands still.
pub(super) fn headline(stored: &StoredCron, object: &Value) -> String {
    match (&object["status"]["summary"], &stored.cron.timetable) {
        (Value::String(summary), _) if !summary.is_empty() => summary.clone(),
        (_, Err(Unusable::Schedule(why) | Unusable::TimeZone(why))) => format!("Stalled: {why}"),
        (_, Ok(_)) if stored.cron.suspended => "Suspended".to_owned(),
        (_, Ok(_)) => "Scheduled".to_owned(),
    }
}

fn verbs(stored: &StoredCron, at: &ObjectAddress) -> Value {
    let would = |wanted| suspend(stored, wanted).map(|patch| patch.is_some());
    let mut verbs = vec![
        verb("suspend", "Suspend", would(true)),
        verb("unsuspend", "Resume", would(false)),
    ];
    if at.resource == CRON_JOBS {
        verbs.push(verb("trigger", "Run now", Ok(!stored.cron.meta.deleting)));
    }
    verbs.into()
}
