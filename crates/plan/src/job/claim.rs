//! Which pods are a Job's: those it controls and selects. It adopts what it selects and nobody
//! controls, and releases what it no longer selects (upstream: `controller_ref_manager.go`).

use super::action::{Action, Step};
use super::pod::{JobPods, Named};
use super::snapshot::Snapshot;
use crate::selector::selects;

/// What has to be done before the pods can be counted.
pub(super) enum Claims {
    /// Nothing: they are those of the snapshot.
    Settled,
    /// Nothing, but these are all: a Job that is being deleted gives none away.
    Only(JobPods),
    /// These writes, after which everything is judged anew.
    Changes(Vec<Step>),
}

/// Compares what a Job controls with what it selects. A Job without a selector, which the API server
/// does not let pass, keeps what it has.
pub(super) fn claim(snapshot: &Snapshot<'_>) -> Claims {
    let job = snapshot.job;
    let Some(selector) = &job.spec.selector else {
        return Claims::Settled;
    };
    let is_selected = |(_, pod): &Named<'_>| selects(selector, &pod.labels);
    let lost: Vec<Named<'_>> = snapshot.named().filter(|pod| !is_selected(pod)).collect();
    if job.meta.deleting {
        return if lost.is_empty() {
            Claims::Settled
        } else {
            let mut kept = snapshot.pods.clone();
            kept.retain(|name, pod| is_selected(&(&**name, pod)));
            Claims::Only(kept)
        };
    }
    let free = snapshot.free.iter().map(|(name, pod)| (&**name, pod));
    let found = free.filter(|(_, pod)| !pod.deleting).filter(is_selected);
    let adopt = |(name, pod): Named<'_>| Action::AdoptPod {
        name: name.to_owned(),
        uid: pod.uid,
    };
    let disown = |(name, pod): Named<'_>| Action::DisownPod {
        name: name.to_owned(),
        uid: pod.uid,
    };
    let adopted: Vec<Action> = found.map(adopt).collect();
    // It may have been deleted since, and its pods left to nobody on purpose.
    let confirmed = adopted.first().map(|_| Action::ConfirmCurrent);
    let mut steps = vec![
        Step::needed(Vec::from_iter(confirmed)),
        Step::wanted(adopted),
        Step::wanted(lost.into_iter().map(disown).collect()),
    ];
    steps.retain(|step| !step.actions.is_empty());
    if steps.is_empty() {
        Claims::Settled
    } else {
        Claims::Changes(steps)
    }
}
