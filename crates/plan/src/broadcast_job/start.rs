//! Which pods are created now.

use std::collections::BTreeMap;
use std::sync::Arc;

use carillon_api::NodeState;
use carillon_api::condition::results;
use jiff::Timestamp;

use super::decide::recheck;
use super::family::{self, Closing, Elsewhere, Kin, Turn};
use super::ledger;
use super::pod_outcome::node_of;
use super::progress::{Progress, Seated};
use super::snapshot::{Snapshot, Template, WITHDRAWN_AFTER};
use super::survey::Survey;
use crate::broadcast_job::action::{Action, Step};
use crate::eligibility;
use crate::name;
use crate::record::{Record, Slice};
use crate::record_index::Place;
use crate::uid::Uid;

/// What is started now.
#[derive(Debug, Default)]
pub(super) struct Start {
    /// A question that has to be answered first.
    pub(super) check: Option<Action>,
    /// Pods of others of the family that have to be asked for before promises are kept.
    pub(super) ask: Vec<Action>,
    /// Attempts to reserve.
    pub(super) reservations: Vec<Record>,
    /// Pods to create, of these and of earlier reservations.
    pub(super) creations: Vec<Action>,
    /// Slices that hold those earlier ones, by index, with the resourceVersion they were read at.
    pub(super) relies_on: BTreeMap<u32, u64>,
    /// A retry has its turn only when the list of its family says so.
    pub(super) join: Option<Action>,
    /// Who has a turn has a log, which outlives the job: it is begun before.
    pub(super) begin: Option<Action>,
    /// Steps that close the log of another one of the family.
    pub(super) close: Vec<Step>,
    /// There is room for more than one plan may create.
    pub(super) more: bool,
    /// A promise has to wait for a pod of another one of the family.
    pub(super) waits_elsewhere: bool,
    /// Node and pod, where a promise has to wait until another pod is no longer on its node.
    other_pod: Option<(Arc<str>, Box<str>)>,
}

impl Start {
    pub(super) fn choose<'a>(
        snapshot: &Snapshot<'a>,
        progress: &mut Progress<'a>,
        survey: &Survey<'a>,
        kin: &Kin<'a>,
        now: Timestamp,
    ) -> Self {
        if !kin.may_begin() {
            let Closing { ask, steps: close } = kin.closing(snapshot.max_pod_changes);
            return Self {
                ask,
                close,
                ..Self::default()
            };
        }
        let job = snapshot.job;
        let places = job.parallelism.of(survey.present);
        let promised = progress.reserved().count();
        let room = places.saturating_sub(progress.places() + promised);
        let new = if room > 0 {
            &survey.candidates[..]
        } else {
            &[]
        };
        if promised == 0 && new.is_empty() {
            return Self::default();
        }
        if *snapshot.template != Template::Accepted {
            let old = progress.reserved().map(|seated| &seated.record.node);
            let nodes: Vec<_> = old.chain(new.iter().map(|(node, _)| *node)).collect();
            return Self {
                check: check(snapshot, &nodes, now),
                ..Self::default()
            };
        }
        if kin.turn == Turn::Free {
            return Self {
                join: family::join(snapshot),
                begin: snapshot.slices.is_empty().then(ledger::begin),
                ..Self::default()
            };
        }
        let mut start = Self::default();
        let places = places.saturating_sub(progress.places());
        start.keep_promises(snapshot, progress, kin, places, now);
        let budget = snapshot
            .max_pod_changes
            .saturating_sub(start.creations.len());
        start.more = survey.candidates.len().min(room) > budget;
        for candidate in survey.candidates.iter().take(room.min(budget)) {
            start.reserve(snapshot, progress, *candidate);
        }
        start
            .creations
            .sort_by_key(|action| refused_at(snapshot, action));
        start
    }

    /// Node and pod, where a promise waits for that pod.
    pub(super) fn waits_for(&self) -> Option<(&str, &str)> {
        let waits = self.other_pod.as_ref();
        waits.map(|(node, pod)| (&**node, &**pod))
    }

    /// Whether something has to be known, or its turn to be stored, before it begins.
    pub(super) fn asks_first(&self) -> bool {
        self.join.is_some() || self.check.is_some()
    }

    /// Reserves the next attempt on a node, and creates its pod.
    fn reserve<'a>(
        &mut self,
        snapshot: &Snapshot<'a>,
        progress: &Progress<'a>,
        (node, node_uid): (&Arc<str>, Uid),
    ) {
        let job = snapshot.job;
        let attempt = progress.next_attempt(snapshot, node);
        let pod: Box<str> =
            name::pod(&job.meta.owner.name, job.meta.owner.uid, node, attempt).into();
        self.creations.push(Action::CreatePod {
            pod: pod.clone(),
            node: node.clone(),
            slice: 0,
        });
        let record = |place| progress.record(snapshot, place);
        let attempts = progress.on(snapshot, node).remove(&node_uid);
        self.reservations.push(Record {
            node: node.clone(),
            node_uid,
            attempt,
            pod,
            requested: attempts.is_some_and(|all| all.is_asked_for(&job.policies, record)),
            ..Record::default()
        });
    }

    /// Creates what was reserved before and is still wanted, as far as there are places: first those that were
    /// reserved first, since another plan may have created them already, and last those that were refused. The name
    /// makes a second try harmless, as long as the attempt is not over: its slice says so, which must therefore be
    /// the present one.
    fn keep_promises<'a>(
        &mut self,
        snapshot: &Snapshot<'a>,
        progress: &mut Progress<'a>,
        kin: &Kin<'a>,
        places: usize,
        now: Timestamp,
    ) {
        let mut kept = Vec::new();
        let mut reserved = progress.take_reserved();
        reserved.sort_by_key(|seated| snapshot.refused.get(&seated.record.pod));
        for seated in reserved {
            let Seated { place, record, .. } = seated;
            let wanted = node_of(snapshot, record).is_some_and(|node| {
                eligibility::refusal(&snapshot.job.placement, &record.node, node).is_none()
            });
            if !wanted {
                if !announced(snapshot, progress, (place, record), now) {
                    kept.push(seated);
                    continue;
                }
                let withdrawn = (NodeState::Disrupted, results::WITHDRAWN);
                progress.give_up(snapshot, seated, withdrawn, now);
                continue;
            }
            kept.push(seated);
            let has_place = kept.len() <= places;
            if record.finished.is_some() {
                // It is wanted again.
                let promised = Record {
                    reason: "".into(),
                    finished: None,
                    ..record.clone()
                };
                progress.updates.insert(place, promised);
            }
            if !has_place || self.has_to_wait(progress, kin, record) {
                continue;
            }
            if self.creations.len() < snapshot.max_pod_changes {
                let (pod, node) = (record.pod.clone(), record.node.clone());
                let Slice { index, rv, .. } = snapshot.slices[place.0];
                let slice = index;
                self.creations.push(Action::CreatePod { pod, node, slice });
                self.relies_on.insert(index, rv);
            }
        }
        // Those that could not be given up are there already.
        progress.seats.extend(kept);
    }

    /// Whether a promise has to wait for another pod on its node.
    fn has_to_wait(&mut self, progress: &Progress<'_>, kin: &Kin<'_>, record: &Record) -> bool {
        if let Some(other) = progress.other_on(&record.node, &record.pod) {
            let (node, pod) = (record.node.clone(), other.into());
            self.other_pod.get_or_insert((node, pod));
            return true;
        }
        match kin.on((&record.node, record.node_uid), true) {
            Elsewhere::Runs(_, ask) => self.wait_elsewhere(ask),
            Elsewhere::Missing(pod, uid) => self.wait_elsewhere(Some((pod, uid))),
            Elsewhere::Settled(_) | Elsewhere::Nothing => return false,
        }
        true
    }

    fn wait_elsewhere(&mut self, ask: Option<(&str, Uid)>) {
        self.waits_elsewhere = true;
        let ask = ask.map(|(pod, uid)| (pod.into(), uid));
        let ask = ask.map(|(pod, uid)| Action::ConfirmGone { pod, uid });
        self.ask.extend(ask);
    }
}

/// Whether a promise may be taken back now. Where nothing may run twice, that it will be is stored first:
/// from then on nobody keeps it, and what was sent before arrives within [`WITHDRAWN_AFTER`] or never.
fn announced<'a>(
    snapshot: &Snapshot<'a>,
    progress: &mut Progress<'a>,
    (place, record): (Place, &'a Record),
    now: Timestamp,
) -> bool {
    if !snapshot.job.policies.at_most_once {
        return true;
    }
    let since = record.finished.unwrap_or(now);
    let due = since.checked_add(WITHDRAWN_AFTER).ok();
    if record.finished.is_none() {
        let announced = Record {
            reason: results::WITHDRAWN.into(),
            finished: Some(now),
            ..record.clone()
        };
        progress.updates.insert(place, announced);
    }
    progress.due(due, now);
    due.is_some_and(|due| due <= now)
}

/// When a creation was refused last. What is refused again and again keeps nothing else waiting.
fn refused_at(snapshot: &Snapshot<'_>, action: &Action) -> Option<u64> {
    match action {
        Action::CreatePod { pod, .. } => snapshot.refused.get(pod).copied(),
        _ => None,
    }
}

/// Asks about the template, unless the last answer is recent. What is said of the pod of one node may be true of no
/// other: three of them are asked about, far from each other.
fn check(snapshot: &Snapshot<'_>, nodes: &[&Arc<str>], now: Timestamp) -> Option<Action> {
    if recheck(snapshot, now).is_some() {
        return None;
    }
    let owner = &snapshot.job.meta.owner;
    let mut places = vec![0, nodes.len() / 2, nodes.len() - 1];
    places.dedup();
    let pods = places.into_iter().map(|at| {
        let node = nodes[at].clone();
        let pod = name::pod(&owner.name, owner.uid, &node, 0).into();
        (node, pod)
    });
    let pods = pods.collect();
    Some(Action::CheckTemplate { pods })
}
