//! One walk over the records and their pods: what has become of each attempt.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use carillon_api::NodeState;
use carillon_api::condition::results;
use jiff::Timestamp;

use super::Snapshot;
use super::judge::{judge, must_stop, node_of, silent_since, start_due};
use crate::pod::PodRow;
use crate::record::Record;
use crate::uid::Uid;

/// Identity of a node: a machine replaced under the same name is another one.
pub(super) type NodeId<'a> = (&'a str, Uid);

/// Where a record is stored: position of the slice, position in it.
pub(super) type Place = (usize, usize);

/// Last attempt on a node.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Latest {
    pub(super) attempt: u32,
    pub(super) state: NodeState,
    pub(super) reason: Arc<str>,
    pub(super) finished: Option<Timestamp>,
    /// Failed attempts on the node, this one included.
    pub(super) failures: usize,
    /// Where its record is.
    pub(super) place: Place,
}

/// What the records and pods say, with the outcomes seen now already entered.
#[derive(Debug, Default)]
pub(super) struct Progress<'a> {
    /// The last attempt on each node.
    pub(super) nodes: BTreeMap<NodeId<'a>, Latest>,
    /// Records that change.
    pub(super) updates: BTreeMap<Place, Record>,
    /// Attempts whose pod exists and has not ended.
    pub(super) running: Vec<(&'a Record, &'a PodRow)>,
    /// Attempts whose pod does not exist yet.
    pub(super) reserved: Vec<(Place, &'a Record)>,
    /// Running pods that must be stopped, whatever becomes of the job.
    pub(super) to_stop: Vec<(&'a str, &'a PodRow)>,
    /// Pods whose result is stored (or will be, before they are released).
    pub(super) to_release: Vec<(&'a str, Uid)>,
    /// Attempts whose pod was seen and is not in the cache: asked for before anything is concluded.
    pub(super) missing: Vec<(&'a str, Uid)>,
    /// Names of nodes where a pod exists that has not ended, or is promised. The name and not the
    /// identity: what was started on a machine may outlive its node object.
    pub(super) occupied: BTreeSet<&'a str>,
    /// Pods that have not ended though their attempt is over. Those of lost nodes are left out:
    /// they must not hold up others.
    pub(super) occupying: usize,
    /// Attempts that were interrupted.
    pub(super) interrupted: usize,
    /// Nodes of running pods that have not answered for too long: their attempts are still under
    /// way, but hold up nobody else.
    pub(super) lost: Vec<&'a str>,
    /// When time alone changes something: a node counts as lost, a pod should have started.
    pub(super) next_due: Option<Timestamp>,
}

impl<'a> Progress<'a> {
    /// The walk. `stopping` is the reason recorded for pods stopped because the job is failing.
    pub(super) fn read(
        snapshot: &Snapshot<'a>,
        stopping: Option<&'static str>,
        now: Timestamp,
    ) -> Self {
        let mut progress = Self::default();
        for (slice_at, slice) in snapshot.slices.iter().enumerate() {
            for (record_at, record) in slice.records.iter().enumerate() {
                let place = (slice_at, record_at);
                let judged = if record.is_final() {
                    progress.over(snapshot, record, now);
                    None
                } else {
                    progress.started(snapshot, place, record, stopping, now)
                };
                progress.enter(place, record, judged.as_ref().unwrap_or(record));
                if let Some(update) = judged {
                    progress.updates.insert(place, update);
                }
            }
        }
        progress
    }

    /// A record as it will be stored.
    pub(super) fn record<'b>(&'b self, snapshot: &'b Snapshot<'a>, place: Place) -> &'b Record {
        let stored = || &snapshot.slices[place.0].records[place.1];
        self.updates.get(&place).unwrap_or_else(stored)
    }

    /// Whether there was an attempt on a node of this name.
    pub(super) fn has_tried(&self, node: &str) -> bool {
        self.of_name(node).next().is_some()
    }

    /// The last attempt on nodes of this name, as it is stored.
    pub(super) fn last_of_name(&self, snapshot: &Snapshot<'a>, node: &str) -> Option<&'a Record> {
        let last = self.of_name(node).max_by_key(|latest| latest.attempt)?;
        Some(&snapshot.slices[last.place.0].records[last.place.1])
    }

    /// Number of the next attempt on nodes of this name.
    pub(super) fn next_attempt(&self, node: &str) -> u32 {
        let attempts = self.of_name(node).map(|latest| latest.attempt);
        attempts.max().unwrap_or(0) + 1
    }

    fn of_name<'s>(&'s self, node: &'s str) -> impl Iterator<Item = &'s Latest> + use<'s, 'a> {
        let nodes: &'s BTreeMap<NodeId<'s>, Latest> = &self.nodes;
        let all = (node, Uid::MIN)..=(node, Uid::MAX);
        nodes.range(all).map(|(_, latest)| latest)
    }

    /// Ends a reservation whose pod will not be created.
    pub(super) fn give_up(
        &mut self,
        place: Place,
        record: &'a Record,
        (state, reason): (NodeState, &str),
        now: Timestamp,
    ) {
        let update = Record {
            state,
            reason: reason.into(),
            finished: Some(now),
            ..record.clone()
        };
        self.enter(place, record, &update);
        self.updates.insert(place, update);
    }

    fn enter(&mut self, place: Place, key: &'a Record, record: &Record) {
        if matches!(record.state, NodeState::Disrupted | NodeState::Unknown) {
            self.interrupted += 1;
        }
        let latest = Latest {
            attempt: record.attempt,
            state: record.state,
            reason: record.reason.clone(),
            finished: record.finished,
            failures: usize::from(record.state == NodeState::Failed),
            place,
        };
        match self.nodes.entry((&key.node, key.node_uid)) {
            Entry::Vacant(free) => {
                free.insert(latest);
            }
            Entry::Occupied(mut known) => {
                let failures = known.get().failures + latest.failures;
                if known.get().attempt <= latest.attempt {
                    known.insert(latest);
                }
                known.get_mut().failures = failures;
            }
        }
    }

    /// Something is due at this time, unless that is past.
    fn due(&mut self, at: Option<Timestamp>, now: Timestamp) {
        let next = self.next_due.into_iter().chain(at.filter(|at| *at > now));
        self.next_due = next.min();
    }

    /// Whether the node of a pod has not answered for so long that it holds up nobody else.
    fn is_lost(
        &mut self,
        snapshot: &Snapshot<'a>,
        record: &Record,
        pod: &PodRow,
        now: Timestamp,
    ) -> bool {
        let node = node_of(snapshot, record);
        let timeout = snapshot.job.policies.node_lost_timeout;
        let at = silent_since(node, record.node_gone, pod)
            .and_then(|since| since.checked_add(timeout).ok());
        self.due(at, now);
        at.is_some_and(|at| at <= now)
    }

    /// A pod that has not ended though its attempt is over.
    fn linger(
        &mut self,
        snapshot: &Snapshot<'a>,
        key: &'a Record,
        record: &Record,
        pod: &'a PodRow,
        now: Timestamp,
    ) {
        self.occupied.insert(&key.node);
        let lost = self.is_lost(snapshot, record, pod, now);
        self.occupying += usize::from(!lost && *record.reason != *results::NODE_LOST);
        // Whatever it does now is not counted, so it must not run: it has not started in time, or
        // it was created by a request that arrived after its attempt had been given up.
        if pod.deletion.is_none() {
            self.to_stop.push((&key.pod, pod));
        }
    }

    /// An attempt that is over: its pod may be left to release or to stop.
    fn over(&mut self, snapshot: &Snapshot<'a>, record: &'a Record, now: Timestamp) {
        let Some(pod) = snapshot.pods.get(&record.pod) else {
            return;
        };
        // A pod that appeared after its attempt was over, or under another uid, was created by a
        // request that arrived late; it is not counted and must not run.
        if !pod.phase.has_ended() {
            self.linger(snapshot, record, record, pod, now);
        }
        if pod.tracked {
            self.to_release.push((&record.pod, pod.uid));
        }
    }

    /// An attempt under way. Returns its record when it changes.
    fn started(
        &mut self,
        snapshot: &Snapshot<'a>,
        place: Place,
        record: &'a Record,
        stopping: Option<&'static str>,
        now: Timestamp,
    ) -> Option<Record> {
        let end = |state, reason: &str| Record {
            state,
            reason: reason.into(),
            finished: Some(now),
            ..record.clone()
        };
        let pod = match (snapshot.pods.get(&record.pod), record.pod_uid) {
            (Some(pod), None) => pod,
            (Some(pod), Some(uid)) if pod.uid == uid => pod,
            // The name is held by another pod: the one recorded is gone.
            (Some(other), Some(_)) => {
                let judged = end(NodeState::Unknown, results::POD_VANISHED);
                if !other.phase.has_ended() {
                    self.linger(snapshot, record, &judged, other, now);
                }
                return Some(judged);
            }
            (None, Some(uid)) if snapshot.gone.contains(&uid) => {
                return Some(end(NodeState::Unknown, results::POD_VANISHED));
            }
            (None, Some(uid)) => {
                self.occupied.insert(&record.node);
                self.missing.push((&record.pod, uid));
                return None;
            }
            (None, None) if snapshot.conflicts.contains(&record.pod) => {
                return Some(end(NodeState::Failed, results::NAME_CONFLICT));
            }
            (None, None) => {
                self.occupied.insert(&record.node);
                self.reserved.push((place, record));
                return None;
            }
        };
        if let Some(judged) = judge(snapshot, record, pod, stopping, now) {
            if pod.tracked {
                self.to_release.push((&record.pod, pod.uid));
            }
            if !pod.phase.has_ended() {
                self.linger(snapshot, record, &judged, pod, now);
            }
            return Some(judged);
        }
        self.occupied.insert(&record.node);
        self.running.push((record, pod));
        if pod.deletion.is_none() && must_stop(snapshot, record, pod) {
            self.to_stop.push((&record.pod, pod));
        }
        let seen = Record {
            pod_uid: Some(pod.uid),
            started: record.started.or(pod.started),
            node_gone: match node_of(snapshot, record) {
                None if pod.node.is_some() => record.node_gone.or(Some(now)),
                _ => None,
            },
            ..record.clone()
        };
        if self.is_lost(snapshot, &seen, pod, now) {
            self.lost.push(&record.node);
        }
        self.due(start_due(snapshot.job, pod), now);
        let timeout = snapshot.job.policies.node_lost_timeout;
        let given_up = pod.deletion.map(|d| d.due.checked_add(timeout));
        self.due(given_up.and_then(Result::ok), now);
        let news = record.pod_uid.is_none() || record.node_gone != seen.node_gone;
        news.then_some(seen)
    }
}
