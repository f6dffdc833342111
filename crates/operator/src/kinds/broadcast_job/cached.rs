//! What is cached of BroadcastJobs and for them.

use std::sync::Arc;

use carillon_plan::ObjectKey;
use carillon_plan::broadcast_job::BroadcastJob;
use carillon_plan::meta::Meta;
use carillon_plan::node::NodeRow;
use carillon_plan::pod::PodRow;
use carillon_plan::record::{Record, Slice};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::node_changed::node_changed;
use super::object::SlimBroadcastJob;
use super::pods::BroadcastJobPods;
use super::slice::SlimSlice;
use super::tables::CONTROLLER;
use super::{BroadcastJobs, observe};
use crate::args;
use crate::args::Config;
use crate::controllers::cached_kind::CachedKind;
use crate::controllers::reads::Read;
use crate::gate::Kind;
use crate::metrics::Metrics;
use crate::slim::{SlimNode, SlimPod};
use crate::store::{PodTable, Sizes, Store, Tables, Wake, entry, text};

impl CachedKind for BroadcastJobs {
    const NAME: &'static str = CONTROLLER;
    const KINDS: &'static [Kind] = &[Kind::BroadcastJob];
    const READS: &'static [Read] = &[
        Read::of::<SlimBroadcastJob>(),
        Read::of::<SlimNode>(),
        Read::of::<SlimSlice>(),
        Read::of::<SlimPod>(),
    ];
    const PODS: Option<&'static dyn PodTable> = Some(&BroadcastJobPods);
    type Object = BroadcastJob;

    fn plans_from(config: &Config) -> Vec<Kind> {
        let kinds = [Kind::BroadcastJob, Kind::Node, Kind::Slice, Kind::Pod];
        let runs = config.controllers.contains(&args::Controller::BroadcastJob);
        kinds.into_iter().filter(|_| runs).collect()
    }

    fn object<'t>(tables: &'t Tables, key: &ObjectKey) -> Option<&'t Arc<BroadcastJob>> {
        tables.broadcast_jobs.get(key)
    }

    fn meta(job: &BroadcastJob) -> &Meta {
        &job.meta
    }

    fn each_key(tables: &Tables, each: &mut dyn FnMut(&Arc<ObjectKey>)) {
        tables.broadcast_jobs.each_key(each);
    }

    fn node_changed(
        tables: &Tables,
        name: &str,
        old: Option<&NodeRow>,
        new: Option<&NodeRow>,
        wakes: &mut Vec<Wake>,
    ) {
        node_changed(tables, name, old, new, wakes);
    }

    fn size(tables: &Tables, sizes: &mut Sizes) {
        let tables = &tables.broadcast_jobs;
        let pods = tables.pods.values().flat_map(|pods| pods.iter());
        sizes.add(Kind::Pod, pods.map(|(name, pod)| bytes_of_pod(name, pod)));
        let taken = tables.taken_pods.values().flatten();
        let taken = taken.map(|(name, taken)| bytes_of_pod(name, &taken.pod));
        sizes.add(Kind::Pod, taken);
        let slices = tables.slices.values().flat_map(|ledger| &ledger.slices);
        sizes.add(Kind::Slice, slices.map(bytes_of_slice));
        let job = |job: &Arc<BroadcastJob>| size_of_val(&**job) + job.template.bytes_held();
        sizes.add(Kind::BroadcastJob, tables.iter().map(job));
    }

    fn measure(store: &Store, metrics: &Metrics, _: Timestamp) {
        observe::measure(store, &metrics.broadcast_jobs);
    }

    fn debug(store: &Store, page: &mut Value) {
        page["broadcastJobs"] = observe::debug(store);
    }
}

fn bytes_of_pod(name: &str, pod: &PodRow) -> usize {
    let end = pod.end.as_ref().map_or(0, |end| {
        size_of_val(&**end) + end.reason.len() + end.message.len()
    });
    let waiting = pod.waiting.as_ref();
    let waiting = waiting.map_or(0, |waiting| size_of_val(&**waiting) + waiting.message.len());
    entry(size_of::<Box<str>>() + size_of_val(pod)) + text(name) + end + waiting
}

fn bytes_of_slice(slice: &Slice) -> usize {
    // As text; as values it is some more.
    let rest = |record: &Record| {
        let rest = record.rest.as_ref();
        rest.map_or(0, |rest| json!(**rest).to_string().len())
    };
    let record = |record: &Record| {
        size_of_val(record) + text(&record.pod) + text(&record.message) + rest(record)
    };
    size_of_val(slice) + slice.records.iter().map(record).sum::<usize>()
}
