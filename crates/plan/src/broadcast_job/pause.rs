//! Whether an open job is paused, and which failures a resume accepts.

use carillon_api::FailurePolicyType;
use carillon_api::condition::{reasons, types};
use jiff::Timestamp;

use super::cause::tolerated;
use super::progress::Progress;
use super::snapshot::Snapshot;
use super::spec::BroadcastJob;
use super::survey::Survey;
use crate::condition;
use crate::record_index::Place;

/// Whether the job is paused, and what follows from that for the status.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Pause {
    /// Why the job is paused, if it is.
    pub(super) reason: Option<&'static str>,
    /// Attempts that have failed and are accepted now.
    pub(super) accepts: Vec<Place>,
    /// Nodes whose failure is accepted, these included.
    pub(super) accepted: usize,
    /// Resume annotation that was acted on.
    pub(super) last_handled_resume: Option<String>,
    /// Time it was paused, up to its last resumption.
    pub(super) paused_seconds: i64,
    /// It was paused until now.
    pub(super) ends: bool,
}

impl Pause {
    pub(super) fn decide(
        snapshot: &Snapshot<'_>,
        progress: &Progress<'_>,
        survey: &Survey<'_>,
        now: Timestamp,
    ) -> Self {
        let job = snapshot.job;
        let by_failure = condition::find(&job.status.conditions, types::PAUSED)
            .is_some_and(|c| c.status == "True" && c.reason == reasons::PAUSED_BY_FAILURE);
        let asked = job.asks_to_resume();
        // Whoever sets spec.paused on a job that failures have paused has taken it over.
        let accepts = if asked || by_failure && job.paused {
            seen(snapshot, progress, survey)
        } else {
            Vec::new()
        };
        let accepted = survey.accepted() + accepts.len();
        // A pause by failure lasts until somebody ends it, also when a failed node is retried or
        // more failures are allowed. A job that is going to fail is not paused by its failures.
        let failures = || {
            survey.failed.len() > tolerated(job, accepted, survey.present) || by_failure && !asked
        };
        let reason = if job.paused {
            Some(reasons::PAUSED_BY_USER)
        } else if job.failure == FailurePolicyType::Pause
            && survey.job_failed_by().is_none()
            && failures()
        {
            Some(reasons::PAUSED_BY_FAILURE)
        } else {
            None
        };
        let asked = asked.then(|| job.resume.clone()).flatten();
        let pause = Self {
            reason,
            accepts,
            accepted,
            last_handled_resume: asked.or_else(|| job.status.last_handled_resume.clone()),
            ..Self::default()
        };
        pause.lasting(job, now)
    }

    /// Of a job that has begun to end: nobody pauses that.
    pub(super) fn none(job: &BroadcastJob, survey: &Survey<'_>, now: Timestamp) -> Self {
        let none = Self {
            accepted: survey.accepted(),
            last_handled_resume: job.status.last_handled_resume.clone(),
            ..Self::default()
        };
        none.lasting(job, now)
    }

    /// Adds how long the job was paused.
    fn lasting(self, job: &BroadcastJob, now: Timestamp) -> Self {
        let stored = condition::find(&job.status.conditions, types::PAUSED);
        let ended = stored.filter(|stored| stored.status == "True" && self.reason.is_none());
        let just_paused = ended.map_or(0, |condition| {
            let since = condition.last_transition_time.0;
            now.duration_since(since).as_secs().max(0)
        });
        Self {
            paused_seconds: job.status.paused_seconds.saturating_add(just_paused),
            ends: ended.is_some(),
            ..self
        }
    }

    /// What ends the pause.
    pub(super) fn message(&self, failed: usize) -> String {
        let why = match (self.reason, self.accepted) {
            (Some(reasons::PAUSED_BY_USER) | None, _) => {
                return "spec.paused is true; set it to false to go on".to_owned();
            }
            (_, 0) => "more nodes failed than maxFailedNodes allows".to_owned(),
            (_, accepted) => format!(
                "{} nodes have failed besides the {accepted} that a resume has accepted",
                failed.saturating_sub(accepted)
            ),
        };
        format!(
            "{why} and failurePolicy is Pause; set the annotation carillon.dev/resume to a new value to go on"
        )
    }
}

/// The failures that whoever resumes the job may have seen: as many as its status tells. Those come first that
/// are stored already.
fn seen(snapshot: &Snapshot<'_>, progress: &Progress<'_>, survey: &Survey<'_>) -> Vec<Place> {
    let told = usize::try_from(snapshot.job.status.failed).unwrap_or(0);
    let failures = survey.failed.iter().filter(|failure| !failure.accepted);
    let mut failures: Vec<Place> = failures.map(|failure| failure.place).collect();
    failures.sort_by_key(|place| {
        let is_new = progress.updates.contains_key(place);
        (is_new, progress.record(snapshot, *place).finished, *place)
    });
    failures.truncate(told.saturating_sub(survey.accepted()));
    failures
}
