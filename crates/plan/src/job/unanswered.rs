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

/// What there is to do about pods that may still come to be.
#[derive(Debug, Default)]
pub(super) struct Open {
    /// Whether those are there that cannot come to be any more.
    pub(super) ask: Vec<Action>,
    /// Until the next of the others cannot, either.
    pub(super) wait: Option<SignedDuration>,
}

impl Open {
    pub(super) fn of<'a>(
        unanswered: impl IntoIterator<Item = (&'a String, &'a Timestamp)>,
        now: Timestamp,
    ) -> Self {
        let mut open = Self::default();
        for (name, until) in unanswered {
            let left = until.duration_since(now);
            if left.is_positive() {
                open.wait = open.wait.into_iter().chain([left]).min();
            } else {
                let name = name.clone();
                open.ask.push(Action::ConfirmAbsent { name });
            }
        }
        open
    }
}

/// `new` pods, less those in whose place others may still come to be, and what there is to do about these.
///
/// Names follow from what the status counts: to try again under the same name is harmless, and under another one it
/// would make a second pod in the place of one. So each name that is tried no more keeps a place, that of its index
/// if there is one.
pub(super) fn hold(
    snapshot: &Snapshot<'_>,
    mut new: Vec<NewPod>,
    now: Timestamp,
) -> (Vec<NewPod>, Open) {
    if snapshot.unanswered.is_empty() {
        return (new, Open::default());
    }
    let names: BTreeSet<&str> = new.iter().map(|pod| &*pod.name).collect();
    let others = snapshot.unanswered.iter();
    let others: Vec<_> = others
        .filter(|(name, _)| !names.contains(&***name))
        .collect();
    let mut elsewhere = 0;
    for (name, _) in &others {
        match new.iter().rposition(|pod| place(&pod.name) == place(name)) {
            Some(at) => drop(new.remove(at)),
            None => elsewhere += 1,
        }
    }
    new.truncate(new.len().saturating_sub(elsewhere));
    (new, Open::of(others, now))
}

/// The part of a name that says for which index it is.
pub(crate) fn place(name: &str) -> &str {
    name.rsplit_once('-').map_or(name, |(place, _)| place)
}
