//! One walk over the attempts under way and the pods that are not over: what has become of each.

use std::collections::{BTreeMap, BTreeSet};

use carillon_api::NodeState;
use carillon_api::condition::results;
use jiff::Timestamp;

use super::index::{Index, identities};
use super::pod_outcome::{given_up_at, gives_up, judge, lost_at, must_stop, node_of, start_due};
use super::snapshot::{DISPUTED, Snapshot};
use super::standing::Attempts;
use super::taken::ASK_SOONEST;
use crate::node::{NodeCursor, NodeRow};
use crate::pod::PodRow;
use crate::record::Record;
use crate::record_index::Place;
use crate::uid::Uid;

/// Identity of a node: a machine replaced under the same name is another one.
pub(super) type NodeId<'a> = (&'a str, Uid);

/// What an attempt holds. One that is over, and whose pod has ended, holds nothing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Seat {
    /// It is promised, and its pod does not exist yet.
    Reserved,
    /// Its pod has not ended. `lost`: its node has not answered for too long, so that it holds up nobody else.
    Alive { lost: bool },
    /// Its pod is not in the cache: it is asked for before anything is concluded.
    Missing(Uid),
    /// It is over, and a pod of its name has not ended.
    Lingering { lost: bool },
}

impl Seat {
    /// Whether there is, or may be, a pod that takes one of the places that parallelism gives.
    fn has_pod(self) -> bool {
        match self {
            Self::Reserved => false,
            Self::Missing(_) => true,
            Self::Alive { lost } | Self::Lingering { lost } => !lost,
        }
    }
}

/// Who holds a seat.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seated<'a> {
    pub(super) seat: Seat,
    pub(super) place: Place,
    pub(super) record: &'a Record,
    /// Its pod, where that is known.
    pub(super) pod: Option<&'a PodRow>,
}

/// What the records and pods say, with the outcomes seen now already entered.
#[derive(Debug)]
pub(super) struct Progress<'a> {
    /// All records, by what they mean.
    pub(super) index: &'a Index,
    /// Records that change.
    pub(super) updates: BTreeMap<Place, Record>,
    /// What holds a seat, in the order of the records.
    pub(super) seats: Vec<Seated<'a>>,
    /// Running pods that must be stopped, whatever becomes of the job.
    pub(super) to_stop: Vec<(&'a str, &'a PodRow)>,
    /// Pods whose result is stored (or will be, before they are released).
    pub(super) to_release: Vec<(&'a str, Uid)>,
    /// Pods that were taken from the job and have not ended: node, pod, and what was found.
    pub(super) taken: Vec<(&'a str, &'a str, &'a str)>,
    /// Of these, those that are asked for again: when each was asked for last. Sorted: more may be due than
    /// one plan asks for, and none must wait for ever.
    pub(super) ask_again: Vec<(Option<Timestamp>, &'a str, Uid)>,
    /// Pods that have lost their label and whose outcome is stored now. They get it back before: if it was
    /// not this plan that lets them go, nothing would name them any more.
    pub(super) to_label: Vec<(&'a str, Uid)>,
    /// Pods whose attempts are over by what they have not done, and how they were read: the present
    /// is asked about before that is stored.
    pub(super) relies_on: Vec<(&'a str, Option<(Uid, u64)>)>,
    /// There are more such pods than one plan may ask about.
    pub(super) more_to_confirm: bool,
    /// Nodes where a pod exists that has not ended, or is promised, with that pod: by its record, and
    /// wherever it is bound, whoever has made it. The name and not the identity of the node: what was
    /// started on a machine may outlive its node object. Sorted.
    occupied: Vec<(&'a str, &'a str)>,
    /// Attempts that were interrupted.
    pub(super) interrupted: usize,
    /// When time alone changes something: a node counts as lost, a pod should have started.
    pub(super) next_due: Option<Timestamp>,
}

impl<'a> Progress<'a> {
    /// The walk. `stopping` is the reason recorded for pods stopped because the job is failing.
    pub(super) fn read(
        snapshot: &Snapshot<'a>,
        index: &'a Index,
        stopping: Option<&'static str>,
        now: Timestamp,
    ) -> Self {
        let mut progress = Self::of(index);
        let mut nodes = NodeCursor::new(snapshot.nodes);
        let looked_at = looked_at(snapshot, index);
        for &place in &looked_at {
            let record = &snapshot.slices[place.0].records[place.1];
            if record.is_final() {
                progress.over(snapshot, place, record, now);
                continue;
            }
            let node = nodes.find(&record.node);
            let node = node.filter(|node| node.uid == record.node_uid);
            let judged = progress.started(snapshot, node, (place, record), stopping, now);
            if let Some(update) = judged {
                progress.enter(place, update);
            }
        }
        // More than one plan may release is not asked for.
        let ended = index.ended().iter();
        let ended = ended.filter(|place| !looked_at.contains(place));
        for &(slice, at) in ended.take(snapshot.max_pod_changes + 1) {
            let record = &snapshot.slices[slice].records[at];
            if let Some(pod) = snapshot.pods.get(&record.pod) {
                progress.release(record, pod);
            }
        }
        progress.ask_again.sort_unstable();
        let alive = snapshot
            .pods_of(index)
            .filter(|(_, pod)| !pod.phase.has_ended());
        let bound = alive.filter_map(|(name, pod)| Some((pod.node.as_deref()?, name)));
        progress.occupied.extend(bound);
        progress.occupied.sort_unstable();
        progress.occupied.dedup();
        progress
    }

    fn of(index: &'a Index) -> Self {
        Self {
            index,
            updates: BTreeMap::new(),
            seats: Vec::new(),
            to_stop: Vec::new(),
            to_release: Vec::new(),
            taken: Vec::new(),
            ask_again: Vec::new(),
            to_label: Vec::new(),
            relies_on: Vec::new(),
            more_to_confirm: false,
            occupied: Vec::new(),
            interrupted: [NodeState::Disrupted, NodeState::Unknown]
                .map(|state| index.records().count(state))
                .iter()
                .sum(),
            next_due: None,
        }
    }

    /// Failures are accepted.
    pub(super) fn accept(&mut self, snapshot: &Snapshot<'a>, failures: &[Place]) {
        for place in failures {
            let accepted = Record {
                accepted: true,
                ..self.record(snapshot, *place).clone()
            };
            self.updates.insert(*place, accepted);
        }
    }

    /// A record changes.
    fn enter(&mut self, place: Place, update: Record) {
        let interrupted = matches!(update.state, NodeState::Disrupted | NodeState::Unknown);
        self.interrupted += usize::from(interrupted);
        self.updates.insert(place, update);
    }

    /// A pod that exists on a node of this name and has not ended, or is promised, other than `pod`.
    pub(super) fn other_on(&self, node: &str, pod: &str) -> Option<&'a str> {
        let first = self.occupied.partition_point(|(on, _)| *on < node);
        let here = self.occupied[first..].iter();
        let mut here = here.take_while(|(on, _)| *on == node);
        here.find(|(_, other)| *other != pod)
            .map(|(_, other)| *other)
    }

    /// Whether a pod is that of the last attempt on nodes of this name.
    pub(super) fn is_of(&self, snapshot: &Snapshot<'a>, node: &str, pod: &str) -> bool {
        let last = self.last_of_name(snapshot, node);
        last.is_some_and(|record| *record.pod == *pod)
    }

    /// A record as it will be stored.
    pub(super) fn record<'b>(&'b self, snapshot: &'b Snapshot<'a>, place: Place) -> &'b Record {
        let stored = || &snapshot.slices[place.0].records[place.1];
        self.updates.get(&place).unwrap_or_else(stored)
    }

    /// Whether there was an attempt on a node of this name.
    pub(super) fn has_tried(&self, node: &str) -> bool {
        !self.index.records().of_node(node).is_empty()
    }

    /// The last attempt on nodes of this name, as it is stored.
    pub(super) fn last_of_name(&self, snapshot: &Snapshot<'a>, node: &str) -> Option<&'a Record> {
        let places = self.index.records().of_node(node).iter();
        let records = places.map(|(slice, record)| &snapshot.slices[*slice].records[*record]);
        records.max_by_key(|record| record.attempt)
    }

    /// Number of the next attempt on nodes of this name.
    pub(super) fn next_attempt(&self, snapshot: &Snapshot<'a>, node: &str) -> u32 {
        let last = self.last_of_name(snapshot, node);
        last.map_or(0, |record| record.attempt) + 1
    }

    /// The attempts on each of the nodes of this name, in the order of their uids.
    pub(super) fn on(&self, snapshot: &Snapshot<'a>, node: &str) -> BTreeMap<Uid, Attempts<Place>> {
        let places = self.index.records().of_node(node);
        identities(places, |place| self.record(snapshot, place))
    }

    /// The names of nodes on which a pod exists that has not ended, or is promised.
    pub(super) fn occupied(&self) -> impl Iterator<Item = &'a str> {
        self.occupied.iter().map(|(node, _)| *node)
    }

    /// Attempts whose pod is there and has not ended, but the quiet ones.
    fn running(&self) -> impl Iterator<Item = &Seated<'a>> {
        let seats = self.seats.iter();
        seats.filter(|seated| matches!(seated.seat, Seat::Alive { .. }))
    }

    /// Attempts whose pod is there and has not ended.
    pub(super) fn all_running(
        &self,
        snapshot: &Snapshot<'a>,
    ) -> impl Iterator<Item = (&'a Record, &'a PodRow)> {
        let record = |&(slice, at): &Place| &snapshot.slices[slice].records[at];
        let quiet = self.index.quiet().iter().map(record);
        let quiet = quiet.filter_map(|record| Some((record, snapshot.pods.get(&record.pod)?)));
        let running = self.running();
        quiet.chain(running.filter_map(|seated| Some((seated.record, seated.pod?))))
    }

    /// How many these are.
    pub(super) fn active(&self) -> usize {
        self.index.quiet().len() + self.running().count()
    }

    /// How many of them were taken from the job.
    pub(super) fn active_and_taken(&self) -> usize {
        let taken: BTreeSet<&str> = self.taken.iter().map(|(_, pod, _)| *pod).collect();
        let running = self.running();
        running
            .filter(|seated| taken.contains(&*seated.record.pod))
            .count()
    }

    /// Attempts under way on nodes that have not answered for too long.
    pub(super) fn lost(&self) -> impl Iterator<Item = &Seated<'a>> {
        let running = self.running();
        running.filter(|seated| seated.seat == Seat::Alive { lost: true })
    }

    /// Attempts that are promised, first those that were promised first.
    pub(super) fn reserved(&self) -> impl Iterator<Item = &Seated<'a>> {
        let seats = self.seats.iter();
        seats.filter(|seated| seated.seat == Seat::Reserved)
    }

    /// Takes out the attempts that are promised.
    pub(super) fn take_reserved(&mut self) -> Vec<Seated<'a>> {
        let is_reserved = |seated: &mut Seated<'_>| seated.seat == Seat::Reserved;
        self.seats.extract_if(.., is_reserved).collect()
    }

    /// Pods of attempts that are asked for before anything is concluded.
    pub(super) fn missing(&self) -> impl Iterator<Item = (&'a str, Uid)> {
        self.seats.iter().filter_map(|seated| match seated.seat {
            Seat::Missing(uid) => Some((&*seated.record.pod, uid)),
            _ => None,
        })
    }

    /// Whether an attempt is under way.
    pub(super) fn is_under_way(&self) -> bool {
        let mut seats = self.seats.iter();
        let quiet = self.index.quiet();
        !quiet.is_empty() || seats.any(|seated| !matches!(seated.seat, Seat::Lingering { .. }))
    }

    /// Places that parallelism gives, and that pods take.
    pub(super) fn places(&self) -> usize {
        let seats = self.seats.iter().filter(|one| one.seat.has_pod());
        self.index.quiet().len() + seats.count()
    }

    /// Ends a reservation whose pod will not be created, and does not exist; or keeps it for now.
    pub(super) fn give_up(
        &mut self,
        snapshot: &Snapshot<'a>,
        seated: Seated<'a>,
        (state, reason): (NodeState, &str),
        now: Timestamp,
    ) {
        let Seated { place, record, .. } = seated;
        if !self.may_confirm(snapshot, &record.pod, now) {
            self.seats.push(seated);
            return;
        }
        self.relies_on.push((&record.pod, None));
        let update = Record {
            state,
            reason: reason.into(),
            finished: Some(now),
            ..record.clone()
        };
        self.enter(place, update);
    }

    /// Whether what a pod has not done can be stored now, once it is confirmed. One whose pod is not as it
    /// was read holds up no other.
    fn may_confirm(&mut self, snapshot: &Snapshot<'a>, pod: &str, now: Timestamp) -> bool {
        if snapshot.disputed.contains(pod) {
            self.due(now.checked_add(DISPUTED).ok(), now);
            return false;
        }
        let room = self.relies_on.len() < snapshot.max_pod_changes;
        self.more_to_confirm |= !room;
        room
    }

    /// Something is due at this time, unless that is past.
    pub(super) fn due(&mut self, at: Option<Timestamp>, now: Timestamp) {
        let next = self.next_due.into_iter().chain(at.filter(|at| *at > now));
        self.next_due = next.min();
    }

    /// Whether the node of a pod has not answered for so long that it holds up nobody else.
    fn is_lost(
        &mut self,
        snapshot: &Snapshot<'a>,
        (node, node_gone): (Option<&NodeRow>, Option<Timestamp>),
        pod: &PodRow,
        now: Timestamp,
    ) -> bool {
        let at = lost_at(&snapshot.job.policies, node, node_gone, pod);
        self.due(at, now);
        at.is_some_and(|at| at <= now)
    }

    /// A pod that has not ended holds the node of its record, and where it is bound, if that is another one.
    fn occupy(&mut self, record: &'a Record, pod: Option<&'a PodRow>) {
        let bound = pod.and_then(|pod| pod.node.as_deref());
        let nodes = bound.into_iter().chain([&*record.node]);
        self.occupied.extend(nodes.map(|node| (node, &*record.pod)));
    }

    /// An attempt that holds a seat, and with it its node.
    fn seat(&mut self, seat: Seat, place: Place, record: &'a Record, pod: Option<&'a PodRow>) {
        self.occupy(record, pod);
        self.seats.push(Seated {
            seat,
            place,
            record,
            pod,
        });
    }

    /// A pod that has not ended though its attempt is over: by its record as it will be stored.
    fn linger(
        &mut self,
        snapshot: &Snapshot<'a>,
        (place, key): (Place, &'a Record),
        record: &Record,
        pod: &'a PodRow,
        now: Timestamp,
    ) {
        let node = (node_of(snapshot, record), record.node_gone);
        let lost = self.is_lost(snapshot, node, pod, now) || *record.reason == *results::NODE_LOST;
        self.seat(Seat::Lingering { lost }, place, key, Some(pod));
        // Whatever it does now is not counted, so it must not run: it was created by a request that
        // arrived after its attempt had been given up.
        if pod.deletion.is_none() {
            self.to_stop.push((&key.pod, pod));
        }
    }

    /// A pod whose attempt is over is released.
    fn release(&mut self, record: &'a Record, pod: &PodRow) {
        if pod.may_be_released() {
            self.to_release.push((&record.pod, pod.uid));
        }
    }

    /// The pod of a record, if it was taken from the job. It is asked for again from time to time, where no
    /// event would tell how it goes on.
    fn taken(
        &mut self,
        snapshot: &Snapshot<'a>,
        record: &'a Record,
        uid: Uid,
        now: Timestamp,
    ) -> Option<&'a PodRow> {
        let taken = snapshot.taken_pod(&record.pod, uid)?;
        if !taken.pod.phase.has_ended() {
            self.taken.push((&record.node, &record.pod, &taken.why));
        }
        if let Some(at) = taken.ask_at() {
            if at <= now {
                self.ask_again.push((taken.asked, &record.pod, uid));
            }
            let next = if at > now {
                Some(at)
            } else {
                now.checked_add(ASK_SOONEST).ok()
            };
            self.due(next, now);
        }
        Some(&taken.pod)
    }

    /// An attempt that is over: its pod may be left to release or to stop.
    fn over(&mut self, snapshot: &Snapshot<'a>, place: Place, record: &'a Record, now: Timestamp) {
        // It may be ours, taken before it was seen: its node gets no other one beside it.
        let unseen = snapshot.taken.watched.get(&record.pod);
        let alive = unseen.filter(|taken| !taken.pod.phase.has_ended());
        if let Some(taken) = alive.filter(|_| record.pod_uid.is_none()) {
            self.occupy(record, Some(&taken.pod));
        }
        let taken = || self.taken(snapshot, record, record.pod_uid?, now);
        let Some(pod) = snapshot.pods.get(&record.pod).or_else(taken) else {
            return;
        };
        // A pod that appeared after its attempt was over, or under another uid, was created by a
        // request that arrived late; it is not counted and must not run.
        if !pod.phase.has_ended() {
            self.linger(snapshot, (place, record), record, pod, now);
        }
        self.release(record, pod);
    }

    /// An attempt under way. Returns its record when it changes.
    fn started(
        &mut self,
        snapshot: &Snapshot<'a>,
        node: Option<&NodeRow>,
        (place, record): (Place, &'a Record),
        stopping: Option<&'static str>,
        now: Timestamp,
    ) -> Option<Record> {
        let pod = match self.find(snapshot, (place, record), now) {
            Found::Pod(pod) => pod,
            Found::Nothing(record) => return record,
        };
        let judged = judge(snapshot, record, pod, stopping, now).filter(|judged| {
            *judged.reason != *results::NODE_LOST || self.may_confirm(snapshot, &record.pod, now)
        });
        if let Some(judged) = judged {
            self.conclude(snapshot, (place, record), &judged, pod, now);
            return Some(judged);
        }
        let (reason, message) = gives_up(snapshot, record, pod, stopping, now);
        let has_to_go = !reason.is_empty() || must_stop(snapshot, record, pod);
        if pod.deletion.is_none() && has_to_go {
            self.to_stop.push((&record.pod, pod));
        }
        let node_gone = match node {
            None if pod.node.is_some() => record.node_gone.or(Some(now)),
            _ => None,
        };
        let lost = self.is_lost(snapshot, (node, node_gone), pod, now);
        self.seat(Seat::Alive { lost }, place, record, Some(pod));
        self.due(start_due(snapshot.job, pod), now);
        self.due(given_up_at(&snapshot.job.policies, pod), now);
        let news = record.pod_uid.is_none()
            || record.node_gone != node_gone
            || record.reason != reason
            || record.message != message;
        news.then(|| Record {
            pod_uid: Some(pod.uid),
            started: record.started.or(pod.started),
            node_gone,
            reason,
            message,
            finished: None,
            ..record.clone()
        })
    }

    /// The pod of an attempt under way.
    fn find(
        &mut self,
        snapshot: &Snapshot<'a>,
        (place, record): (Place, &'a Record),
        now: Timestamp,
    ) -> Found<'a> {
        let end = |state, reason: &str| Record {
            state,
            reason: reason.into(),
            finished: Some(now),
            ..record.clone()
        };
        let created = || snapshot.created.get(&record.pod).copied();
        match (snapshot.pods.get(&record.pod), record.pod_uid) {
            (Some(pod), None) if created().is_none_or(|uid| uid == pod.uid) => Found::Pod(pod),
            (Some(pod), Some(uid)) if pod.uid == uid => Found::Pod(pod),
            (other, Some(uid)) if snapshot.gone.contains(&uid) => {
                let judged = end(NodeState::Unknown, results::POD_VANISHED);
                if let Some(other) = other.filter(|other| !other.phase.has_ended()) {
                    self.linger(snapshot, (place, record), &judged, other, now);
                }
                Found::Nothing(Some(judged))
            }
            // Also where another pod has its name: that may be an older one.
            (_, Some(uid)) => {
                if let Some(pod) = self.taken(snapshot, record, uid, now) {
                    return Found::Pod(pod);
                }
                self.seat(Seat::Missing(uid), place, record, None);
                Found::Nothing(None)
            }
            // It was created, and taken from the job before it was seen. Whatever becomes of it is
            // concluded once its uid is stored. That its promise was to be taken back says nothing about it.
            (_, None) if let Some(uid) = created() => {
                self.seat(Seat::Missing(uid), place, record, None);
                Found::Nothing(Some(Record {
                    pod_uid: Some(uid),
                    reason: "".into(),
                    finished: None,
                    ..record.clone()
                }))
            }
            (_, None) if snapshot.conflicts.contains(&record.pod) => {
                Found::Nothing(Some(end(NodeState::Failed, results::NAME_CONFLICT)))
            }
            (_, None) => {
                self.seat(Seat::Reserved, place, record, None);
                Found::Nothing(None)
            }
        }
    }

    /// An attempt is over now, as `judged` says, and its pod is released when that is stored.
    fn conclude(
        &mut self,
        snapshot: &Snapshot<'a>,
        (place, record): (Place, &'a Record),
        judged: &Record,
        pod: &'a PodRow,
        now: Timestamp,
    ) {
        let taken = snapshot.taken_pod(&record.pod, pod.uid);
        let controlled = snapshot.pods.contains_key(&record.pod);
        if pod.tracked && !controlled && taken.is_some_and(|taken| taken.asked.is_some()) {
            self.to_label.push((&record.pod, pod.uid));
        }
        self.release(record, pod);
        if !pod.phase.has_ended() {
            self.linger(snapshot, (place, record), judged, pod, now);
        }
        if *judged.reason == *results::NODE_LOST {
            self.relies_on.push((&record.pod, Some((pod.uid, pod.rv))));
        }
    }
}

/// Attempts that have to be looked at, and those whose pod was taken.
fn looked_at(snapshot: &Snapshot<'_>, index: &Index) -> BTreeSet<Place> {
    let records = index.records();
    let mut places = index.awake().clone();
    let is_not_quiet = |place: &Place| !index.quiet().contains(place);
    for (pod, _) in snapshot.taken.watched_rows() {
        let of_pod = records.of_pod(pod);
        places.extend(of_pod.filter(is_not_quiet));
    }
    let asked = snapshot.taken.asked;
    if !asked.is_empty() {
        let is_asked = |record: &Record| record.pod_uid.is_some_and(|uid| asked.contains_key(&uid));
        let named = records.all().filter(|(_, record)| is_asked(record));
        let named = named.map(|(place, _)| place);
        places.extend(named.filter(is_not_quiet));
    }
    places
}

/// What is known of the pod of an attempt under way.
enum Found<'a> {
    /// It is this one.
    Pod(&'a PodRow),
    /// It is not there, or not known; and the record, where that changes.
    Nothing(Option<Record>),
}
