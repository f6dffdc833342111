//! A bug that is put back.

use carillon_operator::controllers::{Rules, RulesOf, ServedKind, Verify};
use carillon_operator::kinds::broadcast_job::BroadcastJobs;
use carillon_operator::kinds::cron_job::CronJobs;
use carillon_operator::kinds::daemon_set::DaemonSets;
use carillon_operator::kinds::job::Jobs;
use carillon_plan::plan::Plan;
use jiff::Timestamp;

use super::interlock::look_on;
use crate::case::Case;
use crate::wire::Wire;

/// A published bug, as Carillon would have it.
#[derive(Clone, Debug)]
pub struct Mutant {
    /// What it does wrong.
    pub name: &'static str,
    /// Where the bug was published.
    pub published: &'static str,
    /// What decides, with the bug. The interlocks only look on, unless one is what has it.
    pub rules: Rules,
    /// Whether it plans otherwise, so that the interlock has something to look at.
    pub has_planner: bool,
    /// The client with the bug.
    pub wire: Wire,
    /// Runs in which it shows; the first that does is enough.
    pub cases: Vec<Case>,
    /// Invariants of which at least one must then be broken.
    pub caught_by: &'static [&'static str],
}

impl Mutant {
    pub(super) fn new(
        name: &'static str,
        published: &'static str,
        caught_by: &'static [&'static str],
        cases: Vec<Case>,
    ) -> Self {
        let rules = looked_on::<BroadcastJobs>(Rules::default());
        let rules = looked_on::<DaemonSets>(looked_on::<Jobs>(looked_on::<CronJobs>(rules)));
        Self {
            name,
            published,
            rules,
            has_planner: false,
            wire: Wire::default(),
            cases,
            caught_by,
        }
    }

    /// The planner of a kind with the bug.
    pub(super) fn plans<K: ServedKind>(
        self,
        plan: for<'a> fn(&K::Snapshot<'a>, Timestamp) -> Plan<K::Action>,
    ) -> Self {
        let verify = look_on::<K>;
        Self {
            rules: self.rules.with::<K>(RulesOf { plan, verify }),
            has_planner: true,
            ..self
        }
    }

    /// The interlock of a kind with the bug.
    pub(super) fn verifies<K: ServedKind>(self, verify: Verify<K>) -> Self {
        let rules = self.rules.of::<K>();
        Self {
            rules: self.rules.with::<K>(RulesOf { verify, ..rules }),
            ..self
        }
    }

    pub(super) fn speaks(self, wire: Wire) -> Self {
        Self { wire, ..self }
    }
}

fn looked_on<K: ServedKind>(rules: Rules) -> Rules {
    rules.with::<K>(RulesOf {
        verify: look_on::<K>,
        ..RulesOf::default()
    })
}
