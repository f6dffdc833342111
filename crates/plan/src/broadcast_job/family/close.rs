//! The log of a retry that was deleted at work: the next one of the family closes it.

use std::collections::BTreeMap;

use carillon_api::NodeState;
use carillon_api::condition::results;
use jiff::Timestamp;

use crate::broadcast_job::action::{Action, Step};
use crate::broadcast_job::ledger;
use crate::broadcast_job::member::Member;
use crate::broadcast_job::snapshot::Snapshot;
use crate::broadcast_job::taken::TakenPod;
use crate::pod::{PodPhase, PodRow, interrupted};
use crate::record::Record;
use crate::record_index::Place;
use crate::uid::Uid;

/// What it takes to close the log of another one that is gone.
#[derive(Debug, Default)]
pub(in crate::broadcast_job) struct Closing {
    /// Pods that have to be asked for before.
    pub(in crate::broadcast_job) ask: Vec<Action>,
    /// The steps.
    pub(in crate::broadcast_job) steps: Vec<Step>,
}

/// A log that was left open, and what has become of its attempts. What was under way has no outcome any more
/// unless its pod is still there and has succeeded.
#[derive(Debug)]
pub(super) struct LeftOpen<'a> {
    gone: &'a Member<'a>,
    updates: BTreeMap<Place, Record>,
    /// Pods that are not in the cache, or were taken and may have ended since, and when each was asked for last.
    /// Sorted: more may be due than one plan asks for.
    ask: Vec<(Option<Timestamp>, &'a str, Uid)>,
    /// Pods that nobody has seen: there must be none of their name.
    unseen: Vec<&'a str>,
    /// A pod has not ended.
    alive: bool,
    /// The first pod that the log waits for, and what for.
    waits: Option<String>,
}

impl<'a> LeftOpen<'a> {
    pub(super) fn read(snapshot: &Snapshot<'a>, gone: &'a Member<'a>, now: Timestamp) -> Self {
        let mut open = Self {
            gone,
            updates: BTreeMap::new(),
            ask: Vec::new(),
            unseen: Vec::new(),
            alive: false,
            waits: None,
        };
        for (slice_at, slice) in gone.slices.iter().enumerate() {
            for (record_at, record) in slice.records.iter().enumerate() {
                if record.is_final() {
                    continue;
                }
                if let Some(over) = open.outcome(snapshot, record, now) {
                    open.updates.insert((slice_at, record_at), over);
                }
            }
        }
        open.ask.sort_unstable();
        open
    }

    /// What is stored of an attempt under way. `None`: that is not known yet.
    fn outcome(
        &mut self,
        snapshot: &Snapshot<'a>,
        record: &'a Record,
        now: Timestamp,
    ) -> Option<Record> {
        let row = self.gone.pods.get(&record.pod);
        // Garbage collection deletes it; it may also end before. A late creation may have made another one.
        if row.is_some_and(|row| !row.phase.has_ended()) {
            self.alive = true;
            self.wait_for(record, "has not ended");
            return None;
        }
        let row = row.filter(|row| record.pod_uid.is_none_or(|uid| uid == row.uid));
        let taken = || snapshot.taken_pod(&record.pod, record.pod_uid?);
        let taken = if row.is_none() { taken() } else { None };
        if let Some(taken) = taken.filter(|taken| !taken.pod.phase.has_ended()) {
            self.taken_and_alive(record, taken, now);
            return None;
        }
        let pod = row.or_else(|| taken.map(|taken| &taken.pod));
        if pod.is_none() {
            match record.pod_uid {
                Some(uid) if !snapshot.gone.contains(&uid) => {
                    self.ask.push((None, &record.pod, uid));
                    return None;
                }
                Some(_) => {}
                None => {
                    if snapshot.conflicts.contains(&record.pod) {
                        self.wait_for(
                            record,
                            "is there, and nobody has seen whether it is that of its attempt; delete it if it is of no use any more",
                        );
                    }
                    self.unseen.push(&record.pod);
                }
            }
        }
        Some(over(record, pod, now))
    }

    /// No event tells of such a pod: it is asked for from time to time.
    fn taken_and_alive(&mut self, record: &'a Record, taken: &TakenPod, now: Timestamp) {
        self.alive = true;
        let what = format!(
            "was taken from it and has not ended: {}; its end is awaited, delete it to give it up",
            taken.why
        );
        self.wait_for(record, &what);
        let due = taken.ask_at().is_some_and(|at| at <= now);
        if let Some(uid) = record.pod_uid.filter(|_| due) {
            self.ask.push((taken.asked, &record.pod, uid));
        }
    }

    fn wait_for(&mut self, Record { pod, node, .. }: &Record, what: &str) {
        self.waits
            .get_or_insert_with(|| format!("pod {pod} on node {node} {what}"));
    }

    /// Whom the others wait for, in words.
    pub(super) fn whom(&self) -> String {
        let what = self.waits.as_deref().unwrap_or("its log is to be closed");
        format!(
            "BroadcastJob {} was deleted at work; {what}",
            self.gone.name
        )
    }

    /// Closes the log, if that can be done now.
    pub(super) fn close(&self, most: usize) -> Closing {
        let mut closing = Closing::default();
        if self.alive || !self.ask.is_empty() {
            let ask = |&(_, pod, uid): &(Option<Timestamp>, &str, Uid)| Action::ConfirmGone {
                pod: pod.into(),
                uid,
            };
            closing.ask = self.ask.iter().take(most).map(ask).collect();
            return closing;
        }
        let confirm = |pod: &&str| Action::ConfirmPod {
            pod: (*pod).into(),
            seen: None,
        };
        if !self.unseen.is_empty() {
            let confirm = self.unseen.iter().map(confirm).collect();
            closing.steps.push(Step::needed(confirm));
        }
        let gone = self.gone;
        for step in ledger::write(gone.slices, &self.updates, Vec::new(), true) {
            let of_gone = |action| match action {
                Action::WriteSlice(write) => Action::CloseLog {
                    name: gone.name.into(),
                    uid: gone.uid,
                    write,
                },
                other => other,
            };
            let actions = step.actions.into_iter().map(of_gone).collect();
            closing.steps.push(Step { actions, ..step });
        }
        closing
    }
}

/// The record of an attempt whose pod has ended, or is gone.
fn over(record: &Record, pod: Option<&PodRow>, now: Timestamp) -> Record {
    let over = Record {
        pod_uid: pod.map(|pod| pod.uid).or(record.pod_uid),
        finished: Some(now),
        ..record.clone()
    };
    let succeeded = pod.is_some_and(|pod| {
        let there = pod.node.as_deref() == Some(&*record.node);
        pod.phase == PodPhase::Succeeded && there && !interrupted(pod)
    });
    if succeeded {
        return Record {
            state: NodeState::Succeeded,
            reason: "".into(),
            ..over
        };
    }
    let reason = match pod {
        Some(_) => results::POD_VANISHED,
        // It may have succeeded: nobody runs the node again.
        None => results::JOB_DELETED,
    };
    Record {
        state: NodeState::Unknown,
        reason: reason.into(),
        message: LEFT_OPEN.into(),
        ..over
    }
}

/// What a record says that was open when its job was deleted.
const LEFT_OPEN: &str = "the BroadcastJob was deleted before the outcome was stored";
