//! BroadcastJobs, which may be children of CronJobs.

use std::collections::HashSet;
use std::sync::Arc;

use carillon_plan::Uid;
use carillon_plan::broadcast_job::Job;
use carillon_plan::condition;
use carillon_plan::cron_job::ChildKind;

use super::{Key, Row, Tables, Wake, child, held_at, in_scope};
use crate::gate::Kind;
use crate::slim::SlimBroadcastJob;
use crate::transport::Pace;
use crate::watch::{Held, Listed};

impl Row for SlimBroadcastJob {
    const KIND: Kind = Kind::BroadcastJob;
    const PACE: Pace = Pace::Prompt;

    fn enter(self, tables: &mut Tables, wakes: &mut Vec<Wake>) {
        match self.child() {
            Some((cron_job, row)) => {
                let kind = ChildKind::BroadcastJob;
                child::enter(tables, kind, &self.metadata, cron_job, row, wakes);
            }
            None => child::leave(tables, ChildKind::BroadcastJob, &self.metadata, wakes),
        }
        let Some(job) = self.job() else { return };
        let uid = job.owner.uid;
        let old = tables.jobs.insert(uid, Arc::new(job));
        let Some(new) = tables.jobs.get(&uid) else {
            return;
        };
        // A change of status is our own write coming back, unless somebody else wrote it.
        let only_status = old.as_ref().is_some_and(|old| {
            old.generation == new.generation
                && old.deleting == new.deleting
                && old.resume == new.resume
                && old.policies.retry == new.policies.retry
        });
        wakes.push(if only_status {
            Wake::Soon(Key::BroadcastJob(uid))
        } else {
            Wake::Now(Key::BroadcastJob(uid))
        });
    }

    fn leave(self, tables: &mut Tables, wakes: &mut Vec<Wake>) {
        child::leave(tables, ChildKind::BroadcastJob, &self.metadata, wakes);
        if let Some(uid) = self.metadata.uid()
            && tables.jobs.remove(&uid).is_some()
        {
            wakes.push(Wake::Now(Key::BroadcastJob(uid)));
        }
    }

    fn sweep(
        tables: &mut Tables,
        namespace: Option<&str>,
        listed: &HashSet<Uid>,
        wakes: &mut Vec<Wake>,
    ) {
        child::sweep(tables, ChildKind::BroadcastJob, namespace, listed, wakes);
        tables.jobs.retain(|uid, job| {
            let keep = listed.contains(uid) || !in_scope(&job.owner.namespace, namespace);
            if !keep {
                wakes.push(Wake::Now(Key::BroadcastJob(*uid)));
            }
            keep
        });
    }

    fn held(tables: &Tables, object: &Listed) -> Held {
        let job = object.uid().and_then(|uid| tables.jobs.get(&uid));
        held_at(job.map(|job| job.rv))
    }

    fn each_held(tables: &Tables, namespace: Option<&str>, each: &mut dyn FnMut(&str, Uid, u64)) {
        for (uid, job) in &tables.jobs {
            if in_scope(&job.owner.namespace, namespace) {
                each(&job.owner.name, *uid, job.rv);
            }
        }
    }
}

/// Whether nodes still matter to a job.
pub fn is_open(job: &Job) -> bool {
    use carillon_api::condition::types::{COMPLETE, FAILED};
    let ended = |type_| condition::is_true(&job.status.conditions, type_);
    !(job.deleting || ended(COMPLETE) || ended(FAILED))
}
