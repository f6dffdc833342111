//! What is cached of Jobs and for them.

use std::sync::Arc;

use carillon_plan::job::{Job, JobPod};
use carillon_plan::meta::Meta;
use carillon_plan::{ObjectKey, Uid};
use jiff::Timestamp;
use serde_json::Value;

use super::object::SlimJob;
use super::pods::PodsOfJobs;
use super::tables::CONTROLLER;
use super::{Jobs, observe};
use crate::args;
use crate::args::{Config, NativeKind};
use crate::controllers::cached_kind::CachedKind;
use crate::controllers::reads::{Read, Selects};
use crate::gate::Kind;
use crate::metrics::Metrics;
use crate::slim::SlimPod;
use crate::store::{PodTable, Sizes, Store, Tables, entry, text};

/// Whether Jobs that name nobody to serve them are ours.
fn serves_native(config: &Config) -> bool {
    config.serve_native.contains(&NativeKind::Jobs)
}

impl CachedKind for Jobs {
    const NAME: &'static str = CONTROLLER;
    const KINDS: &'static [Kind] = &[Kind::NativeJob];
    const READS: &'static [Read] = &[Read::of::<SlimJob>(), Read::of::<SlimPod>()];
    const PODS: Option<&'static dyn PodTable> = Some(&PodsOfJobs);
    type Object = Job;

    fn plans_from(config: &Config) -> Vec<Kind> {
        let managed = config.controllers.contains(&args::Controller::Job);
        let runs = managed || serves_native(config);
        let kinds = [Kind::NativeJob, Kind::Pod];
        kinds.into_iter().filter(|_| runs).collect()
    }

    /// Pods that a Job may adopt have no label of ours. Without Jobs nobody needs them.
    fn selects(config: &Config, store: &Store) -> Selects {
        if serves_native(config) {
            Selects::All
        } else {
            Selects::AllOnce(store.read().jobs.has_managed.subscribe())
        }
    }

    fn prepare(config: &Config, store: &Store) {
        store.write().jobs.leaves_native = !serves_native(config);
    }

    fn object<'t>(tables: &'t Tables, key: &ObjectKey) -> Option<&'t Arc<Job>> {
        tables.jobs.get(key)
    }

    fn meta(job: &Job) -> &Meta {
        &job.meta
    }

    fn each_key(tables: &Tables, each: &mut dyn FnMut(&Arc<ObjectKey>)) {
        tables.jobs.each_key(each);
    }

    fn size(tables: &Tables, sizes: &mut Sizes) {
        let tables = &tables.jobs;
        sizes.add(Kind::NativeJob, tables.iter().map(|job| bytes_of_job(job)));
        let pods = tables.pods.iter();
        // A B-tree keeps about a third free.
        let row =
            (size_of::<Box<str>>() + size_of::<JobPod>()) * 3 / 2 + entry(2 * size_of::<Uid>());
        sizes.add(Kind::Pod, pods.map(|(name, _)| row + text(name)));
    }

    fn measure(store: &Store, metrics: &Metrics, _: Timestamp) {
        observe::measure(store, &metrics.jobs);
    }

    fn debug(store: &Store, page: &mut Value) {
        page["jobs"] = observe::debug(store);
    }
}

fn bytes_of_job(job: &Job) -> usize {
    let uncounted = job.status.uncounted_terminated_pods.as_ref();
    let uids = uncounted.into_iter().flat_map(|uncounted| {
        let lists = [&uncounted.succeeded, &uncounted.failed];
        lists.into_iter().flatten().flatten()
    });
    let uids: usize = uids.map(|uid| uid.len() + size_of_val(uid)).sum();
    entry(size_of::<Uid>()) + size_of_val(job) + job.template.bytes_held() + uids
}
