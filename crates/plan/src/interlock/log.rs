//! Rules of the log of attempts: it is only appended to, and a seal closes it.

use std::collections::{BTreeMap, HashMap, HashSet};

use carillon_api::NodeState;
use carillon_api::condition::{results, types};
use carillon_api::node_result_slice::{MAX_RESULTS_PER_SLICE, NodeResult};
use jiff::{SignedDuration, Timestamp};

use super::{Trip, is, rules, trip};

use crate::broadcast_job::Snapshot;
use crate::broadcast_job::action::SliceWrite;
use crate::name;
use crate::pod::{PodPhase, PodRow};
use crate::record::{Record, Slice};
use crate::uid::Uid;

/// How long the intent to take back a promise is stored before that is done, where nothing may run twice.
const WITHDRAWN_AFTER: SignedDuration = SignedDuration::from_secs(60);

/// A record, stored or about to be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<'a> {
    pub(super) node: &'a str,
    pub(super) node_uid: Uid,
    pub(super) attempt: u32,
    pub(super) state: NodeState,
    pub(super) pod: &'a str,
    pub(super) pod_uid: Option<Uid>,
    pub(super) reason: &'a str,
    pub(super) node_gone: Option<Timestamp>,
    /// Somebody has asked for it.
    requested: bool,
    /// Index of its slice.
    pub(super) slice: u32,
}

impl<'a> Entry<'a> {
    fn of(record: &'a Record, slice: u32) -> Self {
        Self {
            node: &record.node,
            node_uid: record.node_uid,
            attempt: record.attempt,
            state: record.state,
            pod: &record.pod,
            pod_uid: record.pod_uid,
            reason: &record.reason,
            node_gone: record.node_gone,
            requested: record.requested,
            slice,
        }
    }

    fn read(result: &'a NodeResult, slice: u32) -> Option<Self> {
        Some(Self {
            node: &result.node,
            node_uid: result.node_uid.parse().ok()?,
            attempt: u32::try_from(result.attempt).ok()?,
            state: result.state,
            pod: &result.pod,
            pod_uid: match &*result.pod_uid {
                "" => None,
                text => Some(text.parse().ok()?),
            },
            reason: &result.reason,
            node_gone: result.node_gone_time.as_ref().map(|time| time.0),
            requested: result.requested,
            slice,
        })
    }

    pub(super) fn is_open(&self) -> bool {
        self.state == NodeState::Started
    }
}

/// What the slices hold after the steps so far.
#[derive(Debug, Default)]
pub(super) struct Log<'a> {
    /// Every attempt, by the name of its pod.
    pub(super) attempts: HashMap<&'a str, Entry<'a>>,
    /// Names of nodes for which this plan reserves an attempt.
    pub(super) reserved: Vec<&'a str>,
    /// The slices as they were read.
    stored: &'a [Slice],
    /// Number of results and seal of each slice.
    slices: BTreeMap<u32, (usize, bool)>,
    /// The highest attempt on nodes of each name; made when the first attempt is added.
    latest: Option<HashMap<&'a str, u32>>,
    /// Nodes that have succeeded.
    succeeded: HashSet<(&'a str, Uid)>,
    /// Nodes on which something may have run without success, and the last attempt that did.
    ran: HashMap<(&'a str, Uid), u32>,
    /// The last attempt on a node that somebody has asked for.
    requested: HashMap<(&'a str, Uid), u32>,
    /// Failures that this plan accepts.
    accepts: i32,
    /// Slices this plan has written.
    written: HashSet<u32>,
    /// Slices that were asked about or written by an earlier step.
    present: HashSet<u32>,
    /// Pods of which an earlier step has asked whether they are as they were read.
    pods_present: HashSet<&'a str>,
    /// An earlier step has asked about the job.
    pub(super) job_present: bool,
}

impl<'a> Log<'a> {
    pub(super) fn read(slices: &'a [Slice]) -> Self {
        let records = slices.iter().map(|slice| slice.records.len()).sum();
        let mut log = Self {
            attempts: HashMap::with_capacity(records),
            stored: slices,
            ..Self::default()
        };
        for slice in slices {
            let shape = (slice.records.len(), slice.sealed);
            log.slices.insert(slice.index, shape);
            for record in &slice.records {
                log.note(Entry::of(record, slice.index));
            }
        }
        log
    }

    /// Enters a write that the later steps can rely on.
    pub(super) fn enter(&mut self, write: &'a SliceWrite) {
        let shape = (write.results.len(), write.sealed);
        self.slices.insert(write.index, shape);
        self.present.insert(write.index);
        let entries = write.results.iter();
        for entry in entries.filter_map(|result| Entry::read(result, write.index)) {
            self.note(entry);
        }
    }

    /// The job was there in the version it was read at.
    pub(super) fn job_is_there(&mut self) {
        self.job_present = true;
    }

    /// The slice was there in this version.
    pub(super) fn is_as_read(&mut self, index: u32, rv: u64) {
        let read = self.stored.iter().find(|slice| slice.index == index);
        if read.is_some_and(|slice| slice.rv == rv) {
            self.present.insert(index);
        }
    }

    /// The pod was there in this version, or was not there.
    pub(super) fn pod_is_as_read(
        &mut self,
        snapshot: &Snapshot<'_>,
        pod: &'a str,
        seen: Option<(Uid, u64)>,
    ) {
        let version = |row: &PodRow| (row.uid, row.rv);
        let controlled = snapshot.pods.get(pod).map(version);
        let taken = seen.and_then(|(uid, _)| snapshot.taken_pod(pod, uid));
        let taken = taken.map(|taken| version(&taken.pod));
        if controlled == seen || taken == seen && seen.is_some() {
            self.pods_present.insert(pod);
        }
    }

    /// Whether an earlier step has asked about a pod that is not in the snapshot, and it is not there.
    pub(super) fn is_absent(&self, pod: &str) -> bool {
        self.pods_present.contains(pod)
    }

    /// Whether what the plan says about a slice is so at present, and not only in the snapshot.
    pub(super) fn is_present(&self, index: u32) -> bool {
        self.present.contains(&index)
    }

    fn note(&mut self, entry: Entry<'a>) {
        self.attempts.insert(entry.pod, entry);
        if let Some(latest) = &mut self.latest {
            raise(latest, entry.node, entry.attempt);
        }
        if entry.state == NodeState::Succeeded {
            self.succeeded.insert((entry.node, entry.node_uid));
        }
        let ended_badly = matches!(
            entry.state,
            NodeState::Failed | NodeState::Disrupted | NodeState::Unknown
        );
        let id = (entry.node, entry.node_uid);
        let nothing_ran = entry.state == NodeState::Disrupted
            && [results::WITHDRAWN, results::REJECTED].contains(&entry.reason);
        if ended_badly && !nothing_ran {
            let last = self.ran.entry(id).or_default();
            *last = entry.attempt.max(*last);
        }
        if entry.requested {
            let last = self.requested.entry(id).or_default();
            *last = entry.attempt.max(*last);
        }
    }

    /// The highest attempt on nodes of this name.
    fn latest(&mut self, node: &str) -> u32 {
        let latest = self.latest.get_or_insert_with(|| {
            let mut latest = HashMap::with_capacity(self.attempts.len());
            for record in self.stored.iter().flat_map(|slice| &slice.records) {
                raise(&mut latest, &record.node, record.attempt);
            }
            for entry in self.attempts.values() {
                raise(&mut latest, entry.node, entry.attempt);
            }
            latest
        });
        latest.get(node).copied().unwrap_or(0)
    }

    /// Whether no further attempt can be reserved.
    pub(super) fn is_sealed(&self) -> bool {
        self.slices.values().any(|(_, sealed)| *sealed)
    }

    pub(super) fn has_succeeded(&self, entry: &Entry<'_>) -> bool {
        self.succeeded.contains(&(entry.node, entry.node_uid))
    }

    /// Nodes that have succeeded.
    pub(super) fn successes(&self) -> usize {
        self.succeeded.len()
    }

    /// Checks one write, of a slice that was `stored` or of a new one.
    pub(super) fn check(
        &mut self,
        snapshot: &Snapshot<'_>,
        stored: Option<&Slice>,
        write: &'a SliceWrite,
        now: Timestamp,
    ) -> Result<(), Trip> {
        let index = write.index;
        if !self.written.insert(index) {
            return trip(
                rules::APPEND_ONLY,
                format!("slice {index}: written twice; expected once"),
            );
        }
        if write.results.len() > MAX_RESULTS_PER_SLICE {
            let found = write.results.len();
            return trip(
                rules::APPEND_ONLY,
                format!("slice {index}: {found} results; expected at most {MAX_RESULTS_PER_SLICE}"),
            );
        }
        let old = self.place(stored, write)?;
        let mut kept = write.results.iter();
        for (at, record) in old.iter().enumerate() {
            let Some(result) = kept.next() else {
                let (found, expected) = (write.results.len(), old.len());
                return trip(
                    rules::APPEND_ONLY,
                    format!("slice {index}: {found} results; expected the {expected} stored ones"),
                );
            };
            let accepts = self.accepts(snapshot, record, result);
            let kept = if accepts {
                Ok(())
            } else {
                keeps(snapshot, record, result)
            };
            kept.or_else(|what| {
                trip(
                    rules::APPEND_ONLY,
                    format!("slice {index}, result {at}, node {}: {what}", record.node),
                )
            })?;
            self.ends(snapshot, record, result, now).or_else(|what| {
                trip(
                    rules::OUTCOME,
                    format!(
                        "slice {index}, result {at}, node {}: {:?} ({}) is recorded; {what}",
                        record.node, result.state, result.reason
                    ),
                )
            })?;
        }
        // What ends with this write counts for what it adds.
        let ends = old.iter().zip(&write.results);
        let ends = ends.filter(|(old, new)| old.state != new.state);
        for entry in ends.filter_map(|(_, result)| Entry::read(result, index)) {
            self.note(entry);
        }
        self.seal(stored, write)?;
        let appended = kept.as_slice();
        if !appended.is_empty() && self.is_sealed() | write.sealed {
            let node = &appended[0].node;
            return trip(
                rules::SEAL,
                format!(
                    "slice {index}: an attempt on node {node} is added; expected none, the log is sealed"
                ),
            );
        }
        let mut names = HashSet::new();
        for result in appended {
            let entry = self.reservation(snapshot, index, result)?;
            if !names.insert(entry.pod) {
                return taken(&entry);
            }
        }
        Ok(())
    }

    /// Whether a resume accepts a failure that is stored, and nothing else of it changes. It accepts no more than
    /// the status has told.
    fn accepts(&mut self, snapshot: &Snapshot<'_>, old: &Record, new: &NodeResult) -> bool {
        let job = snapshot.job;
        let resumed = job.resume.is_some() && job.resume != job.status.resumed_by;
        let taken_over = job.paused && is(job, types::PAUSED);
        let accepted = || Record {
            accepted: true,
            ..old.clone()
        };
        let failed = !matches!(old.state, NodeState::Started | NodeState::Succeeded);
        let accepts = new.accepted && !old.accepted && failed && (resumed || taken_over);
        if !accepts || Record::read(new) != Some(accepted()) {
            return false;
        }
        self.accepts += 1;
        self.accepts <= job.status.failed
    }

    /// Whether an attempt under way may end so. The error says what is expected.
    fn ends(
        &self,
        snapshot: &Snapshot<'_>,
        old: &Record,
        new: &NodeResult,
        now: Timestamp,
    ) -> Result<(), String> {
        if old.state != NodeState::Started || new.state == NodeState::Started {
            return Ok(());
        }
        let pod = &*new.pod;
        let asked = self.pods_present.contains(pod);
        let row = snapshot.pods.get(pod);
        let Ok(uid) = new.pod_uid.parse::<Uid>() else {
            if new.reason == results::NAME_CONFLICT {
                return Ok(());
            }
            if row.is_some() || !asked {
                return Err(format!(
                    "expected that there is no pod {pod}, and that an earlier step asks about it"
                ));
            }
            let announced = || {
                let since = old.finished.filter(|_| &*old.reason == results::WITHDRAWN);
                since.is_some_and(|since| now.duration_since(since) >= WITHDRAWN_AFTER)
            };
            let once = snapshot.job.policies.at_most_once;
            return if new.reason == results::WITHDRAWN && once && !announced() {
                Err("expected that this is stored as intended for a minute".to_owned())
            } else {
                Ok(())
            };
        };
        let taken = || snapshot.taken_pod(pod, uid).map(|taken| &taken.pod);
        let row = row.filter(|row| row.uid == uid).or_else(taken);
        let bound = row.and_then(|row| row.node.as_deref());
        if new.state == NodeState::Succeeded && bound != Some(&*old.node) {
            return Err(format!("expected a pod on that node, found {bound:?}"));
        }
        if bound.is_some_and(|node| *node != *old.node) && new.state == NodeState::Failed {
            return Ok(());
        }
        match row {
            None if snapshot.gone.contains(&uid) => Ok(()),
            None => Err(format!(
                "expected that pod {pod} ({uid}) is known to be gone"
            )),
            Some(row) if row.phase.has_ended() => Ok(()),
            Some(row) if row.deletion.is_none() => Err(format!(
                "expected that pod {pod} has ended or was told to stop"
            )),
            Some(_) if new.reason == results::NODE_LOST && !asked => Err(format!(
                "expected that an earlier step asks whether pod {pod} is still as it was read"
            )),
            Some(_) => Ok(()),
        }
    }

    /// The results stored where `write` goes. New slices come next to a last one that is full, so
    /// that two writers meet at the same one.
    fn place<'s>(
        &self,
        stored: Option<&'s Slice>,
        write: &SliceWrite,
    ) -> Result<&'s [Record], Trip> {
        let index = write.index;
        let last = self.slices.last_key_value();
        let next = last.map_or(0, |(last, _)| last.saturating_add(1));
        match (stored, write.rv) {
            (Some(slice), Some(rv)) if slice.rv == rv => {
                let grows = write.results.len() > slice.records.len();
                if grows && Some(&index) != last.map(|(index, _)| index) {
                    return trip(
                        rules::APPEND_ONLY,
                        format!(
                            "slice {index}: results are added; expected only to the last, slice {}",
                            next - 1
                        ),
                    );
                }
                Ok(&slice.records)
            }
            (None, None) if !self.job_present && self.present.is_empty() => trip(
                rules::RESERVED_FIRST,
                format!("slice {index}: created; expected that the job is asked about before"),
            ),
            (None, None) if index == next => match last {
                Some((last, (length, _))) if *length < MAX_RESULTS_PER_SLICE => trip(
                    rules::APPEND_ONLY,
                    format!(
                        "slice {index}: created; expected not before slice {last} is full, which holds {length} results"
                    ),
                ),
                _ => Ok(&[]),
            },
            (stored, rv) => {
                let expected = match stored {
                    Some(slice) => format!("update from resourceVersion {}", slice.rv),
                    None => format!("creation of slice {next}"),
                };
                let found = match rv {
                    Some(rv) => format!("update from resourceVersion {rv}"),
                    None => "creation".to_owned(),
                };
                trip(
                    rules::APPEND_ONLY,
                    format!("slice {index}: {found}; expected {expected}"),
                )
            }
        }
    }

    /// A seal lies where the next reservation would go, and stays.
    fn seal(&self, stored: Option<&Slice>, write: &SliceWrite) -> Result<(), Trip> {
        let index = write.index;
        let was = stored.is_some_and(|slice| slice.sealed);
        if was && !write.sealed {
            return trip(
                rules::SEAL,
                format!("slice {index}: the seal is broken; expected that it stays"),
            );
        }
        let behind = self
            .slices
            .keys()
            .next_back()
            .is_some_and(|last| *last > index);
        let full = write.results.len() >= MAX_RESULTS_PER_SLICE;
        if write.sealed && !was && (behind || full) {
            return trip(
                rules::SEAL,
                format!(
                    "slice {index}: sealed, but the next attempt would not be stored there; expected the seal where it would"
                ),
            );
        }
        Ok(())
    }

    /// An attempt that is added.
    fn reservation(
        &mut self,
        snapshot: &Snapshot<'_>,
        index: u32,
        result: &'a NodeResult,
    ) -> Result<Entry<'a>, Trip> {
        let Some(entry) = Entry::read(result, index) else {
            return trip(
                rules::ATTEMPTS,
                format!(
                    "slice {index}, node {}: added; expected uids and a number that can be read back",
                    result.node
                ),
            );
        };
        let (node, attempt) = (entry.node, entry.attempt);
        let latest = self.latest(node);
        if attempt <= latest {
            return trip(
                rules::ATTEMPTS,
                format!("node {node}: attempt {attempt} is added; expected more than {latest}"),
            );
        }
        if !entry.is_open() || entry.pod_uid.is_some() {
            return trip(
                rules::ATTEMPTS,
                format!(
                    "node {node}: attempt {attempt} is added as {:?}; expected Started, its pod not yet seen",
                    entry.state
                ),
            );
        }
        let owner = &snapshot.job.owner;
        let expected = name::pod(&owner.name, owner.uid, node, attempt);
        if entry.pod != expected {
            return trip(
                rules::ATTEMPTS,
                format!(
                    "node {node}: attempt {attempt} has pod {}; expected {expected}",
                    entry.pod
                ),
            );
        }
        if self.attempts.contains_key(entry.pod) {
            return taken(&entry);
        }
        if self.has_succeeded(&entry) {
            return trip(
                rules::RUN_ONCE,
                format!(
                    "node {node}: attempt {attempt} is added; expected none, the node has succeeded"
                ),
            );
        }
        let policies = &snapshot.job.policies;
        let id = (node, entry.node_uid);
        let ran = self.ran.get(&id).copied();
        let asked = |ran: &u32| {
            let pod = name::pod(&owner.name, owner.uid, node, *ran);
            let begun = self.requested.get(&id).is_some_and(|begun| begun > ran);
            begun || policies.retry.contains(&*pod)
        };
        if entry.requested && !ran.is_some_and(|ran| asked(&ran)) {
            return trip(
                rules::ATTEMPTS,
                format!(
                    "node {node}: attempt {attempt} is added as requested; expected that somebody asks for one after {ran:?}"
                ),
            );
        }
        if let Some(ran) = ran.filter(|ran| policies.at_most_once && !asked(ran)) {
            return trip(
                rules::RUN_ONCE,
                format!(
                    "node {node}: attempt {attempt} is added; expected none, attempt {ran} may have run and execution is AtMostOnce"
                ),
            );
        }
        if let Some(why) = starts_nothing(snapshot) {
            return trip(
                rules::STARTS,
                format!("node {node}: attempt {attempt} is added; expected none, {why}"),
            );
        }
        if let Some(latest) = &mut self.latest {
            raise(latest, node, attempt);
        }
        self.reserved.push(node);
        Ok(entry)
    }
}

fn raise<'a>(latest: &mut HashMap<&'a str, u32>, node: &'a str, attempt: u32) {
    let known = latest.entry(node).or_default();
    *known = attempt.max(*known);
}

fn taken<T>(entry: &Entry<'_>) -> Result<T, Trip> {
    trip(
        rules::ATTEMPTS,
        format!(
            "node {}: pod {} is that of another attempt; expected a name of its own",
            entry.node, entry.pod
        ),
    )
}

/// Why the job must not start anything, if so.
pub(super) fn starts_nothing(snapshot: &Snapshot<'_>) -> Option<&'static str> {
    let job = snapshot.job;
    let ends = [types::COMPLETE, types::FAILED, types::FAILURE_TARGET];
    if job.deleting {
        Some("the job is being deleted")
    } else if ends.into_iter().any(|type_| is(job, type_)) {
        Some("the job has ended or is failing")
    } else if job.paused {
        Some("spec.paused is true")
    } else if !job.problems.is_empty() {
        Some("the job cannot be acted on as it is stored")
    } else {
        None
    }
}

/// Whether a stored record may become `result`. The error says why not.
fn keeps(snapshot: &Snapshot<'_>, old: &Record, result: &NodeResult) -> Result<(), String> {
    let Some(new) = Record::read(result) else {
        return Err("cannot be read back; expected uids and a number that can".to_owned());
    };
    if old.state != NodeState::Started {
        return if new == *old {
            Ok(())
        } else {
            Err(format!(
                "{:?} is changed (to {:?}); expected no change, it is final",
                old.state, new.state
            ))
        };
    }
    let identity = |record: &Record| {
        let (node, pod) = (record.node.clone(), record.pod.clone());
        (node, record.node_uid, record.attempt, pod)
    };
    if identity(&new) != identity(old) {
        return Err(format!(
            "becomes attempt {} on node {} with pod {}; expected attempt {} with pod {}",
            new.attempt, new.node, new.pod, old.attempt, old.pod
        ));
    }
    if old.pod_uid.is_some() && new.pod_uid != old.pod_uid {
        return Err(format!(
            "pod uid {:?} is changed to {:?}; expected no change",
            old.pod_uid, new.pod_uid
        ));
    }
    let pod = snapshot.pods.get(&new.pod);
    let taken = |uid| snapshot.taken_pod(&new.pod, uid).map(|taken| &taken.pod);
    let created = || snapshot.created.get(&new.pod).copied();
    let known = old.pod_uid.or_else(created);
    let same = |uid| {
        let taken = || taken(uid).filter(|_| known == Some(uid));
        pod.filter(|pod| pod.uid == uid).or_else(taken)
    };
    let exists = |uid| same(uid).is_some() || created() == Some(uid);
    if old.pod_uid.is_none() && new.pod_uid.is_some_and(|uid| !exists(uid)) {
        return Err(format!(
            "pod uid {:?} is recorded; expected that of a pod that exists, or was created",
            new.pod_uid
        ));
    }
    let succeeded = new.pod_uid.and_then(same).map(|pod| pod.phase) == Some(PodPhase::Succeeded);
    if new.state == NodeState::Succeeded && !succeeded {
        return Err(format!(
            "Succeeded is recorded; expected a pod {} that has succeeded",
            new.pod
        ));
    }
    Ok(())
}
