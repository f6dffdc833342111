//! Pods that were taken from their job: they are there, and somebody has changed whose they are. A record knows
//! its pod by uid, so the attempt goes on with it.

use std::collections::{BTreeMap, HashMap};

use jiff::{SignedDuration, Timestamp};

use crate::pod::PodRow;
use crate::uid::Uid;

/// A pod that is asked for again has that done no sooner than this after the last time.
pub(super) const ASK_SOONEST: SignedDuration = SignedDuration::from_secs(10);
/// And no later than this.
const ASK_LATEST: SignedDuration = SignedDuration::from_secs(60);

/// A pod with the mark of a job that does not control it, or the other way round.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct TakenPod {
    /// The pod.
    pub pod: PodRow,
    /// What is different from how it was made.
    pub why: Box<str>,
    /// When it was asked for. `None`: it is watched.
    pub asked: Option<Timestamp>,
}

/// Such pods, by name.
pub type TakenPods = HashMap<Box<str>, TakenPod>;

/// Where such pods are known from.
#[derive(Clone, Copy, Debug)]
pub struct Taken<'a> {
    /// Those that are watched: they have the label of the job.
    pub watched: &'a TakenPods,
    /// Those that were asked for.
    pub asked: &'a BTreeMap<Uid, TakenPod>,
}

impl<'a> Taken<'a> {
    /// Those that are watched, in no order.
    #[expect(clippy::disallowed_methods, reason = "whoever asks is told so")]
    pub fn watched_rows(&self) -> impl Iterator<Item = (&'a str, &'a PodRow)> + use<'a> {
        let watched = self.watched.iter();
        watched.map(|(name, taken)| (&**name, &taken.pod))
    }
}

impl TakenPod {
    /// When it is to be asked for again: the longer it runs, the more seldom. Of one that is watched, or has
    /// ended, nothing more has to be learnt.
    pub(super) fn ask_at(&self) -> Option<Timestamp> {
        let asked = self.asked.filter(|_| !self.pod.phase.has_ended())?;
        let age = self.pod.created.map_or(SignedDuration::ZERO, |created| {
            asked.duration_since(created)
        });
        asked
            .checked_add((age / 10).clamp(ASK_SOONEST, ASK_LATEST))
            .ok()
    }
}
