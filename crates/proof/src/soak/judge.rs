//! Whether a day was as promised.

use std::collections::HashMap;
use std::sync::Arc;

use carillon_oracle::{Assumptions, History, Key, Step, check_all};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::cron_jobs::{self, MONTH, STAY};
use crate::case;
use crate::connection::Late;
use crate::world;

/// Ticks of one that stays, from midnight until a day is judged.
const TICKS: usize = 23;
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

#[derive(Debug, Default)]
pub(super) struct Judged {
    pub(super) runs: usize,
    pub(super) pods: usize,
    pub(super) checks: u64,
    pub(super) problems: Vec<String>,
}

/// Judges what has happened since midnight, when the store was at revision `first` and had these nodes.
pub(super) fn day(
    history: &History,
    nodes: &[Arc<Value>],
    first: u64,
    midnight: Timestamp,
    late: &[Late],
) -> Judged {
    let mut judged = Judged::default();
    let before: Vec<Step> = nodes
        .iter()
        .enumerate()
        .map(|(n, node)| Step {
            rev: first.saturating_sub((nodes.len() - n) as u64),
            at: midnight,
            key: Key {
                resource: "nodes".into(),
                namespace: "".into(),
                name: node["metadata"]["name"].as_str().unwrap_or_default().into(),
            },
            old: None,
            new: Some(node.clone()),
            by: None,
        })
        .collect();
    let today = || history.steps.iter().filter(|step| step.rev > first);
    let assumptions = Assumptions {
        ours: Arc::new(world::ours),
        // Processes end and start anew, and one of them has a restored backup.
        lag: SignedDuration::from_mins(15),
        over: true,
        late_requests: true,
        late: case::held_up(late.to_vec()),
        ..case::disturbed()
    };
    for team in cron_jobs::teams() {
        let concerned =
            |step: &&Step| step.key.namespace.is_empty() || *step.key.namespace == *team;
        let of_team = today().filter(concerned).cloned();
        let steps = before.iter().cloned().chain(of_team).collect();
        let report = check_all(&History { steps }, &assumptions);
        for violation in report.violations() {
            judged.problems.push(format!("{team}: {violation}"));
        }
        let held = report
            .verdicts
            .iter()
            .filter_map(|(_, verdict)| verdict.as_ref().ok());
        judged.checks += held.map(|checked| checked.evaluations).sum::<u64>();
    }
    judged.problems.extend(ticks(today()));
    let created = |step: &&Step| step.old.is_none() && step.new.is_some();
    judged.runs = today().filter(created).filter(|step| is_run(step)).count();
    judged.pods = today()
        .filter(created)
        .filter(|step| &*step.key.resource == "pods")
        .count();
    judged
}

fn is_run(step: &Step) -> bool {
    ["jobs.batch", "broadcastjobs.carillon.dev"].contains(&&*step.key.resource)
}

/// The tick that an object was created for.
fn tick(step: &Step) -> Option<&str> {
    step.new.as_ref()?["metadata"]["annotations"][SCHEDULED].as_str()
}

/// Those that stay have run each hour, and no hour twice.
fn ticks<'a>(today: impl Iterator<Item = &'a Step>) -> Vec<String> {
    let mut runs: HashMap<(String, String), usize> = HashMap::new();
    let created = today.filter(|step| step.old.is_none() && is_run(step));
    for step in created.filter(|step| *step.key.namespace == *MONTH) {
        if let (Some(tick), Some(object)) = (tick(step), &step.new) {
            let owner = &object["metadata"]["ownerReferences"][0]["name"];
            let owner = owner.as_str().unwrap_or_default().to_owned();
            *runs.entry((owner, tick.to_owned())).or_default() += 1;
        }
    }
    let mut problems: Vec<String> = runs
        .iter()
        .filter(|(_, times)| **times > 1)
        .map(|((cron_job, tick), times)| {
            format!("{MONTH}: {cron_job} ran {times} times for {tick}")
        })
        .collect();
    if runs.len() != TICKS * STAY {
        let what = format!("{MONTH}: {} runs, {} wanted", runs.len(), TICKS * STAY);
        problems.push(what);
    }
    problems
}
