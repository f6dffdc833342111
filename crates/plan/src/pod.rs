//! What the planner knows of a pod, and what an ended pod means.

use std::collections::HashMap;
use std::sync::Arc;

use carillon_api::condition::results;
use carillon_api::policy::{PodFailurePolicyAction, PodFailurePolicyRule};
use carillon_api::{NodeState, node_result_slice::MAX_MESSAGE_BYTES};
use jiff::{SignedDuration, Timestamp};

pub use crate::failure_rules::Failure;
use crate::failure_rules::{self, Match};
use crate::printable::one_line;
use crate::uid::Uid;

/// The pods one owner controls, by name. Only ever looked into, never iterated in a way that
/// decides anything, so that its order does not matter.
pub type Pods = HashMap<Box<str>, PodRow>;

/// One pod, reduced to what a decision can depend on.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[allow(clippy::struct_excessive_bools)] // each is a fact of its own
pub struct PodRow {
    /// Uid of the pod.
    pub uid: Uid,
    /// resourceVersion of this row.
    pub rv: u64,
    /// `spec.nodeName`: the node it was bound to, if it was.
    pub node: Option<Arc<str>>,
    /// `status.phase`.
    pub phase: PodPhase,
    /// Carries our result-tracking finalizer.
    pub tracked: bool,
    /// The cluster ended it: condition DisruptionTarget, or an eviction reason of the kubelet.
    pub disrupted: bool,
    /// Set once somebody has deleted it.
    pub deletion: Option<Deletion>,
    /// It was seen deleted before it had ended, so that its end is not its own doing.
    pub interrupted: bool,
    /// Restarts of all containers and init containers; sidecars left out.
    pub restarts: u32,
    /// `metadata.creationTimestamp`.
    pub created: Option<Timestamp>,
    /// Why no container has started, while none has and something is known of it.
    pub waiting: Option<Box<Waiting>>,
    /// When the first container started.
    pub started: Option<Timestamp>,
    /// That is what an earlier state of the pod said, and this one no longer does.
    pub started_earlier: bool,
    /// How the containers ended, or ended last time.
    pub end: Option<Box<End>>,
    /// What the rules of a pod failure policy judge; read of failed pods only.
    pub failure: Option<Arc<Failure>>,
}

/// Why a pod does not start.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Waiting {
    /// The kubelet's or the scheduler's reason, e.g. ImagePullBackOff, Unschedulable.
    pub reason: Arc<str>,
    /// In their words, shortened and made printable.
    pub message: Box<str>,
}

impl PodRow {
    /// Whether a container has started at some time; sidecars left out.
    pub fn has_started(&self) -> bool {
        let exited = self.end.as_ref().and_then(|end| end.exit_code).is_some();
        self.phase != PodPhase::Pending || self.started.is_some() || self.restarts > 0 || exited
    }

    /// Whether the kubelet has refused to run it, as when the node has too little CPU left. One that was seen to
    /// run may be refused when its kubelet starts again: that is something else.
    pub fn was_rejected(&self) -> bool {
        let silent = self.end.as_ref().is_some_and(|end| end.silent);
        self.phase == PodPhase::Failed && silent && self.started.is_none() && !self.disrupted
    }

    /// Whether anything is left to do about it.
    pub fn is_live(&self) -> bool {
        self.tracked || !self.phase.has_ended()
    }

    /// Whether it can be released once its outcome is stored: it has ended, or was told to stop. Released before, it
    /// would run on for ever if the request to stop it failed.
    pub fn may_be_released(&self) -> bool {
        self.tracked && (self.phase.has_ended() || self.deletion.is_some())
    }

    /// Keeps what an earlier state of the same pod said and this one no longer does: that it was
    /// deleted while it ran, and how its container failed before the kill.
    pub fn remember(&mut self, earlier: &Self) {
        self.interrupted |= earlier.interrupted;
        if self.started.is_none() && earlier.started.is_some() {
            self.started = earlier.started;
            self.started_earlier = true;
        }
        let (Some(end), Some(before)) = (&mut self.end, &earlier.end) else {
            return;
        };
        let failed = before
            .exit_code
            .is_some_and(|code| code != 0 && !is_kill(code));
        if failed && self.deletion.is_some() && end.exit_code.is_some_and(is_kill) {
            end.exit_code = before.exit_code;
            end.reason.clone_from(&before.reason);
            end.message.clone_from(&before.message);
        }
    }
}

/// Exit codes of SIGKILL and SIGTERM.
pub fn is_kill(exit_code: i32) -> bool {
    matches!(exit_code, 137 | 143)
}

/// A deletion under way.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Deletion {
    /// `metadata.deletionTimestamp`: when the kubelet kills what still runs.
    pub due: Timestamp,
    /// `metadata.deletionGracePeriodSeconds`.
    pub grace_seconds: i64,
}

impl Deletion {
    /// When the delete was asked for.
    pub fn asked(self) -> Timestamp {
        let grace = SignedDuration::from_secs(self.grace_seconds);
        self.due.checked_sub(grace).unwrap_or(self.due)
    }
}

/// Last words of a pod's containers.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct End {
    /// Of the first container that failed, else 0.
    pub exit_code: Option<i32>,
    /// The kubelet's reason, e.g. OOMKilled.
    pub reason: Box<str>,
    /// Termination message, shortened and made printable.
    pub message: Box<str>,
    /// When the last container ended.
    pub finished: Option<Timestamp>,
    /// The reason is that of the pod, and no container was ever heard of.
    pub silent: bool,
}

/// `status.phase`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum PodPhase {
    /// Not all containers have started.
    #[default]
    Pending,
    /// At least one container runs.
    Running,
    /// All ended with exit code 0.
    Succeeded,
    /// At least one ended otherwise.
    Failed,
    /// A word this version does not know, or Unknown; treated as still running.
    Unknown,
}

impl PodPhase {
    /// Reads the API's word.
    pub fn read(text: &str) -> Self {
        match text {
            "" | "Pending" => Self::Pending,
            "Running" => Self::Running,
            "Succeeded" => Self::Succeeded,
            "Failed" => Self::Failed,
            _ => Self::Unknown,
        }
    }

    /// Whether the pod has ended.
    pub fn has_ended(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

/// What an ended pod means for its node.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Outcome {
    /// Succeeded, Failed or Disrupted.
    pub state: NodeState,
    /// Empty for Succeeded.
    pub reason: &'static str,
    /// The rule of the pod failure policy that decided.
    pub rule: Option<Match>,
}

impl Outcome {
    fn new(state: NodeState, reason: &'static str) -> Self {
        Self {
            state,
            reason,
            rule: None,
        }
    }
}

/// Judges an ended pod. `rules` are those of the pod failure policy; `restart_limit` is set for
/// restartPolicy OnFailure; `stopping` is the reason recorded for pods that are deleted because the
/// job is failing.
pub fn outcome(
    pod: &PodRow,
    rules: &[PodFailurePolicyRule],
    restart_limit: Option<u32>,
    stopping: Option<&'static str>,
) -> Outcome {
    let failed = |reason| Outcome::new(NodeState::Failed, reason);
    let disrupted = |reason| Outcome::new(NodeState::Disrupted, reason);
    let interrupted = interrupted(pod);
    if pod.phase == PodPhase::Succeeded && !interrupted {
        return Outcome::new(NodeState::Succeeded, "");
    }
    if over_limit(pod, restart_limit) {
        return failed(results::RESTART_LIMIT_EXCEEDED);
    }
    if let Some(reason) = stopping.filter(|_| interrupted) {
        return failed(reason);
    }
    if let Some(ruled) = ruled(pod, rules, interrupted) {
        return ruled;
    }
    match own_reason(pod, interrupted) {
        results::NON_ZERO_EXIT_CODE => failed(results::NON_ZERO_EXIT_CODE),
        reason => disrupted(reason),
    }
}

/// Why a pod has failed, when no rule says so.
fn own_reason(pod: &PodRow, interrupted: bool) -> &'static str {
    if pod.was_rejected() {
        results::REJECTED
    } else if pod.disrupted {
        results::POD_DISRUPTED
    } else if interrupted {
        results::POD_DELETED
    } else {
        results::NON_ZERO_EXIT_CODE
    }
}

/// What the pod failure policy makes of a failed pod.
fn ruled(pod: &PodRow, rules: &[PodFailurePolicyRule], interrupted: bool) -> Option<Outcome> {
    let own_doing = !interrupted && !pod.disrupted;
    let found = failure_rules::first_match(rules, pod.failure.as_deref()?, own_doing)?;
    let (state, reason) = match found.action {
        PodFailurePolicyAction::Ignore => (NodeState::Disrupted, results::IGNORED_BY_RULE),
        PodFailurePolicyAction::Count => (NodeState::Failed, own_reason(pod, interrupted)),
        PodFailurePolicyAction::FailNode => (NodeState::Failed, results::FAILED_BY_RULE),
        PodFailurePolicyAction::FailJob => (NodeState::Failed, results::JOB_FAILED_BY_RULE),
    };
    // One that counts as it would without a rule says no more than that.
    let says_more = reason != results::NON_ZERO_EXIT_CODE;
    Some(Outcome {
        rule: says_more.then_some(found),
        ..Outcome::new(state, reason)
    })
}

/// Whether a pod was told to stop before it ended. Many programs exit with 0 when they are told
/// to; that they did is no sign that their work was done.
pub(crate) fn interrupted(pod: &PodRow) -> bool {
    let (Some(deletion), Some(end)) = (pod.deletion, &pod.end) else {
        return pod.interrupted;
    };
    // Times are whole seconds. Within the same one, the exit code of a kill decides.
    let killed = end.exit_code.is_some_and(is_kill);
    pod.interrupted
        || end
            .finished
            .is_none_or(|at| at > deletion.asked() || at == deletion.asked() && killed)
}

/// Whether a pod has been restarted more often than its job allows.
pub fn over_limit(pod: &PodRow, restart_limit: Option<u32>) -> bool {
    restart_limit.is_some_and(|limit| pod.restarts > limit)
}

/// A message as it may be stored and shown: one line, nothing in it that could mislead who reads it, and
/// at most 512 bytes, the end of it kept.
pub fn printable(message: &str) -> String {
    let clean = one_line(message.trim()).into_owned();
    if clean.len() <= MAX_MESSAGE_BYTES {
        return clean;
    }
    let ellipsis = '…';
    let start = clean.len() - (MAX_MESSAGE_BYTES - ellipsis.len_utf8());
    let kept = &clean[clean.ceil_char_boundary(start)..];
    format!("{ellipsis}{kept}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn failed_at(second: i64) -> PodRow {
        let end = End {
            exit_code: Some(3),
            finished: Some(at(second)),
            ..End::default()
        };
        PodRow {
            phase: PodPhase::Failed,
            end: Some(Box::new(end)),
            ..PodRow::default()
        }
    }

    fn deleted(pod: PodRow, asked: i64) -> PodRow {
        let deletion = Deletion {
            due: at(asked + 30),
            grace_seconds: 30,
        };
        PodRow {
            deletion: Some(deletion),
            ..pod
        }
    }

    #[test]
    fn an_ended_pod_is_judged_by_what_ended_it() {
        let succeeded = PodRow {
            phase: PodPhase::Succeeded,
            restarts: 9,
            ..PodRow::default()
        };
        let evicted = PodRow {
            disrupted: true,
            ..failed_at(5)
        };
        let obeyed = PodRow {
            phase: PodPhase::Succeeded,
            ..deleted(failed_at(50), 40)
        };
        let done = PodRow {
            phase: PodPhase::Succeeded,
            ..deleted(failed_at(40), 40)
        };
        let seen = PodRow {
            interrupted: true,
            ..done.clone()
        };
        let cases = [
            ("success", succeeded, None, NodeState::Succeeded, ""),
            (
                "own failure",
                failed_at(5),
                None,
                NodeState::Failed,
                results::NON_ZERO_EXIT_CODE,
            ),
            (
                "eviction",
                evicted,
                None,
                NodeState::Disrupted,
                results::POD_DISRUPTED,
            ),
            (
                "deleted while it ran",
                deleted(failed_at(50), 40),
                None,
                NodeState::Disrupted,
                results::POD_DELETED,
            ),
            (
                "exit 0 when told to stop",
                obeyed,
                None,
                NodeState::Disrupted,
                results::POD_DELETED,
            ),
            (
                "deleted within the second of its success",
                done,
                None,
                NodeState::Succeeded,
                "",
            ),
            (
                "seen deleted while it ran",
                seen,
                None,
                NodeState::Disrupted,
                results::POD_DELETED,
            ),
            (
                "deleted after it failed",
                deleted(failed_at(5), 40),
                None,
                NodeState::Failed,
                results::NON_ZERO_EXIT_CODE,
            ),
            (
                "stopped by the job",
                deleted(failed_at(50), 40),
                Some(results::STOPPED_BY_FAILURE),
                NodeState::Failed,
                results::STOPPED_BY_FAILURE,
            ),
            (
                "over the restart limit",
                PodRow {
                    restarts: 3,
                    ..deleted(failed_at(50), 40)
                },
                None,
                NodeState::Failed,
                results::RESTART_LIMIT_EXCEEDED,
            ),
        ];
        for (what, pod, stopping, state, reason) in cases {
            assert_eq!(
                outcome(&pod, &[], Some(2), stopping),
                Outcome::new(state, reason),
                "{what}"
            );
        }
    }

    #[test]
    fn a_kill_does_not_hide_how_the_container_failed_before() {
        let crash = failed_at(5);
        let mut killed = deleted(failed_at(50), 40);
        killed.end = Some(Box::new(End {
            exit_code: Some(143),
            ..End::default()
        }));
        killed.remember(&crash);
        assert_eq!(killed.end.unwrap().exit_code, Some(3));
        let mut own = failed_at(50);
        own.end = Some(Box::new(End {
            exit_code: Some(143),
            ..End::default()
        }));
        own.remember(&crash);
        assert_eq!(own.end.unwrap().exit_code, Some(143), "nobody deleted it");
    }

    #[test]
    fn a_phase_that_is_not_known_is_no_end() {
        for (text, phase, ended) in [
            ("", PodPhase::Pending, false),
            ("Pending", PodPhase::Pending, false),
            ("Running", PodPhase::Running, false),
            ("Succeeded", PodPhase::Succeeded, true),
            ("Failed", PodPhase::Failed, true),
            ("Unknown", PodPhase::Unknown, false),
            ("Dreaming", PodPhase::Unknown, false),
        ] {
            let read = PodPhase::read(text);
            assert_eq!((read, read.has_ended()), (phase, ended), "{text}");
        }
    }

    #[test]
    fn a_pod_has_started_when_anything_says_so() {
        let ended = |exit_code| PodRow {
            end: Some(Box::new(End {
                exit_code,
                ..End::default()
            })),
            ..PodRow::default()
        };
        let running = PodRow {
            phase: PodPhase::Running,
            ..PodRow::default()
        };
        let started = PodRow {
            started: Some(at(5)),
            ..PodRow::default()
        };
        let restarted = PodRow {
            restarts: 1,
            ..PodRow::default()
        };
        for pod in [running, started, restarted, ended(Some(0))] {
            assert!(pod.has_started(), "{pod:?}");
        }
        for pod in [PodRow::default(), ended(None)] {
            assert!(!pod.has_started(), "{pod:?}");
        }
    }

    #[test]
    fn only_a_failure_before_a_kill_outlives_it_and_only_of_a_pod_that_was_deleted() {
        let ended = |pod: &PodRow, code: i32| PodRow {
            end: Some(Box::new(End {
                exit_code: Some(code),
                ..End::default()
            })),
            ..pod.clone()
        };
        let (alone, told) = (failed_at(50), deleted(failed_at(50), 40));
        for (what, pod, before, now, kept) in [
            ("a failure before a kill", &told, 3, 143, 3),
            ("a failure before a hard kill", &told, 3, 137, 3),
            ("a success before a kill", &told, 0, 143, 143),
            ("a kill before a kill", &told, 137, 143, 143),
            ("another failure after it", &told, 3, 4, 4),
            ("a kill that nobody has asked for", &alone, 3, 143, 143),
        ] {
            let mut pod = ended(pod, now);
            pod.remember(&ended(&failed_at(5), before));
            assert_eq!(pod.end.unwrap().exit_code, Some(kept), "{what}");
        }
    }

    #[test]
    fn a_pod_that_was_once_seen_deleted_while_it_ran_stays_interrupted() {
        for (before, now) in [(false, false), (false, true), (true, false), (true, true)] {
            let [before, mut pod] = [before, now].map(|interrupted| PodRow {
                interrupted,
                ..PodRow::default()
            });
            let expected = before.interrupted || pod.interrupted;
            pod.remember(&before);
            assert_eq!(pod.interrupted, expected);
        }
    }

    #[test]
    fn a_pod_is_interrupted_when_it_ended_after_it_was_told_to_stop_or_was_killed_in_that_second() {
        let ended = |finished: Option<i64>, code: i32, seen: bool| {
            let end = End {
                exit_code: Some(code),
                finished: finished.map(at),
                ..End::default()
            };
            PodRow {
                end: Some(Box::new(end)),
                interrupted: seen,
                ..deleted(PodRow::default(), 40)
            }
        };
        for (finished, code, seen, expected) in [
            (Some(39), 0, false, false),
            (Some(39), 143, false, false),
            (Some(39), 0, true, true),
            (Some(40), 0, false, false),
            (Some(40), 3, false, false),
            (Some(40), 143, false, true),
            (Some(41), 0, false, true),
            (None, 0, false, true),
        ] {
            let found = interrupted(&ended(finished, code, seen));
            assert_eq!(found, expected, "{finished:?} {code} {seen}");
        }
        assert!(!interrupted(&failed_at(5)), "nobody told it to");
        assert!(!interrupted(&deleted(PodRow::default(), 40)), "it runs");
    }

    #[test]
    fn restarts_count_only_beyond_the_limit_and_only_where_there_is_one() {
        let pod = PodRow {
            restarts: 2,
            ..PodRow::default()
        };
        assert!(!over_limit(&pod, Some(2)) && over_limit(&pod, Some(1)) && !over_limit(&pod, None));
    }

    #[test]
    fn messages_cannot_rewrite_a_terminal_and_keep_their_end() {
        assert_eq!(
            printable(" a\nb\u{1b}[2Jc\u{202e}d\n"),
            "a b\u{fffd}[2Jc\u{fffd}d"
        );
        // The cut falls between two characters, or into one.
        for (end, left) in [("the end", 512), ("an end", 511)] {
            let long = printable(&format!("{}{end}", "ü".repeat(600)));
            assert!(long.starts_with("…ü") && long.ends_with(end), "{long}");
            assert_eq!(long.len(), left);
        }
        let all = "a".repeat(MAX_MESSAGE_BYTES);
        assert_eq!(printable(&all), all);
    }
}
