//! A run on request: what to write for it, and where it stands.

use carillon_api::ConcurrencyPolicy;
use carillon_api::condition::{reasons, types};
use carillon_api::names::ANNOTATION_RUN_NOW;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::foresee::{active, creation_if_alone};
use super::read::StoredCron;
use crate::condition;
use crate::cron_job::{Asked, ChildKind, Children};

/// What is wrong with the schedule, and does not matter for a run on request.
const OF_THE_SCHEDULE: [&str; 3] = [
    reasons::UNKNOWN_TIME_ZONE,
    reasons::INVALID_SCHEDULE,
    reasons::NEVER_FIRES,
];

/// A request that is to be written.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Request {
    /// What it is told from others by.
    pub word: String,
    /// The new value of the annotation `carillon.dev/run-now`: with the uid of the CronJob.
    pub value: String,
    /// Kind of the job it starts.
    pub kind: ChildKind,
    /// Name of that job.
    pub name: String,
}

impl Request {
    /// The merge patch that makes it, if the CronJob is still the one that was read.
    pub fn patch(&self, resource_version: &Value) -> Value {
        json!({"metadata": {
            "annotations": {ANNOTATION_RUN_NOW: self.value},
            "resourceVersion": resource_version,
        }})
    }
}

/// Why nothing can be requested.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Refusal {
    /// It is of batch/v1, where the annotation means nothing.
    Native,
    /// It is being deleted.
    Deleting,
    /// The request before has not led to a job yet: another would take its place.
    Pending(Standing),
}

/// A new request, of which the word is the time.
pub fn request(
    stored: &StoredCron,
    children: &Children,
    now: Timestamp,
) -> Result<Request, Refusal> {
    if stored.cron.is_native() {
        return Err(Refusal::Native);
    }
    if stored.cron.meta.deleting {
        return Err(Refusal::Deleting);
    }
    if let Some(pending) = pending(stored, children, now) {
        return Err(Refusal::Pending(pending));
    }
    let word = now.to_string();
    of(stored, children, word, now).ok_or(Refusal::Deleting)
}

/// Where the last request stands, if it has not led to a job.
fn pending(stored: &StoredCron, children: &Children, now: Timestamp) -> Option<Standing> {
    // What asks for nothing can be overwritten.
    let Asked::Run(word) = stored.cron.asked() else {
        return None;
    };
    let request = of(stored, children, word.to_owned(), now)?;
    let stands = standing(stored, children, &request);
    (stands != Standing::Started).then_some(stands)
}

/// The request with a word; `None` when its job was started before.
fn of(stored: &StoredCron, children: &Children, word: String, now: Timestamp) -> Option<Request> {
    let mut cron = stored.cron.clone();
    let value = cron.asks_with(&word);
    cron.run_now = Some(value.clone());
    let run = creation_if_alone(&cron, children, now)?;
    (run.request.as_deref() == Some(&word)).then_some(Request {
        word,
        value,
        kind: run.kind,
        name: run.name,
    })
}

/// Where a request stands.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Standing {
    /// No operator has acted on it yet.
    NotSeen,
    /// Forbid: these have not ended.
    WaitsFor(Vec<String>),
    /// The API server refuses such jobs: reason and message.
    Refused(String),
    /// Its job is promised, and about to be created.
    Promised,
    /// Its job was created.
    Started,
}

/// Where a request stands.
pub fn standing(stored: &StoredCron, children: &Children, request: &Request) -> Standing {
    let status = &stored.cron.status;
    let mut entries = status.active.iter();
    let own = entries.find(|entry| entry.name == request.name);
    if status.handled_run_now.contains(&request.word)
        || own.is_some_and(|entry| entry.uid.is_some())
    {
        return Standing::Started;
    }
    let stalled = condition::find(&status.conditions, types::STALLED);
    let stalled = stalled
        .filter(|stalled| stalled.status == "True")
        .filter(|stalled| !OF_THE_SCHEDULE.contains(&stalled.reason.as_str()));
    if let Some(stalled) = stalled {
        return Standing::Refused(format!("{}: {}", stalled.reason, stalled.message));
    }
    if own.is_some() {
        return Standing::Promised;
    }
    let others = active(&stored.cron, children);
    if stored.cron.concurrency == ConcurrencyPolicy::Forbid && !others.is_empty() {
        return Standing::WaitsFor(others);
    }
    Standing::NotSeen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::broadcast_job::samples::condition;
    use crate::view::cron_job::samples::{at, hourly, run};

    const NOW: &str = "2026-01-01T10:45:00.123456789Z";

    fn with(spec: &Value, status: &Value, run_now: Option<&str>) -> StoredCron {
        let mut stored = hourly(spec, status);
        stored.cron.run_now = run_now.map(|word| stored.cron.asks_with(word));
        stored
    }

    fn none() -> Children {
        Children::new()
    }

    #[test]
    fn a_request_is_the_time_and_names_the_job_it_starts() {
        let stored = with(&json!({}), &json!({}), None);
        let one = request(&stored, &none(), at(NOW)).unwrap();
        assert_eq!(one.word, NOW);
        assert_eq!(one.value, format!("{}/{NOW}", stored.cron.meta.owner.uid));
        assert!(one.name.starts_with("report-r"), "{}", one.name);
        let other = request(&stored, &none(), at("2026-01-01T10:45:00Z")).unwrap();
        assert_ne!(one.name, other.name);
        let patch = one.patch(&json!("7"));
        assert_eq!(
            patch["metadata"]["annotations"]["carillon.dev/run-now"],
            one.value
        );
        assert_eq!(patch["metadata"]["resourceVersion"], "7");
    }

    #[test]
    fn a_request_can_be_made_while_suspended_and_with_a_schedule_that_never_fires() {
        for spec in [json!({"suspend": true}), json!({"schedule": "0 0 31 2 *"})] {
            assert!(request(&with(&spec, &json!({}), None), &none(), at(NOW)).is_ok());
        }
    }

    #[test]
    fn a_request_that_has_not_led_to_a_job_is_not_overwritten() {
        let pending = with(&json!({}), &json!({}), Some("before"));
        assert_eq!(
            request(&pending, &none(), at(NOW)),
            Err(Refusal::Pending(Standing::NotSeen))
        );
        let done = with(
            &json!({}),
            &json!({"handledRunNow": ["before"]}),
            Some("before"),
        );
        assert!(request(&done, &none(), at(NOW)).is_ok());
    }

    #[test]
    fn of_batch_or_deleted_ones_nothing_is_requested() {
        let mut stored = with(&json!({}), &json!({}), None);
        stored.cron.meta.deleting = true;
        assert_eq!(request(&stored, &none(), at(NOW)), Err(Refusal::Deleting));
        stored.cron.api = crate::cron_job::Api::Native;
        assert_eq!(request(&stored, &none(), at(NOW)), Err(Refusal::Native));
    }

    #[test]
    fn where_a_request_stands_is_read_from_the_status() {
        let asked = request(&with(&json!({}), &json!({}), None), &none(), at(NOW)).unwrap();
        let stands = |spec: Value, status: Value, children: &Children| {
            standing(&with(&spec, &status, Some(&asked.word)), children, &asked)
        };
        let forbid = || json!({"concurrencyPolicy": "Forbid"});
        assert_eq!(stands(forbid(), json!({}), &none()), Standing::NotSeen);
        let promised = json!({"active": [{"kind": "Job", "name": asked.name}]});
        assert_eq!(stands(forbid(), promised, &none()), Standing::Promised);
        let ran = json!({"handledRunNow": [asked.word]});
        assert_eq!(stands(forbid(), ran, &none()), Standing::Started);
        let stalled = |reason| json!({"conditions": [condition("Stalled", reason, "no")]});
        assert_eq!(
            stands(forbid(), stalled("JobForbidden"), &none()),
            Standing::Refused("JobForbidden: no".to_owned())
        );
        assert_eq!(
            stands(forbid(), stalled("NeverFires"), &none()),
            Standing::NotSeen
        );
        let mut children = none();
        run(&mut children, "2026-01-01T10:00:00Z", None, true);
        let ((_, name), child) = children.first_key_value().unwrap();
        let entry = json!({"kind": "Job", "name": name, "uid": child.uid.to_string()});
        let busy = json!({"active": [entry]});
        let expected = Standing::WaitsFor(vec![name.to_string()]);
        assert_eq!(stands(forbid(), busy.clone(), &children), expected);
        assert_eq!(stands(json!({}), busy, &children), Standing::NotSeen);
    }
}
