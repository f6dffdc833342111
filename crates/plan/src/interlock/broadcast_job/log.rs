//! Rules of the log of attempts: it is only appended to, and a seal closes it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use carillon_api::NodeState;
use carillon_api::condition::{results, types};
use carillon_api::node_result_slice::MAX_RESULTS_PER_SLICE;
use jiff::{SignedDuration, Timestamp};

use super::rules;
use super::stored::is;
use crate::interlock::trip::{Trip, trip};

use crate::broadcast_job::Snapshot;
use crate::broadcast_job::action::SliceWrite;
use crate::name;
use crate::pod::{PodPhase, PodRow};
use crate::record::{Record, Slice};
use crate::record_index::{Place, RecordIndex};
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
    fn of((record, slice): (&'a Record, u32)) -> Self {
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

    pub(super) fn is_open(&self) -> bool {
        self.state == NodeState::Started
    }

    /// Whether it is over without success, and something may have run.
    fn ran_in_vain(&self) -> bool {
        match self.state {
            NodeState::Failed | NodeState::Unknown => true,
            NodeState::Disrupted => ![results::WITHDRAWN, results::REJECTED].contains(&self.reason),
            NodeState::Started | NodeState::Succeeded | NodeState::Skipped => false,
        }
    }
}

/// What the slices hold after the steps so far.
#[derive(Debug)]
pub(super) struct Log<'a> {
    /// As they were read.
    stored: &'a RecordIndex,
    slices: &'a [Slice],
    /// What this plan has written, in its order, and where in that by pod.
    entries: Vec<Entry<'a>>,
    entered: HashMap<&'a str, usize>,
    /// The same, by node.
    entered_on: HashMap<&'a str, Vec<usize>>,
    /// Names of nodes for which this plan reserves an attempt.
    pub(super) reserved: Vec<&'a str>,
    /// Index and length of the last slice.
    last: Option<(u32, usize)>,
    /// The log is sealed.
    sealed: bool,
    /// Failures that this plan accepts.
    accepts: i32,
    /// Slices this plan has written.
    written: HashSet<u32>,
    /// Slices that were asked about or written by an earlier step.
    present: HashSet<u32>,
    /// Pods of which an earlier step has asked whether they are as they were read.
    pods_present: HashSet<&'a str>,
    /// The same, and the job was asked about afterwards.
    pods_before_job: HashSet<&'a str>,
    /// An earlier step has asked about the job.
    pub(super) job_present: bool,
}

impl<'a> Log<'a> {
    pub(super) fn of(slices: &'a [Slice], stored: &'a RecordIndex) -> Self {
        Self {
            stored,
            slices,
            entries: Vec::new(),
            entered: HashMap::new(),
            entered_on: HashMap::new(),
            reserved: Vec::new(),
            last: (slices.last()).map(|last| (last.index, last.records.len())),
            sealed: slices.iter().any(|slice| slice.sealed),
            accepts: 0,
            written: HashSet::new(),
            present: HashSet::new(),
            pods_present: HashSet::new(),
            pods_before_job: HashSet::new(),
            job_present: false,
        }
    }

    /// The slice of this index, as it was read.
    fn slice(&self, index: u32) -> Option<&'a Slice> {
        let at = index as usize;
        let there = self.slices.get(at).filter(|slice| slice.index == index);
        there.or_else(|| self.slices.iter().find(|slice| slice.index == index))
    }

    /// Enters a write that the later steps can rely on.
    pub(super) fn enter(&mut self, write: &'a SliceWrite) {
        self.last = self.last.max(Some((write.index, write.len())));
        self.sealed |= write.sealed;
        self.present.insert(write.index);
        for record in write.changed.values().chain(&write.added) {
            self.note(Entry::of((record, write.index)));
        }
    }

    /// The job was there in the version it was read at.
    pub(super) fn job_is_there(&mut self) {
        self.job_present = true;
        self.pods_before_job.clone_from(&self.pods_present);
    }

    /// The slice was there in this version.
    pub(super) fn is_as_read(&mut self, index: u32, rv: u64) {
        if self.slice(index).is_some_and(|slice| slice.rv == rv) {
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
        let next = self.entries.len();
        let at = *self.entered.entry(entry.pod).or_insert(next);
        if at == next {
            self.entries.push(entry);
            self.entered_on.entry(entry.node).or_default().push(at);
        } else {
            self.entries[at] = entry;
        }
    }

    /// The attempt whose pod has this name.
    pub(super) fn attempt(&self, pod: &str) -> Option<Entry<'a>> {
        let entered = self.entered.get(pod).map(|at| self.entries[*at]);
        entered.or_else(|| {
            let place = self.stored.of_pod(pod).next_back()?;
            Some(Entry::of(self.stored.at(place)))
        })
    }

    /// The attempts on nodes of this name.
    fn attempts_on(&self, node: &'a str) -> impl Iterator<Item = Entry<'a>> {
        let stored = self.stored.of_node(node).iter();
        let stored = stored.map(|place| Entry::of(self.stored.at(*place)));
        let stored = stored.filter(|entry| !self.entered.contains_key(entry.pod));
        let entered = self.entered_on.get(node).into_iter().flatten();
        stored.chain(entered.map(|at| self.entries[*at]))
    }

    /// The attempts that are under way.
    pub(super) fn open(&self) -> impl Iterator<Item = Entry<'a>> {
        let stored = self.stored.open().iter();
        let stored = stored.map(|place| Entry::of(self.stored.at(*place)));
        let stored = stored.filter(|entry| !self.entered.contains_key(entry.pod));
        let entered = self.entries.iter().copied();
        stored.chain(entered.filter(Entry::is_open))
    }

    /// Those of them that are stored at these places, or that this plan changes.
    pub(super) fn open_among<'b>(
        &'b self,
        places: &'b BTreeSet<Place>,
    ) -> impl Iterator<Item = Entry<'a>> + use<'a, 'b> {
        let stored = places.iter().map(|place| Entry::of(self.stored.at(*place)));
        let stored = stored.filter(Entry::is_open);
        let stored = stored.filter(|entry| !self.entered.contains_key(entry.pod));
        let entered = self.entries.iter().copied();
        stored.chain(entered.filter(Entry::is_open))
    }

    /// How many of these places this plan does not change.
    pub(super) fn unchanged(&self, places: &BTreeSet<Place>) -> usize {
        let entered = self.entries.iter();
        let stored = entered.flat_map(|entry| self.stored.of_pod(entry.pod));
        places.len() - stored.filter(|place| places.contains(place)).count()
    }

    /// How many attempts are under way on nodes of this name.
    pub(super) fn open_on(&self, node: &'a str) -> usize {
        self.attempts_on(node).filter(Entry::is_open).count()
    }

    /// The attempts of these pods.
    pub(super) fn of_uids<T>(&self, pods: &BTreeMap<Uid, T>) -> impl Iterator<Item = Entry<'a>> {
        let all = self.stored.all().filter(|_| !pods.is_empty());
        let stored = all.map(|(place, _)| Entry::of(self.stored.at(place)));
        let stored = stored.filter(|entry| !self.entered.contains_key(entry.pod));
        let all = stored.chain(self.entries.iter().copied());
        all.filter(|entry| entry.pod_uid.is_some_and(|uid| pods.contains_key(&uid)))
    }

    /// How many attempts there are, at least.
    pub(super) fn len(&self) -> usize {
        self.stored.len() + self.entries.len()
    }

    /// How many attempts have come out like this.
    pub(super) fn count(&self, state: NodeState) -> usize {
        let entered = self.entries.iter().filter(|entry| entry.state == state);
        let is_new = |entry: &&Entry<'a>| {
            let stored = self.stored.of_pod(entry.pod).next_back();
            stored.is_none_or(|place| self.stored.at(place).0.state != state)
        };
        self.stored.count(state) + entered.filter(is_new).count()
    }

    /// Whether no further attempt can be reserved.
    pub(super) fn is_sealed(&self) -> bool {
        self.sealed
    }

    pub(super) fn has_succeeded(&self, entry: &Entry<'a>) -> bool {
        let mut attempts = self.attempts_on(entry.node);
        attempts
            .any(|other| other.node_uid == entry.node_uid && other.state == NodeState::Succeeded)
    }

    /// Checks one write, of a slice that was stored or of a new one.
    pub(super) fn check(
        &mut self,
        snapshot: &Snapshot<'_>,
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
        let found = write.len();
        if found > MAX_RESULTS_PER_SLICE {
            return trip(
                rules::APPEND_ONLY,
                format!("slice {index}: {found} results; expected at most {MAX_RESULTS_PER_SLICE}"),
            );
        }
        let stored = self.slice(index);
        self.place(stored, write)?;
        let old = stored.map_or(&[][..], |slice| &slice.records);
        let is_kept = stored.is_some_and(|slice| write.kept.is(&slice.records));
        if !is_kept && **write.kept != *old {
            return trip(
                rules::APPEND_ONLY,
                format!(
                    "slice {index}: expected that it keeps the {} stored results",
                    old.len()
                ),
            );
        }
        for (at, new) in &write.changed {
            let Some(old) = old.get(*at) else {
                return trip(
                    rules::APPEND_ONLY,
                    format!("slice {index}, result {at}: changed; expected one that is stored"),
                );
            };
            self.change(snapshot, (index, *at), old, new, now)?;
        }
        // What ends with this write counts for what it adds.
        for (at, new) in &write.changed {
            if old[*at].state != new.state {
                self.note(Entry::of((new, index)));
            }
        }
        self.seal(stored, write)?;
        self.additions(snapshot, write)
    }

    /// A stored result changes.
    fn change(
        &mut self,
        snapshot: &Snapshot<'_>,
        (index, at): (u32, usize),
        old: &Record,
        new: &'a Record,
        now: Timestamp,
    ) -> Result<(), Trip> {
        let kept = if self.accepts(snapshot, old, new) {
            Ok(())
        } else {
            keeps(snapshot, old, new)
        };
        kept.or_else(|what| {
            trip(
                rules::APPEND_ONLY,
                format!("slice {index}, result {at}, node {}: {what}", old.node),
            )
        })?;
        self.ends(snapshot, old, new, now).or_else(|what| {
            trip(
                rules::OUTCOME,
                format!(
                    "slice {index}, result {at}, node {}: {:?} ({}) is recorded; {what}",
                    old.node, new.state, new.reason
                ),
            )
        })
    }

    /// Attempts are added.
    fn additions(&mut self, snapshot: &Snapshot<'_>, write: &'a SliceWrite) -> Result<(), Trip> {
        let index = write.index;
        if let Some(first) = write.added.first()
            && (self.is_sealed() || write.sealed)
        {
            return trip(
                rules::SEAL,
                format!(
                    "slice {index}: an attempt on node {} is added; expected none, the log is sealed",
                    first.node
                ),
            );
        }
        let mut names = HashSet::new();
        for record in &write.added {
            let entry = Entry::of((record, index));
            self.reservation(snapshot, entry)?;
            if !names.insert(entry.pod) {
                return taken(&entry);
            }
            self.reserved.push(entry.node);
        }
        Ok(())
    }

    /// Whether a resume accepts a failure that is stored, and nothing else of it changes. It accepts no more than
    /// the status has told.
    fn accepts(&mut self, snapshot: &Snapshot<'_>, old: &Record, new: &Record) -> bool {
        let job = snapshot.job;
        let resumed = job.resume.is_some() && job.resume != job.status.last_handled_resume;
        let taken_over = job.paused && is(job, types::PAUSED);
        let accepted = || Record {
            accepted: true,
            ..old.clone()
        };
        let failed = !matches!(old.state, NodeState::Started | NodeState::Succeeded);
        let accepts = new.accepted && !old.accepted && failed && (resumed || taken_over);
        if !accepts || *new != accepted() {
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
        new: &Record,
        now: Timestamp,
    ) -> Result<(), String> {
        if old.state != NodeState::Started || new.state == NodeState::Started {
            return Ok(());
        }
        let pod = &*new.pod;
        let asked = self.pods_present.contains(pod);
        let row = snapshot.pods.get(pod);
        let Some(uid) = new.pod_uid else {
            if *new.reason == *results::NAME_CONFLICT {
                return Ok(());
            }
            if row.is_some() || !self.pods_before_job.contains(pod) {
                return Err(format!(
                    "expected that there is no pod {pod}, and that earlier steps ask about it and then about the job"
                ));
            }
            let announced = || {
                let since = old.finished.filter(|_| &*old.reason == results::WITHDRAWN);
                since.is_some_and(|since| now.duration_since(since) >= WITHDRAWN_AFTER)
            };
            let once = snapshot.job.policies.at_most_once;
            return if *new.reason == *results::WITHDRAWN && once && !announced() {
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
            Some(_) if *new.reason == *results::NODE_LOST && !asked => Err(format!(
                "expected that an earlier step asks whether pod {pod} is still as it was read"
            )),
            Some(_) => Ok(()),
        }
    }

    /// Whether a write goes where it may. New slices come next to a last one that is full, so that two writers
    /// meet at the same one.
    fn place(&self, stored: Option<&Slice>, write: &SliceWrite) -> Result<(), Trip> {
        let index = write.index;
        let next = self.last.map_or(0, |(last, _)| last.saturating_add(1));
        let what = match (stored, write.rv) {
            (Some(slice), Some(rv)) if slice.rv == rv => {
                if write.added.is_empty() || self.last.is_some_and(|(last, _)| last == index) {
                    return Ok(());
                }
                format!(
                    "results are added; expected only to the last, slice {}",
                    next - 1
                )
            }
            (None, None) if !self.job_present && self.present.is_empty() => {
                return trip(
                    rules::RESERVED_FIRST,
                    format!("slice {index}: created; expected that the job is asked about before"),
                );
            }
            (None, None) if index == next => match self.last {
                Some((last, length)) if length < MAX_RESULTS_PER_SLICE => format!(
                    "created; expected not before slice {last} is full, which holds {length} results"
                ),
                _ => return Ok(()),
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
                format!("{found}; expected {expected}")
            }
        };
        trip(rules::APPEND_ONLY, format!("slice {index}: {what}"))
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
        let behind = self.last.is_some_and(|(last, _)| last > index);
        let full = write.len() >= MAX_RESULTS_PER_SLICE;
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
    fn reservation(&self, snapshot: &Snapshot<'_>, entry: Entry<'a>) -> Result<(), Trip> {
        let (node, attempt) = (entry.node, entry.attempt);
        let latest = self.attempts_on(node).map(|other| other.attempt).max();
        let latest = latest.unwrap_or(0);
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
        let owner = &snapshot.job.meta.owner;
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
        if self.attempt(entry.pod).is_some() {
            return taken(&entry);
        }
        self.runs_once(snapshot, &entry)?;
        if let Some(why) = starts_nothing(snapshot) {
            return trip(
                rules::STARTS,
                format!("node {node}: attempt {attempt} is added; expected none, {why}"),
            );
        }
        Ok(())
    }

    /// Whether a node may be served by one more attempt, after what its others have done.
    fn runs_once(&self, snapshot: &Snapshot<'_>, entry: &Entry<'a>) -> Result<(), Trip> {
        let (node, attempt) = (entry.node, entry.attempt);
        if self.has_succeeded(entry) {
            return trip(
                rules::RUN_ONCE,
                format!(
                    "node {node}: attempt {attempt} is added; expected none, the node has succeeded"
                ),
            );
        }
        let own = || (self.attempts_on(node)).filter(|other| other.node_uid == entry.node_uid);
        let ran = own()
            .filter(Entry::ran_in_vain)
            .map(|other| other.attempt)
            .max();
        let begun = own()
            .filter(|other| other.requested)
            .map(|other| other.attempt)
            .max();
        let (owner, policies) = (&snapshot.job.meta.owner, &snapshot.job.policies);
        let asked = |ran: u32| {
            let pod = name::pod(&owner.name, owner.uid, node, ran);
            begun.is_some_and(|begun| begun > ran) || policies.retry.contains(&*pod)
        };
        if entry.requested && !ran.is_some_and(asked) {
            return trip(
                rules::ATTEMPTS,
                format!(
                    "node {node}: attempt {attempt} is added as requested; expected that somebody asks for one after {ran:?}"
                ),
            );
        }
        if let Some(ran) = ran.filter(|ran| policies.at_most_once && !asked(*ran)) {
            return trip(
                rules::RUN_ONCE,
                format!(
                    "node {node}: attempt {attempt} is added; expected none, attempt {ran} may have run and executionPolicy is AtMostOnce"
                ),
            );
        }
        Ok(())
    }
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
    if job.meta.deleting {
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

/// Whether a stored record may become `new`. The error says why not.
fn keeps(snapshot: &Snapshot<'_>, old: &Record, new: &Record) -> Result<(), String> {
    if old.state != NodeState::Started {
        return if new == old {
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
    if identity(new) != identity(old) {
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
