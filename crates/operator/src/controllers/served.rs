//! The list of kinds has one of these for each.

use std::fmt::Debug;
use std::sync::Arc;

use carillon_plan::interlock;
use carillon_plan::node::NodeRow;
use jiff::Timestamp;
use serde_json::Value;

use super::controller::Controller;
use super::core::{Core, Reconcile, measure, work};
use super::irreproducible::Irreproducible;
use super::kind::ServedKind;
use super::reads::{Read, Selects};
use super::replay::replay;
use super::rules::Rules;
use crate::args::Config;
use crate::flight_recorder::Decision;
use crate::gate::Kind;
use crate::metrics::Metrics;
use crate::parts::Parts;
use crate::queue::Backoff;
use crate::store::{EachKey, PodTable, Sizes, Store, Tables, Wake};
use crate::watch;

/// Wakes the objects for which the change of a node makes a difference.
pub type NodeChanged = fn(&Tables, &str, Option<&NodeRow>, Option<&NodeRow>, &mut Vec<Wake>);

/// Makes a recorded decision again, from objects in any order.
pub type Replay =
    fn(&mut dyn Iterator<Item = (Kind, Value)>, &Decision) -> Result<String, Irreproducible>;

/// Makes a controller. `None` without a watch that it needs.
pub type Build = fn(&Config, &Rules, &[watch::Handle], Core) -> Option<Arc<dyn Running>>;

/// A controller, before it is known whether it is to run.
#[derive(Debug)]
pub struct Served {
    /// Name in logs, metrics and the work queue.
    pub name: &'static str,
    /// Of which kinds its objects are.
    pub kinds: &'static [Kind],
    /// The rules of its interlock.
    pub rules: &'static [&'static str],
    /// What it may read.
    pub reads: &'static [Read],
    /// The kinds that it plans from; none: it is not to run.
    pub plans_from: fn(&Config) -> Vec<Kind>,
    /// Which of those that have a label it plans from.
    pub selects: fn(&Config, &Store) -> Selects,
    /// Tells the caches what the flags say.
    pub prepare: fn(&Config, &Store),
    /// What it keeps of pods.
    pub pods: Option<&'static dyn PodTable>,
    /// Whom a node wakes.
    pub node_changed: NodeChanged,
    /// Adds the sizes of its rows.
    pub size: fn(&Tables, &mut Sizes),
    /// What it may have to look after.
    pub each_key: EachKey,
    /// How long a key that fails waits.
    pub backoff: fn(&Config) -> Backoff,
    /// Makes it.
    pub build: Build,
    /// Sets the gauges that are counted when somebody looks.
    pub measure: fn(&Store, &Metrics, Timestamp),
    /// Adds what `/debug/store` shows.
    pub debug: fn(&Store, &mut Value),
    /// Makes a recorded decision again. `None`: it is made from nothing that is recorded.
    pub replay: Option<Replay>,
}

impl Served {
    /// That of a kind.
    pub const fn kind<K: ServedKind>() -> Self {
        Self {
            kinds: K::KINDS,
            rules: K::INTERLOCK,
            reads: K::READS,
            selects: K::selects,
            prepare: K::prepare,
            pods: K::PODS,
            node_changed: K::node_changed,
            size: K::size,
            measure: K::measure,
            debug: K::debug,
            replay: Some(|objects, decision| replay::<K>(objects, decision)),
            ..Self::beside::<K>(K::NAME, K::each_key, build::<K>)
        }
    }

    /// That of a controller which reads what another kind reads.
    pub const fn beside<K: ServedKind>(
        name: &'static str,
        each_key: EachKey,
        build: Build,
    ) -> Self {
        Self {
            name,
            kinds: &[],
            rules: &interlock::left_behind::rules::ALL,
            reads: &[],
            plans_from: K::plans_from,
            selects: |_, _| Selects::Labelled,
            prepare: |_, _| {},
            pods: None,
            node_changed: |_, _, _, _, _| {},
            size: |_, _| {},
            each_key,
            backoff: K::backoff,
            build,
            measure: |_, _, _| {},
            debug: |_, _| {},
            replay: None,
        }
    }
}

fn build<K: ServedKind>(
    config: &Config,
    rules: &Rules,
    watches: &[watch::Handle],
    core: Core,
) -> Option<Arc<dyn Running>> {
    let kind = K::configured(config, watches)?;
    Some(Arc::new(Controller::new(kind, rules.of::<K>(), core)))
}

/// A controller that runs, whatever it serves.
pub trait Running: Debug + Send + Sync {
    /// Starts a worker.
    fn start(self: Arc<Self>, workers: &mut Parts);
    /// Tells of how many objects it remembers something.
    fn measure(&self, metrics: &Metrics);
}

impl<C: Reconcile + Debug + Send + Sync> Running for C {
    fn start(self: Arc<Self>, workers: &mut Parts) {
        let name = format!("a worker of {}", self.core().name);
        workers.start(name, work(self));
    }

    fn measure(&self, metrics: &Metrics) {
        measure(self, metrics);
    }
}
