//! The bug zoo: published bugs of other controllers, put back one at a time. A proof that does not
//! find them proves nothing.

mod edits;
mod ends;
mod expectations;
mod family;
mod jobs;
mod names;
mod order;
mod outcomes;
mod run_sight;
mod runs;
mod sight;
mod stops;
mod taken;
mod tenants;
mod wires;

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashMap;
use std::time::Duration;

use carillon_operator::controllers::{self, Rules, broadcast_job};
use carillon_plan::broadcast_job::action::Plan;
use carillon_plan::broadcast_job::{Snapshot, plan};
use carillon_plan::interlock::{self, Trip};
use carillon_plan::{cron_job, job};
use jiff::Timestamp;

use crate::blow::{Blow, Point};
use crate::case::{Case, Failure};
use crate::crash_anywhere::SEED;
use crate::disturbance::{AtWrite, Disturbance};
use crate::scenario::Scenario;
use crate::scenarios;
use crate::swarm::Swarm;
use crate::wire::Wire;
use crate::world::{self, End, Outcome, Run};

/// A run that takes longer hangs: those of the cases do not.
const HORIZON: Duration = Duration::from_mins(15);
/// The same of a random schedule.
const RANDOM_HORIZON: Duration = Duration::from_hours(1);
/// One with more goes round in circles: those of the cases do not.
const MOST_REVISIONS: u64 = 1500;
/// The same where a tenant adds its own, or all that can go wrong at random.
const MOST_BESIDE_OTHERS: u64 = 4000;

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
    fn new(
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

    fn plans(self, plan: Planner) -> Self {
        Self { plan, ..self }
    }

    fn plans_runs(self, plan_runs: RunPlanner) -> Self {
        Self { plan_runs, ..self }
    }

    fn plans_jobs(self, plan_jobs: JobPlanner) -> Self {
        Self { plan_jobs, ..self }
    }

    fn speaks(self, wire: Wire) -> Self {
        Self { wire, ..self }
    }

    /// Whether it plans otherwise, so that the interlock has something to look at.
    pub fn has_planner(&self) -> bool {
        !std::ptr::fn_addr_eq(self.plan, plan as Planner)
            || !std::ptr::fn_addr_eq(self.plan_runs, cron_job::plan as RunPlanner)
            || !std::ptr::fn_addr_eq(self.plan_jobs, job::plan as JobPlanner)
    }
}

/// All of them, those apart that only a tenant can use.
pub fn all() -> Vec<Mutant> {
    [
        names::mutants(),
        order::mutants(),
        outcomes::mutants(),
        stops::mutants(),
        taken::mutants(),
        ends::mutants(),
        family::mutants(),
        expectations::mutants(),
        wires::mutants(),
        edits::mutants(),
        runs::mutants(),
        jobs::mutants(),
    ]
    .concat()
}

/// Those that only a tenant can use.
pub fn of_tenants() -> Vec<Mutant> {
    tenants::mutants()
}

/// Nothing goes wrong but the mutant.
fn calm(scenario: &str) -> Case {
    under(scenario, Disturbance::none(1))
}

/// Something happens at the n-th write.
fn at(scenario: &str, write: usize, blow: Blow) -> Case {
    under(
        scenario,
        Disturbance {
            at: vec![AtWrite { write, blow }],
            ..Disturbance::none(1)
        },
    )
}

/// A kill at the n-th write, and a restart that acts on an earlier revision.
fn stale(scenario: &str, write: usize, revision: u64) -> Case {
    under(
        scenario,
        Disturbance {
            at: vec![AtWrite {
                write,
                blow: Blow::Kill(Point::ReplyLost),
            }],
            restart_at_revision: Some(revision),
            without_lease: true,
            ..Disturbance::none(1)
        },
    )
}

fn under(scenario: &str, disturbance: Disturbance) -> Case {
    Case {
        scenario: scenario.to_owned(),
        seed: SEED,
        disturbance,
    }
}

/// How a mutant was caught.
#[derive(Clone, Debug)]
pub struct Caught {
    /// By which case, and what was broken.
    pub failure: Failure,
    /// The rule by which the interlock refuses a plan of that run, if it does.
    pub interlock: Option<&'static str>,
}

thread_local! {
    static TRIPPED: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// The interlock, which is heard and not obeyed: what comes of the plan is for the oracle to find.
#[allow(clippy::unnecessary_wraps)] // it stands in the place of one that refuses
fn look_on(snapshot: &Snapshot<'_>, plan: &Plan, now: Timestamp) -> Result<(), Trip> {
    if let Err(trip) = interlock::verify(snapshot, plan, now)
        && TRIPPED.get().is_none()
    {
        TRIPPED.set(Some(trip.rule));
    }
    Ok(())
}

/// The same of CronJobs.
#[allow(clippy::unnecessary_wraps)] // it stands in the place of one that refuses
fn look_on_runs(
    snapshot: &cron_job::Snapshot<'_>,
    plan: &cron_job::action::Plan,
    now: Timestamp,
) -> Result<(), Trip> {
    if let Err(trip) = interlock::cron_job::verify(snapshot, plan, now)
        && TRIPPED.get().is_none()
    {
        TRIPPED.set(Some(trip.rule));
    }
    Ok(())
}

/// The same of Jobs.
#[allow(clippy::unnecessary_wraps)] // it stands in the place of one that refuses
fn look_on_jobs(
    snapshot: &job::Snapshot<'_>,
    plan: &job::action::Plan,
    now: Timestamp,
) -> Result<(), Trip> {
    if let Err(trip) = interlock::job::verify(snapshot, plan, now)
        && TRIPPED.get().is_none()
    {
        TRIPPED.set(Some(trip.rule));
    }
    Ok(())
}

/// The cages: scenarios, and how their undisturbed runs end.
#[derive(Debug)]
pub struct Zoo {
    scenarios: Vec<Scenario>,
    ends: HashMap<String, End>,
}

impl Default for Zoo {
    fn default() -> Self {
        Self {
            scenarios: scenarios::all(),
            ends: HashMap::new(),
        }
    }
}

impl Zoo {
    /// Runs the cases of a mutant until one breaks an invariant.
    pub fn hunt(&mut self, mutant: &Mutant) -> anyhow::Result<Option<Caught>> {
        for case in &mutant.cases {
            let caught = self.watch(mutant, case)?;
            if caught.is_some() {
                return Ok(caught);
            }
        }
        Ok(None)
    }

    /// What a mutant breaks in a case, with nobody to stop it.
    pub fn watch(&mut self, mutant: &Mutant, case: &Case) -> anyhow::Result<Option<Caught>> {
        let rules = Rules {
            broadcast_job: broadcast_job::Rules {
                plan: mutant.plan,
                verify: mutant.verify,
            },
            cron_job: controllers::cron_job::Rules {
                plan: mutant.plan_runs,
                verify: look_on_runs,
            },
            job: controllers::job::Rules {
                plan: mutant.plan_jobs,
                verify: look_on_jobs,
            },
        };
        TRIPPED.set(None);
        let outcome = self.run(case, rules, mutant.wire)?;
        let failure = self.judge(case, &outcome)?;
        Ok(failure.map(|failure| Caught {
            failure,
            interlock: TRIPPED.get(),
        }))
    }

    /// What is broken in a case without any mutant.
    pub fn control(&mut self, case: &Case) -> anyhow::Result<Option<Failure>> {
        let outcome = self.run(case, Rules::default(), Wire::default())?;
        self.judge(case, &outcome)
    }

    fn scenario(&self, case: &Case) -> anyhow::Result<Cow<'_, Scenario>> {
        if let Some(swarm) = Swarm::of(case) {
            return Ok(Cow::Owned(swarm.scenario(case.seed)));
        }
        let mut scenarios = self.scenarios.iter();
        let found = scenarios.find(|scenario| scenario.name == case.scenario);
        found
            .map(Cow::Borrowed)
            .ok_or_else(|| anyhow::anyhow!("there is no scenario {:?}", case.scenario))
    }

    fn run(&self, case: &Case, rules: Rules, wire: Wire) -> anyhow::Result<Outcome> {
        expectations::forget();
        let random = Swarm::of(case).is_some();
        let others = random || case.disturbance.tenant.is_some();
        world::run(&Run {
            scenario: &*self.scenario(case)?,
            seed: case.seed,
            disturbance: case.disturbance.clone(),
            rules,
            wire,
            horizon: if random { RANDOM_HORIZON } else { HORIZON },
            most_revisions: if others {
                MOST_BESIDE_OTHERS
            } else {
                MOST_REVISIONS
            },
        })
    }

    fn judge(&mut self, case: &Case, outcome: &Outcome) -> anyhow::Result<Option<Failure>> {
        // Random schedules are not compared with one in which nothing goes wrong.
        let alone = Swarm::of(case).is_some();
        if !alone && !self.ends.contains_key(&*case.scenario) {
            let undisturbed = calm(&case.scenario);
            let undisturbed = self.run(&undisturbed, Rules::default(), Wire::default())?;
            self.ends.insert(case.scenario.clone(), undisturbed.end);
        }
        let end = self.ends.get(&case.scenario).filter(|_| !alone);
        let judged = case.judge(&*self.scenario(case)?, outcome, end);
        Ok(judged.err().map(|failure| *failure))
    }
}
