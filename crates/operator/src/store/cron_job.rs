//! CronJobs of both APIs.

use std::collections::HashSet;

use carillon_plan::Uid;

use super::{Key, Row, Tables, Wake, held_at, in_scope};
use crate::gate::Kind;
use crate::slim::{CronJobRow, Side, SlimCronJob};
use crate::transport::Pace;
use crate::watch::{Held, Listed};

impl<S: Side> Row for SlimCronJob<S> {
    const KIND: Kind = S::KIND;
    const PACE: Pace = Pace::Prompt;

    fn enter(self, tables: &mut Tables, wakes: &mut Vec<Wake>) {
        let uid = self.metadata.uid();
        let known = uid.and_then(|uid| tables.cron_jobs.get(&uid));
        let Some(row) = self.cron_job(known) else {
            return;
        };
        let cron = row.cron.clone();
        let uid = cron.meta.owner.uid;
        let old = tables.cron_jobs.insert(uid, row).map(|old| old.cron);
        // A change of status is our own write coming back, unless somebody else wrote it.
        let only_status = old.as_ref().is_some_and(|old| {
            old.meta.generation == cron.meta.generation
                && old.meta.deleting == cron.meta.deleting
                && old.meta.run_now == cron.meta.run_now
        });
        wakes.push(if only_status {
            Wake::Soon(Key::CronJob(uid))
        } else {
            Wake::Now(Key::CronJob(uid))
        });
    }

    fn leave(self, tables: &mut Tables, wakes: &mut Vec<Wake>) {
        if let Some(uid) = self.metadata.uid()
            && tables.cron_jobs.remove(&uid).is_some()
        {
            wakes.push(Wake::Now(Key::CronJob(uid)));
        }
    }

    fn sweep(
        tables: &mut Tables,
        namespace: Option<&str>,
        listed: &HashSet<Uid>,
        wakes: &mut Vec<Wake>,
    ) {
        tables.cron_jobs.retain(|uid, CronJobRow { cron, .. }| {
            let keep = listed.contains(uid)
                || cron.meta.api != S::API
                || !in_scope(&cron.meta.owner.namespace, namespace);
            if !keep {
                wakes.push(Wake::Now(Key::CronJob(*uid)));
            }
            keep
        });
    }

    fn held(tables: &Tables, object: &Listed) -> Held {
        let cron = object.uid().and_then(|uid| tables.cron_jobs.get(&uid));
        held_at(cron.map(|row| row.cron.meta.rv))
    }

    fn each_held(tables: &Tables, namespace: Option<&str>, each: &mut dyn FnMut(&str, Uid, u64)) {
        for (uid, CronJobRow { cron, .. }) in &tables.cron_jobs {
            let owner = &cron.meta.owner;
            if cron.meta.api == S::API && in_scope(&owner.namespace, namespace) {
                each(&owner.name, *uid, cron.meta.rv);
            }
        }
    }
}
