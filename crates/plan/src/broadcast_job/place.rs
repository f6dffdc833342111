//! What an open job does next: record, stop, start, report.

use std::collections::BTreeMap;

use carillon_api::condition::results;
use carillon_api::{NoEligibleNodes, NodeState};
use jiff::{SignedDuration, Timestamp};

use super::decide::{deadline, new_cause, nobody_to_serve, recheck, stalled};
use super::family::Kin;
use super::progress::Progress;
use super::start::Start;
use super::status::{self, End, Facts, Pause};
use super::survey::Survey;
use super::{Cause, Snapshot, ledger, release, stop, stop_reason, stored_cause};
use crate::broadcast_job::action::{Action, Plan, Step};
use crate::uid::Uid;

/// How soon a retry looks again for what another job of its family has still to do: a pod that runs there
/// does not wake it, nor do results that are not in the cache yet.
const FAMILY_RETRY: SignedDuration = SignedDuration::from_secs(10);

/// The plan of a job that has not ended.
pub(super) fn work(snapshot: &Snapshot<'_>, now: Timestamp) -> Plan {
    let job = snapshot.job;
    let stored = stored_cause(job);
    // A job that fails says so before it seals its log. Sealed without a cause it was complete, and
    // stays so: whatever joined since came after its end.
    let sealed = snapshot.slices.last().is_some_and(|slice| slice.sealed);
    let mut progress = Progress::read(snapshot, stored.as_ref().map(stop_reason), now);
    let kin = Kin::read(snapshot, now);
    let survey = Survey::make(snapshot, &progress, &kin, sealed, now);
    let pause = Pause::decide(job, &survey, now);
    let all_done = all_done(&progress, &survey);
    let deadline = deadline(snapshot, &pause, now);
    let fails = stored.is_some();
    let cause = stored.or_else(|| {
        let running = pause.reason.is_none() && !sealed;
        running
            .then(|| new_cause(snapshot, &progress, &survey, &kin, all_done, deadline, now))
            .flatten()
    });
    let mut start = Start::default();
    if fails {
        for (place, record) in std::mem::take(&mut progress.reserved) {
            let given_up = (NodeState::Skipped, results::NOT_STARTED);
            progress.give_up(snapshot, place, record, given_up, now);
        }
    } else if cause.is_none() && pause.reason.is_none() && job.problems.is_empty() && !sealed {
        start = Start::choose(snapshot, &mut progress, &survey, &kin, now);
    }
    let complete_without_nodes = job.policies.no_eligible_nodes == NoEligibleNodes::Complete
        && nobody_to_serve(job, &survey, &kin)
        || (survey.is_settled || sealed && survey.untouched) && job.problems.is_empty();
    let end = match &cause {
        Some(_) if fails && nothing_left(&progress) => Some(End::Failed),
        None if (all_done || complete_without_nodes)
            && pause.reason.is_none()
            && !job.never_ends =>
        {
            Some(End::Complete)
        }
        _ => None,
    };
    let wake = [
        deadline.filter(|_| cause.is_none() && end.is_none()),
        progress.next_due,
        recheck(snapshot),
        survey.next_retry,
        waits_for_family(&kin, &survey, &start)
            .then(|| now.checked_add(FAMILY_RETRY).ok())
            .flatten(),
    ];
    let (status, notes) = status::next(&Facts {
        job,
        progress: &progress,
        survey: &survey,
        kin: &kin,
        pause: &pause,
        cause: cause.as_ref(),
        end,
        stalled: stalled(snapshot, &kin),
        creation_problem: snapshot
            .creation_problem
            .filter(|_| !start.creations.is_empty()),
        other_pod: start
            .other_pod
            .as_ref()
            .map(|(node, pod)| (&**node, &**pod))
            .or(survey.other_pod)
            .filter(|_| start.creations.is_empty()),
        is_about_to_begin: start.join.is_some()
            || start.check.is_some()
            || !survey.missing.is_empty(),
        now,
    });
    let status =
        (status != job.status).then(|| Step::needed(vec![Action::WriteStatus(Box::new(status))]));
    let decided = Decided {
        cause,
        fails,
        end,
        start,
        status,
    };
    let (steps, again) = steps(snapshot, &progress, &survey.missing, decided);
    Plan {
        steps,
        wake: wake.into_iter().flatten().min(),
        again,
        notes,
    }
}

/// Whether what others of the family do is waited for, of which no event tells.
fn waits_for_family(kin: &Kin<'_>, survey: &Survey<'_>, start: &Start) -> bool {
    let pods = survey.elsewhere > 0 || survey.asks_elsewhere || start.waits_elsewhere;
    pods || kin.looks_again_soon()
}

fn all_done(progress: &Progress<'_>, survey: &Survey<'_>) -> bool {
    survey.desired > 0
        && survey.candidates.is_empty()
        && survey.held_up == 0
        && nothing_left(progress)
}

/// Whether no attempt is under way.
fn nothing_left(progress: &Progress<'_>) -> bool {
    progress.running.is_empty() && progress.reserved.is_empty() && progress.missing.is_empty()
}

/// What was decided, to be put into an order.
struct Decided {
    cause: Option<Cause>,
    /// The cause is stored.
    fails: bool,
    end: Option<End>,
    start: Start,
    status: Option<Step>,
}

/// The order that makes every prefix safe: ask, record and reserve, decide to fail, stop, create,
/// report, release. Also whether there is more to do than one plan may.
fn steps(
    snapshot: &Snapshot<'_>,
    progress: &Progress<'_>,
    missing: &[(&str, Uid)],
    decided: Decided,
) -> (Vec<Step>, bool) {
    let Decided {
        cause,
        fails,
        end,
        start,
        mut status,
    } = decided;
    let most = snapshot.max_pod_changes;
    let mut steps = Vec::new();
    let ask = |&(pod, uid): &(&str, Uid)| Action::ConfirmGone {
        pod: pod.into(),
        uid,
    };
    let again = progress.ask_again.iter().map(|&(_, pod, uid)| (pod, uid));
    let again: Vec<_> = again.collect();
    let questions: Vec<_> = progress
        .missing
        .iter()
        .chain(missing)
        .chain(&again)
        .map(ask)
        .chain(start.ask)
        .take(most)
        .chain(start.check)
        .collect();
    if !questions.is_empty() {
        steps.push(Step::wanted(questions));
    }
    let confirm = |&(pod, seen): &(&str, Option<(Uid, u64)>)| Action::ConfirmPod {
        pod: pod.into(),
        seen,
    };
    if !progress.relies_on.is_empty() {
        steps.push(Step::needed(
            progress.relies_on.iter().map(confirm).collect(),
        ));
    }
    let label = |&(pod, uid): &(&str, Uid)| Action::LabelPod {
        pod: pod.into(),
        uid,
    };
    if !progress.to_label.is_empty() {
        steps.push(Step::wanted(progress.to_label.iter().map(label).collect()));
    }
    let seal = fails || end.is_some();
    let mut log = ledger::write(snapshot.slices, &progress.updates, start.reservations, seal);
    log.extend(start.begin.map(|begin| Step::needed(vec![begin])));
    // A new slice does not tell whether the job is still there, and neither does one that a retry leaves behind.
    let new_slice = log
        .first()
        .is_some_and(|step| written(step).next().is_none());
    if new_slice || !start.creations.is_empty() {
        steps.push(Step::needed(vec![Action::ConfirmJob]));
    }
    // Nor do creations alone tell whether their attempts are over.
    let mut relies_on = start.relies_on;
    for index in log.iter().flat_map(written) {
        relies_on.remove(&index);
    }
    steps.extend(log);
    if cause.is_some() {
        steps.extend(status.take());
    }
    // The decision to fail is stored before the log is sealed and before the first pod is stopped:
    // whoever reads the seal, or the pod's end, later knows why.
    let decided_now = cause.is_some() && !fails;
    let stopping = |pod: &crate::pod::PodRow| fails && pod.deletion.is_none();
    let to_stop: BTreeMap<&str, (Uid, u64)> = progress
        .running
        .iter()
        .filter(|(_, pod)| stopping(pod))
        .map(|(record, pod)| (&*record.pod, *pod))
        .chain(progress.to_stop.iter().copied())
        .map(|(name, pod)| (name, (pod.uid, pod.rv)))
        .collect();
    let mut again = decided_now
        || start.more
        || start.join.is_some()
        || !start.close.is_empty()
        || to_stop.len() > most
        || progress.to_release.len() > most
        || progress.more_to_confirm;
    steps.extend(stop(
        to_stop.into_iter().map(|(name, (uid, rv))| (name, uid, rv)),
        most,
    ));
    if !relies_on.is_empty() {
        let confirm = |(index, rv)| Action::ConfirmSlice { index, rv };
        steps.push(Step::needed(relies_on.into_iter().map(confirm).collect()));
    }
    if !start.creations.is_empty() {
        steps.push(Step::slowly(start.creations));
    }
    if !start.close.is_empty() {
        // A pod that is there may keep the log of another one from being closed: that is told before.
        steps.extend(status.take());
    }
    steps.extend(start.close);
    if let Some(join) = start.join {
        steps.push(Step::needed(vec![join]));
    }
    steps.extend(status);
    steps.extend(release(progress.to_release.iter().take(most).copied()));
    again &= !steps.is_empty();
    (steps, again)
}

/// Indices of the slices that a step changes. That write is refused if they are not as they were read.
fn written(step: &Step) -> impl Iterator<Item = u32> {
    step.actions.iter().filter_map(|action| match action {
        Action::WriteSlice(write) => write.rv.map(|_| write.index),
        _ => None,
    })
}
