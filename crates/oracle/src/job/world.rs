//! Jobs and their pods at a revision, kept up to date step by step.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::Value;

use super::object::{self as of_job, JOBS};
use crate::history::{History, Key, Step};
use crate::object::{self, PODS};
use crate::verdict::Assumptions;

/// A revision and its time.
pub(crate) type Since = (u64, Timestamp);

/// Every Job that the operator is to serve, with its pods.
#[derive(Debug)]
pub(crate) struct Jobs<'h> {
    pub(crate) assumptions: &'h Assumptions,
    /// By uid, also those that are gone.
    pub(crate) all: BTreeMap<&'h str, Job<'h>>,
    /// Uid of the Job a pod was created for, by uid of the pod, whatever became of either.
    job_of: BTreeMap<&'h str, &'h str>,
}

/// A Job with its pods.
#[derive(Debug)]
pub(crate) struct Job<'h> {
    /// Its name in the store.
    pub(crate) key: &'h Key,
    /// It as it is, or was when it went.
    pub(crate) last: &'h Value,
    /// As it was at each change, oldest first.
    pub(crate) versions: Vec<(Since, &'h Value)>,
    /// When it went.
    pub(crate) gone: Option<Since>,
    /// Somebody else wrote its status.
    pub(crate) edited: bool,
    /// Its pods by uid, also those that are gone.
    pub(crate) pods: BTreeMap<&'h str, Pod<'h>>,
    /// How often its spec was changed, or one of its pods by those who are neither we nor a kubelet.
    pub(crate) provoked: u64,
}

/// A pod of a Job.
#[derive(Debug)]
pub(crate) struct Pod<'h> {
    /// Its name in the store.
    pub(crate) key: &'h Key,
    /// It as it is, or was when it went.
    pub(crate) last: &'h Value,
    /// We created it, in time, or have adopted it.
    pub(crate) ours: bool,
    /// Its first phase that is an end, and since when.
    pub(crate) ended: Option<(&'h str, Since)>,
    /// When somebody told it to stop.
    pub(crate) told: Option<Since>,
    /// When it lost the tracking finalizer.
    pub(crate) freed: Option<Since>,
    /// When it went.
    pub(crate) gone: Option<Since>,
}

impl<'h> Job<'h> {
    /// Whether it exists and nobody has deleted it.
    pub(crate) fn is_alive(&self) -> bool {
        self.gone.is_none() && !object::is_deleting(self.last)
    }

    /// Its pods that exist and that it controls.
    pub(crate) fn present(&self) -> impl Iterator<Item = (&&'h str, &Pod<'h>)> {
        let job = object::uid(self.last);
        let controlled = move |pod: &Pod<'_>| of_job::job_of(pod.last) == Some(job);
        let pods = self.pods.iter();
        pods.filter(move |(_, pod)| pod.gone.is_none() && controlled(pod))
    }

    /// Its pods that run and that we made in time.
    pub(crate) fn live(&self) -> impl Iterator<Item = &Pod<'h>> {
        let present = self.present().map(|(_, pod)| pod);
        present.filter(|pod| pod.ours && of_job::is_live(pod.last))
    }

    /// Uids that its status ever kept.
    pub(crate) fn listed(&self) -> BTreeSet<&'h str> {
        let versions = self.versions.iter();
        versions
            .flat_map(|(_, job)| {
                let of = |which| of_job::uncounted(job, which);
                of("succeeded").chain(of("failed"))
            })
            .collect()
    }
}

impl<'h> Jobs<'h> {
    /// Before the first revision.
    pub(crate) fn new(assumptions: &'h Assumptions) -> Self {
        Self {
            assumptions,
            all: BTreeMap::new(),
            job_of: BTreeMap::new(),
        }
    }

    /// After the last revision that is not after `until`, and that.
    pub(crate) fn at(
        history: &'h History,
        assumptions: &'h Assumptions,
        until: Timestamp,
    ) -> (Self, Option<&'h Step>) {
        let mut jobs = Self::new(assumptions);
        let mut last = None;
        for step in history.steps.iter().take_while(|step| step.at <= until) {
            jobs.apply(step);
            last = Some(step);
        }
        (jobs, last)
    }

    /// The Job that a pod was created for.
    pub(crate) fn of_pod(&self, pod: &Value) -> Option<&Job<'h>> {
        let created_for = self.job_of.get(object::uid(pod)).copied();
        self.all.get(created_for.or_else(|| of_job::job_of(pod))?)
    }

    /// The Job for which a step creates a pod, and that. Pods that others make, or that a late request
    /// makes, are none.
    pub(crate) fn created(&self, step: &'h Step) -> Option<(&Job<'h>, &'h Value)> {
        let pod = step.new.as_deref().filter(|_| step.old.is_none())?;
        let judged = &*step.key.resource == PODS
            && !self.assumptions.others(step)
            && !(self.assumptions.late)(step);
        Some((self.of_pod(pod).filter(|_| judged)?, pod))
    }

    /// The Job whose status a step writes that is not known to be somebody else's, as it was before;
    /// and the Job after. Not one that others have written.
    pub(crate) fn written(&self, step: &'h Step) -> Option<(&Job<'h>, &'h Value)> {
        let (old, new) = (step.old.as_deref()?, step.new.as_deref()?);
        let written = &*step.key.resource == JOBS
            && old["status"] != new["status"]
            && !self.assumptions.others(step);
        let job = self.all.get(object::uid(new)).filter(|_| written)?;
        Some((job, new)).filter(|(job, _)| !job.edited)
    }

    /// The versions of a Job that an instance acting at `now` may see.
    pub(crate) fn seen<'j>(
        &self,
        job: &'j Job<'h>,
        now: &Step,
    ) -> impl Iterator<Item = &'h Value> + use<'j, 'h> {
        let known = |(since, _): &(_, _)| !self.assumptions.may_see(now, *since);
        let first = job.versions.iter().rposition(known).unwrap_or(0);
        job.versions[first..].iter().map(|(_, job)| *job)
    }

    /// The next state.
    pub(crate) fn apply(&mut self, step: &'h Step) {
        match &*step.key.resource {
            JOBS => self.apply_job(step),
            PODS => self.apply_pod(step),
            _ => {}
        }
    }

    fn apply_job(&mut self, step: &'h Step) {
        let Some(object) = step.new.as_deref().or(step.old.as_deref()) else {
            return;
        };
        if !of_job::is_managed(self.assumptions, object) {
            return;
        }
        let job = self.all.entry(object::uid(object)).or_insert_with(|| Job {
            key: &step.key,
            last: object,
            versions: Vec::new(),
            gone: None,
            edited: false,
            pods: BTreeMap::new(),
            provoked: 0,
        });
        let before = step.old.as_deref().filter(|_| step.new.is_some());
        let others = self.assumptions.others(step);
        if others && before.is_some_and(|old| old["status"] != object["status"]) {
            job.edited = true;
        }
        job.provoked += u64::from(!self.assumptions.ours(step));
        job.last = object;
        job.versions.push(((step.rev, step.at), object));
        job.gone = step.new.is_none().then_some((step.rev, step.at));
    }

    fn apply_pod(&mut self, step: &'h Step) {
        let Some(object) = step.new.as_deref().or(step.old.as_deref()) else {
            return;
        };
        let uid = object::uid(object);
        if let Some(job) = of_job::job_of(object) {
            self.job_of.entry(uid).or_insert(job);
        }
        let assumptions = self.assumptions;
        let job = self.job_of.get(uid).and_then(|job| self.all.get_mut(job));
        let Some(job) = job.filter(|job| job.key.namespace == step.key.namespace) else {
            return;
        };
        let late = step.old.is_none() && (assumptions.late)(step);
        let pod = job.pods.entry(uid).or_insert_with(|| Pod {
            key: &step.key,
            last: object,
            ours: step.old.is_none() && !assumptions.others(step) && !late,
            ended: None,
            told: None,
            freed: None,
            gone: None,
        });
        let adopts = step
            .old
            .as_deref()
            .is_some_and(|old| of_job::job_of(old).is_none())
            && of_job::job_of(object).is_some();
        pod.ours |= adopts && assumptions.ours(step);
        let since = (step.rev, step.at);
        if pod.ended.is_none() && object::has_ended(object) {
            pod.ended = Some((object::phase(object), since));
        }
        let tells = pod.told.is_none() && object::is_deleting(object);
        if tells || step.new.is_none() {
            pod.told.get_or_insert(since);
        }
        let was_tracked = step.old.as_deref().is_some_and(of_job::is_tracked);
        if was_tracked && !of_job::is_tracked(object) {
            pod.freed.get_or_insert(since);
        }
        let others = assumptions.others(step);
        job.provoked += u64::from(others && (tells || step.new.is_none()));
        pod.last = object;
        pod.gone = step.new.is_none().then_some(since);
    }
}
