//! What is cached of CronJobs and for them.

use std::sync::Arc;

use carillon_plan::cron_job::{Api, Child, ChildKind, CronJob};
use carillon_plan::meta::Meta;
use carillon_plan::{ObjectKey, Uid};
use jiff::Timestamp;
use serde_json::Value;

use super::child::SlimNativeJob;
use super::object::{Carillon, Native, SlimCronJob};
use super::tables::{CONTROLLER, CronJobRow};
use super::{CronJobs, observe};
use crate::args;
use crate::args::{Config, NativeKind};
use crate::controllers::cached_kind::CachedKind;
use crate::controllers::reads::Read;
use crate::gate::Kind;
use crate::kinds::broadcast_job::object::SlimBroadcastJob;
use crate::metrics::Metrics;
use crate::store::{Sizes, Store, Tables, entry, text};

impl CachedKind for CronJobs {
    const NAME: &'static str = CONTROLLER;
    const KINDS: &'static [Kind] = &[Kind::CronJob, Kind::NativeCronJob];
    const READS: &'static [Read] = &[
        Read::of::<SlimCronJob<Carillon>>(),
        Read::of::<SlimCronJob<Native>>(),
        Read::of::<SlimBroadcastJob>(),
        Read::part::<SlimNativeJob>(),
    ];
    type Object = CronJob;

    /// Nobody but CronJobs of carillon.dev needs a CRD: what a native one starts is a Job.
    fn plans_from(config: &Config) -> Vec<Kind> {
        let runs = config.controllers.contains(&args::Controller::CronJob);
        let ours = runs.then_some([Kind::CronJob, Kind::BroadcastJob]);
        let serves_native = config.serve_native.contains(&NativeKind::CronJobs);
        let native = serves_native.then_some(Kind::NativeCronJob);
        let mut kinds: Vec<Kind> = ours.into_iter().flatten().chain(native).collect();
        if !kinds.is_empty() {
            kinds.push(Kind::NativeJob);
        }
        kinds
    }

    fn object<'t>(tables: &'t Tables, key: &ObjectKey) -> Option<&'t Arc<CronJob>> {
        tables.cron_jobs.get(key)
    }

    fn meta(cron: &CronJob) -> &Meta {
        &cron.meta
    }

    fn each_key(tables: &Tables, each: &mut dyn FnMut(&Arc<ObjectKey>)) {
        tables.cron_jobs.each_key(each);
    }

    fn size(tables: &Tables, sizes: &mut Sizes) {
        let cron_jobs = &tables.cron_jobs;
        for (api, kind) in [
            (Api::Carillon, Kind::CronJob),
            (Api::Native, Kind::NativeCronJob),
        ] {
            let rows = cron_jobs.by_key.values();
            let rows = rows.filter(|row| row.cron.api == api);
            sizes.add(kind, rows.map(bytes_of_row));
        }
        // BroadcastJobs are counted as such. Where Jobs are served all of them are held, and these are among them.
        let children = cron_jobs.children.values().flatten();
        let children = children.filter(|((kind, _), _)| *kind == ChildKind::Job);
        let (mut rows, mut bytes) = (0_usize, 0);
        for ((_, name), child) in children {
            rows += 1;
            bytes += bytes_of_child(name, child);
        }
        let jobs = sizes.of(Kind::NativeJob);
        jobs.0 += rows.saturating_sub(tables.jobs.iter().len());
        jobs.1 += bytes;
    }

    fn measure(store: &Store, metrics: &Metrics, _: Timestamp) {
        observe::measure(store, &metrics.cron_jobs);
    }

    fn debug(store: &Store, page: &mut Value) {
        page["cronJobs"] = observe::debug(store);
    }
}

fn bytes_of_row(row: &CronJobRow) -> usize {
    size_of_val(&*row.cron) + row.cron.template.bytes_held() + row.bytes_of_text()
}

fn bytes_of_child(name: &str, child: &Child) -> usize {
    // A B-tree keeps about a third free.
    (size_of_val(child) + 24) * 3 / 2 + text(name) + entry(2 * size_of::<Uid>())
}
