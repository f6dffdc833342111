//! What the records of a job and the nodes of the cluster mean for each other, kept from plan to plan: a plan
//! looks at what is open and at what has changed, and counts the rest.
//!
//! An index says nothing that is not in the records, the nodes and the job. It can be made again from them at any
//! time, and is when a plan comes without one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::counts::Counts;
use super::policies::Policies;
use super::spec::BroadcastJob;
use super::standing::{Attempts, Standing};
use crate::eligibility::{self, Refusal};
use crate::node::{NodeRow, Nodes};
use crate::placement::Placement;
use crate::pod::{self, PodRow, Pods};
use crate::record::{Record, Slice};
use crate::record_index::{Place, RecordIndex};
use crate::uid::Uid;

/// Names of nodes, in the order in which they are served.
pub(super) type Names = BTreeSet<Arc<str>>;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Index {
    /// The parts of the job that it was made for.
    rules: Option<Rules>,
    records: RecordIndex,
    /// What the nodes of each name add to the rest.
    shares: BTreeMap<Arc<str>, Share>,
    /// The sum of all.
    counts: Counts,
    /// Nodes that have failed for good.
    failed: Names,
    /// Nodes to be tried again.
    waiting: Names,
    /// Nodes that were to be tried again, and have gone since.
    gone: Names,
    /// Nodes to be served that were never tried.
    eligible: Names,
    /// Those of them whose name another machine had.
    renamed: Names,
    /// Nodes that were never tried and are left out, by reason.
    refused: BTreeMap<&'static str, Names>,
    /// Attempts that have to be looked at: those under way that are not quiet, and those that are over and
    /// whose pod has not ended.
    awake: BTreeSet<Place>,
    /// Attempts that are over and whose pod is to be released.
    ended: BTreeSet<Place>,
    /// Attempts whose pod is there as is stored, where nothing is due.
    quiet: BTreeSet<Place>,
    /// Pods that are not over, but those of quiet attempts and of those that have ended.
    pods: BTreeSet<Box<str>>,
}

/// What may be other than it was when an index last caught up.
#[derive(Clone, Copy, Debug, Default)]
pub struct Changes<'a> {
    /// Names of nodes.
    pub nodes: &'a [Arc<str>],
    /// Names of pods of the job.
    pub pods: &'a [Box<str>],
}

/// What of a job decides what its records and nodes mean.
#[derive(Clone, Debug, PartialEq)]
struct Rules {
    placement: Placement,
    policies: Policies,
    restart_limit: Option<u32>,
}

impl Rules {
    fn of(job: &BroadcastJob) -> Self {
        Self {
            placement: job.placement.clone(),
            policies: job.policies.clone(),
            restart_limit: job.restart_limit,
        }
    }

    fn are_of(&self, job: &BroadcastJob) -> bool {
        let same = self.placement == job.placement && self.policies == job.policies;
        same && self.restart_limit == job.restart_limit
    }

    /// Whether of an attempt under way there is nothing to store or to stop, and nothing due.
    fn leave_alone(&self, record: &Record, pod: &PodRow, node: Option<&NodeRow>) -> bool {
        let as_stored = record.pod_uid == Some(pod.uid)
            && record.reason.is_empty()
            && record.message.is_empty()
            && record.node_gone.is_none();
        let runs = !pod.phase.has_ended()
            && pod.deletion.is_none()
            && pod.end.is_none()
            && !pod.interrupted
            && (pod.has_started() || self.policies.start_deadline.is_none())
            && !pod::over_limit(pod, self.restart_limit);
        let Some(node) = node.filter(|node| node.uid == record.node_uid) else {
            return false;
        };
        let is_placed = match &pod.node {
            Some(bound) => *bound == record.node && node.not_ready_since.is_none(),
            // It is stopped when it may not run there any more.
            None => eligibility::refusal(&self.placement, &record.node, node).is_none(),
        };
        as_stored && runs && is_placed
    }
}

/// What the nodes of one name add to the index.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Share {
    counts: Counts,
    failed: bool,
    waiting: bool,
    gone: bool,
    untried: Option<Untried>,
}

/// What becomes of a node that was never tried.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Untried {
    Eligible { renamed: bool },
    Refused(&'static str),
}

impl Index {
    /// Of a job as it is now.
    pub fn of(job: &BroadcastJob, nodes: &Nodes, pods: &Pods, slices: &[Slice]) -> Self {
        let mut index = Self::default();
        index.follow(job, nodes, pods, slices, None);
        index
    }

    /// Catches up. `changes`: what may be other than it was when it last did; `None`: anything.
    pub fn follow(
        &mut self,
        job: &BroadcastJob,
        nodes: &Nodes,
        pods: &Pods,
        slices: &[Slice],
        changes: Option<Changes<'_>>,
    ) {
        let records = self.records.follow(slices);
        let known = self.rules.as_ref().is_some_and(|rules| rules.are_of(job));
        #[expect(clippy::disallowed_methods, reason = "each goes into a set of its own")]
        let (names, pod_names): (Names, Vec<&Box<str>>) = match (changes, records) {
            (Some(changes), Some(mut names)) if known => {
                names.extend(changes.nodes.iter().cloned());
                (names, changes.pods.iter().collect())
            }
            _ => {
                *self = Self {
                    rules: Some(Rules::of(job)),
                    records: std::mem::take(&mut self.records),
                    ..Self::default()
                };
                let names = nodes.keys().chain(self.records.nodes());
                (names.cloned().collect(), pods.keys().collect())
            }
        };
        for name in names {
            self.judge(&name, nodes);
            for place in self.records.of_node(&name).to_vec() {
                self.classify(place, nodes, pods);
                let pod = self.records.at(place).0.pod.clone();
                self.notice(&pod, pods);
            }
        }
        for pod in pod_names {
            let places: Vec<Place> = self.records.of_pod(pod).collect();
            for place in places {
                self.classify(place, nodes, pods);
            }
            self.notice(pod, pods);
        }
    }

    /// Finds out anew whether an attempt has to be looked at.
    fn classify(&mut self, place: Place, nodes: &Nodes, pods: &Pods) {
        let Some(rules) = &self.rules else { return };
        let (record, _) = self.records.at(place);
        let pod = pods.get(&record.pod);
        // What is said of a node is said by its last attempt: an earlier one must not be left alone.
        let of_node = self.records.of_node(&record.node).iter();
        let others = of_node.filter(|other| **other != place);
        let others = others.map(|other| self.records.at(*other).0);
        let mut others = others.filter(|other| !other.is_final() || other.attempt > record.attempt);
        let quiet = !record.is_final()
            && others.next().is_none()
            && pod.is_some_and(|pod| rules.leave_alone(record, pod, nodes.get(&record.node)));
        let pod = pod.filter(|pod| pod.is_live());
        let ended = record.is_final() && pod.is_some_and(|pod| pod.phase.has_ended());
        let awake = !quiet && !ended && (!record.is_final() || pod.is_some());
        for (places, is_in) in [
            (&mut self.quiet, quiet),
            (&mut self.awake, awake),
            (&mut self.ended, ended),
        ] {
            keep(places, place, is_in);
        }
    }

    /// Finds out anew whether a pod has to be looked at.
    fn notice(&mut self, pod: &str, pods: &Pods) {
        let live = pods.get(pod).is_some_and(PodRow::is_live);
        let mut places = self.records.of_pod(pod);
        let is_known = |place: Place| self.quiet.contains(&place) || self.ended.contains(&place);
        if live && !places.any(is_known) {
            self.pods.insert(pod.into());
        } else {
            self.pods.remove(pod);
        }
    }

    /// The same, with each attempt that has not ended to be looked at.
    #[cfg(test)]
    pub(super) fn all_awake(&self, pods: &Pods) -> Self {
        let alive = pods.iter().filter(|(_, pod)| !pod.phase.has_ended());
        let alive = alive.map(|(name, _)| name);
        Self {
            awake: self.awake.union(&self.quiet).copied().collect(),
            quiet: BTreeSet::new(),
            pods: alive.chain(&self.pods).cloned().collect(),
            ..self.clone()
        }
    }

    /// Attempts that have to be looked at.
    pub fn awake(&self) -> &BTreeSet<Place> {
        &self.awake
    }

    /// Attempts whose pod runs, and that nothing has to be done about.
    pub fn quiet(&self) -> &BTreeSet<Place> {
        &self.quiet
    }

    /// Attempts that are over and whose pod is to be released.
    pub fn ended(&self) -> &BTreeSet<Place> {
        &self.ended
    }

    /// Names of the pods that are not over, but those of quiet attempts and of those that have ended.
    pub fn pods(&self) -> &BTreeSet<Box<str>> {
        &self.pods
    }

    /// Finds out anew what the nodes of a name add.
    fn judge(&mut self, name: &Arc<str>, nodes: &Nodes) {
        let Some(rules) = &self.rules else { return };
        let places = self.records.of_node(name);
        let stored = |place: Place| self.records.at(place).0;
        let mut share = Share::default();
        let node = nodes.get(name);
        let mut is_tried = false;
        for (uid, attempts) in identities(places, stored) {
            let there = node.is_some_and(|node| node.uid == uid);
            is_tried |= there;
            let standing = attempts.standing(&rules.policies, stored, there);
            share.counts += standing.counts(there);
            share.failed |= standing == Standing::Failed;
            share.gone |= standing == Standing::Gone;
            share.waiting |= matches!(standing, Standing::Again(_) | Standing::Retry(_));
        }
        if let Some(node) = node.filter(|_| !is_tried) {
            let renamed = !places.is_empty();
            share.untried = match eligibility::refusal(&rules.placement, name, node) {
                None => Some(Untried::Eligible { renamed }),
                // It was never asked for, and is therefore not left out.
                Some(Refusal::NotListed) => None,
                Some(refusal) => Some(Untried::Refused(refusal.reason())),
            };
        }
        self.put(name, share);
    }

    fn put(&mut self, name: &Arc<str>, new: Share) {
        let old = self.shares.get(name).copied().unwrap_or_default();
        if old != new {
            self.counts -= old.counts;
            self.counts += new.counts;
            let (eligible, renamed) = match new.untried {
                Some(Untried::Eligible { renamed }) => (true, renamed),
                Some(Untried::Refused(_)) | None => (false, false),
            };
            for (names, is_in) in [
                (&mut self.failed, new.failed),
                (&mut self.waiting, new.waiting),
                (&mut self.gone, new.gone),
                (&mut self.eligible, eligible),
                (&mut self.renamed, renamed),
            ] {
                keep(names, name.clone(), is_in);
            }
            if let Some(Untried::Refused(reason)) = old.untried {
                let names = self.refused.entry(reason).or_default();
                names.remove(name);
                if names.is_empty() {
                    self.refused.remove(reason);
                }
            }
            if let Some(Untried::Refused(reason)) = new.untried {
                self.refused.entry(reason).or_default().insert(name.clone());
            }
        }
        if new == Share::default() {
            self.shares.remove(name);
        } else {
            self.shares.insert(name.clone(), new);
        }
    }

    /// The records.
    pub fn records(&self) -> &RecordIndex {
        &self.records
    }

    /// Names of nodes to be tried again, and of those whose name another machine had.
    pub(super) fn unsettled(&self) -> impl Iterator<Item = &str> {
        let names = self.waiting.iter().chain(&self.renamed);
        names.map(|name| &**name)
    }

    /// Whether a node of this name is to be served and was never tried.
    pub(super) fn is_untried(&self, name: &str) -> bool {
        self.eligible.contains(name)
    }
}

/// All nodes but those of some names, which are looked at one by one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rest<'a, 'b> {
    index: &'a Index,
    apart: &'b BTreeSet<&'a str>,
}

impl<'a, 'b> Rest<'a, 'b> {
    pub(super) fn new(index: &'a Index, apart: &'b BTreeSet<&'a str>) -> Self {
        Self { index, apart }
    }

    /// Of those that have been begun with.
    pub(super) fn counts(&self) -> Counts {
        let mut counts = self.index.counts;
        let shares = self
            .apart
            .iter()
            .filter_map(|name| self.index.shares.get(*name));
        shares.for_each(|share| counts -= share.counts);
        counts
    }

    /// Those that have failed for good.
    pub(super) fn failed(self) -> impl Iterator<Item = &'a str> + use<'a, 'b> {
        self.of(&self.index.failed)
    }

    /// Those that are to be served and were never tried, and how many there are.
    pub(super) fn eligible(self) -> (impl Iterator<Item = &'a Arc<str>> + use<'a, 'b>, usize) {
        let names = &self.index.eligible;
        let all = names
            .iter()
            .filter(move |name| !self.apart.contains(&***name));
        (all, self.count(names))
    }

    /// Those that were to be tried again and have gone since, and how many there are.
    pub(super) fn gone(self) -> (impl Iterator<Item = &'a str> + use<'a, 'b>, usize) {
        (self.of(&self.index.gone), self.count(&self.index.gone))
    }

    /// Those that are left out, by reason, and how many there are.
    pub(super) fn refused(
        self,
    ) -> impl Iterator<
        Item = (
            &'static str,
            impl Iterator<Item = &'a str> + use<'a, 'b>,
            usize,
        ),
    > + use<'a, 'b> {
        let refused = self.index.refused.iter();
        refused.map(move |(reason, names)| (*reason, self.of(names), self.count(names)))
    }

    fn of(self, names: &'a Names) -> impl Iterator<Item = &'a str> + use<'a, 'b> {
        let names = names.iter().map(|name| &**name);
        names.filter(move |name| !self.apart.contains(name))
    }

    fn count(self, names: &Names) -> usize {
        let apart = self.apart.iter().filter(|name| names.contains(**name));
        names.len() - apart.count()
    }
}

/// Has an element in a set, or not.
fn keep<T: Ord>(set: &mut BTreeSet<T>, element: T, is_in: bool) {
    if is_in {
        set.insert(element);
    } else {
        set.remove(&element);
    }
}

/// The attempts on each of the nodes of one name, in the order of their uids.
pub(super) fn identities<'r>(
    places: &[Place],
    record: impl Fn(Place) -> &'r Record,
) -> BTreeMap<Uid, Attempts<Place>> {
    let mut nodes: BTreeMap<Uid, Attempts<Place>> = BTreeMap::new();
    for &place in places {
        let record = record(place);
        let one = Attempts::of(record, place);
        let all = nodes.entry(record.node_uid);
        all.and_modify(|all| *all = all.and(one)).or_insert(one);
    }
    nodes
}
