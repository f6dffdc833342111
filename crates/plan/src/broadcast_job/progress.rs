//! One walk over the records and their pods: what has become of each attempt.

use std::collections::{BTreeMap, BTreeSet};

use carillon_api::NodeState;
use carillon_api::condition::results;
use jiff::Timestamp;

use super::{NODE_LOST_AFTER, Snapshot};
use crate::eligibility;
use crate::pod::{self, PodRow};
use crate::record::Record;
use crate::uid::Uid;

/// Identity of a node: a machine replaced under the same name is another one.
pub(super) type NodeId<'a> = (&'a str, Uid);

/// Where a record is stored: position of the slice, position in it.
pub(super) type Place = (usize, usize);

/// Last attempt on a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Latest {
    pub(super) attempt: u32,
    pub(super) state: NodeState,
    pub(super) finished: Option<Timestamp>,
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
    /// When the next pod counts as lost.
    pub(super) next_lost: Option<Timestamp>,
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
                    progress.over(snapshot, record);
                    None
                } else {
                    progress.started(snapshot, place, record, stopping, now)
                };
                progress.enter(record, judged.as_ref().unwrap_or(record));
                if let Some(update) = judged {
                    progress.updates.insert(place, update);
                }
            }
        }
        progress
    }

    /// How many nodes are in `state`.
    pub(super) fn count(&self, state: NodeState) -> usize {
        self.nodes
            .values()
            .filter(|latest| latest.state == state)
            .count()
    }

    /// Number of the next attempt on nodes of this name.
    pub(super) fn next_attempt(&self, node: &str) -> u32 {
        let all_of_name = (node, Uid::MIN)..=(node, Uid::MAX);
        self.nodes
            .range(all_of_name)
            .map(|(_, latest)| latest.attempt)
            .max()
            .unwrap_or(0)
            + 1
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
        self.enter(record, &update);
        self.updates.insert(place, update);
    }

    fn enter(&mut self, key: &'a Record, record: &Record) {
        if matches!(record.state, NodeState::Disrupted | NodeState::Unknown) {
            self.interrupted += 1;
        }
        let latest = Latest {
            attempt: record.attempt,
            state: record.state,
            finished: record.finished,
        };
        self.nodes
            .entry((&key.node, key.node_uid))
            .and_modify(|known| {
                if known.attempt <= latest.attempt {
                    *known = latest;
                }
            })
            .or_insert(latest);
    }

    fn linger(&mut self, record: &'a Record, reason: &str) {
        self.occupied.insert(&record.node);
        self.occupying += usize::from(reason != results::NODE_LOST);
    }

    /// An attempt that is over: its pod may be left to release or to stop.
    fn over(&mut self, snapshot: &Snapshot<'a>, record: &'a Record) {
        let Some(pod) = snapshot.pods.get(&record.pod) else {
            return;
        };
        // A pod that appeared after its attempt was over was created by a request that arrived
        // late; it is not counted and must not run.
        let late = record.pod_uid != Some(pod.uid);
        if !pod.phase.has_ended() {
            self.linger(record, &record.reason);
            if late && pod.deletion.is_none() {
                self.to_stop.push((&record.pod, pod));
            }
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
                if !other.phase.has_ended() {
                    self.linger(record, results::POD_VANISHED);
                }
                return Some(end(NodeState::Unknown, results::POD_VANISHED));
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
        if let Some((state, reason)) = judge(snapshot, record, pod, stopping, now) {
            if pod.tracked {
                self.to_release.push((&record.pod, pod.uid));
            }
            if !pod.phase.has_ended() {
                self.linger(record, reason);
            }
            return Some(ended(record, pod, state, reason, now));
        }
        self.occupied.insert(&record.node);
        self.running.push((record, pod));
        if pod.deletion.is_none() && must_stop(snapshot, record, pod) {
            self.to_stop.push((&record.pod, pod));
        }
        if let Some(lost) = pod
            .deletion
            .and_then(|d| d.due.checked_add(NODE_LOST_AFTER).ok())
        {
            self.next_lost = Some(self.next_lost.map_or(lost, |known| known.min(lost)));
        }
        record.pod_uid.is_none().then(|| Record {
            pod_uid: Some(pod.uid),
            started: pod.started,
            ..record.clone()
        })
    }
}

/// What a pod means for its attempt; `None` while it is under way.
fn judge(
    snapshot: &Snapshot<'_>,
    record: &Record,
    pod: &PodRow,
    stopping: Option<&'static str>,
    now: Timestamp,
) -> Option<(NodeState, &'static str)> {
    let node_is_there = snapshot
        .nodes
        .get(&record.node)
        .is_some_and(|node| node.uid == record.node_uid);
    if pod.phase.has_ended() {
        let outcome = pod::outcome(pod, snapshot.job.restart_limit, stopping);
        let gone = outcome.state == NodeState::Disrupted && !node_is_there;
        return Some((
            outcome.state,
            if gone {
                results::NODE_GONE
            } else {
                outcome.reason
            },
        ));
    }
    let deletion = pod.deletion?;
    if pod.node.is_none() {
        // Deleted before it was bound: it never ran, and never will.
        return Some(if stopping.is_some() {
            (NodeState::Skipped, results::NOT_STARTED)
        } else if node_is_there {
            (NodeState::Disrupted, results::WITHDRAWN)
        } else {
            (NodeState::Disrupted, results::NODE_GONE)
        });
    }
    let waited = now.duration_since(deletion.due);
    (waited >= NODE_LOST_AFTER).then_some((NodeState::Unknown, results::NODE_LOST))
}

/// Running pods that have to go: those over their restart limit, and those that wait for a node
/// that has become ineligible before they were bound to it. A pod that runs is left to finish.
fn must_stop(snapshot: &Snapshot<'_>, record: &Record, pod: &PodRow) -> bool {
    if pod::over_limit(pod, snapshot.job.restart_limit) {
        return true;
    }
    pod.node.is_none()
        && match snapshot.nodes.get(&record.node) {
            Some(node) if node.uid == record.node_uid => {
                eligibility::refusal(&snapshot.job.placement, &record.node, node).is_some()
            }
            _ => true,
        }
}

fn ended(record: &Record, pod: &PodRow, state: NodeState, reason: &str, now: Timestamp) -> Record {
    let end = pod.end.as_deref().cloned().unwrap_or_default();
    let exit_code = match state {
        NodeState::Succeeded => Some(0),
        _ => end.exit_code,
    };
    // The kubelet's own word, such as OOMKilled, says more than that the exit code was not 0.
    let telling = !matches!(&*end.reason, "" | "Error" | "Completed");
    let reason = match reason {
        results::NON_ZERO_EXIT_CODE if telling => &*end.reason,
        reason => reason,
    };
    Record {
        state,
        reason: reason.into(),
        pod_uid: Some(pod.uid),
        exit_code,
        started: pod.started,
        finished: end.finished.or(Some(now)),
        message: if state == NodeState::Succeeded {
            "".into()
        } else {
            end.message
        },
        ..record.clone()
    }
}
