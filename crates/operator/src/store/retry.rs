//! BroadcastJobs by the job that they retry, and whom a change of one of them concerns.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use carillon_plan::ObjectKey;
use carillon_plan::broadcast_job::{Family, Job, Member};
use carillon_plan::object_key::BROADCAST_JOB;
use carillon_plan::pod::Pods;

use super::{Key, Ledger, Tables, Wake, is_open};

/// Retries, by the first job of their family.
#[derive(Debug, Default)]
pub(super) struct Retries {
    by_first: HashMap<Arc<ObjectKey>, BTreeSet<Arc<ObjectKey>>>,
}

impl Retries {
    fn of(&self, first: &ObjectKey) -> impl Iterator<Item = &Arc<ObjectKey>> {
        self.by_first.get(first).into_iter().flatten()
    }

    fn enter(&mut self, first: Arc<ObjectKey>, job: &Arc<ObjectKey>) {
        self.by_first.entry(first).or_default().insert(job.clone());
    }

    fn leave(&mut self, first: &ObjectKey, job: &ObjectKey) {
        if let Some(retries) = self.by_first.get_mut(first) {
            retries.remove(job);
            if retries.is_empty() {
                self.by_first.remove(first);
            }
        }
    }
}

/// The key of the job that this one retries.
fn first_of(job: &Job) -> Option<Arc<ObjectKey>> {
    let first = job.retry_of.as_ref()?;
    let (namespace, name) = (&*job.owner.namespace, &*first.name);
    Some(ObjectKey::of(BROADCAST_JOB, namespace, name, first.uid))
}

/// What of a job the others of its family go by.
fn seen_by_others(job: &Job) -> (bool, bool, usize) {
    (is_open(job), job.deleting, job.status.retries.len())
}

impl Tables {
    /// A job was entered in the place of `old`, or has gone: its place in its family, and whom that wakes.
    pub(super) fn family_changed(
        &mut self,
        old: Option<&Job>,
        new: Option<&Job>,
        wakes: &mut Vec<Wake>,
    ) {
        let Some(job) = new.or(old) else { return };
        let first = first_of(job);
        // What a retry is one of never changes; a job made anew has another uid.
        match (&first, new) {
            (Some(first), Some(new)) => self.retries.enter(first.clone(), &new.owner),
            (Some(first), None) => self.retries.leave(first, &job.owner),
            (None, _) => {}
        }
        if old.map(seen_by_others) == new.map(seen_by_others) {
            return;
        }
        let first = first.as_ref().unwrap_or(&job.owner);
        let retries = self.retries.of(first).filter_map(|key| self.jobs.get(key));
        // Those that have ended wait with their time to live until the first job is gone.
        let first_is_gone = new.is_none() && *first == job.owner;
        let retries = retries.filter(|retry| first_is_gone || is_open(retry));
        let concerned = retries.chain(self.jobs.get(first));
        for other in concerned.filter(|other| other.owner != job.owner) {
            wakes.push(Wake::Soon(Key::BroadcastJob(other.owner.clone())));
        }
    }

    /// A pod of a job has changed: it may be what the one of the family waits for that has the turn.
    pub(super) fn wake_whose_turn_it_is(&self, owner: &ObjectKey, wakes: &mut Vec<Wake>) {
        let job = self.jobs.get(owner);
        let first = job.and_then(|job| first_of(job));
        let first = match &first {
            Some(first) => self.jobs.get(first),
            None => job,
        };
        let last = first.and_then(|first| {
            let last = first.status.retries.last()?;
            let uid = last.uid.parse().ok()?;
            let namespace = &*first.owner.namespace;
            Some(ObjectKey::of(BROADCAST_JOB, namespace, &*last.name, uid))
        });
        if let Some(last) = last
            && *last != *owner
            && self.jobs.get(&last).is_some_and(|job| is_open(job))
        {
            wakes.push(Wake::Soon(Key::BroadcastJob(last)));
        }
    }

    /// The others of the family of a job, if it has one. `none`: what a job controls that has no pods.
    pub fn retry_family<'a>(&'a self, job: &Job, none: &'a Pods) -> Option<Family<'a>> {
        if job.retry_of.is_none() {
            let mut retries = self
                .retries
                .of(&job.owner)
                .filter_map(|key| self.jobs.get(key));
            let open = retries.find(|retry| is_open(retry));
            return open.map(|open| Family {
                open: Some(&open.owner.name),
                ..Family::default()
            });
        }
        let key = first_of(job)?;
        let Some((key, first)) = self.jobs.get_key_value(&key) else {
            return Some(Family::default());
        };
        let retries = first.status.retries.iter().map(|retry| {
            let uid = retry.uid.parse().unwrap_or_default();
            let key = ObjectKey::of(BROADCAST_JOB, &*key.namespace, &*retry.name, uid);
            self.member(&retry.name, &key, none)
        });
        Some(Family {
            first: Some(self.member(&key.name, key, none)),
            retries: retries.collect(),
            open: None,
        })
    }

    fn member<'a>(&'a self, name: &'a str, key: &ObjectKey, none: &'a Pods) -> Member<'a> {
        let ledger = self.ledger(key);
        Member {
            name,
            uid: key.uid,
            job: self.jobs.get(key).map(|job| &**job),
            slices: ledger.map_or(&[], |ledger| &ledger.slices),
            pods: self.pods(key).unwrap_or(none),
            problem: ledger.and_then(Ledger::problem),
        }
    }
}
