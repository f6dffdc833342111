//! Which pods and revisions are a DaemonSet's, and what has to be done before they can be counted.

use super::action::{Action, Step};
use super::pod::DaemonPods;
use super::revision::Revisions;
use super::snapshot::Snapshot;
use crate::claim::{Candidate, Claim, steps};

fn pods(pods: &DaemonPods) -> impl Iterator<Item = Candidate<'_>> {
    pods.iter().map(|(name, pod)| Candidate {
        name,
        uid: pod.uid,
        labels: &pod.labels,
        deleting: pod.is_deleting(),
    })
}

fn revisions(revisions: &Revisions) -> impl Iterator<Item = Candidate<'_>> {
    revisions.iter().map(|(name, revision)| Candidate {
        name,
        uid: revision.uid,
        labels: &revision.labels,
        deleting: revision.deleting,
    })
}

/// The writes after which everything is judged anew; none if each is whose it should be.
pub(super) fn claim(snapshot: &Snapshot<'_>) -> Vec<Step> {
    let selector = &snapshot.set.spec.selector;
    let of_pods = Claim::of(selector, pods(snapshot.pods), pods(snapshot.free));
    let of_revisions = Claim::of(
        selector,
        revisions(snapshot.revisions),
        revisions(snapshot.free_revisions),
    );
    let adopt_pod = |(name, uid)| Action::AdoptPod { name, uid };
    let adopt_revision = |(name, uid)| Action::AdoptRevision { name, uid };
    let disown_pod = |(name, uid)| Action::DisownPod { name, uid };
    let disown_revision = |(name, uid)| Action::DisownRevision { name, uid };
    let pods = of_pods.adopted.into_iter().map(adopt_pod);
    let adopted: Vec<Action> = pods
        .chain(of_revisions.adopted.into_iter().map(adopt_revision))
        .collect();
    let pods = of_pods.released.into_iter().map(disown_pod);
    let released = pods.chain(of_revisions.released.into_iter().map(disown_revision));
    steps(Action::ConfirmCurrent, adopted, released.collect())
}
