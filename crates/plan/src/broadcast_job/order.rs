//! The order of the steps of an open job, in which every prefix is safe: ask, record, release, reserve, decide to
//! fail, stop, create, report.

use std::collections::BTreeMap;

use super::decide::Stage;
use super::ledger;
use super::progress::Progress;
use super::snapshot::Snapshot;
use super::start::Start;
use crate::broadcast_job::action::{Action, Step, release, stop};
use crate::uid::Uid;

/// So many pods are released before anything is created.
const AT_ONCE: usize = 32;

/// The steps, and whether there is more to do than one plan may. `missing`: pods that the nodes to be served wait for.
pub(super) fn steps(
    snapshot: &Snapshot<'_>,
    progress: &Progress<'_>,
    missing: &[(&str, Uid)],
    stage: &Stage,
    start: Start,
    mut status: Option<Step>,
) -> (Vec<Step>, bool) {
    let most = snapshot.max_pod_changes;
    let mut steps = Vec::new();
    steps.extend(questions(progress, missing, (start.ask, start.check), most));
    let begin = start.begin.map(|begin| Step::needed(vec![begin]));
    let seal = stage.fails() || stage.ends();
    let mut log = ledger::write(snapshot.slices, &progress.updates, start.reservations, seal);
    log.extend(begin);
    // A new slice does not tell whether the job is still there, and neither does one that a retry leaves behind.
    let is_new = |step: &Step| written(step).next().is_none();
    // And a pod that is not there may have been: those of a job that is deleted go before their ends are recorded.
    let gives_up = progress.relies_on.iter().any(|(_, seen)| seen.is_none());
    let asks = log.first().is_some_and(is_new) || gives_up || !start.creations.is_empty();
    let mut confirm: Vec<Action> = asks.then_some(Action::ConfirmJob).into_iter().collect();
    // Nor do creations alone tell whether their attempts are over.
    let mut relies_on = start.relies_on;
    for index in log.iter().flat_map(written) {
        relies_on.remove(&index);
    }
    let slice = |(index, rv)| Action::ConfirmSlice { index, rv };
    confirm.extend(relies_on.into_iter().map(slice));
    steps.extend((!confirm.is_empty()).then(|| Step::needed(confirm)));
    let mut creations = start.creations;
    find_slices(&mut creations, &log);
    let begins = log.iter().position(is_new).unwrap_or(log.len());
    let new = log.split_off(begins);
    steps.extend(log);
    // What is recorded does not wait for what may be refused: a full quota refuses new slices, and a status is refused
    // for its own reasons. Nor do creations wait for more than one round of requests.
    let releases = progress.to_release.iter().take(most).copied();
    steps.extend(release(releases.clone().take(AT_ONCE)));
    steps.extend(new);
    // The decision to fail is stored before the log is sealed and before the first pod is stopped:
    // whoever reads the seal, or the pod's end, later knows why.
    if stage.cause().is_some() {
        steps.extend(status.take());
    }
    let to_stop = to_stop(snapshot, progress, stage);
    let mut again = matches!(stage, Stage::Deciding(_))
        || start.more
        || start.join.is_some()
        || !start.close.is_empty()
        || to_stop.len() > most
        || progress.to_release.len() > most
        || progress.more_to_confirm;
    let to_stop = to_stop.into_iter();
    steps.extend(stop(to_stop.map(|(name, (uid, rv))| (name, uid, rv)), most));
    if !creations.is_empty() {
        steps.push(Step::slowly(creations));
    }
    if !start.close.is_empty() {
        // A pod that is there may keep the log of another one from being closed: that is told before.
        steps.extend(status.take());
    }
    steps.extend(start.close);
    steps.extend(start.join.map(|join| Step::needed(vec![join])));
    steps.extend(status);
    steps.extend(release(releases.skip(AT_ONCE)));
    again &= !steps.is_empty();
    (steps, again)
}

/// Has each creation know the slice that its reservation is written to.
fn find_slices(creations: &mut [Action], log: &[Step]) {
    let mut slices: BTreeMap<&str, u32> = BTreeMap::new();
    for action in log.iter().flat_map(|step| &step.actions) {
        if let Action::WriteSlice(write) = action {
            slices.extend(write.added.iter().map(|record| (&*record.pod, write.index)));
        }
    }
    for creation in creations {
        if let Action::CreatePod { pod, slice, .. } = creation {
            *slice = slices.get(&**pod).copied().unwrap_or(*slice);
        }
    }
}

/// What has to be known, confirmed or mended before anything is stored.
fn questions(
    progress: &Progress<'_>,
    missing: &[(&str, Uid)],
    (asked, check): (Vec<Action>, Option<Action>),
    most: usize,
) -> impl Iterator<Item = Step> {
    let ask = |(pod, uid): (&str, Uid)| Action::ConfirmGone {
        pod: pod.into(),
        uid,
    };
    let again = progress.ask_again.iter().map(|&(_, pod, uid)| (pod, uid));
    let missing = progress.missing().chain(missing.iter().copied());
    let pods = missing.chain(again).map(ask).chain(asked).take(most);
    let questions: Vec<_> = pods.chain(check).collect();
    let confirm = |&(pod, seen): &(&str, Option<(Uid, u64)>)| Action::ConfirmPod {
        pod: pod.into(),
        seen,
    };
    let confirmations = progress.relies_on.iter().map(confirm).collect();
    let label = |&(pod, uid): &(&str, Uid)| Action::LabelPod {
        pod: pod.into(),
        uid,
    };
    let labels = progress.to_label.iter().map(label).collect();
    let steps = [
        Step::wanted(questions),
        Step::needed(confirmations),
        Step::wanted(labels),
    ];
    steps.into_iter().filter(|step| !step.actions.is_empty())
}

/// Pods to stop, by name: those of a job that fails, and those that have to go in any case.
fn to_stop<'a>(
    snapshot: &Snapshot<'a>,
    progress: &Progress<'a>,
    stage: &Stage,
) -> BTreeMap<&'a str, (Uid, u64)> {
    let running = stage.fails().then(|| progress.all_running(snapshot));
    let running = running.into_iter().flatten();
    let running = running.map(|(record, pod)| (&*record.pod, pod));
    let running = running.filter(|(_, pod)| pod.deletion.is_none());
    let all = running.chain(progress.to_stop.iter().copied());
    all.map(|(name, pod)| (name, (pod.uid, pod.rv))).collect()
}

/// Indices of the slices that a step changes. That write is refused if they are not as they were read.
fn written(step: &Step) -> impl Iterator<Item = u32> {
    step.actions.iter().filter_map(|action| match action {
        Action::WriteSlice(write) => write.rv.map(|_| write.index),
        _ => None,
    })
}
