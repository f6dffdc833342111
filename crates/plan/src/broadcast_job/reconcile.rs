//! What an open job does next: record, stop, start, report.

use carillon_api::condition::results;
use carillon_api::{NoEligibleNodesPolicy, NodeState};
use jiff::Timestamp;

use super::cause::{stop_reason, stored_cause};
use super::decide::{End, Stage, deadline, new_cause, nobody_to_serve, recheck, stalled};
use super::family::Kin;
use super::index::Index;
use super::order;
use super::pause::Pause;
use super::progress::Progress;
use super::snapshot::Snapshot;
use super::start::Start;
use super::status::{self, Facts};
use super::survey::Survey;
use crate::broadcast_job::action::{Plan, Step, write_status};

/// The plan of a job that has not ended.
pub(super) fn work<'a>(snapshot: &Snapshot<'a>, index: &'a Index, now: Timestamp) -> Plan {
    let job = snapshot.job;
    let stored = stored_cause(job);
    // A job that fails says so before it seals its log. Sealed without a cause it was complete, and
    // stays so: whatever joined since came after its end.
    let sealed = snapshot.slices.last().is_some_and(|slice| slice.sealed);
    let mut progress = Progress::read(snapshot, index, stored.as_ref().map(stop_reason), now);
    if stored.is_some() {
        take_back(snapshot, &mut progress, now);
    }
    let kin = Kin::read(snapshot, now);
    let survey = Survey::make(snapshot, &progress, &kin, sealed, now);
    let pause = if stored.is_some() || sealed {
        Pause::none(job, &survey, now)
    } else {
        Pause::decide(snapshot, &progress, &survey, now)
    };
    progress.accept(snapshot, &pause.accepts);
    let deadline = deadline(snapshot, &pause, now);
    let stage = match stored {
        Some(cause) if progress.is_under_way() => Stage::Stopping(cause),
        Some(cause) => Stage::Ending(End::Failed(cause)),
        None if pause.reason.is_some() => Stage::Open,
        None => open(snapshot, &progress, &survey, &kin, sealed, deadline, now),
    };
    let is_open = matches!(stage, Stage::Open) && pause.reason.is_none() && !sealed;
    let start = if is_open && job.problems.is_empty() {
        Start::choose(snapshot, &mut progress, &survey, &kin, now)
    } else {
        Start::default()
    };
    let waits = waits_for_family(&kin, &survey, &start);
    let look_again = waits.then(|| kin.looks_again_at(job, now)).flatten();
    let deadline = deadline.filter(|_| matches!(stage, Stage::Open));
    let due = [progress.next_due, recheck(snapshot, now), survey.next_retry];
    let wake = due.into_iter().chain([deadline, look_again]);
    let creates = !start.creations.is_empty();
    let (status, notes) = status::next(&Facts {
        job,
        progress: &progress,
        survey: &survey,
        kin: &kin,
        pause: &pause,
        stage: &stage,
        stalled: stalled(snapshot, &kin),
        creation_problem: snapshot.creation_problem.filter(|_| creates),
        other_pod: start.waits_for().or(survey.other_pod).filter(|_| !creates),
        is_about_to_begin: start.asks_first() || !survey.missing.is_empty(),
        now,
    });
    let status = write_status(status, &job.status).map(|write| Step::needed(vec![write]));
    let (steps, again) = order::steps(snapshot, &progress, &survey.missing, &stage, start, status);
    Plan {
        steps,
        wake: wake.flatten().min(),
        again,
        notes,
    }
}

/// Takes back what a job has promised that is going to fail.
fn take_back<'a>(snapshot: &Snapshot<'a>, progress: &mut Progress<'a>, now: Timestamp) {
    for seated in progress.take_reserved() {
        let given_up = (NodeState::Skipped, results::NOT_STARTED);
        progress.give_up(snapshot, seated, given_up, now);
    }
}

/// The stage of a job that is not paused, and that nothing stored says to fail.
fn open(
    snapshot: &Snapshot<'_>,
    progress: &Progress<'_>,
    survey: &Survey<'_>,
    kin: &Kin<'_>,
    sealed: bool,
    deadline: Option<Timestamp>,
    now: Timestamp,
) -> Stage {
    let job = snapshot.job;
    let all_done = survey.desired > 0
        && survey.candidates.is_empty()
        && survey.held_up == 0
        && !progress.is_under_way();
    if !sealed
        && let Some(cause) = new_cause(snapshot, progress, survey, kin, all_done, deadline, now)
    {
        return Stage::Deciding(cause);
    }
    let without_nodes = job.policies.no_eligible_nodes_policy == NoEligibleNodesPolicy::Complete
        && nobody_to_serve(job, survey, kin);
    let nothing_to_do = survey.is_settled || sealed && survey.untouched;
    let done = all_done || without_nodes || nothing_to_do && job.problems.is_empty();
    if done && !job.never_ends {
        Stage::Ending(End::Complete)
    } else {
        Stage::Open
    }
}

/// Whether what others of the family do is waited for, of which no event tells.
fn waits_for_family(kin: &Kin<'_>, survey: &Survey<'_>, start: &Start) -> bool {
    let pods = survey.elsewhere > 0 || survey.asks_elsewhere || start.waits_elsewhere;
    pods || kin.looks_again_soon()
}
