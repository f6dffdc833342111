//! How far a job is, why it stands where it stands, and when it may be done.

use carillon_api::NodeState;
use carillon_api::condition::{reasons, types};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::Serialize;

use super::estimate::{Estimate, estimate};
use super::ledger::Ledger;
use super::outcomes::sentence;
use crate::broadcast_job::BroadcastJob;
use crate::condition;
use crate::record::Record;
use crate::view::read::StoredJob;
use crate::view::remedy;

/// Where a job stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub enum Standing {
    /// No operator has acted on it yet.
    NotStarted,
    /// Pods are started or run.
    Running,
    /// Something outside of the job has to change; it goes on by itself then.
    Waiting,
    /// No pod is started until somebody resumes it.
    Paused,
    /// It starts nothing until a person repairs something.
    Stalled,
    /// It is going to fail, its pods are being stopped.
    Stopping,
    /// Ended: every eligible node has an outcome.
    Complete,
    /// Ended early.
    Failed,
}

impl Standing {
    /// Whether the job has ended.
    pub fn has_ended(self) -> bool {
        matches!(self, Self::Complete | Self::Failed)
    }
}

/// One job, as `get` shows it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Where it stands.
    pub standing: Standing,
    /// Reason of the condition that says so; empty before the operator has acted.
    pub reason: String,
    /// Why, in words; empty when there is nothing to add.
    pub why: String,
    /// Nodes that were or will be served.
    pub desired: i32,
    /// Nodes with an outcome.
    pub done: i32,
    /// Pods that have not ended.
    pub active: i32,
    /// Nodes whose last attempt succeeded.
    pub succeeded: i32,
    /// Nodes whose last attempt failed.
    pub failed: i32,
    /// Attempts that were interrupted.
    pub disrupted: i32,
    /// Nodes whose last attempt failed and that are tried again.
    pub retrying: i32,
    /// Pods whose node does not answer.
    pub lost: i32,
    /// Nodes left out.
    pub refused: i32,
    /// When all nodes of now may be done.
    #[serde(flatten)]
    pub eta: Option<Estimate>,
    /// When the job was created.
    pub created: Option<Timestamp>,
    /// The job that it retries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_of: Option<String>,
    /// Its retries that have had their turn, in that order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub retries: Vec<String>,
}

impl Progress {
    /// The progress of a job, without an estimate. The ledger may be empty; then failures are not named.
    pub fn of(stored: &StoredJob, ledger: &Ledger<'_>) -> Self {
        let job = &stored.job;
        let status = &job.status;
        let (standing, condition) = standing(job);
        Self {
            retry_of: job.retry_of.as_ref().map(|first| first.name.clone()),
            retries: status.retries.iter().map(|r| r.name.clone()).collect(),
            namespace: job.meta.owner.namespace.clone(),
            name: job.meta.owner.name.clone(),
            standing,
            reason: condition.map(|c| c.reason.clone()).unwrap_or_default(),
            why: why(job, standing, condition, ledger),
            desired: status.desired,
            done: status.succeeded + status.failed,
            active: status.active,
            succeeded: status.succeeded,
            failed: status.failed,
            disrupted: status.disrupted,
            retrying: status.retrying,
            lost: status.lost,
            refused: status.refused.iter().map(|refused| refused.count).sum(),
            eta: None,
            created: stored.created,
        }
    }

    /// Adds when a job that runs may be done.
    #[must_use]
    pub fn estimated(mut self, stored: &StoredJob, ledger: &Ledger<'_>, now: Timestamp) -> Self {
        if self.standing == Standing::Running {
            self.eta = estimate(&stored.job, ledger, now);
        }
        self
    }

    /// `Paused: node-17 failed (exit 3)`.
    pub fn headline(&self) -> String {
        match self.why.as_str() {
            "" => format!("{:?}", self.standing),
            why => format!("{:?}: {why}", self.standing),
        }
    }
}

/// Where a job stands, with the condition that says so.
pub fn standing(job: &BroadcastJob) -> (Standing, Option<&Condition>) {
    let conditions = &job.status.conditions;
    let order = [
        (types::FAILED, Standing::Failed),
        (types::COMPLETE, Standing::Complete),
        (types::STALLED, Standing::Stalled),
        (types::PAUSED, Standing::Paused),
        (types::FAILURE_TARGET, Standing::Stopping),
    ];
    for (type_, standing) in order {
        let found = condition::find(conditions, type_).filter(|c| c.status == "True");
        let tells = type_ != types::STALLED || condition::is_stalled(conditions);
        if tells && found.is_some() {
            return (standing, found);
        }
    }
    match condition::find(conditions, types::RECONCILING) {
        None => (Standing::NotStarted, None),
        found @ Some(c) if c.reason == reasons::RUNNING => (Standing::Running, found),
        found => (Standing::Waiting, found),
    }
}

fn why(
    job: &BroadcastJob,
    standing: Standing,
    condition: Option<&Condition>,
    ledger: &Ledger<'_>,
) -> String {
    let Some(condition) = condition else {
        return "no operator has acted on it yet".to_owned();
    };
    match standing {
        Standing::Complete if condition.reason == reasons::NO_ELIGIBLE_NODES => {
            condition.message.clone()
        }
        Standing::Complete if job.status.failed > 0 => count_failed(job.status.failed),
        Standing::Running | Standing::NotStarted | Standing::Complete => String::new(),
        Standing::Paused if condition.reason == reasons::PAUSED_BY_FAILURE => {
            failures(job, ledger).unwrap_or_else(|| count_failed(job.status.failed))
        }
        Standing::Paused => "spec.paused is true".to_owned(),
        Standing::Waiting | Standing::Stalled if condition.message.is_empty() => {
            condition.reason.clone()
        }
        Standing::Waiting | Standing::Stalled => {
            format!("{} {}", condition.reason, remedy::told(&condition.message))
        }
        // The decision alone; the message of Failed has the counts in it, too.
        Standing::Stopping | Standing::Failed => {
            let decided = condition::find(&job.status.conditions, types::FAILURE_TARGET);
            decided.unwrap_or(condition).message.clone()
        }
    }
}

fn count_failed(failed: i32) -> String {
    let noun = if failed == 1 { "node" } else { "nodes" };
    format!("{failed} {noun} failed")
}

/// `node-17 failed (exit 3) and 2 more`: the failure that came last, since those before it may have
/// been accepted by a resume.
fn failures(job: &BroadcastJob, ledger: &Ledger<'_>) -> Option<String> {
    let failed = |record: &&Record| record.state == NodeState::Failed;
    let failed: Vec<&Record> = ledger.latest().filter(failed).collect();
    let last = failed.iter().max_by_key(|record| record.finished)?;
    let node = &last.node;
    let others = failed.len() as i32 - job.status.acknowledged_failed_nodes - 1;
    let how = sentence(last.state, &last.reason, last.exit_code, "");
    let how = how.trim_start_matches("Failed: ");
    Some(match others {
        ..=0 => format!("{node} failed ({how})"),
        n => format!("{node} failed ({how}) and {n} more"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::broadcast_job::samples::{at, condition, job, record, slice};
    use serde_json::{Value, json};

    fn shown(conditions: &[Value], records: Vec<Record>) -> String {
        let status = json!({"desired": 9, "failed": 2, "succeeded": 1, "conditions": conditions});
        let slices = slice(records);
        Progress::of(&job(&json!({}), &status), &Ledger::read(&slices)).headline()
    }

    #[test]
    fn the_headline_says_why_a_job_stands_where_it_stands() {
        let reconciling = |reason: &str, message: &str| condition("Reconciling", reason, message);
        let cases: [(Vec<Value>, &str); 8] = [
            (vec![], "NotStarted: no operator has acted on it yet"),
            (vec![reconciling("Running", "1 of 9")], "Running"),
            (
                vec![reconciling("QuotaExceeded", "pods=10")],
                "Waiting: QuotaExceeded pods=10",
            ),
            (
                vec![
                    reconciling("PausedByUser", ""),
                    condition("Paused", "PausedByUser", "spec.paused is true; …"),
                ],
                "Paused: spec.paused is true",
            ),
            (
                vec![condition("Stalled", "InvalidTemplate", "no such field")],
                "Stalled: InvalidTemplate no such field",
            ),
            (
                vec![condition(
                    "FailureTarget",
                    "MaxFailedNodesExceeded",
                    "1 failed",
                )],
                "Stopping: 1 failed",
            ),
            (
                vec![
                    condition("FailureTarget", "MaxFailedNodesExceeded", "1 failed"),
                    condition("Failed", "MaxFailedNodesExceeded", "1 failed; 1 of 9"),
                ],
                "Failed: 1 failed",
            ),
            (
                vec![condition("Complete", "AllNodesSucceeded", "")],
                "Complete: 2 nodes failed",
            ),
        ];
        for (conditions, expected) in cases {
            assert_eq!(shown(&conditions, vec![]), expected);
        }
    }

    /// A job without a status, and one with that of the CRD.
    #[test]
    fn a_job_that_nobody_has_looked_at_is_not_started() {
        for status in [Value::Null, json!({"observedGeneration": -1})] {
            let stored = job(&json!({}), &status);
            assert_eq!(stored.job.status.observed_generation, None, "{status}");
            let progress = Progress::of(&stored, &Ledger::default());
            assert_eq!(progress.standing, Standing::NotStarted, "{status}");
        }
    }

    #[test]
    fn a_job_that_is_complete_says_how_many_nodes_failed_or_that_there_was_none_to_serve() {
        let complete = |reason: &str, message: &str, failed: i32| {
            let status = json!({"desired": 9, "failed": failed,
                "conditions": [condition("Complete", reason, message)]});
            Progress::of(&job(&json!({}), &status), &Ledger::default()).headline()
        };
        assert_eq!(complete("AllNodesSucceeded", "8 of 9", 0), "Complete");
        assert_eq!(
            complete("AllNodesSucceeded", "8 of 9", 1),
            "Complete: 1 node failed"
        );
        assert_eq!(
            complete("NoEligibleNodes", "no node fits", 0),
            "Complete: no node fits"
        );
    }

    #[test]
    fn done_is_what_has_succeeded_or_failed_and_a_job_ends_complete_or_failed() {
        for (type_, ended) in [
            ("Complete", true),
            ("Failed", true),
            ("FailureTarget", false),
            ("Stalled", false),
            ("Paused", false),
            ("Reconciling", false),
        ] {
            let status = json!({"desired": 9, "succeeded": 4, "failed": 3,
                "conditions": [condition(type_, "Whatever", "")]});
            let progress = Progress::of(&job(&json!({}), &status), &Ledger::default());
            assert_eq!(progress.done, 7);
            assert_eq!(progress.standing.has_ended(), ended, "{type_}");
        }
    }

    #[test]
    fn a_missing_service_account_is_named_with_the_command_that_creates_it() {
        let message = "pods \"fix-1\" is forbidden: error looking up service account ops/nobody: serviceaccount \
                       \"nobody\" not found";
        assert_eq!(
            shown(&[condition("Stalled", "PodForbidden", message)], vec![]),
            "Stalled: PodForbidden ServiceAccount nobody does not exist: kubectl -n ops create serviceaccount nobody"
        );
    }

    #[test]
    fn a_reason_without_a_message_stands_alone() {
        for type_ in ["Reconciling", "Stalled"] {
            let headline = shown(&[condition(type_, "QuotaExceeded", "")], vec![]);
            assert!(headline.ends_with(": QuotaExceeded"), "{headline}");
        }
    }

    #[test]
    fn a_job_paused_by_failures_names_the_last_one_and_how_it_ended() {
        let paused = [condition("Paused", "PausedByFailure", "set the annotation")];
        let mut later = record("n17", 1, NodeState::Failed);
        later.finished = Some(at(20));
        let one = shown(&paused, vec![later.clone()]);
        assert_eq!(one, "Paused: n17 failed (exit 3)");
        let two = shown(&paused, vec![later, record("n4", 1, NodeState::Failed)]);
        assert_eq!(two, "Paused: n17 failed (exit 3) and 1 more");
        assert_eq!(shown(&paused, vec![]), "Paused: 2 nodes failed");
    }

    #[test]
    fn failures_that_a_resume_has_accepted_are_not_among_those_that_pause_a_job() {
        let paused = [condition("Paused", "PausedByFailure", "set the annotation")];
        let records = ["n1", "n2", "n3"].map(|node| record(node, 1, NodeState::Failed));
        let slices = slice(records.into());
        let headline = |acknowledged: i32| {
            let status = json!({"desired": 9, "failed": 3, "acknowledgedFailedNodes": acknowledged,
                "conditions": paused});
            let job = job(&json!({}), &status);
            Progress::of(&job, &Ledger::read(&slices)).headline()
        };
        for (acknowledged, more) in [(0, " and 2 more"), (1, " and 1 more"), (2, ""), (3, "")] {
            let end = format!("failed (exit 3){more}");
            let headline = headline(acknowledged);
            assert!(headline.ends_with(&end), "{acknowledged}: {headline}");
        }
    }
}
