//! S17: no secret leaks, and no plan had to be stopped.

use std::collections::{BTreeSet, HashMap};

use serde_json::Value;

use crate::cron_job::object::{CRONS, JOBS_OF_BATCH, template_of};
use crate::history::{History, Step};
use crate::invariant::Invariant::S17;
use crate::object::{self, EVENTS, JOBS, SLICES, list, text};
use crate::verdict::{Assumptions, Checked, Verdict, Violation};

/// Shorter values of variables are words such as `true` or `prod`, which are found anywhere.
const SHORTEST_SECRET: usize = 8;

/// S17. In every status, event and slice that a request of ours wrote:
/// - no condition, event or record has a reason that says an interlock tripped;
/// - no value of an environment variable of the job's template, or of the template of the CronJob
///   (of at least 8 bytes) is found. The last words of a container are its own: `message` of a record is not searched.
pub fn clean_words(history: &History, assumptions: &Assumptions) -> Verdict {
    let mut checked = Checked::all_of(history);
    let mut owners: HashMap<&str, &Value> = HashMap::new();
    for step in &history.steps {
        if let Some(owner) = step.new.as_deref().filter(|_| has_template(step)) {
            owners.insert(object::uid(owner), owner);
        }
        let ours = |object: &&Value| assumptions.ours(step) || is_our_event(step, object);
        let Some(object) = step.new.as_deref().filter(ours) else {
            continue;
        };
        let resource = &*step.key.resource;
        let (job, written) = match resource {
            _ if has_template(step) => (object::uid(object), vec![&object["status"]]),
            SLICES => {
                let records = list(object, &["results"]).iter();
                let fields = records.filter_map(Value::as_object).flatten();
                let words = fields
                    .filter(|(key, _)| *key != "message")
                    .map(|(_, value)| value);
                (object::job_of(object).unwrap_or_default(), words.collect())
            }
            _ if EVENTS.contains(&resource) => {
                let of = |field| text(object, &[field, "uid"]);
                let (new, old) = (of("regarding"), of("involvedObject"));
                (if new.is_empty() { old } else { new }, vec![object])
            }
            _ => continue,
        };
        let mut words = Vec::new();
        for value in written {
            collect(value, &mut words);
        }
        let tripped = words.iter().find(|word| word.contains("Interlock"));
        checked.require(tripped.is_none(), || {
            let what = format!("{} says {:?}", step.key, tripped.unwrap_or(&""));
            Violation::at(S17, step, what)
        })?;
        let Some(owner) = owners.get(job).copied() else {
            continue;
        };
        let secrets = values_of_variables(owner);
        let leak = secrets
            .iter()
            .find(|secret| words.iter().any(|word| word.contains(**secret)));
        checked.require(leak.is_none(), || {
            let what = format!(
                "{} has a value of the template's environment: {:?}",
                step.key,
                leak.unwrap_or(&"")
            );
            Violation::at(S17, step, what)
        })?;
    }
    Ok(checked)
}

/// Events say who wrote them; their requests are often not in the audit log.
fn is_our_event(step: &Step, object: &Value) -> bool {
    let of = |field| text(object, &[field]).starts_with("carillon");
    EVENTS.contains(&&*step.key.resource) && (of("reportingController") || of("reportingComponent"))
}

/// Every text in a value.
fn collect<'v>(value: &'v Value, words: &mut Vec<&'v str>) {
    match value {
        Value::String(text) => words.push(text),
        Value::Array(items) => items.iter().for_each(|item| collect(item, words)),
        Value::Object(fields) => fields.values().for_each(|value| collect(value, words)),
        _ => {}
    }
}

/// Whether a step is about a BroadcastJob, a Job of batch/v1 or a CronJob.
fn has_template(step: &Step) -> bool {
    let resource = &*step.key.resource;
    [JOBS, JOBS_OF_BATCH].contains(&resource) || CRONS.contains(&resource)
}

/// Those of the template of a job, or of those that a CronJob has.
fn values_of_variables(owner: &Value) -> BTreeSet<&str> {
    let of_runs = |kind| Some(&template_of(&owner["spec"], kind)?["spec"]);
    let jobs = [
        Some(&owner["spec"]),
        of_runs("Job"),
        of_runs("BroadcastJob"),
    ];
    let pods = jobs
        .into_iter()
        .flatten()
        .map(|job| &job["template"]["spec"]);
    pods.flat_map(|pod| ["containers", "initContainers"].map(|kind| list(pod, &[kind])))
        .flatten()
        .flat_map(|container| list(container, &["env"]))
        .map(|variable| text(variable, &["value"]))
        .filter(|value| value.len() >= SHORTEST_SECRET)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::{Scene, breaks, holds};
    use serde_json::json;

    #[test]
    fn a_secret_is_found_wherever_we_write() {
        let strict = Assumptions::default();
        let good = Scene::good().event("all is well");
        holds(S17, &good, &strict);
        let secret = "cannot use hunter2-secret";
        let status = good
            .clone()
            .status(|status| status["conditions"][0]["message"] = json!(secret));
        breaks(S17, &status, &strict, "broadcastjobs");
        breaks(S17, &good.clone().event(secret), &strict, "events");
        let reason = good
            .clone()
            .record("n1", 1, |record| record["reason"] = json!(secret));
        breaks(S17, &reason, &strict, "noderesultslices");
        let unknown = good.clone().event(secret).nobody();
        breaks(S17, &unknown, &strict, "events");
        let last_words = good.record("n1", 1, |record| record["message"] = json!(secret));
        holds(S17, &last_words, &strict);
    }

    #[test]
    fn a_tripped_interlock_is_found() {
        let scene = Scene::good().condition("Stalled", "True", "InterlockTripped");
        breaks(S17, &scene, &Assumptions::default(), "InterlockTripped");
    }

    #[test]
    fn the_status_of_a_cron_job_tells_no_secret() {
        let strict = Assumptions::default();
        holds(S17, &Scene::two_runs(), &strict);
        let told = Scene::two_runs().cron_status(|s| s["note"] = json!("is hunter2-secret"));
        breaks(S17, &told, &strict, "template's environment");
        let tripped = Scene::two_runs().cron_status(|s| s["note"] = json!("Interlock"));
        breaks(S17, &tripped, &strict, "says \"Interlock\"");
    }

    #[test]
    fn the_status_of_a_job_tells_no_secret() {
        let strict = Assumptions::default();
        holds(S17, &Scene::summed(), &strict);
        let told = Scene::summed().sum_status(|s| s["note"] = json!("is hunter2-secret"));
        breaks(S17, &told, &strict, "template's environment");
    }
}
