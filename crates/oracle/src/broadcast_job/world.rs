//! The state of a cluster at a revision, kept up to date step by step.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::history::{History, Key, Step};
use crate::object::{self, JOBS, NODES, Node, PODS, Record, SLICES, list};
use crate::verdict::Assumptions;

/// The whole state, shared with the history and not copied.
pub type State = BTreeMap<Key, Arc<Value>>;

impl History {
    /// The state after revision `rev`.
    pub fn state_at(&self, rev: u64) -> State {
        let mut state = State::new();
        for step in self.steps.iter().take_while(|step| step.rev <= rev) {
            match &step.new {
                Some(object) => state.insert(step.key.clone(), object.clone()),
                None => state.remove(&step.key),
            };
        }
        state
    }

    /// The state after the last revision.
    pub fn end(&self) -> State {
        self.state_at(u64::MAX)
    }
}

/// The state as the invariants look at it: every job with its pods and records, every node with
/// the versions it had. A step costs what it changes.
#[derive(Debug)]
pub(crate) struct World<'h> {
    pub(crate) assumptions: &'h Assumptions,
    /// Jobs by uid, also those that are gone.
    pub(crate) jobs: BTreeMap<&'h str, Job<'h>>,
    /// Nodes by name, oldest version first.
    pub(crate) nodes: BTreeMap<&'h str, Vec<NodeVersion<'h>>>,
    /// Whose pods and slices are.
    made_for: MadeFor<'h>,
    /// Pods that carry a job's reference and were made by somebody else, by uid.
    foreign: HashSet<&'h str>,
    /// Pods that a late request made, by uid.
    late: HashSet<&'h str>,
}

/// A node from a revision on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeVersion<'h> {
    /// Since when.
    pub(crate) since: (u64, Timestamp),
    /// The node; `None`: it is gone.
    pub(crate) node: Option<&'h Value>,
}

/// A job with what it owns.
#[derive(Debug)]
pub(crate) struct Job<'h> {
    /// Its name in the store.
    pub(crate) key: &'h Key,
    /// The job as it is, or was when it went.
    pub(crate) last: &'h Value,
    /// As it was before, each since when.
    versions: Vec<((u64, Timestamp), &'h Value)>,
    /// The versions that whoever decided that it fails may have seen.
    pub(crate) failed_by: Vec<&'h Value>,
    /// The versions that whoever sealed its log may have seen.
    pub(crate) sealed_by: Vec<&'h Value>,
    /// When it went.
    pub(crate) gone: Option<(u64, Timestamp)>,
    /// Its pods by name, without those that somebody else made.
    pub(crate) pods: BTreeMap<&'h str, &'h Value>,
    /// Its slices by name.
    pub(crate) slices: BTreeMap<&'h str, &'h Value>,
    /// Its records by name of the pod.
    pub(crate) records: HashMap<&'h str, Record<'h>>,
    /// Names of pods that take a place: they exist and have not ended, or are reserved. Those of
    /// lost nodes are left out.
    pub(crate) taking: BTreeSet<&'h str>,
}

impl Job<'_> {
    /// Whether a slice of it is sealed.
    pub(crate) fn is_sealed(&self) -> bool {
        self.slices.values().any(|slice| slice["sealed"] == true)
    }

    /// Whether it exists and nobody has deleted it.
    pub(crate) fn is_alive(&self) -> bool {
        self.gone.is_none() && !object::is_deleting(self.last)
    }
}

/// A change of one record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordChange<'h> {
    pub(crate) old: Option<Record<'h>>,
    pub(crate) new: Option<Record<'h>>,
}

/// What a step of a slice changes, by name of the pod. Records seldom move: entries at the same
/// place are compared first.
pub(crate) fn record_changes(step: &Step) -> Vec<RecordChange<'_>> {
    let old = step
        .old
        .as_deref()
        .map_or(&[][..], |slice| list(slice, &["results"]));
    let new = step
        .new
        .as_deref()
        .map_or(&[][..], |slice| list(slice, &["results"]));
    let mut left: BTreeMap<&str, RecordChange<'_>> = BTreeMap::new();
    for at in 0..old.len().max(new.len()) {
        let (was, is) = (old.get(at), new.get(at));
        if was == is {
            continue;
        }
        for (record, is_new) in [(was, false), (is, true)] {
            let Some(record) = record.map(Record) else {
                continue;
            };
            let change = left.entry(record.pod()).or_insert(RecordChange {
                old: None,
                new: None,
            });
            *(if is_new {
                &mut change.new
            } else {
                &mut change.old
            }) = Some(record);
        }
    }
    left.into_values()
        .filter(|change| change.old != change.new)
        .collect()
}

/// Whose objects are, by their uid: the job that was the first to control each. Somebody may take its owner from
/// an object, or give it another one; it is still what was made for that job.
#[derive(Debug, Default)]
pub(crate) struct MadeFor<'h>(HashMap<&'h str, &'h str>);

impl<'h> MadeFor<'h> {
    pub(crate) fn follow(&mut self, object: &'h Value) {
        if let Some(job) = object::job_of(object) {
            self.0.entry(object::uid(object)).or_insert(job);
        }
    }

    pub(crate) fn job_of(&self, object: &'h Value) -> Option<&'h str> {
        let known = self.0.get(object::uid(object)).copied();
        known.or_else(|| object::job_of(object))
    }
}

impl<'h> World<'h> {
    /// Before the first revision.
    pub(crate) fn new(assumptions: &'h Assumptions) -> Self {
        Self {
            assumptions,
            jobs: BTreeMap::new(),
            nodes: BTreeMap::new(),
            made_for: MadeFor::default(),
            foreign: HashSet::new(),
            late: HashSet::new(),
        }
    }

    /// Uid of the job that an object was made for, whoever controls it by now.
    pub(crate) fn job_of(&self, object: &'h Value) -> Option<&'h str> {
        self.made_for.job_of(object)
    }

    /// Whether the step creates a pod of a job, and is not known to be somebody else's or late; with
    /// the job's uid and the pod.
    pub(crate) fn created_pod(&self, step: &'h Step) -> Option<(&'h str, &'h Value)> {
        let pod = step.new.as_deref().filter(|_| step.old.is_none())?;
        let is_pod =
            &*step.key.resource == PODS && !self.assumptions.others(step) && !self.is_late(step);
        Some((object::job_of(pod).filter(|_| is_pod)?, pod))
    }

    /// Whether a late request made the pod: it is one too many, and has to go.
    pub(crate) fn came_late(&self, pod: &Value) -> bool {
        self.late.contains(object::uid(pod))
    }

    /// Whether the request behind a step was held up for too long.
    pub(crate) fn is_late(&self, step: &Step) -> bool {
        (self.assumptions.late)(step)
    }

    /// Uids of the jobs whose nodes, spec or records a step that was applied concerns.
    pub(crate) fn concerned(&self, step: &'h Step) -> Vec<&'h str> {
        let object = || step.new.as_deref().or(step.old.as_deref());
        match &*step.key.resource {
            NODES => {
                let jobs = self.jobs.iter().filter(|(_, job)| job.gone.is_none());
                jobs.map(|(uid, _)| *uid).collect()
            }
            JOBS => object().map(object::uid).into_iter().collect(),
            SLICES => object().and_then(object::log_of).into_iter().collect(),
            _ => Vec::new(),
        }
    }

    /// The node of this name as it is.
    pub(crate) fn node(&self, name: &str) -> Option<&'h Value> {
        self.nodes.get(name)?.last()?.node
    }

    /// Whether this node, and no other of its name, is there now.
    pub(crate) fn has_node(&self, (name, uid): Node<'_>) -> bool {
        self.node(name).is_some_and(|node| object::uid(node) == uid)
    }

    /// Uid of the node a pod of the job is for: as reserved, else that of the node of its name.
    pub(crate) fn node_uid(&self, job: &str, pod: &Value) -> &'h str {
        let record = self
            .jobs
            .get(job)
            .and_then(|job| job.records.get(object::name(pod)));
        record.map_or_else(
            || self.node(object::node_of(pod)).map_or("", object::uid),
            |record| record.node_uid(),
        )
    }

    /// The specs of a job that an instance acting at `now` may see.
    pub(crate) fn specs(&self, job: &str, now: &Step) -> impl Iterator<Item = &'h Value> {
        self.job_versions(job, now).map(|job| &job["spec"])
    }

    /// The versions of a job, as far as they differ in what a user orders, that an instance acting at `now`
    /// may see.
    fn job_versions(&self, job: &str, now: &Step) -> impl Iterator<Item = &'h Value> {
        let versions = self
            .jobs
            .get(job)
            .map_or(&[][..], |job| job.versions.as_slice());
        let known = |(since, _): &(_, _)| !self.assumptions.may_see(now, *since);
        let first = versions.iter().rposition(known).unwrap_or(0);
        versions[first..].iter().map(|(_, job)| *job)
    }

    /// The versions of a node that an instance acting at `now` may see, newest first; `None`: it
    /// is not there.
    pub(crate) fn node_versions(
        &self,
        name: &str,
        now: &Step,
    ) -> impl Iterator<Item = Option<&'h Value>> {
        let versions = self.nodes.get(name).map_or(&[][..], Vec::as_slice);
        let seen = versions.iter().rposition(|version| {
            // What came after it is so old that everybody has seen it.
            !self.assumptions.may_see(now, version.since)
        });
        let absent = seen.is_none().then_some(None);
        let versions = versions[seen.unwrap_or(0)..].iter().rev();
        versions.map(|version| version.node).chain(absent)
    }

    /// The next state.
    pub(crate) fn apply(&mut self, step: &'h Step) {
        if let (None, Some(made)) = (&step.old, &step.new)
            && self.is_late(step)
        {
            self.late.insert(object::uid(made));
        }
        match &*step.key.resource {
            JOBS => self.apply_job(step),
            PODS => self.apply_pod(step),
            SLICES => self.apply_slice(step),
            NODES => self
                .nodes
                .entry(&step.key.name)
                .or_default()
                .push(NodeVersion {
                    since: (step.rev, step.at),
                    node: step.new.as_deref(),
                }),
            _ => {}
        }
    }

    fn apply_job(&mut self, step: &'h Step) {
        let Some(object) = step.new.as_deref().or(step.old.as_deref()) else {
            return;
        };
        let job = self.jobs.entry(object::uid(object)).or_insert_with(|| Job {
            key: &step.key,
            last: object,
            versions: Vec::new(),
            failed_by: Vec::new(),
            sealed_by: Vec::new(),
            gone: None,
            pods: BTreeMap::new(),
            slices: BTreeMap::new(),
            records: HashMap::new(),
            taking: BTreeSet::new(),
        });
        job.last = object;
        if job
            .versions
            .last()
            .is_none_or(|(_, known)| ordered(known) != ordered(object))
        {
            job.versions.push(((step.rev, step.at), object));
        }
        job.gone = step.new.is_none().then_some((step.rev, step.at));
        let fails = |job: &Value| object::is_true(job, "FailureTarget");
        if fails(object) && step.old.as_deref().is_none_or(|old| !fails(old)) {
            let uid = object::uid(object);
            let seen = self.job_versions(uid, step).collect();
            if let Some(job) = self.jobs.get_mut(uid) {
                job.failed_by = seen;
            }
        }
    }

    fn apply_pod(&mut self, step: &'h Step) {
        let Some(pod) = step.new.as_deref().or(step.old.as_deref()) else {
            return;
        };
        self.made_for.follow(pod);
        let (Some(uid), pod_uid) = (self.made_for.job_of(pod), object::uid(pod)) else {
            return;
        };
        if step.old.is_none() && self.assumptions.others(step) {
            self.foreign.insert(pod_uid);
        }
        let Some(job) = self.jobs.get_mut(uid) else {
            return;
        };
        if self.foreign.contains(pod_uid) || job.key.namespace != step.key.namespace {
            return;
        }
        if step.new.is_some() {
            job.pods.insert(&step.key.name, pod);
        } else {
            job.pods.remove(&*step.key.name);
        }
        take(job, &step.key.name);
    }

    fn apply_slice(&mut self, step: &'h Step) {
        let Some(slice) = step.new.as_deref().or(step.old.as_deref()) else {
            return;
        };
        self.made_for.follow(slice);
        let uid = object::log_of(slice).or_else(|| self.made_for.job_of(slice));
        let uid = uid.unwrap_or_default();
        let is_sealed = |slice: &Value| slice["sealed"] == true;
        let seals = is_sealed(slice) && !step.old.as_deref().is_some_and(is_sealed);
        let seen = seals.then(|| self.job_versions(uid, step).collect());
        let Some(job) = self.jobs.get_mut(uid) else {
            return;
        };
        if let Some(seen) = seen {
            job.sealed_by = seen;
        }
        if step.new.is_some() {
            job.slices.insert(&step.key.name, slice);
        } else {
            job.slices.remove(&*step.key.name);
        }
        for change in record_changes(step) {
            let name = change.new.or(change.old).map_or("", Record::pod);
            match change.new {
                Some(record) => job.records.insert(name, record),
                None => job.records.remove(name),
            };
            take(job, name);
        }
    }
}

/// Whether the pod of this name takes a place, anew.
fn take<'h>(job: &mut Job<'h>, name: &'h str) {
    let record = job.records.get(name);
    let takes = match job.pods.get(name) {
        Some(pod) => {
            // Nobody binds a pod that is being deleted.
            let never_runs = object::is_deleting(pod) && !object::is_bound(pod);
            let lost = record.is_some_and(|record| record.reason() == "NodeLost");
            !object::has_ended(pod) && !never_runs && !lost
        }
        None => record.is_some_and(|record| record.is_reservation()),
    };
    if takes {
        job.taking.insert(name);
    } else {
        job.taking.remove(name);
    }
}

/// What a user orders: the spec, and which nodes are to be tried again.
fn ordered(job: &Value) -> (&Value, &Value) {
    let annotations = &job["metadata"]["annotations"];
    (&job["spec"], &annotations["carillon.dev/retry"])
}
