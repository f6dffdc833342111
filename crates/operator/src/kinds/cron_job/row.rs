//! CronJobs of both APIs.

use std::collections::HashSet;

use carillon_plan::Uid;

use super::object::{Side, SlimCronJob};
use super::tables::{CONTROLLER, CronJobRow};
use crate::gate::Kind;
use crate::store::{Row, Tables, Wake, held_at, in_scope, is_gone};
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
        let only_status = old
            .as_ref()
            .is_some_and(|old| cron.meta.asks_the_same(&old.meta) && old.run_now == cron.run_now);
        wakes.push(Wake::changed(CONTROLLER, key, only_status));
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
        let cron_jobs = &mut tables.cron_jobs.by_key;
        let gone = cron_jobs
            .extract_if(|key, row| row.cron.api == S::API && is_gone(key, namespace, listed));
        wakes.extend(gone.map(|(key, _)| Wake::now(CONTROLLER, key)));
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
