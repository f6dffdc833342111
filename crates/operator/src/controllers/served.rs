//! The kinds that are served: the only list of them.

use std::fmt::Debug;
use std::sync::Arc;

use carillon_plan::interlock;
use serde_json::Value;

use super::broadcast_job::BroadcastJobs;
use super::controller::Controller;
use super::core::{Core, Reconcile, measure, work};
use super::cron_job::CronJobs;
use super::job::Jobs;
use super::kind::ServedKind;
use super::orphan_pod::{self, OrphanPods};
use super::rules::Rules;
use crate::args::Config;
use crate::gate::Kind;
use crate::metrics::Metrics;
use crate::parts::Parts;
use crate::queue::Backoff;
use crate::store::{EachKey, Store, Tables};
use crate::watch;

/// Each controller there is.
pub static SERVED: [Served; 4] = [
    Served::kind::<BroadcastJobs>(),
    Served::kind::<CronJobs>(),
    Served::kind::<Jobs>(),
    Served {
        name: orphan_pod::NAME,
        rules: &interlock::left_behind::rules::ALL,
        plans_from: Jobs::plans_from,
        each_key: Tables::each_orphan_pod,
        backoff: Jobs::backoff,
        build: |_, _, _, core| Some(Arc::new(OrphanPods { core })),
        measure: |_, _| {},
        debug: |_, _| {},
    },
];

/// Makes a controller. `None` without a watch that it needs.
pub type Build = fn(&Config, &Rules, &[watch::Handle], Core) -> Option<Arc<dyn Running>>;

/// A controller, before it is known whether it is to run.
#[derive(Debug)]
pub struct Served {
    /// Name in logs, metrics and the work queue.
    pub name: &'static str,
    /// The rules of its interlock.
    pub rules: &'static [&'static str],
    /// The kinds that it plans from; none: it is not to run.
    pub plans_from: fn(&Config) -> Vec<Kind>,
    /// What it may have to look after.
    pub each_key: EachKey,
    /// How long a key that fails waits.
    pub backoff: fn(&Config) -> Backoff,
    /// Makes it.
    pub build: Build,
    /// Sets the gauges that are counted when somebody looks.
    pub measure: fn(&Store, &Metrics),
    /// Adds what `/debug/store` shows.
    pub debug: fn(&Store, &mut Value),
}

impl Served {
    const fn kind<K: ServedKind>() -> Self {
        Self {
            name: K::NAME,
            rules: K::INTERLOCK,
            plans_from: K::plans_from,
            each_key: K::each_key,
            backoff: K::backoff,
            build: build::<K>,
            measure: K::measure,
            debug: K::debug,
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_runbook_has_each_rule_of_the_interlock_in_the_table_of_its_kind() {
        let page = include_str!("../../../../docs/runbooks/CarillonInterlockTripped.md");
        let tables = page.split("| `rule` |").skip(1);
        let named = |table: &str| -> BTreeSet<String> {
            let rows = table.lines().filter_map(|line| line.strip_prefix("| `"));
            rows.filter_map(|row| Some(row.split_once('`')?.0.to_owned()))
                .collect()
        };
        let tables: Vec<_> = tables.map(named).collect();
        let rules = |served: &Served| served.rules.iter().map(|rule| (*rule).to_owned()).collect();
        assert_eq!(tables, SERVED.each_ref().map(rules));
    }
}
