//! Conditions of a Job.

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{JobCondition, JobStatus};

use super::end::EndState;
use crate::condition::whole_seconds;
use crate::plan::Note;

/// The condition of this type, if it is True.
pub(super) fn find<'a>(status: &'a JobStatus, type_: &str) -> Option<&'a JobCondition> {
    let mut conditions = status.conditions.iter().flatten();
    conditions.find(|condition| condition.type_ == type_ && condition.status == "True")
}

/// Sets a condition; one that is False is not added. Whether anything has changed: then its times
/// are new.
pub(super) fn set(
    status: &mut JobStatus,
    type_: &str,
    is_true: bool,
    reason: &str,
    message: &str,
    now: Timestamp,
) -> bool {
    let word = if is_true { "True" } else { "False" };
    let new = condition(type_, word, reason, message, now);
    let conditions = status.conditions.get_or_insert_default();
    let old = conditions.iter_mut().find(|known| known.type_ == type_);
    match old {
        Some(old) => {
            let same = old.status == word
                && old.reason.as_deref().unwrap_or_default() == reason
                && old.message.as_deref().unwrap_or_default() == message;
            if !same {
                *old = new;
            }
            !same
        }
        None if is_true => {
            conditions.push(new);
            true
        }
        None => false,
    }
}

fn condition(type_: &str, word: &str, reason: &str, message: &str, now: Timestamp) -> JobCondition {
    JobCondition {
        type_: type_.to_owned(),
        status: word.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_probe_time: Some(whole_seconds(now)),
        last_transition_time: Some(whole_seconds(now)),
    }
}

/// Says how the Job is going to end. Upstream adds the condition also where somebody has set one of
/// that type to False.
pub(super) fn add_interim(status: &mut JobStatus, end: &EndState, strict: bool, now: Timestamp) {
    let (type_, reason, message) = (end.interim(), &end.reason, &end.message);
    if strict {
        let new = condition(type_, "True", reason, message, now);
        status.conditions.get_or_insert_default().push(new);
    } else {
        set(status, type_, true, reason, message, now);
    }
}

/// Whether the Job is suspended. Its time counts from when it was resumed.
pub(super) fn set_suspended(status: &mut JobStatus, suspend: bool, now: Timestamp) -> Option<Note> {
    let (reason, word, message) = if suspend {
        ("JobSuspended", "Suspended", "Job suspended")
    } else {
        ("JobResumed", "Resumed", "Job resumed")
    };
    if !set(status, "Suspended", suspend, reason, message, now) {
        return None;
    }
    status.start_time = (!suspend).then(|| whole_seconds(now));
    Some(note(false, word, message))
}

/// The condition that says that the Job has ended, and what people are told of it.
pub(super) fn set_ended(
    status: &mut JobStatus,
    end: &EndState,
    completions: Option<i32>,
    now: Timestamp,
) -> Vec<Note> {
    set(status, end.terminal(), true, &end.reason, &end.message, now);
    // A Job that ends while it is suspended has no start any more, and the API server wants one.
    if completions != Some(0) {
        status.start_time.get_or_insert_with(|| whole_seconds(now));
    }
    if !end.success {
        return vec![note(true, reason(end), &end.message)];
    }
    // Whoever has started it may have had a clock that was ahead.
    let start = status.start_time.clone();
    status.completion_time = start.max(Some(whole_seconds(now)));
    let mut notes = Vec::new();
    if completions.is_some_and(|wanted| status.succeeded.unwrap_or(0) > wanted) {
        let message = "Too many succeeded pods running after completion count reached";
        notes.push(note(true, "TooManySucceededPods", message));
    }
    notes.push(note(false, "Completed", "Job completed"));
    notes
}

/// Reasons of failures; one that was written by somebody else is told as a plain failure.
fn reason(end: &EndState) -> &'static str {
    const REASONS: [&str; 5] = [
        "PodFailurePolicy",
        "BackoffLimitExceeded",
        "DeadlineExceeded",
        "MaxFailedIndexesExceeded",
        "FailedIndexes",
    ];
    let known = REASONS.into_iter().find(|known| *known == end.reason);
    known.unwrap_or("Failed")
}

fn note(warning: bool, reason: &'static str, message: &str) -> Note {
    Note {
        warning,
        reason,
        action: "Syncing",
        message: message.to_owned(),
        about: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::fixture::at;

    /// Status and reason of the conditions of type Suspended.
    fn listed(status: &JobStatus) -> Vec<(&str, &str)> {
        let conditions = status.conditions.iter().flatten();
        let all = conditions.map(|known| (&*known.status, known.reason.as_deref().unwrap()));
        all.collect()
    }

    #[test]
    fn a_condition_is_changed_in_its_place_and_a_false_one_is_not_added() {
        let cases = [
            (
                "true and new",
                None,
                (true, "a"),
                &[("True", "a")][..],
                true,
            ),
            ("false and new", None, (false, "a"), &[], false),
            (
                "another reason",
                Some("a"),
                (true, "b"),
                &[("True", "b")],
                true,
            ),
            (
                "true no more",
                Some("a"),
                (false, "a"),
                &[("False", "a")],
                true,
            ),
            ("the same", Some("a"), (true, "a"), &[("True", "a")], false),
        ];
        for (what, before, (is_true, reason), expected, changes) in cases {
            let mut status = JobStatus::default();
            if let Some(reason) = before {
                assert!(set(&mut status, "Suspended", true, reason, "", at(1)));
            }
            let changed = set(&mut status, "Suspended", is_true, reason, "", at(2));
            assert_eq!((changed, &*listed(&status)), (changes, expected), "{what}");
            let second = if changes { 2 } else { 1 };
            for known in status.conditions.iter().flatten() {
                let since = known.last_transition_time.as_ref().map(|time| time.0);
                assert_eq!(since, Some(at(second)), "{what}");
            }
        }
        let mut status = JobStatus::default();
        set(&mut status, "Suspended", true, "a", "", at(1));
        set(&mut status, "Suspended", false, "a", "", at(2));
        assert!(set(&mut status, "Suspended", true, "a", "", at(3)));
        assert_eq!(listed(&status), [("True", "a")]);
    }
}
