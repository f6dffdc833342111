//! DaemonSet, of carillon.dev and of apps/v1: one pod on each node that should have one.

mod cached;
mod memory;
pub(crate) mod metrics;
mod node_changed;
pub(crate) mod object;
mod observe;
mod performer;
mod pod;
mod pods;
pub mod requests;
pub(crate) mod revision;
mod row;
pub(crate) mod tables;
mod wakes;

use std::sync::Arc;

use carillon_plan::ObjectKey;
use carillon_plan::daemon_set::action::{Action, CREATE_POD, Note, Plan};
use carillon_plan::daemon_set::{self, DaemonSet, Snapshot};
use carillon_plan::interlock::{self, Trip};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use self::memory::{Inputs, snapshot};
use self::performer::{Answer, Performer, place};
use crate::apply::is_taken;
use crate::apply::template::Template;
use crate::args::Config;
use crate::controllers::core::{Core, LIST_RETRY, Next};
use crate::controllers::irreproducible::Irreproducible;
use crate::controllers::kind::{Follow, Learnt, RulesOf, ServedKind};
use crate::gate::Kind;
use crate::metrics::Metrics;
use crate::store::Tables;
use crate::{apply, watch};

pub use self::memory::Memory;
pub use self::metrics::DaemonSetMetrics;
pub use self::object::{Carillon, Native, Side, SlimDaemonSet};
pub use self::revision::SlimRevision;
pub use self::tables::{CONTROLLER, DaemonSetRow, DaemonSetTables};

type Applied = apply::Applied<Answer>;

/// What the flags say about DaemonSets.
#[derive(Debug)]
pub struct DaemonSets {
    /// The watch of pods, which may only begin with the first DaemonSet.
    pub pods: watch::Handle,
    /// Most pods that are created, and most that are deleted, in one plan.
    pub max_pod_changes: usize,
}

impl ServedKind for DaemonSets {
    const RULES: RulesOf<Self> = RulesOf {
        plan: daemon_set::plan,
        verify: interlock::daemon_set::verify,
    };
    const INTERLOCK: &'static [&'static str] = &interlock::daemon_set::rules::ALL;
    type Action = Action;
    type Answer = Answer;
    type Memory = Memory;
    type Snapshot<'a> = Snapshot<'a>;
    type Inputs = Inputs;
    type Performer<'a> = Performer<'a>;

    fn configured(config: &Config, watches: &[watch::Handle]) -> Option<Self> {
        let of_pods = |watch: &&watch::Handle| watch.kind() == Kind::Pod.word();
        Some(Self {
            pods: watches.iter().find(of_pods)?.clone(),
            max_pod_changes: config.max_pod_changes_per_sync,
        })
    }

    fn defer(&self, _: &Tables, set: &DaemonSet) -> Option<Next> {
        let namespace = &*set.meta.owner.namespace;
        let sees_pods = self.pods.has_all_in(namespace) && self.pods.is_synced_in(Some(namespace));
        (!sees_pods).then_some(Next::After(LIST_RETRY))
    }

    fn follow(&self, memory: &mut Memory, of: Follow<'_, Self>) {
        memory.follow(of.tables, of.object, of.refusal, of.now);
    }

    fn snapshot<T>(
        &self,
        memory: &Memory,
        tables: &Tables,
        set: &DaemonSet,
        look: impl FnOnce(&Snapshot<'_>) -> T,
    ) -> T {
        snapshot(tables, set, memory, self.max_pod_changes, look)
    }

    fn inputs(&self, memory: &Memory, _: &Snapshot<'_>) -> Inputs {
        memory.inputs(self.max_pod_changes)
    }

    fn recorded(
        inputs: Inputs,
        _: &mut Tables,
        _: &ObjectKey,
        _: i64,
    ) -> Result<(Self, Memory), Irreproducible> {
        let (memory, max_pod_changes) = inputs.recorded();
        let pods = watch::Handle::without_loops(Kind::Pod.word());
        let sets = Self {
            pods,
            max_pod_changes,
        };
        Ok((sets, memory))
    }

    fn refuse(set: &DaemonSet, trip: &Trip, now: Timestamp) -> Plan {
        interlock::daemon_set::refuse(set, trip, now)
    }

    fn is_blank(memory: &Memory) -> bool {
        *memory == Memory::default()
    }

    fn performer<'a>(
        &'a self,
        _: &mut Memory,
        set: &'a DaemonSet,
        _: &Plan,
        core: &'a Core,
        _: Timestamp,
    ) -> Performer<'a> {
        Performer {
            set,
            template: Template::new(&set.template, place(set)),
            writes: &core.writes,
            not_after: apply::end_of_life(&core.writes),
        }
    }

    fn learn(
        &self,
        memory: &mut Memory,
        set: &DaemonSet,
        applied: &mut Applied,
        core: &Core,
        now: Timestamp,
    ) -> Learnt {
        let answers = std::mem::take(&mut applied.answers);
        let end = core.writes.clock().now();
        Learnt {
            at_once: memory.learn(set, answers, (now, end)),
            ..Learnt::default()
        }
    }

    /// The status names nodes whose name is taken.
    fn answered(applied: &Applied) -> Option<&'static [&'static str]> {
        let failed = applied.failed.as_ref();
        let taken = failed.is_some_and(|(word, error)| *word == CREATE_POD && is_taken(error));
        Some(if taken { &[CREATE_POD] } else { &[] })
    }

    fn conditions(set: &DaemonSet) -> &[Condition] {
        &set.status.conditions
    }

    /// Of native ones kube-controller-manager's word.
    fn reporter(set: &DaemonSet) -> &'static str {
        if set.native {
            "daemonset-controller"
        } else {
            "carillon.dev/daemonset-controller"
        }
    }

    /// Why a pod goes comes before that it has gone.
    fn notes(&self, _: &DaemonSet, mut planned: Vec<Note>, applied: &mut Applied) -> Vec<Note> {
        if applied.stopped {
            planned.clear();
        }
        planned.append(&mut applied.notes);
        planned
    }

    fn count(metrics: &Metrics, result: &'static str, seconds: f64) {
        metrics.daemon_sets.syncs.count(result, seconds);
    }

    fn gated(core: &Core, tables: &Tables, key: &Arc<ObjectKey>) {
        let behind = core.behind(tables, key);
        core.metrics.daemon_sets.waits(&behind, 1);
    }
}
