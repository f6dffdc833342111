//! Pods of DaemonSets, and pods that one may adopt.

use std::collections::HashSet;

use carillon_plan::Uid;
use carillon_plan::daemon_set::{DaemonPod, DaemonSet};
use carillon_plan::pod::PodPhase;

use super::tables::{CONTROLLER, KINDS};
use super::wakes::{awaits_pods, gets_next, gone, wake};
use crate::slim::{AllLabels, SlimMeta, SlimPod};
use crate::store::{PodTable, Tables, Wake};
use crate::watch::{Held, Listed};

/// The rows of pods of DaemonSets, and of pods that nothing controls.
#[derive(Debug)]
pub(super) struct PodsOfDaemonSets;

impl PodTable for PodsOfDaemonSets {
    fn enter(&self, tables: &mut Tables, pod: &SlimPod, wakes: &mut Vec<Wake>) {
        let (meta, sets) = (&pod.metadata, &mut tables.daemon_sets);
        if sets.is_off || sets.pods.leaves_out(meta, &KINDS) {
            return;
        }
        let before = sets.pods.known(meta);
        let Some(row) = pod.daemon_row(before, &mut tables.strings) else {
            return;
        };
        let became_ready = row.ready.is_some() && before.is_some_and(|old| old.ready.is_none());
        // One that has succeeded is replaced without a back-off: not at once.
        let has_failed = |pod: &DaemonPod| pod.phase == PodPhase::Failed;
        let failed = has_failed(&row) && row.deletion.is_none() && !before.is_some_and(has_failed);
        let node = row.node.clone();
        let concerns = sets.pods.enter(meta, &KINDS, row, &mut tables.strings);
        let goes_on = |set: &DaemonSet| {
            became_ready && awaits_pods(set) || failed && gets_next(tables, set, node.as_deref())
        };
        let sets = &tables.daemon_sets;
        wake(sets, &meta.namespace, concerns, goes_on, wakes);
    }

    fn leave(&self, tables: &mut Tables, pod: &SlimMeta<AllLabels>, wakes: &mut Vec<Wake>) {
        let row = tables.daemon_sets.pods.known(pod).cloned();
        let owner = tables.daemon_sets.pods.leave(pod);
        wakes.extend(owner.map(|owner| gone(tables, owner, row.as_ref())));
    }

    fn sweep(
        &self,
        tables: &mut Tables,
        namespace: Option<&str>,
        listed: &HashSet<Uid>,
        wakes: &mut Vec<Wake>,
    ) {
        let owners = tables.daemon_sets.pods.sweep(namespace, listed).into_iter();
        wakes.extend(owners.map(|owner| Wake::soon(CONTROLLER, owner)));
    }

    fn held(&self, tables: &Tables, object: &Listed) -> Held {
        if tables.daemon_sets.is_off {
            return Held::LeftOut;
        }
        tables.daemon_sets.pods.held(object, &KINDS)
    }

    fn each_held(
        &self,
        tables: &Tables,
        namespace: Option<&str>,
        each: &mut dyn FnMut(&str, Uid, u64),
    ) {
        tables.daemon_sets.pods.each_held(namespace, each);
    }
}
