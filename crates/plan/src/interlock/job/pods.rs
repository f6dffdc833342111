//! Pods of a Job: which are created, removed and released.

use super::stored::{ended, indexes};
use super::{Check, rules};
use crate::interlock::trip::{Trip, trip};
use crate::job::action::NewPod;
use crate::pod::PodPhase;
use crate::uid::Uid;

impl<'a> Check<'a> {
    pub(super) fn create(&mut self, new: &'a NewPod) -> Result<(), Trip> {
        let job = self.snapshot.job;
        self.confirmed(&new.name)?;
        if job.spec.suspend || job.meta.deleting || self.ends {
            let why = format!("{} is created for a Job that is not to start any", new.name);
            return trip(rules::STARTS, why);
        }
        let known = self.snapshot.pods.contains_key(new.name.as_str());
        if known || !self.names.insert(&new.name) {
            let why = format!("{} is there already", new.name);
            return trip(rules::ONE_PER_INDEX, why);
        }
        let running = self.pods.running + self.names.len() as i64;
        let wanted = self.pods.wanted;
        if running > wanted || self.removes {
            let name = &new.name;
            let why = format!("{running} pods would run, {wanted} may, and {name} is one");
            return trip(rules::PARALLELISM, why);
        }
        match new.index {
            Some(index) => self.index(index),
            None if job.spec.is_indexed() => {
                trip(rules::ONE_PER_INDEX, format!("{} has no index", new.name))
            }
            None => Ok(()),
        }
    }

    fn index(&mut self, index: u32) -> Result<(), Trip> {
        let spec = &self.snapshot.job.spec;
        let end = indexes(spec).unwrap_or(0);
        // Without a limit for each index none fails for good.
        let failed = spec.backoff_limit_per_index.is_some() && self.stored.failed.contains(index);
        let over = failed || self.stored.succeeded.contains(index);
        let runs = self.pods.by_index.contains_key(&index);
        if index >= end || over || runs || !self.indexes.insert(index) {
            let why = format!("index {index} is given a pod that it is not to have");
            return trip(rules::ONE_PER_INDEX, why);
        }
        Ok(())
    }

    pub(super) fn remove(&mut self, name: &str, uid: Uid) -> Result<(), Trip> {
        let pod = self.judged(rules::DELETE, name, uid)?;
        self.removes = true;
        let spec = &self.snapshot.job.spec;
        let out = spec.is_indexed()
            && pod.index.is_none_or(|index| {
                let twice = self.pods.by_index.get(&index).is_some_and(|pods| *pods > 1);
                twice || indexes(spec).is_some_and(|end| index >= end)
            });
        let (many, wanted) = (self.pods.active, self.pods.wanted);
        // What has just succeeded leaves less to do.
        if spec.suspend || out || many + self.pods.succeeded > wanted {
            return Ok(());
        }
        let why = format!("{name} is removed, {many} pods run and {wanted} may");
        trip(rules::DELETE, why)
    }

    pub(super) fn release(&self, name: &str, uid: Uid) -> Result<(), Trip> {
        let pod = self.judged(rules::RELEASE, name, uid)?;
        let spec = &self.snapshot.job.spec;
        let uid = uid.to_string();
        let mut lists = self.stored.lists.iter();
        let listed = lists.any(|list| list.contains(uid.as_str()));
        let is_over = ended(&self.snapshot.job.status).is_some();
        if is_over || !pod.phase.has_ended() || listed {
            return Ok(());
        }
        let failed = pod.phase == PodPhase::Failed;
        // Whether a rule ignores a failure is the planner's to say.
        let ignored = failed && spec.failure_rules.is_some();
        let by_index = spec.is_indexed()
            && pod.index.is_none_or(|index| {
                let out = indexes(spec).is_none_or(|end| index >= end);
                out || self.stored.has_index(index) && !failed
            });
        if ignored || by_index {
            return Ok(());
        }
        let why = format!("{name} has ended and is not counted");
        trip(rules::RELEASE, why)
    }
}
