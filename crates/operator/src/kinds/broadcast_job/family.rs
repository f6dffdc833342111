//! BroadcastJobs by the job that they retry, and whom a change of one of them concerns.

use std::sync::Arc;

use carillon_plan::ObjectKey;
use carillon_plan::broadcast_job::{BroadcastJob, Family, Member};
use carillon_plan::cron_job::ChildKind;
use carillon_plan::object_key::BROADCAST_JOB;
use carillon_plan::pod::Pods;

use super::ledger::Ledger;
use super::tables::CONTROLLER;
use crate::kinds::cron_job::tables::CONTROLLER as CRON_JOB_CONTROLLER;
use crate::store::{Tables, Wake};

/// The key of the job that this one retries.
fn first_of(job: &BroadcastJob) -> Option<Arc<ObjectKey>> {
    let first = job.retry_of.as_ref()?;
    let (namespace, name) = (&*job.meta.owner.namespace, &*first.name);
    Some(ObjectKey::of(BROADCAST_JOB, namespace, name, first.uid))
}

/// What of a job the others of its family go by.
fn seen_by_others(job: &BroadcastJob) -> (bool, bool, usize) {
    (
        job.is_unfinished(),
        job.meta.deleting,
        job.status.retries.len(),
    )
}

impl Tables {
    /// A job was entered in the place of `old`, or has gone: its place in its family, and whom that wakes.
    pub(super) fn family_changed(
        &mut self,
        old: Option<&BroadcastJob>,
        new: Option<&BroadcastJob>,
        wakes: &mut Vec<Wake>,
    ) {
        let Some(job) = new.or(old) else { return };
        let first = first_of(job);
        // What a retry is one of never changes; a job made anew has another uid.
        let retries = &mut self.broadcast_jobs.retries;
        match (&first, new) {
            (Some(first), Some(new)) => retries.enter(first.clone(), &new.meta.owner),
            (Some(first), None) => retries.leave(first, &job.meta.owner),
            (None, _) => {}
        }
        if old.map(seen_by_others) == new.map(seen_by_others) {
            return;
        }
        let first = first.as_ref().unwrap_or(&job.meta.owner);
        self.tell_cron_job(first, wakes);
        let retries = self
            .broadcast_jobs
            .retries
            .of(first)
            .filter_map(|key| self.broadcast_jobs.by_key.get(key));
        // Those that have ended wait with their time to live until the first job is gone.
        let first_is_gone = new.is_none() && *first == job.meta.owner;
        let retries = retries.filter(|retry| first_is_gone || retry.is_unfinished());
        let concerned = retries.chain(self.broadcast_jobs.by_key.get(first));
        for other in concerned.filter(|other| other.meta.owner != job.meta.owner) {
            wakes.push(Wake::soon(CONTROLLER, other.meta.owner.clone()));
        }
    }

    /// Whether a retry of the job has not ended.
    pub(super) fn has_open_retry(&self, first: &ObjectKey) -> bool {
        let mut retries = self
            .broadcast_jobs
            .retries
            .of(first)
            .filter_map(|key| self.broadcast_jobs.by_key.get(key));
        retries.any(|retry| retry.is_unfinished())
    }

    /// Whether a retry of a run is open matters to the CronJob, which deletes the run one day.
    fn tell_cron_job(&mut self, first: &ObjectKey, wakes: &mut Vec<Wake>) {
        let retried = self.has_open_retry(first);
        let cron = self.cron_jobs.children.owner_of(first.uid);
        let Some(cron) = cron.filter(|cron| cron.namespace == first.namespace) else {
            return;
        };
        let (cron, run) = (
            cron.clone(),
            (ChildKind::BroadcastJob, first.name.as_str().into()),
        );
        let children = self.cron_jobs.children.of_mut(&cron);
        let child = children.and_then(|children| children.get_mut(&run));
        if let Some(child) = child
            && child.uid == first.uid
            && child.retried != retried
        {
            child.retried = retried;
            wakes.push(Wake::soon(CRON_JOB_CONTROLLER, cron));
        }
    }

    /// A pod of a job has changed: it may be what the one of the family waits for that has the turn.
    pub(super) fn wake_whose_turn_it_is(&self, owner: &ObjectKey, wakes: &mut Vec<Wake>) {
        let job = self.broadcast_jobs.by_key.get(owner);
        let first = job.and_then(|job| first_of(job));
        let first = match &first {
            Some(first) => self.broadcast_jobs.by_key.get(first),
            None => job,
        };
        let last = first.and_then(|first| {
            let last = first.status.retries.last()?;
            let uid = last.uid.parse().ok()?;
            let namespace = &*first.meta.owner.namespace;
            Some(ObjectKey::of(BROADCAST_JOB, namespace, &*last.name, uid))
        });
        if let Some(last) = last
            && *last != *owner
            && self
                .broadcast_jobs
                .by_key
                .get(&last)
                .is_some_and(|job| job.is_unfinished())
        {
            wakes.push(Wake::soon(CONTROLLER, last));
        }
    }

    /// The others of the family of a job, if it has one. `none`: what a job controls that has no pods.
    pub fn retry_family<'a>(&'a self, job: &BroadcastJob, none: &'a Pods) -> Option<Family<'a>> {
        if job.retry_of.is_none() {
            let mut retries = self
                .broadcast_jobs
                .retries
                .of(&job.meta.owner)
                .filter_map(|key| self.broadcast_jobs.by_key.get(key));
            let open = retries.find(|retry| retry.is_unfinished());
            return open.map(|open| Family {
                open: Some(&open.meta.owner.name),
                ..Family::default()
            });
        }
        let key = first_of(job)?;
        let Some((key, first)) = self.broadcast_jobs.by_key.get_key_value(&key) else {
            let same = |other: &&Arc<ObjectKey>| {
                (&other.namespace, &other.name) == (&key.namespace, &key.name)
            };
            // Rare: nothing is looked up by name alone.
            let others = self
                .broadcast_jobs
                .by_key
                .keys()
                .filter(same)
                .map(|other| other.uid);
            return Some(Family {
                other: others.min(),
                ..Family::default()
            });
        };
        let retries = first.status.retries.iter().map(|retry| {
            let uid = retry.uid.parse().unwrap_or_default();
            let key = ObjectKey::of(BROADCAST_JOB, &*key.namespace, &*retry.name, uid);
            self.member(&retry.name, &key, none)
        });
        Some(Family {
            first: Some(self.member(&key.name, key, none)),
            retries: retries.collect(),
            ..Family::default()
        })
    }

    fn member<'a>(&'a self, name: &'a str, key: &ObjectKey, none: &'a Pods) -> Member<'a> {
        let ledger = self.broadcast_jobs.ledger(key);
        Member {
            name,
            uid: key.uid,
            job: self.broadcast_jobs.by_key.get(key).map(|job| &**job),
            slices: ledger.map_or(&[], |ledger| &ledger.slices),
            pods: self.broadcast_jobs.pods(key).map_or(none, |pods| pods),
            taken: self.broadcast_jobs.taken_pods(key),
            problem: ledger.and_then(Ledger::problem),
        }
    }
}

#[cfg(test)]
mod tests {
    use carillon_plan::cron_job::Child;
    use serde_json::{Value, json};

    use super::*;
    use crate::kinds::broadcast_job::object::SlimBroadcastJob;
    use crate::store::Row;

    fn uid(n: u32) -> String {
        format!("4e0c5d6a-0b1c-4d2e-8f3a-{n:012x}")
    }

    fn job(namespace: &str, (name, n): (&str, u32), more: &Value, ended: bool) -> SlimBroadcastJob {
        let condition = json!({"type": "Complete", "status": if ended { "True" } else { "False" },
            "reason": "AllNodesSucceeded", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let mut object = json!({
            "metadata": {"name": name, "namespace": namespace, "uid": uid(n), "resourceVersion": "5"},
            "spec": {"template": {"spec": {"containers": [{"name": "c"}]}}},
            "status": {"conditions": [condition]},
        });
        for (field, value) in more.as_object().into_iter().flatten() {
            object[field]
                .as_object_mut()
                .unwrap()
                .extend(value.as_object().unwrap().clone());
        }
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn a_run_of_a_cron_job_is_retried_while_a_retry_in_its_namespace_is_open() {
        let mut tables = Tables::default();
        let cron = json!({"metadata": {"ownerReferences": [{"apiVersion": "carillon.dev/v1alpha1",
            "kind": "CronJob", "name": "nightly", "uid": uid(9), "controller": true}]}});
        let of_run = json!({"spec": {"retryOf": {"name": "run", "uid": uid(1)}}});
        let child = |tables: &Tables| -> Child {
            let mut all = tables
                .cron_jobs
                .children
                .values()
                .flat_map(|children| children.values());
            all.next().cloned().unwrap()
        };
        let mut enter = |job: SlimBroadcastJob| {
            let mut wakes = Vec::new();
            job.enter(&mut tables, &mut wakes);
            let woken = wakes.iter().any(
                |wake| matches!(wake, Wake::Soon(key) if key.controller() == CRON_JOB_CONTROLLER),
            );
            (child(&tables).retried, woken)
        };
        assert_eq!(enter(job("ops", ("run", 1), &cron, true)), (false, true));
        // Somebody else writes the same name and uid into a job of theirs.
        assert_eq!(
            enter(job("evil", ("retry", 3), &of_run, false)),
            (false, false)
        );
        assert_eq!(
            enter(job("ops", ("retry", 2), &of_run, false)),
            (true, true)
        );
        assert_eq!(enter(job("ops", ("run", 1), &cron, true)), (true, false));
        assert_eq!(
            enter(job("ops", ("retry", 2), &of_run, true)),
            (false, true)
        );
        assert!(enter(job("ops", ("retry", 2), &of_run, false)).0);
        let mut wakes = Vec::new();
        job("ops", ("retry", 2), &of_run, false).leave(&mut tables, &mut wakes);
        assert!(!child(&tables).retried);
    }

    #[test]
    fn a_retry_of_a_job_that_was_made_anew_is_told_its_uid() {
        let mut tables = Tables::default();
        let of = json!({"spec": {"retryOf": {"name": "fix", "uid": uid(1)}}});
        for job in [
            job("ops", ("retry", 2), &of, false),
            job("evil", ("fix", 3), &json!({}), true),
            job("ops", ("other", 4), &json!({}), true),
        ] {
            job.enter(&mut tables, &mut Vec::new());
        }
        let other = |tables: &Tables| {
            let mut jobs = tables.broadcast_jobs.by_key.values();
            let retry = jobs.find(|job| job.meta.owner.name == "retry").unwrap();
            let none = Pods::default();
            let family = tables.retry_family(retry, &none).unwrap();
            (family.first.is_some(), family.other)
        };
        assert_eq!(other(&tables), (false, None));
        job("ops", ("fix", 5), &json!({}), true).enter(&mut tables, &mut Vec::new());
        assert_eq!(other(&tables), (false, uid(5).parse().ok()));
        job("ops", ("fix", 1), &json!({}), true).enter(&mut tables, &mut Vec::new());
        assert_eq!(other(&tables), (true, None));
    }
}
