//! CronJobs of both APIs.

use std::collections::HashSet;

use carillon_plan::Uid;

use super::object::{Side, SlimCronJob};
use super::tables::{CONTROLLER, CronJobRow};
use crate::gate::Kind;
use crate::store::{Row, Tables, Wake, held_at, in_scope};
use crate::transport::Pace;
use crate::watch::{Held, Listed};

impl<S: Side> Row for SlimCronJob<S> {
    const KIND: Kind = S::KIND;
    const PACE: Pace = Pace::Prompt;

    fn enter(self, tables: &mut Tables, wakes: &mut Vec<Wake>) {
        let key = self.metadata.key(S::API.kind());
        let known = key.and_then(|key| tables.cron_jobs.by_key.get(&key));
        let Some(row) = self.cron_job(known) else {
            return;
        };
        let cron = row.cron.clone();
        let key = cron.meta.owner.clone();
        let old = tables.cron_jobs.by_key.insert(key.clone(), row);
        let old = old.map(|old| old.cron);
        // A change of status is our own write coming back, unless somebody else wrote it.
        let only_status = old.as_ref().is_some_and(|old| {
            old.meta.generation == cron.meta.generation
                && old.meta.deleting == cron.meta.deleting
                && old.run_now == cron.run_now
        });
        wakes.push(if only_status {
            Wake::soon(CONTROLLER, key)
        } else {
            Wake::now(CONTROLLER, key)
        });
    }

    fn leave(self, tables: &mut Tables, wakes: &mut Vec<Wake>) {
        if let Some(key) = self.metadata.key(S::API.kind())
            && tables.cron_jobs.by_key.remove(&key).is_some()
        {
            wakes.push(Wake::now(CONTROLLER, key));
        }
    }

    fn sweep(
        tables: &mut Tables,
        namespace: Option<&str>,
        listed: &HashSet<Uid>,
        wakes: &mut Vec<Wake>,
    ) {
        tables
            .cron_jobs
            .by_key
            .retain(|key, CronJobRow { cron, .. }| {
                let keep = listed.contains(&key.uid)
                    || cron.api != S::API
                    || !in_scope(&key.namespace, namespace);
                if !keep {
                    wakes.push(Wake::now(CONTROLLER, key.clone()));
                }
                keep
            });
    }

    fn held(tables: &Tables, object: &Listed) -> Held {
        let key = object.key(S::API.kind());
        let cron = key.and_then(|key| tables.cron_jobs.get(&key));
        held_at(cron.map(|cron| cron.meta.rv))
    }

    fn each_held(tables: &Tables, namespace: Option<&str>, each: &mut dyn FnMut(&str, Uid, u64)) {
        for (key, CronJobRow { cron, .. }) in &tables.cron_jobs.by_key {
            if cron.api == S::API && in_scope(&key.namespace, namespace) {
                each(&key.name, key.uid, cron.meta.rv);
            }
        }
    }
}
