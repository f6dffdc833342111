//! The CronJobs of the month: five hundred that live for a day, and a few that stay.

use carillon_plan::job::MANAGED_BY;
use carillon_sim::actors::JOB_FATE;
use serde_json::{Value, json};

/// How many pools of nodes there are.
pub(super) const POOLS: usize = 5;
const TEAMS: usize = 25;
/// Of each team, for one day.
const EACH: usize = 20;
/// Namespace of those that stay.
pub(super) const MONTH: &str = "month";
/// How many of those there are.
pub(super) const STAY: usize = 20;

pub(super) fn teams() -> impl Iterator<Item = String> {
    (0..TEAMS).map(|team| format!("team-{team}"))
}

pub(super) fn namespaces() -> impl Iterator<Item = String> {
    teams().chain([MONTH.to_owned()])
}

/// Each runs four times a day.
pub(super) fn of_a_day() -> impl Iterator<Item = (String, Value)> {
    teams().enumerate().flat_map(|(team, namespace)| {
        (0..EACH).map(move |n| {
            // Many at a time, as where people choose the times.
            let (minute, hour) = (5 * ((team * 7 + n * 11) % 12), 1 + n % 5);
            let hours: Vec<String> = (0..4).map(|turn| (hour + 5 * turn).to_string()).collect();
            let schedule = format!("{minute} {} * * *", hours.join(","));
            (namespace.clone(), cron_job(n, &schedule, team + n))
        })
    })
}

/// Each runs once an hour.
pub(super) fn of_the_month() -> impl Iterator<Item = Value> {
    (0..STAY).map(|n| cron_job(n, "30 * * * *", n))
}

/// Of twenty, three start BroadcastJobs, three Jobs that Carillon runs, and the rest Jobs that the cluster runs.
fn cron_job(n: usize, schedule: &str, pool: usize) -> Value {
    let mut pods = json!({
        "containers": [{"name": "main", "image": "example.com/work:1"}],
        "restartPolicy": "Never",
    });
    let mut spec = json!({"schedule": schedule, "successfulJobsHistoryLimit": 1});
    match n {
        0..3 => {
            pods["nodeSelector"] = json!({"pool": format!("p{}", pool % POOLS)});
            spec["broadcastJobTemplate"] = json!({"spec": {"template": {"spec": pods}}});
        }
        3..6 => {
            let template = json!({"managedBy": MANAGED_BY, "template": {"spec": pods}});
            spec["jobTemplate"] = json!({"spec": template});
        }
        _ => {
            spec["jobTemplate"] = json!({
                "metadata": {"annotations": {JOB_FATE: "5s"}},
                "spec": {"template": {"spec": pods}},
            });
        }
    }
    json!({
        "apiVersion": "carillon.dev/v1alpha1",
        "kind": "CronJob",
        "metadata": {"name": format!("cron-{n}")},
        "spec": spec,
    })
}
