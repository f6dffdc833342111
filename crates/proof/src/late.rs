//! Creations that arrive when what they are for is over.
//!
//! A creation relies on what was true a second before it was sent (decision 0030). With all processes leading
//! at once another one may have stored the end of the attempt within that second, and the pod be gone; or have
//! taken back the promise of a run, since by its own clock the time has not come. This is what
//! docs/proof/limits.md says of late requests, and no more: the pod has to be stopped and released, the run to be
//! recorded.

use std::collections::{BTreeSet, HashMap};

use carillon_oracle::{History, Step};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// A second, and the way to the API server.
const RELIES_ON: SignedDuration = SignedDuration::from_millis(1050);

/// Revisions at which a pod or a run was created by a process of ours, for an attempt that had been over, or a
/// promise that had been taken back, for no longer than a creation may rely on what it knew.
pub fn creations(history: &History) -> BTreeSet<u64> {
    let mut over: HashMap<&str, Timestamp> = HashMap::new();
    let mut taken_back: HashMap<&str, Timestamp> = HashMap::new();
    let mut late = BTreeSet::new();
    for step in &history.steps {
        let Some(new) = step.new.as_deref() else {
            continue;
        };
        let name = &*step.key.name;
        let since = match &*step.key.resource {
            "noderesultslices.carillon.dev" => {
                let results = new["results"].as_array().into_iter().flatten();
                for result in results.filter(|result| result["state"] != "Started") {
                    let pod = result["podName"].as_str().unwrap_or_default();
                    over.entry(pod).or_insert(step.at);
                }
                None
            }
            "cronjobs.batch" | "cronjobs.carillon.dev" => {
                let now: BTreeSet<&str> = runs(new).map(name_of).collect();
                taken_back.retain(|run, _| !now.contains(run));
                let before = step.old.as_deref().into_iter().flat_map(runs);
                let promises = before.filter(|run| run["uid"].is_null()).map(name_of);
                let gone = promises.filter(|run| !now.contains(run));
                taken_back.extend(gone.map(|run| (run, step.at)));
                None
            }
            "pods" => over.get(name),
            "jobs.batch" | "broadcastjobs.carillon.dev" => taken_back.get(name),
            _ => None,
        };
        let creates = step.old.is_none() && is_ours(step);
        if creates && since.is_some_and(|since| step.at.duration_since(*since) <= RELIES_ON) {
            late.insert(step.rev);
        }
    }
    late
}

fn is_ours(step: &Step) -> bool {
    let by = step.by.as_deref();
    by.is_some_and(|by| by.agent.starts_with("carillon"))
}

/// What a CronJob says is active; what has no uid yet is promised.
fn runs(cron: &Value) -> impl Iterator<Item = &Value> {
    let active = cron["status"]["active"].as_array();
    active.into_iter().flatten()
}

fn name_of(run: &Value) -> &str {
    run["name"].as_str().unwrap_or_default()
}
