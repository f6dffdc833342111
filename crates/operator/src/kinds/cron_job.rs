//! CronJob, of carillon.dev and of batch/v1: a child at each time of a schedule.

mod cached;
pub(crate) mod child;
pub(crate) mod children;
mod memory;
pub(crate) mod metrics;
pub(crate) mod object;
mod observe;
mod performer;
pub mod requests;
mod row;
pub(crate) mod tables;

use carillon_plan::cron_job::action::{Action, Note, Plan};
use carillon_plan::cron_job::{Api, CronJob, Snapshot};
use carillon_plan::interlock::Trip;
use carillon_plan::left_behind::Held;
use carillon_plan::object_key::BROADCAST_JOB;
use carillon_plan::{ObjectKey, cron_job, interlock};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use self::memory::{Inputs, snapshot};
use self::performer::{Answer, Confirmed, Performer, place, release_child};
use crate::apply::Effect;
use crate::apply::template::Template;
use crate::args::Config;
use crate::controllers::core::Core;
use crate::controllers::irreproducible::Irreproducible;
use crate::controllers::kind::{Follow, Learnt, RulesOf, ServedKind};
use crate::gate::Kind;
use crate::metrics::Metrics;
use crate::store::Tables;
use crate::writes::{SendError, Writes};
use crate::{apply, clock, watch};

pub use self::child::SlimNativeJob;
pub use self::memory::Memory;
pub use self::metrics::CronJobMetrics;
pub use self::object::{Carillon, Native, Side, SlimCronJob};
pub use self::tables::{CONTROLLER, CronJobRow, CronJobTables};

type Applied = apply::Applied<Answer>;

/// CronJobs of both APIs. No flag is about them.
#[derive(Debug)]
pub struct CronJobs;

impl ServedKind for CronJobs {
    const RULES: RulesOf<Self> = RulesOf {
        plan: cron_job::plan,
        verify: interlock::cron_job::verify,
    };
    const INTERLOCK: &'static [&'static str] = &interlock::cron_job::rules::ALL;
    type Action = Action;
    type Answer = Answer;
    type Memory = Memory;
    type Snapshot<'a> = Snapshot<'a>;
    type Inputs = Inputs;
    type Performer<'a> = Performer<'a>;

    fn configured(_: &Config, _: &[watch::Handle]) -> Option<Self> {
        Some(Self)
    }

    fn follow(&self, memory: &mut Memory, of: Follow<'_, Self>) {
        memory.follow(of.object.meta.generation, clock::instant());
        memory.refusal = of.refusal;
    }

    fn snapshot<T>(
        &self,
        memory: &Memory,
        tables: &Tables,
        cron: &CronJob,
        look: impl FnOnce(&Snapshot<'_>) -> T,
    ) -> T {
        snapshot(tables, cron, memory, look)
    }

    fn inputs(&self, memory: &Memory, _: &Snapshot<'_>) -> Inputs {
        memory.inputs()
    }

    fn recorded(
        inputs: Inputs,
        _: &mut Tables,
        _: &ObjectKey,
        generation: i64,
    ) -> Result<(Self, Memory), Irreproducible> {
        let memory = Memory::recorded(&inputs, generation);
        Ok((Self, memory.map_err(Irreproducible::Unreadable)?))
    }

    fn refuse(cron: &CronJob, trip: &Trip, now: Timestamp) -> Plan {
        interlock::cron_job::refuse(cron, trip, now)
    }

    fn performer<'a>(
        &'a self,
        memory: &mut Memory,
        cron: &'a CronJob,
        plan: &Plan,
        core: &'a Core,
        _: Timestamp,
    ) -> Performer<'a> {
        // What was not there may be there soon.
        for action in plan.steps.iter().flat_map(|step| &step.actions) {
            if let Action::CreateChild(run) = action {
                memory.begin(&run.name);
            }
        }
        Performer {
            cron,
            template: Template::new(&cron.template, place(cron)),
            writes: &core.writes,
            not_after: apply::end_of_life(&core.writes),
            relies_on: tokio::sync::Mutex::new(Confirmed::read(cron.meta.rv)),
        }
    }

    fn learn(
        &self,
        memory: &mut Memory,
        cron: &CronJob,
        applied: &mut Applied,
        core: &Core,
        _: Timestamp,
    ) -> Learnt {
        let now = clock::instant();
        memory.follow(cron.meta.generation, now);
        let mut learnt = Learnt::default();
        for answer in std::mem::take(&mut applied.answers) {
            if let Answer::Created(_, late) = &answer {
                let skew = &core.metrics.cron_jobs.job_creation_skew;
                skew.observe(late.as_secs_f64().max(0.0));
            }
            learnt.at_once |= memory.learn(answer, now);
        }
        learnt
    }

    /// An error that says nothing of what was done is no answer.
    fn answered(applied: &Applied) -> Option<&'static [&'static str]> {
        Some(match applied.failed {
            Some((_, SendError::Unknown(_))) => &[],
            _ => &["create_child", "try_child"],
        })
    }

    fn conditions(cron: &CronJob) -> &[Condition] {
        &cron.status.conditions
    }

    /// Of native ones kube-controller-manager's word.
    fn reporter(cron: &CronJob) -> &'static str {
        match cron.api {
            Api::Carillon => "carillon.dev/cronjob-controller",
            Api::Native => "cronjob-controller",
        }
    }

    /// What the status says is worth its event only if it was stored.
    fn notes(&self, _: &CronJob, mut planned: Vec<Note>, applied: &mut Applied) -> Vec<Note> {
        if applied.stopped {
            planned.clear();
        }
        planned.append(&mut applied.notes);
        planned
    }

    fn held(_: &Memory, tables: &Tables, key: &ObjectKey) -> Vec<Held> {
        let children = tables.cron_jobs.children(key).into_iter().flatten();
        let held = children.filter(|(_, child)| child.held);
        let held = held.map(|((kind, name), child)| Held {
            kind: kind.api_kind(),
            name: (**name).into(),
            uid: child.uid,
            rv: None,
            watched: true,
        });
        held.collect()
    }

    async fn release(writes: &Writes, key: &ObjectKey, held: &Held) -> Result<Effect, SendError> {
        let kind = match held.kind {
            BROADCAST_JOB => Kind::BroadcastJob,
            _ => Kind::NativeJob,
        };
        release_child(writes, kind, &key.namespace, &held.name, held.uid).await
    }

    fn count(metrics: &Metrics, result: &'static str, seconds: f64) {
        metrics.cron_jobs.syncs.count(result, seconds);
    }
}

#[cfg(test)]
mod tests {
    use carillon_plan::Uid;
    use carillon_plan::object_key::CRON_JOB;

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
                refusals.learn(&key, &applied, CronJobs::answered(&applied).unwrap());
            }
            refusals.of(&key, None).is_some()
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
