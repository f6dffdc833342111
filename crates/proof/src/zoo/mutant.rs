//! A bug that is put back.

use carillon_plan::broadcast_job::action::Plan;
use carillon_plan::broadcast_job::{Snapshot, plan};
use carillon_plan::interlock::Trip;
use carillon_plan::{cron_job, job};
use jiff::Timestamp;

use super::interlock::look_on;
use crate::case::Case;
use crate::wire::Wire;

/// What decides about a BroadcastJob.
pub type Planner = fn(&Snapshot<'_>, Timestamp) -> Plan;
/// What decides about a CronJob.
pub type RunPlanner = fn(&cron_job::Snapshot<'_>, Timestamp) -> cron_job::action::Plan;

/// What decides about a Job of batch/v1.
pub type JobPlanner = fn(&job::Snapshot<'_>, Timestamp) -> job::action::Plan;

/// What may forbid what was decided about a BroadcastJob.
pub type Verify = fn(&Snapshot<'_>, &Plan, Timestamp) -> Result<(), Trip>;

/// A published bug, as Carillon would have it.
#[derive(Clone, Debug)]
pub struct Mutant {
    /// What it does wrong.
    pub name: &'static str,
    /// Where the bug was published.
    pub published: &'static str,
    /// The planner of BroadcastJobs with the bug.
    pub plan: Planner,
    /// The planner of CronJobs with the bug.
    pub plan_runs: RunPlanner,
    /// The planner of Jobs with the bug.
    pub plan_jobs: JobPlanner,
    /// The interlock of BroadcastJobs; it only looks on, unless it is what has the bug.
    pub verify: Verify,
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
        Self {
            name,
            published,
            plan,
            plan_runs: cron_job::plan,
            plan_jobs: job::plan,
            verify: look_on,
            wire: Wire::default(),
            cases,
            caught_by,
        }
    }

    pub(super) fn plans(self, plan: Planner) -> Self {
        Self { plan, ..self }
    }

    pub(super) fn plans_runs(self, plan_runs: RunPlanner) -> Self {
        Self { plan_runs, ..self }
    }

    pub(super) fn plans_jobs(self, plan_jobs: JobPlanner) -> Self {
        Self { plan_jobs, ..self }
    }

    pub(super) fn speaks(self, wire: Wire) -> Self {
        Self { wire, ..self }
    }

    /// Whether it plans otherwise, so that the interlock has something to look at.
    pub fn has_planner(&self) -> bool {
        !std::ptr::fn_addr_eq(self.plan, plan as Planner)
            || !std::ptr::fn_addr_eq(self.plan_runs, cron_job::plan as RunPlanner)
            || !std::ptr::fn_addr_eq(self.plan_jobs, job::plan as JobPlanner)
    }
}
