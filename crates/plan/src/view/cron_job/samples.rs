//! CronJobs and children for the tests of their views.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::read::{self, StoredCron};
use crate::cron_job::{Child, ChildKind, Children, Ended, RunOutcome};

pub(super) const UID: &str = "4e0c5d6a-0b1c-4d2e-8f3a-000000000001";

pub(super) fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// A stored CronJob named `report`, hourly unless `spec` says otherwise, created on 2026-01-01 at
/// 10:30 UTC.
pub(super) fn hourly(spec: &Value, status: &Value) -> StoredCron {
    let mut object = json!({
        "apiVersion": "carillon.dev/v1alpha1",
        "metadata": {"name": "report", "namespace": "ops", "uid": UID,
                     "creationTimestamp": "2026-01-01T10:30:00Z"},
        "spec": {"schedule": "0 * * * *", "jobTemplate": {"spec": {}}},
        "status": status,
    });
    for (key, value) in spec.as_object().into_iter().flatten() {
        object["spec"][key] = value.clone();
    }
    read::cron(&object)
}

/// One in a zone.
pub(super) fn in_zone(schedule: &str, zone: &str, policy: &str) -> StoredCron {
    let spec = json!({"schedule": schedule, "timeZone": zone, "dstPolicy": policy});
    hourly(&spec, &json!({}))
}

/// A Job for a tick that took so many seconds; `None`: it runs.
pub(super) fn run(children: &mut Children, tick: &str, took: Option<i64>, complete: bool) {
    let tick = at(tick);
    let end = took.map(|took| Timestamp::from_second(tick.as_second() + took).unwrap());
    let minutes = tick.as_second() / 60;
    let child = Child {
        uid: format!("4e0c5d6a-0b1c-4d2e-8f3a-{minutes:012x}")
            .parse()
            .unwrap(),
        scheduled: Some(tick),
        started: Some(tick),
        ended: end.map(|end| Ended {
            outcome: if complete {
                RunOutcome::Succeeded
            } else {
                RunOutcome::Failed
            },
            at: Some(end),
        }),
        ..Child::default()
    };
    let name = format!("report-{minutes}");
    children.insert((ChildKind::Job, name.as_str().into()), child);
}
