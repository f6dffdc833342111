//! Creations of which nobody can say whether they went through: their pods may still come to be.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::action::{Action, NewPod};
use super::snapshot::Snapshot;
pub use super::snapshot::Unanswered;
use crate::plan::REQUEST_LIFE;

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

/// Those of them that are not there. While one is, its name is taken; if it goes within the minute it may come again.
pub(super) fn absent<'a>(
    snapshot: &Snapshot<'a>,
) -> impl Iterator<Item = (&'a str, Timestamp)> + use<'a> {
    let Snapshot { pods, free, .. } = *snapshot;
    let all = snapshot.unanswered.iter();
    let all = all.map(|(name, until)| (&**name, *until));
    all.filter(|(name, _)| !pods.contains_key(*name) && !free.contains_key(*name))
}

impl Open {
    pub(super) fn of<'a>(
        unanswered: impl IntoIterator<Item = (&'a str, Timestamp)>,
        now: Timestamp,
    ) -> Self {
        let mut open = Self::default();
        for (name, until) in unanswered {
            let left = until.duration_since(now);
            if left.is_positive() {
                open.wait = open.wait.into_iter().chain([left]).min();
            } else {
                let name = name.to_owned();
                open.ask.push(Action::ConfirmAbsent { name });
            }
        }
        open
    }
}

/// `new` pods, less those in whose place others may still come to be, and what there is to do about these. `room` is
/// for so many.
///
/// Names follow from what the status counts: to try again under the same name is harmless, and under another one it
/// would make a second pod in the place of one. So each pod that may come to be keeps a place, that of its index if
/// there is one.
pub(super) fn hold(
    snapshot: &Snapshot<'_>,
    mut new: Vec<NewPod>,
    room: usize,
    now: Timestamp,
) -> (Vec<NewPod>, Open) {
    if snapshot.unanswered.is_empty() {
        return (new, Open::default());
    }
    let unanswered: BTreeMap<&str, Timestamp> = absent(snapshot).collect();
    let Some(mut left) = room.checked_sub(unanswered.len()) else {
        return (Vec::new(), Open::of(unanswered, now));
    };
    let indexed = snapshot.job.spec.is_indexed();
    let mut taken: BTreeMap<&str, usize> = BTreeMap::new();
    for name in unanswered.keys().filter(|_| indexed) {
        *taken.entry(place(name)).or_default() += 1;
    }
    new.retain(|pod| {
        let again = unanswered.contains_key(&*pod.name);
        let others =
            taken.get(place(&pod.name)).copied().unwrap_or(0) - usize::from(again && indexed);
        let free = others == 0 && (again || left > 0);
        left -= usize::from(free && !again);
        free
    });
    let names: BTreeSet<&str> = new.iter().map(|pod| &*pod.name).collect();
    let others = unanswered.into_iter();
    let others = others.filter(|(name, _)| !names.contains(name));
    let open = Open::of(others, now);
    (new, open)
}

/// The part of a name that says for which index it is.
fn place(name: &str) -> &str {
    name.rsplit_once('-').map_or(name, |(place, _)| place)
}
