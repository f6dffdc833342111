//! What a plan for a BroadcastJob is made from.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::index::Index;
use super::member::Family;
use super::spec::BroadcastJob;
use super::taken::{Taken, TakenPod};
use crate::condition::Refusal;
use crate::node::Nodes;
use crate::plan::REQUEST_LIFE;
use crate::pod::{PodRow, Pods};
use crate::record::Slice;
use crate::uid::Uid;

/// How often a template that was refused is tried again: quotas and policies change.
pub const TEMPLATE_RECHECK: SignedDuration = SignedDuration::from_secs(60);

/// How long a pod is known to be other than as it was read; then it is asked about again, if it still
/// matters.
pub const DISPUTED: SignedDuration = SignedDuration::from_secs(10);

/// How long a promise of a job that is to run nothing twice is kept though it is not wanted any more: a creation
/// may be under way.
pub(super) const WITHDRAWN_AFTER: SignedDuration = REQUEST_LIFE;

/// Everything a plan is made from.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'a> {
    /// The job.
    pub job: &'a BroadcastJob,
    /// All nodes of the cluster.
    pub nodes: &'a Nodes,
    /// The pods the job controls.
    pub pods: &'a Pods,
    /// Those of its pods that somebody has taken from it.
    pub taken: Taken<'a>,
    /// Pods that were created, or were found under the name of an attempt, and that its record may not name
    /// yet: their uids.
    pub created: &'a BTreeMap<Box<str>, Uid>,
    /// The job's result slices, by index.
    pub slices: &'a [Slice],
    /// What the API server said of the template.
    pub template: &'a Template,
    /// Pods that were asked for and are gone.
    pub gone: &'a BTreeSet<Uid>,
    /// Pod names held by somebody else's pods.
    pub conflicts: &'a BTreeSet<Box<str>>,
    /// Names of pods that were asked about and are other than as they were read: what they have not done is
    /// not known.
    pub disputed: &'a BTreeSet<Box<str>>,
    /// Why the last creations were refused.
    pub creation_problem: Option<&'a Refused>,
    /// Pods whose creation was refused, and which of them later: the higher the number.
    pub refused: &'a BTreeMap<Box<str>, u64>,
    /// What else is refused again and again.
    pub refusal: Option<&'a Refusal>,
    /// The other jobs of its family, of a job that is a retry or has one.
    pub family: Option<&'a Family<'a>>,
    /// Most pods created or deleted by one plan.
    pub max_pod_changes: usize,
    /// What was kept of earlier plans, brought up to date. `None`: it is made from the rest, and the plan is the
    /// same.
    pub index: Option<&'a Index>,
}

impl<'a> Snapshot<'a> {
    /// With its index, or else the one made from the rest, which is put `here`.
    pub(crate) fn indexed<'b>(&'b self, here: &'b mut Option<Index>) -> (Snapshot<'b>, &'b Index) {
        let index = self.index.unwrap_or_else(|| {
            here.insert(Index::of(self.job, self.nodes, self.pods, self.slices))
        });
        (*self, index)
    }

    /// The pods that a plan looks at, and maybe others, in no order.
    #[expect(clippy::disallowed_methods, reason = "whoever asks is told so")]
    pub fn noticed_pods(&self) -> impl Iterator<Item = (&'a str, &'a PodRow)> + use<'a> {
        let (index, pods) = (self.index, self.pods);
        let all = pods.iter().filter(move |_| index.is_none());
        let noticed = index.into_iter().flat_map(Index::pods);
        let looked_at = index.into_iter().flat_map(|index| {
            let awake = index.awake().iter();
            let awake = awake.map(|place| &index.records().at(*place).0.pod);
            awake.filter(|pod| !index.pods().contains(*pod))
        });
        let noticed = noticed.chain(looked_at);
        let noticed = noticed.filter_map(|name| pods.get_key_value(name));
        all.chain(noticed).map(|(name, pod)| (&**name, pod))
    }

    /// The pod of this name and uid that was taken from the job, as it was last seen.
    pub fn taken_pod(&self, name: &str, uid: Uid) -> Option<&'a TakenPod> {
        let watched = self.taken.watched.get(name);
        let asked = self.taken.asked.get(&uid);
        // A name is one pod's at a time: another one that was seen later means that this one is gone.
        let named = self.pods.get(name).into_iter();
        let named = named.chain(watched.map(|taken| &taken.pod));
        let replaced = |rv| named.clone().any(|pod| pod.uid != uid && pod.rv > rv);
        watched
            .filter(|taken| taken.pod.uid == uid)
            .into_iter()
            .chain(asked.filter(|taken| !replaced(taken.pod.rv)))
            .max_by_key(|taken| taken.pod.rv)
    }

    /// The pods that are not over, but those of quiet attempts.
    pub(crate) fn pods_of(
        &self,
        index: &'a Index,
    ) -> impl Iterator<Item = (&'a str, &'a PodRow)> + use<'a> {
        let pods = self.pods;
        let known = index.pods().iter();
        known.filter_map(|name| Some((&**name, pods.get(name)?)))
    }
}

/// What the API server said when it was asked to accept the template.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Template {
    /// Not asked yet.
    #[default]
    Unknown,
    /// It would create such a pod.
    Accepted,
    /// It would not.
    Refused {
        /// Its words, and what kind of refusal it is.
        problem: Refused,
        /// When it was asked.
        at: Timestamp,
    },
}

/// A refusal of the API server.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Refused {
    /// Reason of the condition that reports it.
    pub reason: &'static str,
    /// The API server's words.
    pub message: String,
}
