//! Rules of the status: ends are absorbing, counts follow the records.

use carillon_api::condition::types;
use carillon_api::{BroadcastJobStatus, NodeState};

use super::stored::holds;
use super::{Check, rules};
use crate::interlock::trip::{Trip, trip};

/// Conditions that are never taken back.
const TERMINAL: [&str; 3] = [types::COMPLETE, types::FAILED, types::FAILURE_TARGET];

fn ended(status: &BroadcastJobStatus) -> bool {
    holds(status, types::COMPLETE) || holds(status, types::FAILED)
}

impl Check<'_> {
    pub(super) fn status(&mut self, new: &BroadcastJobStatus) -> Result<(), Trip> {
        let old = &self.snapshot.job.status;
        self.statuses += 1;
        if self.statuses > 1 {
            return trip(rules::TERMINAL, "status: written twice; expected once");
        }
        self.desired = new.desired;
        for type_ in TERMINAL {
            if holds(old, type_) && !holds(new, type_) {
                return trip(
                    rules::TERMINAL,
                    format!("status: {type_} is taken back; expected that it stays True"),
                );
            }
        }
        let gains = |type_| holds(new, type_) && !holds(old, type_);
        for (one, other) in [
            (types::COMPLETE, types::FAILED),
            (types::FAILED, types::COMPLETE),
            (types::COMPLETE, types::FAILURE_TARGET),
            (types::FAILURE_TARGET, types::COMPLETE),
        ] {
            if gains(one) && holds(new, other) {
                return trip(
                    rules::TERMINAL,
                    format!("status: {one} becomes True beside {other}; expected one of them"),
                );
            }
        }
        if TERMINAL.iter().any(|type_| holds(new, type_)) && holds(new, types::PAUSED) {
            return trip(
                rules::TERMINAL,
                "status: the job ends or fails, and is Paused; expected that nothing pauses it any more",
            );
        }
        if old.retries != new.retries {
            return trip(
                rules::FAMILY,
                "status.retries: changed with the rest of the status; expected that retries enter themselves",
            );
        }
        let (was, is) = (ended(old), ended(new));
        let time = |status: &BroadcastJobStatus| status.completion_time.as_ref().map(|at| at.0);
        let (before, after) = (time(old), time(new));
        if was && before != after || !was && is != after.is_some() {
            return trip(
                rules::TERMINAL,
                format!(
                    "status: completionTime becomes {after:?}; expected {before:?}, or a time as the job ends (found {is})"
                ),
            );
        }
        if is && !was {
            self.end()?;
        }
        self.counts(old, new)
    }

    fn end(&self) -> Result<(), Trip> {
        if !self.log.is_sealed() {
            return trip(
                rules::END,
                "status: the job ends; expected that an earlier step seals the log",
            );
        }
        match self.log.open().map(|entry| entry.node).min() {
            None => Ok(()),
            Some(node) => trip(
                rules::END,
                format!("status: the job ends; expected that the attempt on node {node} is over"),
            ),
        }
    }

    fn counts(&self, old: &BroadcastJobStatus, new: &BroadcastJobStatus) -> Result<(), Trip> {
        // With AtMostOnce nobody will try an interrupted node again: it has failed.
        let once = self.snapshot.job.policies.at_most_once;
        let mut failures = self.log.count(NodeState::Failed);
        if once {
            failures += self.log.count(NodeState::Disrupted) + self.log.count(NodeState::Unknown);
        }
        let successes = self.log.count(NodeState::Succeeded);
        let (failures, successes) = (number(failures), number(successes));
        let least = old.succeeded;
        if new.succeeded < least || new.succeeded > successes.max(least) {
            return trip(
                rules::COUNTS,
                format!(
                    "status.succeeded: {}; expected from the {least} stored to the {successes} recorded",
                    new.succeeded
                ),
            );
        }
        // A failed node that is tried again has not failed for good: its record stays, the count
        // goes down. Fewer records than were counted are lost ones.
        let lost = new.failed < old.failed && failures < old.failed;
        if lost || new.failed < 0 || new.failed > failures.max(old.failed) {
            return trip(
                rules::COUNTS,
                format!(
                    "status.failed: {}; expected from the {} stored, less retried nodes, to the {failures} recorded",
                    new.failed, old.failed
                ),
            );
        }
        Ok(())
    }
}

fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
