//! How often a node is tried and what counts as a failure, as stored: total, whatever was stored.

use std::collections::BTreeSet;

use carillon_api::NoEligibleNodesPolicy;
use carillon_api::names::ANNOTATION_RETRY;
use carillon_api::policy::{
    DEFAULT_NODE_LOST_TIMEOUT_SECONDS, DEFAULT_POD_TERMINATION_TIMEOUT_SECONDS, ExitCodeOperator,
    PodFailurePolicy, PodFailurePolicyAction, PodFailurePolicyRule,
};
use jiff::SignedDuration;
use serde::Deserialize;
use serde_json::Value;

use super::reader::Reader;
use crate::max_failed_nodes::MaxFailedNodes;
use crate::name;
use crate::printable::one_line;

/// Of an entry that cannot be read, so much is shown.
const SHOWN: usize = 64;

/// The policies of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Policies {
    /// executionPolicy AtMostOnce: a node whose pod may have run is never tried again.
    pub at_most_once: bool,
    /// Failed attempts a node may have before it counts as failed.
    pub backoff_limit: usize,
    /// What the failure of a pod means; the first that matches decides.
    pub failure_rules: Vec<PodFailurePolicyRule>,
    /// Time in which a container of a pod must have started.
    pub start_deadline: Option<SignedDuration>,
    /// Failed nodes that FailFast and Pause put up with.
    pub max_failed_nodes: MaxFailedNodes,
    /// How long a node is gone or not ready before its pod counts as lost.
    pub node_lost_timeout: SignedDuration,
    /// How long a deleted pod lingers beyond its grace period before it is given up.
    pub pod_termination_timeout: SignedDuration,
    /// What becomes of the job if no node is eligible and none was ever started.
    pub no_eligible_nodes_policy: NoEligibleNodesPolicy,
    /// Pods of failed attempts whose nodes somebody wants tried again, by name.
    pub retry: BTreeSet<Box<str>>,
    /// The first entry of that list that names no pod, and what to write: it asks for nothing.
    pub unreadable_retry: Option<String>,
}

impl Policies {
    /// Reads a spec and the annotation `carillon.dev/retry`. `restarts`: restartPolicy OnFailure.
    pub(super) fn read(spec: &mut Reader<'_>, retry: Option<&str>, restarts: bool) -> Self {
        let retry = retry.unwrap_or_default();
        let at_most_once = spec.word(
            "executionPolicy",
            &[("AtLeastOnce", false), ("AtMostOnce", true)],
        );
        let no_eligible_nodes_policy = spec.word(
            "noEligibleNodesPolicy",
            &[
                ("Wait", NoEligibleNodesPolicy::Wait),
                ("Complete", NoEligibleNodesPolicy::Complete),
                ("Fail", NoEligibleNodesPolicy::Fail),
            ],
        );
        let start_deadline = spec.count("podStartDeadlineSeconds");
        let lost = spec.count("nodeLostTimeoutSeconds");
        let terminates = spec.count("podTerminationTimeoutSeconds");
        let backoff_limit = spec.count("backoffLimitPerNode").unwrap_or(0);
        let none = MaxFailedNodes::Count(0);
        let max_failed_nodes =
            spec.value("failurePolicy.maxFailedNodes", MaxFailedNodes::read, none);
        let policies = Self {
            at_most_once,
            backoff_limit: usize::try_from(backoff_limit).unwrap_or(usize::MAX),
            failure_rules: failure_rules(spec),
            start_deadline: start_deadline.map(SignedDuration::from_secs),
            max_failed_nodes: max_failed_nodes.unwrap_or(none),
            node_lost_timeout: SignedDuration::from_secs(
                lost.unwrap_or(DEFAULT_NODE_LOST_TIMEOUT_SECONDS),
            ),
            pod_termination_timeout: SignedDuration::from_secs(
                terminates.unwrap_or(DEFAULT_POD_TERMINATION_TIMEOUT_SECONDS),
            ),
            no_eligible_nodes_policy,
            retry: read_retry(retry),
            unreadable_retry: unreadable(retry),
        };
        policies.check(spec, restarts);
        policies
    }

    /// Which of them exclude each other.
    fn check(&self, spec: &mut Reader<'_>, restarts: bool) {
        let mut rules = self.failure_rules.iter();
        let ignores = rules.any(|rule| rule.action == PodFailurePolicyAction::Ignore);
        if restarts && !self.failure_rules.is_empty() {
            spec.problem(
                "podFailurePolicy",
                "found with restartPolicy OnFailure, which restarts what failed; write restartPolicy Never",
            );
        }
        for (runs_twice, found) in [
            (restarts, "restartPolicy OnFailure"),
            (self.backoff_limit > 0, "backoffLimitPerNode over 0"),
            (ignores, "a rule of podFailurePolicy with action Ignore"),
        ] {
            if self.at_most_once && runs_twice {
                spec.problem("executionPolicy", format_args!(
                    "found AtMostOnce with {found}, which runs a node twice; create the job again without one of them"
                ));
            }
        }
    }
}

fn failure_rules(spec: &mut Reader<'_>) -> Vec<PodFailurePolicyRule> {
    let read = |stored: &Value| match PodFailurePolicy::deserialize(stored) {
        Ok(policy) => Ok(policy.rules),
        Err(error) => Err(format!("{error}; write rules as in batch/v1")),
    };
    let rules = spec.value("podFailurePolicy", read, Vec::new());
    let rules = rules.unwrap_or_default();
    for (at, rule) in rules.iter().enumerate() {
        let problem = match (&rule.on_exit_codes, &rule.on_pod_conditions) {
            (Some(codes), None)
                if codes.operator == ExitCodeOperator::In && codes.values.contains(&0) =>
            {
                "onExitCodes.values: found 0 with operator In; remove it"
            }
            (Some(_), None) | (None, Some(_)) => continue,
            _ => "found both or none of onExitCodes and onPodConditions; write one of them",
        };
        spec.problem(&format!("podFailurePolicy.rules[{at}]"), problem);
    }
    rules
}

/// Names of pods, comma separated. A name stands for one attempt on one node of one job, so a request
/// that was copied onto another job, or came back with a backup, asks for nothing there.
fn read_retry(text: &str) -> BTreeSet<Box<str>> {
    let entries = text.split(',').map(str::trim);
    let entries = entries.filter(|entry| !entry.is_empty());
    entries.map(Box::from).collect()
}

fn unreadable(text: &str) -> Option<String> {
    let mut entries = text.split(',').map(str::trim);
    let found = entries.find(|entry| !entry.is_empty() && !name::is_pod(entry))?;
    let end = found.floor_char_boundary(SHOWN);
    let more = if end < found.len() { "…" } else { "" };
    let found = one_line(&found[..end]);
    Some(format!(
        "{ANNOTATION_RETRY} has \"{found}{more}\", which asks for nothing; write the names of pods whose attempts \
         failed, comma separated, or kubectl carillon retry JOB --node NODE"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_retry_annotation_is_a_list_of_names() {
        let read = read_retry("fix-bcd, fix-fgh ,,fix-bcd");
        let names: Vec<&str> = read.iter().map(|name| &**name).collect();
        assert_eq!(names, ["fix-bcd", "fix-fgh"]);
    }

    #[test]
    fn an_entry_that_is_no_pod_of_a_broadcast_job_is_told_with_what_to_write() {
        let uid = "4e0c5d6a-0b1c-4d2e-8f3a-000000000001".parse().unwrap();
        let pods = ["fix", "a.b-c", &"x".repeat(63)].map(|job| name::pod(job, uid, "node-a", 2));
        assert_eq!(unreadable(&format!(" {} ,", pods.join(", "))), None);
        let pod = &pods[0];
        for odd in [
            "node-a",
            "node-a/1",
            "*",
            "all",
            &pod.to_uppercase(),
            "fix-\u{202e}bcdfghjkl",
        ] {
            let told = unreadable(&format!("{pod},{odd}")).unwrap();
            assert!(told.contains("write the names of pods"), "{told}");
            assert!(!told.contains(crate::printable::is_harmful), "{told}");
        }
        assert!(unreadable(&"ü".repeat(1 << 17)).unwrap().len() < 512);
    }
}
