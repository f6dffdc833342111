//! The log of a retry that was deleted at work: the next one of the family closes it.

use std::collections::BTreeMap;

use carillon_api::NodeState;
use carillon_api::condition::results;
use jiff::Timestamp;

use super::Kin;
use crate::broadcast_job::action::{Action, Step};
use crate::broadcast_job::progress::Place;
use crate::broadcast_job::{Snapshot, ledger};
use crate::pod::PodPhase;
use crate::record::Record;
use crate::uid::Uid;

/// What it takes to close the log of another one that is gone.
#[derive(Debug, Default)]
pub(in crate::broadcast_job) struct Closing {
    /// Pods that have to be asked for before.
    pub(in crate::broadcast_job) ask: Vec<Action>,
    /// The steps.
    pub(in crate::broadcast_job) steps: Vec<Step>,
}

/// Closes the log of the one that is gone, if that can be done now. What is under way there has no outcome
/// any more unless its pod is still there and has succeeded.
pub(in crate::broadcast_job) fn close(
    snapshot: &Snapshot<'_>,
    kin: &Kin<'_>,
    now: Timestamp,
) -> Closing {
    let mut closing = Closing::default();
    let Some(gone) = kin.left_open else {
        return closing;
    };
    let mut updates: BTreeMap<Place, Record> = BTreeMap::new();
    let mut confirm = Vec::new();
    for (slice_at, slice) in gone.slices.iter().enumerate() {
        let open = slice.records.iter().enumerate();
        for (record_at, record) in open.filter(|(_, record)| !record.is_final()) {
            let same = |uid: &Uid| record.pod_uid.is_none_or(|recorded| recorded == *uid);
            let row = gone.pods.get(&record.pod).filter(|row| same(&row.uid));
            let succeeded = row.is_some_and(|row| {
                row.phase == PodPhase::Succeeded && row.node.as_deref() == Some(&*record.node)
            });
            let over = Record {
                pod_uid: row.map(|row| row.uid).or(record.pod_uid),
                finished: Some(now),
                ..record.clone()
            };
            let over = match (row, record.pod_uid) {
                // Garbage collection deletes it; it may also end before.
                (Some(row), _) if !row.phase.has_ended() => return Closing::default(),
                (Some(_), _) if succeeded => Record {
                    state: NodeState::Succeeded,
                    reason: "".into(),
                    ..over
                },
                (None, Some(uid)) if !snapshot.gone.contains(&uid) => {
                    let pod = record.pod.clone();
                    closing.ask.push(Action::ConfirmGone { pod, uid });
                    continue;
                }
                (row, uid) => {
                    if row.is_none() && uid.is_none() {
                        let (pod, seen) = (record.pod.clone(), None);
                        confirm.push(Action::ConfirmPod { pod, seen });
                    }
                    let reason = match row {
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
            };
            updates.insert((slice_at, record_at), over);
        }
    }
    if !closing.ask.is_empty() {
        closing.ask.truncate(snapshot.max_pod_changes);
        return closing;
    }
    if !confirm.is_empty() {
        closing.steps.push(Step::needed(confirm));
    }
    for step in ledger::write(gone.slices, &updates, Vec::new(), true) {
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

/// What a record says that was open when its job was deleted.
const LEFT_OPEN: &str = "the BroadcastJob was deleted before the outcome was stored";
