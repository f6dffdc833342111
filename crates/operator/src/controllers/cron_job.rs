//! CronJob, of carillon.dev and of batch/v1: gate, snapshot, plan, apply for one at a time.

mod memory;
mod observe;
mod replay;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use carillon_plan::cron_job::action::{Action, Plan};
use carillon_plan::cron_job::{Api, CronJob, Snapshot};
use carillon_plan::interlock::Trip;
use carillon_plan::{Uid, cron_job, interlock};
use jiff::Timestamp;

use super::core::{Controller, Core, Next, Planned, lock, next};
use crate::apply::cron_job::{Answer, Performer, kind, kind_of, release};
use crate::apply::{self, found};
use crate::clock;
use crate::flight_recorder::Outcome;
use crate::request;
use crate::store::Tables;

pub use self::memory::Memory;
use self::memory::snapshot;
pub use self::observe::{debug, measure};
pub use self::replay::replay;

/// Name in logs, metrics and the work queue.
pub const NAME: &str = "cronjob";
/// `reportingController` of our events about CronJobs of carillon.dev.
const REPORTER: &str = "carillon.dev/cronjob-controller";
/// The same about native ones: kube-controller-manager's word.
const NATIVE_REPORTER: &str = "cronjob-controller";

/// What decides, and what may forbid it. Functions, so that a test can put a mistake in the place
/// of the one, and nothing in that of the other.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// What should happen.
    pub plan: fn(&Snapshot<'_>, Timestamp) -> Plan,
    /// Whether it may.
    pub verify: fn(&Snapshot<'_>, &Plan, Timestamp) -> Result<(), Trip>,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            plan: cron_job::plan,
            verify: interlock::cron_job::verify,
        }
    }
}

/// The controller.
#[derive(Debug)]
pub struct CronJobs {
    /// What every controller works with.
    pub core: Core,
    /// What decides.
    pub rules: Rules,
    /// What the API server answered, by CronJob.
    pub memory: Mutex<HashMap<Uid, Memory>>,
}

impl Controller for CronJobs {
    fn core(&self) -> &Core {
        &self.core
    }

    async fn sync(&self, uid: Uid) -> Next {
        let core = &self.core;
        let now = core.writes.clock().now();
        let begin = clock::instant();
        let planned = {
            let tables = core.store.read();
            match tables.cron_job(uid) {
                Some(cron) if core.may_pass(&tables, &cron.meta.owner) => {
                    Some(self.plan(&tables, cron, now))
                }
                Some(_) => return Next::Gated,
                None => None,
            }
        };
        let Some((cron, plan, sequence)) = planned else {
            return self.after_deletion(uid).await;
        };
        let took = begin.elapsed().as_secs_f64();
        core.metrics
            .plan_duration
            .with_label_values(&[NAME])
            .observe(took);
        self.carry_out(&cron, plan, sequence).await
    }

    fn forget(&self, uid: Uid) {
        lock(&self.memory).remove(&uid);
    }

    fn observe(&self, result: &'static str, seconds: f64) {
        let metrics = &self.core.metrics;
        let duration = &metrics.cronjob_sync_duration;
        duration.with_label_values(&[result]).observe(seconds);
        metrics.cronjob_syncs.with_label_values(&[result]).inc();
    }
}

impl CronJobs {
    /// Plans, notes the decision, and puts what may be done in the place of what must not.
    fn plan(
        &self,
        tables: &Tables,
        cron: &Arc<CronJob>,
        now: Timestamp,
    ) -> (Arc<CronJob>, Plan, u64) {
        let owner = &cron.meta.owner;
        let memory = lock(&self.memory)
            .get(&owner.uid)
            .cloned()
            .unwrap_or_default();
        let memory = memory.at(cron.meta.generation);
        snapshot(tables, cron, &memory, |snapshot| {
            let plan = (self.rules.plan)(snapshot, now);
            let verdict = (self.rules.verify)(snapshot, &plan, now);
            let planned = Planned {
                owner,
                generation: cron.meta.generation,
                rv: cron.meta.rv,
                plan: &plan,
                trip: verdict.as_ref().err(),
                seen: tables.seen(&owner.namespace),
                inputs: serde_json::to_value(memory.inputs()).unwrap_or_default(),
            };
            let sequence = self.core.record(&planned, now);
            let plan = match verdict {
                Ok(()) => plan,
                Err(trip) => {
                    self.core.tripped(owner, cron.meta.generation, &trip);
                    interlock::cron_job::refuse(cron, &trip, now)
                }
            };
            (cron.clone(), plan, sequence)
        })
    }

    async fn carry_out(&self, cron: &CronJob, mut plan: Plan, sequence: u64) -> Next {
        let core = &self.core;
        let owner = &cron.meta.owner;
        let (wake, again) = (plan.wake, plan.again);
        let mut notes = std::mem::take(&mut plan.notes);
        core.count(&plan);
        self.begin(cron, &plan);
        let idle = plan.steps.is_empty();
        let begin = clock::instant();
        let performer = Performer {
            cron,
            writes: &core.writes,
            not_after: apply::end_of_life(&core.writes),
        };
        let mut applied = apply::apply(&performer, core.parallel, plan).await;
        core.wrote(owner.uid, &applied);
        if !idle {
            core.log(owner, &applied, begin.elapsed());
            let outcome = Outcome::of(&applied);
            core.flights.add_outcome(owner.uid, sequence, outcome);
        }
        // What the status says is worth its event only if it was stored.
        if applied.stopped {
            notes.clear();
        }
        notes.append(&mut applied.notes);
        let reporter = match cron.meta.api {
            Api::Carillon => REPORTER,
            Api::Native => NATIVE_REPORTER,
        };
        core.tell(owner, reporter, notes);
        let answered = self.remember(cron, std::mem::take(&mut applied.answers));
        next(&applied, wake, again || answered)
    }

    /// What was not there may be there soon.
    fn begin(&self, cron: &CronJob, plan: &Plan) {
        let mut memory = lock(&self.memory);
        let memory = memory.entry(cron.meta.owner.uid).or_default();
        for action in plan.steps.iter().flat_map(|step| &step.actions) {
            if let Action::CreateChild(run) = action {
                memory.begin(&run.name);
            }
        }
    }

    /// Keeps the answers for the next plan. True when that plan should come at once.
    fn remember(&self, cron: &CronJob, answers: Vec<Answer>) -> bool {
        let mut memory = lock(&self.memory);
        let memory = memory.entry(cron.meta.owner.uid).or_default();
        *memory = std::mem::take(memory).at(cron.meta.generation);
        let mut answered = false;
        for answer in answers {
            if let Answer::Created(_, late) = &answer {
                let skew = &self.core.metrics.cronjob_job_creation_skew;
                skew.observe(late.as_secs_f64().max(0.0));
            }
            answered |= memory.learn(answer);
        }
        answered
    }

    /// The CronJob is not in the cache. When it is really gone its children are let go.
    async fn after_deletion(&self, uid: Uid) -> Next {
        let core = &self.core;
        let (namespace, name, api, held) = {
            let tables = core.store.read();
            let Some(family) = tables.family(uid) else {
                return Next::Forget;
            };
            let held: Vec<_> = family
                .children
                .iter()
                .filter(|(_, child)| child.held)
                .map(|((child, name), row)| (kind(*child), name.clone(), row.uid))
                .collect();
            let name = family.cron_job.clone();
            (family.namespace.clone(), name, family.api, held)
        };
        if held.is_empty() {
            return Next::Forget;
        }
        // The cache of CronJobs may be behind that of their children: only the API server knows.
        let there = async {
            if name.is_empty() {
                return Ok(None);
            }
            found(&core.writes, request::get(kind_of(api), &namespace, &name)).await
        };
        match there.await {
            Ok(Some(meta)) if meta.uid() == Some(uid) => {
                return Next::After(Duration::from_secs(1));
            }
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(controller = NAME, ns = %namespace, %name, %error, "cannot tell whether the CronJob exists");
                return Next::Failed(None);
            }
        }
        for (kind, child, child_uid) in held {
            if let Err(error) = release(&core.writes, kind, &namespace, &child, child_uid).await {
                tracing::warn!(controller = NAME, ns = %namespace, %name, %child, %error, "cannot let go of a run of a deleted CronJob");
                return Next::Failed(None);
            }
        }
        tracing::info!(controller = NAME, ns = %namespace, %name, %uid, "let go of the runs of a deleted CronJob");
        Next::After(Duration::from_secs(1))
    }
}
