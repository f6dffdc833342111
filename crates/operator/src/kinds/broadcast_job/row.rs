//! BroadcastJobs, which may be children of CronJobs.

use std::collections::HashSet;
use std::sync::Arc;

use carillon_plan::Uid;
use carillon_plan::cron_job::{Child, ChildKind};
use carillon_plan::object_key::BROADCAST_JOB;

use super::object::SlimBroadcastJob;
use super::tables::CONTROLLER;
use crate::gate::Kind;
use crate::kinds::cron_job::children;
use crate::store::{Row, Tables, Wake, held_at, in_scope, is_gone};
use crate::transport::Pace;
use crate::watch::{Held, Listed};

impl Row for SlimBroadcastJob {
    const KIND: Kind = Kind::BroadcastJob;
    const PACE: Pace = Pace::Prompt;

    fn enter(self, tables: &mut Tables, wakes: &mut Vec<Wake>) {
        let kind = ChildKind::BroadcastJob;
        let child = self.child().map(|(family, child)| {
            let key = self.metadata.key(BROADCAST_JOB);
            let retried = key.is_some_and(|key| tables.has_open_retry(&key));
            (family, Child { retried, ..child })
        });
        children::enter(tables, kind, &self.metadata, child, wakes);
        let Some(new) = self.job().map(Arc::new) else {
            return;
        };
        let key = new.meta.owner.clone();
        let old = tables
            .broadcast_jobs
            .by_key
            .insert(key.clone(), new.clone());
        tables.family_changed(old.as_deref(), Some(&new), wakes);
        let only_status = old.as_ref().is_some_and(|old| {
            new.meta.asks_the_same(&old.meta)
                && old.resume == new.resume
                && old.policies.retry == new.policies.retry
        });
        wakes.push(Wake::changed(CONTROLLER, key, only_status));
    }

    fn leave(self, tables: &mut Tables, wakes: &mut Vec<Wake>) {
        children::leave(tables, ChildKind::BroadcastJob, &self.metadata, wakes);
        if let Some(key) = self.metadata.key(BROADCAST_JOB)
            && let Some(gone) = tables.broadcast_jobs.by_key.remove(&key)
        {
            tables.family_changed(Some(&gone), None, wakes);
            wakes.push(Wake::now(CONTROLLER, key));
        }
    }

    fn sweep(
        tables: &mut Tables,
        namespace: Option<&str>,
        listed: &HashSet<Uid>,
        wakes: &mut Vec<Wake>,
    ) {
        children::sweep(tables, ChildKind::BroadcastJob, namespace, listed, wakes);
        let jobs = &mut tables.broadcast_jobs.by_key;
        let gone = jobs.extract_if(|key, _| is_gone(key, namespace, listed));
        let gone: Vec<_> = gone.collect();
        for (key, job) in gone {
            tables.family_changed(Some(&job), None, wakes);
            wakes.push(Wake::now(CONTROLLER, key));
        }
    }

    fn held(tables: &Tables, object: &Listed) -> Held {
        let key = object.key(BROADCAST_JOB);
        let job = key.and_then(|key| tables.broadcast_jobs.get(&key));
        held_at(job.map(|job| job.meta.rv))
    }

    fn each_held(tables: &Tables, namespace: Option<&str>, each: &mut dyn FnMut(&str, Uid, u64)) {
        for (key, job) in &tables.broadcast_jobs.by_key {
            if in_scope(&key.namespace, namespace) {
                each(&key.name, key.uid, job.meta.rv);
            }
        }
    }
}
