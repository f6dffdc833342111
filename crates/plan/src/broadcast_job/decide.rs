//! The decisions about a job as a whole: does it fail, is its time over, is it stuck.

use carillon_api::condition::{reasons, results, types};
use carillon_api::{FailurePolicyType, NoEligibleNodesPolicy, NodeState};
use jiff::{SignedDuration, Timestamp};

use super::cause::{Cause, tolerated};
use super::family::{Kin, Turn};
use super::pause::Pause;
use super::progress::Progress;
use super::snapshot::{Snapshot, TEMPLATE_RECHECK, Template};
use super::spec::BroadcastJob;
use super::standing::Attempts;
use super::survey::{Failure, Survey};
use crate::condition::{self, Refusal};
use crate::record_index::Place;

/// How far a job is that has not ended.
#[derive(Debug)]
pub(super) enum Stage {
    /// It serves nodes, or is paused.
    Open,
    /// It is going to fail, which has to be stored first.
    Deciding(Cause),
    /// It fails: that is stored, and what runs is being stopped.
    Stopping(Cause),
    /// Nothing is left to do.
    Ending(End),
}

/// How a job ends.
#[derive(Debug)]
pub(super) enum End {
    Complete,
    Failed(Cause),
}

impl Stage {
    /// Why the job fails, if it does.
    pub(super) fn cause(&self) -> Option<&Cause> {
        match self {
            Self::Deciding(cause) | Self::Stopping(cause) | Self::Ending(End::Failed(cause)) => {
                Some(cause)
            }
            Self::Open | Self::Ending(End::Complete) => None,
        }
    }

    /// Whether that it fails is stored.
    pub(super) fn fails(&self) -> bool {
        matches!(self, Self::Stopping(_) | Self::Ending(End::Failed(_)))
    }

    /// Whether it ends now.
    pub(super) fn ends(&self) -> bool {
        matches!(self, Self::Ending(_))
    }
}

/// When the job's time is over. Paused time does not count, and while paused nothing is due.
pub(super) fn deadline(
    snapshot: &Snapshot<'_>,
    pause: &Pause,
    now: Timestamp,
) -> Option<Timestamp> {
    let seconds = snapshot.job.deadline_seconds?;
    if pause.reason.is_some() {
        return None;
    }
    let start = snapshot
        .job
        .status
        .start_time
        .as_ref()
        .map_or(now, |time| time.0);
    let allowed = seconds.saturating_add(pause.paused_seconds);
    // A deadline beyond the end of time is none.
    start.checked_add(SignedDuration::from_secs(allowed)).ok()
}

/// Whether there is nothing to do and there never was.
pub(super) fn nobody_to_serve(job: &BroadcastJob, survey: &Survey<'_>, kin: &Kin<'_>) -> bool {
    let nobody = survey.desired == 0 && !survey.is_settled && survey.untouched;
    nobody && kin.may_begin() && !job.never_ends && job.problems.is_empty()
}

pub(super) fn new_cause(
    snapshot: &Snapshot<'_>,
    progress: &Progress<'_>,
    survey: &Survey<'_>,
    kin: &Kin<'_>,
    all_done: bool,
    deadline: Option<Timestamp>,
    now: Timestamp,
) -> Option<Cause> {
    let job = snapshot.job;
    if let Some(Failure { node, place, .. }) = survey.job_failed_by() {
        let record = progress.record(snapshot, *place);
        return Some(Cause {
            reason: reasons::POD_FAILURE_POLICY.to_owned(),
            message: format!("node {node}: {}", record.message),
        });
    }
    if job.failure == FailurePolicyType::FailFast
        && survey.failed.len() > tolerated(job, survey.accepted(), survey.present)
        && let Some(&Failure { node, place, .. }) = survey.failed.first()
    {
        let record = progress.record(snapshot, place);
        let how = match record.state {
            NodeState::Failed => match record.exit_code {
                Some(code) if &*record.reason == results::NON_ZERO_EXIT_CODE => {
                    format!("exit {code}")
                }
                _ => record.reason.to_string(),
            },
            _ => format!(
                "{}; with executionPolicy AtMostOnce it is not tried again",
                record.reason
            ),
        };
        let more = match survey.failed.len() {
            1 => String::new(),
            failed => format!(" and {} more", failed - 1),
        };
        return Some(Cause {
            reason: reasons::MAX_FAILED_NODES_EXCEEDED.to_owned(),
            message: format!("FailFast: node {node} failed ({how}){more}"),
        });
    }
    if job.policies.no_eligible_nodes_policy == NoEligibleNodesPolicy::Fail
        && nobody_to_serve(job, survey, kin)
    {
        return Some(Cause {
            reason: reasons::NO_ELIGIBLE_NODES.to_owned(),
            message: "no node is eligible, and noEligibleNodesPolicy is Fail".to_owned(),
        });
    }
    let deadline = deadline.filter(|deadline| *deadline <= now)?;
    let in_time = all_done && ended_by(snapshot, progress, deadline);
    (!in_time).then(|| Cause {
        reason: reasons::DEADLINE_EXCEEDED.to_owned(),
        message: format!(
            "activeDeadlineSeconds ({}) passed at {deadline:.0}",
            snapshot.job.deadline_seconds.unwrap_or_default()
        ),
    })
}

/// Whether each node's last pod had ended by then. It is judged by when that ended, not by when the operator
/// looked.
fn ended_by(snapshot: &Snapshot<'_>, progress: &Progress<'_>, deadline: Timestamp) -> bool {
    let in_time = |attempts: &Attempts<Place>| {
        let (_, place) = attempts.last;
        let finished = progress.record(snapshot, place).finished;
        finished.is_none_or(|at| at <= deadline)
    };
    let mut nodes = progress.index.records().nodes();
    nodes.all(|name| progress.on(snapshot, name).values().all(in_time))
}

/// What keeps a job from starting anything until a person acts.
pub(super) fn stalled(snapshot: &Snapshot<'_>, kin: &Kin<'_>) -> Option<(&'static str, String)> {
    // First, as it was told first.
    if let Some((reason, message)) = snapshot.refusal.map(Refusal::stalled) {
        return Some((reason, message.to_owned()));
    }
    if let Some(problem) = snapshot.job.problems.first() {
        let others = match snapshot.job.problems.len() {
            1 => String::new(),
            n => format!(" (and {} more)", n - 1),
        };
        return Some((reasons::INVALID_SPEC, format!("{problem}{others}")));
    }
    if let Turn::Never {
        reason, message, ..
    } = &kin.turn
    {
        return Some((reason, message.clone()));
    }
    match snapshot.template {
        Template::Refused { problem, .. } => Some((problem.reason, problem.message.clone())),
        Template::Accepted => None,
        // Until the API server has been asked again, what it said before holds.
        Template::Unknown => {
            let stored = condition::find(&snapshot.job.status.conditions, types::STALLED)
                .filter(|stored| stored.status == "True")?;
            [reasons::INVALID_TEMPLATE, reasons::POD_FORBIDDEN]
                .into_iter()
                .find(|reason| stored.reason == *reason)
                .map(|reason| (reason, stored.message.clone()))
        }
    }
}

/// When a refused template is asked about again.
pub(super) fn recheck(snapshot: &Snapshot<'_>, now: Timestamp) -> Option<Timestamp> {
    match snapshot.template {
        // When that is over it is asked again for the next node that is to be served, if there is one.
        Template::Refused { at, .. } => {
            let due = at.checked_add(TEMPLATE_RECHECK).ok();
            due.filter(|due| *due > now)
        }
        Template::Unknown | Template::Accepted => None,
    }
}
