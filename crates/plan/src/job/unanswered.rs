//! Creations of which nobody can say whether they went through: their pods may still come to be.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::Snapshot;
use super::action::{Action, NewPod};
use crate::plan::REQUEST_LIFE;

/// Names of such pods, and until when each may come to be.
pub type Unanswered = BTreeMap<String, Timestamp>;

/// Until when a pod may come to be whose creation had no answer until `now`.
pub fn may_come_until(now: Timestamp) -> Timestamp {
    now.checked_add(REQUEST_LIFE).unwrap_or(Timestamp::MAX)
}

/// What has to be asked, and how long to wait, before pods are created.
#[derive(Debug)]
pub(super) struct Waits {
    /// Whether pods are there that cannot come to be any more.
    pub(super) ask: Vec<Action>,
    /// Until the next of the others cannot, either.
    pub(super) wait: Option<SignedDuration>,
}

/// What `new` pods have to wait for. Names follow from what the status counts: to try again under the same name is
/// harmless, and under another one it would make a second pod in the place of one.
pub(super) fn waits(snapshot: &Snapshot<'_>, new: &[NewPod], now: Timestamp) -> Option<Waits> {
    if snapshot.unanswered.is_empty() {
        return None;
    }
    let new: BTreeSet<&str> = new.iter().map(|pod| &*pod.name).collect();
    let others = snapshot.unanswered.iter();
    let others: Vec<_> = others.filter(|(name, _)| !new.contains(&***name)).collect();
    let over = |until: Timestamp| until <= now;
    let ask = others.iter().filter(|(_, until)| over(**until));
    let ask = ask.map(|(name, _)| Action::ConfirmAbsent {
        name: (*name).clone(),
    });
    let open = others.iter().map(|(_, until)| **until);
    let next = open.filter(|until| !over(*until)).min();
    (!others.is_empty()).then(|| Waits {
        ask: ask.collect(),
        wait: next.map(|until| until.duration_since(now)),
    })
}
