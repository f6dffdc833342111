//! What is cached of DaemonSets and for them.

use std::sync::Arc;

use carillon_plan::ObjectKey;
use carillon_plan::daemon_set::{DaemonPod, DaemonSet, Revision};
use carillon_plan::meta::Meta;
use carillon_plan::node::NodeRow;
use jiff::Timestamp;
use serde_json::Value;

use super::node_changed::node_changed;
use super::object::{Carillon, Native, SlimDaemonSet};
use super::pods::PodsOfDaemonSets;
use super::revision::SlimRevision;
use super::tables::CONTROLLER;
use super::{DaemonSets, observe};
use crate::args;
use crate::args::{Config, NativeKind};
use crate::controllers::cached_kind::CachedKind;
use crate::controllers::reads::{Read, Selects};
use crate::gate::Kind;
use crate::metrics::Metrics;
use crate::slim::{SlimNode, SlimPod};
use crate::store::{PodTable, Sizes, Store, Tables, Wake, entry, text};

impl CachedKind for DaemonSets {
    const NAME: &'static str = CONTROLLER;
    const KINDS: &'static [Kind] = &[Kind::DaemonSet, Kind::NativeDaemonSet];
    const READS: &'static [Read] = &[
        Read::of::<SlimDaemonSet<Carillon>>(),
        Read::of::<SlimDaemonSet<Native>>(),
        Read::of::<SlimRevision>(),
        Read::of::<SlimNode>(),
        Read::of::<SlimPod>(),
    ];
    const PODS: Option<&'static dyn PodTable> = Some(&PodsOfDaemonSets);
    type Object = DaemonSet;

    fn plans_from(config: &Config) -> Vec<Kind> {
        let ours = config.controllers.contains(&args::Controller::DaemonSet);
        let native = config.serve_native.contains(&NativeKind::DaemonSets);
        let sets = [(ours, Kind::DaemonSet), (native, Kind::NativeDaemonSet)];
        let mut kinds: Vec<Kind> = sets
            .into_iter()
            .filter_map(|(is, kind)| is.then_some(kind))
            .collect();
        if !kinds.is_empty() {
            kinds.extend([Kind::Revision, Kind::Node, Kind::Pod]);
        }
        kinds
    }

    /// Pods that one may adopt have no label of ours. Without a DaemonSet nobody needs them.
    fn selects(_: &Config, store: &Store) -> Selects {
        Selects::AllOnce(store.read().daemon_sets.has_any.subscribe())
    }

    fn prepare(config: &Config, store: &Store) {
        store.write().daemon_sets.is_off = Self::plans_from(config).is_empty();
    }

    fn object<'t>(tables: &'t Tables, key: &ObjectKey) -> Option<&'t Arc<DaemonSet>> {
        tables.daemon_sets.get(key)
    }

    fn meta(set: &DaemonSet) -> &Meta {
        &set.meta
    }

    fn each_key(tables: &Tables, each: &mut dyn FnMut(&Arc<ObjectKey>)) {
        tables.daemon_sets.each_key(each);
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
        let tables = &tables.daemon_sets;
        for kind in Self::KINDS {
            let rows = tables.by_key.values().filter(|row| {
                let owner = &row.set.meta.owner;
                (owner.api_version, owner.kind) == kind.api_kind()
            });
            let bytes = rows.map(|row| {
                size_of_val(&*row.set) + row.set.template.bytes_held() + row.spec.bytes_held()
            });
            sizes.add(*kind, bytes);
        }
        // A B-tree keeps about a third free.
        let row = |bytes: usize| (size_of::<Box<str>>() + bytes) * 3 / 2 + entry(32);
        let pods = tables.pods.iter();
        sizes.add(
            Kind::Pod,
            pods.map(|(name, _)| row(size_of::<DaemonPod>()) + text(name)),
        );
        let revisions = tables.revisions.iter();
        sizes.add(
            Kind::Revision,
            revisions.map(|(name, _)| row(size_of::<Revision>()) + text(name)),
        );
    }

    fn measure(store: &Store, metrics: &Metrics, now: Timestamp) {
        observe::measure(store, &metrics.daemon_sets, now);
    }

    fn debug(store: &Store, page: &mut Value) {
        page["daemonSets"] = observe::debug(store);
    }
}
