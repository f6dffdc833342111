//! CronJob, of carillon.dev and of batch/v1: gate, snapshot, plan, apply for one at a time.

mod memory;
mod observe;
mod replay;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use carillon_plan::cron_job::action::{Action, Plan};
use carillon_plan::cron_job::{Api, CronJob, Snapshot};
use carillon_plan::interlock::Trip;
use carillon_plan::object_key::{CRON_JOB, NATIVE_CRON_JOB};
use carillon_plan::{ObjectKey, cron_job, interlock};
use jiff::Timestamp;

use super::core::{Considered, Controller, Core, Next, lock, next};
use crate::apply::cron_job::{Answer, Confirmed, Performer, kind, place, release};
use crate::apply::template::Template;
use crate::apply::{self, Applied, Effect};
use crate::clock;
use crate::gate::Kind;
use crate::store::Tables;
use crate::writes::SendError;

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
    pub memory: Mutex<HashMap<Arc<ObjectKey>, Memory>>,
}

impl Controller for CronJobs {
    fn core(&self) -> &Core {
        &self.core
    }

    async fn sync(&self, key: &Arc<ObjectKey>) -> Next {
        let core = &self.core;
        let now = core.writes.clock().now();
        let begin = clock::instant();
        let considered = {
            let tables = core.store.read();
            match tables.cron_job(key) {
                Some(cron) if core.may_pass(&tables, &cron.meta.owner) => {
                    Some((cron.clone(), self.plan(&tables, cron, now)))
                }
                Some(_) => return Next::Gated,
                None => None,
            }
        };
        let Some((cron, considered)) = considered else {
            return self.after_deletion(key).await;
        };
        let took = begin.elapsed().as_secs_f64();
        core.metrics
            .plan_duration
            .with_label_values(&[NAME])
            .observe(took);
        let refuse = |trip: &Trip| interlock::cron_job::refuse(&cron, trip, now);
        let (plan, sequence) = core.decide(&cron.meta.owner, considered, now, refuse);
        self.carry_out(&cron, plan, sequence).await
    }

    fn remembers(&self) -> usize {
        lock(&self.memory).len()
    }

    fn forget(&self, key: &ObjectKey) {
        lock(&self.memory).remove(key);
    }

    fn observe(&self, result: &'static str, seconds: f64) {
        let metrics = &self.core.metrics;
        let duration = &metrics.cronjob_sync_duration;
        duration.with_label_values(&[result]).observe(seconds);
        metrics.cronjob_syncs.with_label_values(&[result]).inc();
    }
}

impl CronJobs {
    fn plan(&self, tables: &Tables, cron: &CronJob, now: Timestamp) -> Considered<Action> {
        let owner = &cron.meta.owner;
        let memory = lock(&self.memory).get(owner).cloned().unwrap_or_default();
        let mut memory = memory.at(cron.meta.generation).recent(clock::instant());
        memory.refusal = self.core.refusals.of(owner);
        snapshot(tables, cron, &memory, |snapshot| {
            let plan = (self.rules.plan)(snapshot, now);
            let verdict = (self.rules.verify)(snapshot, &plan, now);
            Considered {
                generation: cron.meta.generation,
                rv: cron.meta.rv,
                plan,
                verdict,
                seen: tables.seen(&owner.namespace),
                inputs: serde_json::to_value(memory.inputs()).unwrap_or_default(),
            }
        })
    }

    async fn carry_out(&self, cron: &CronJob, mut plan: Plan, sequence: u64) -> Next {
        let core = &self.core;
        let owner = &cron.meta.owner;
        let (wake, again) = (plan.wake, plan.again);
        let mut notes = std::mem::take(&mut plan.notes);
        self.begin(cron, &plan);
        let performer = Performer {
            cron,
            template: Template::new(&cron.template, place(cron)),
            writes: &core.writes,
            not_after: apply::end_of_life(&core.writes),
            relies_on: tokio::sync::Mutex::new(Confirmed::read(cron.meta.rv)),
        };
        let mut applied = core.carry_out(owner, &performer, plan, sequence).await;
        let over = core.refusals.learn(owner, &applied, answered(&applied));
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
        let learnt = self.remember(cron, std::mem::take(&mut applied.answers)) || over;
        next(&applied, wake, again, learnt)
    }

    /// What was not there may be there soon.
    fn begin(&self, cron: &CronJob, plan: &Plan) {
        let mut memory = lock(&self.memory);
        let memory = memory.entry(cron.meta.owner.clone()).or_default();
        for action in plan.steps.iter().flat_map(|step| &step.actions) {
            if let Action::CreateChild(run) = action {
                memory.begin(&run.name);
            }
        }
    }

    /// Keeps the answers for the next plan. True when that plan should come at once.
    fn remember(&self, cron: &CronJob, answers: Vec<Answer>) -> bool {
        let mut memory = lock(&self.memory);
        let memory = memory.entry(cron.meta.owner.clone()).or_default();
        let now = clock::instant();
        *memory = std::mem::take(memory).at(cron.meta.generation).recent(now);
        let mut answered = false;
        for answer in answers {
            if let Answer::Created(_, late) = &answer {
                let skew = &self.core.metrics.cronjob_job_creation_skew;
                skew.observe(late.as_secs_f64().max(0.0));
            }
            answered |= memory.learn(answer, now);
        }
        answered
    }

    /// The CronJob is not in the cache. When it is really gone its children are let go.
    async fn after_deletion(&self, key: &ObjectKey) -> Next {
        let core = &self.core;
        let held: Vec<_> = {
            let tables = core.store.read();
            let children = tables.family(key).into_iter().flatten();
            let held = children.filter(|(_, child)| child.held);
            held.map(|((child, name), row)| (kind(*child), name.clone(), row.uid))
                .collect()
        };
        let of = match (key.api_version, key.kind) {
            CRON_JOB => Some(Kind::CronJob),
            NATIVE_CRON_JOB => Some(Kind::NativeCronJob),
            // A run that has lost its CronJob, and is by itself.
            _ => None,
        };
        core.after_deletion(of, key, held, async |(kind, child, uid)| {
            let done = release(&core.writes, kind, &key.namespace, &child, uid).await?;
            Ok(!matches!(done.effect, Effect::Gone | Effect::InVain))
        })
        .await
    }
}

/// Actions of whose refusal the planner is told in a better way. An error that says nothing of what was done is
/// no answer.
fn answered(applied: &Applied<Answer>) -> &'static [&'static str] {
    match applied.failed {
        Some((_, SendError::Unknown(_))) => &[],
        _ => &["create_child", "try_child"],
    }
}

#[cfg(test)]
mod tests {
    use carillon_plan::Uid;

    use super::*;
    use crate::controllers::refusals::Refusals;

    #[test]
    fn a_creation_that_has_no_answer_again_and_again_is_told() {
        let key = ObjectKey::of(CRON_JOB, "ops", "nightly", Uid::MAX);
        let refused = || {
            let mut status = kube::core::Status::failure("no", "Denied");
            status.code = 403;
            SendError::Refused(Box::new(status))
        };
        let unknown = || SendError::Unknown("failed calling webhook (500)".to_owned());
        let told = |word: &'static str, error: &dyn Fn() -> SendError| {
            let refusals = Refusals::default();
            for _ in 0..3 {
                let applied = Applied {
                    failed: Some((word, error())),
                    ..Applied::default()
                };
                refusals.learn(&key, &applied, answered(&applied));
            }
            refusals.of(&key).is_some()
        };
        for word in ["try_child", "create_child"] {
            assert!(told(word, &unknown), "{word}");
            assert!(
                !told(word, &refused),
                "the planner says that better: {word}"
            );
        }
    }
}
