//! Which pods are a Job's, and what has to be done before they can be counted.

use super::action::{Action, Step};
use super::pod::{JobPods, Named};
use super::snapshot::Snapshot;
use crate::claim::{Candidate, Claim, steps};
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

fn candidate((name, pod): Named<'_>) -> Candidate<'_> {
    Candidate {
        name,
        uid: pod.uid,
        labels: &pod.labels,
        deleting: pod.deleting,
    }
}

/// Compares what a Job controls with what it selects. A Job without a selector, which the API server
/// does not let pass, keeps what it has.
pub(super) fn claim(snapshot: &Snapshot<'_>) -> Claims {
    let job = snapshot.job;
    let Some(selector) = &job.spec.selector else {
        return Claims::Settled;
    };
    if job.meta.deleting {
        let is_selected = |(_, pod): Named<'_>| selects(selector, &pod.labels);
        if snapshot.named().all(is_selected) {
            return Claims::Settled;
        }
        let mut kept = snapshot.pods.clone();
        kept.retain(|name, pod| is_selected((&**name, pod)));
        return Claims::Only(kept);
    }
    let free = snapshot.free.iter().map(|(name, pod)| (&**name, pod));
    let claim = Claim::of(
        selector,
        snapshot.named().map(candidate),
        free.map(candidate),
    );
    let adopt = |(name, uid)| Action::AdoptPod { name, uid };
    let disown = |(name, uid)| Action::DisownPod { name, uid };
    let adopted = claim.adopted.into_iter().map(adopt).collect();
    let released = claim.released.into_iter().map(disown).collect();
    let steps = steps(Action::ConfirmCurrent, adopted, released);
    if steps.is_empty() {
        Claims::Settled
    } else {
        Claims::Changes(steps)
    }
}
