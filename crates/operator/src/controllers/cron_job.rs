//! CronJob, of carillon.dev and of batch/v1: a child at each time of a schedule.

mod memory;
mod observe;

use std::sync::Arc;

use carillon_plan::cron_job::action::{Action, Note, Plan};
use carillon_plan::cron_job::{Api, CronJob, Snapshot};
use carillon_plan::interlock::Trip;
use carillon_plan::left_behind::Held;
use carillon_plan::object_key::BROADCAST_JOB;
use carillon_plan::{ObjectKey, cron_job, interlock};
use jiff::Timestamp;
use serde_json::Value;

use self::memory::Inputs;
use super::core::Core;
use super::irreproducible::Irreproducible;
use super::kind::{Follow, Learnt, RulesOf, ServedKind};
use crate::apply::cron_job::{Answer, Confirmed, Performer, place, release_child};
use crate::apply::template::Template;
use crate::apply::{self, Effect};
use crate::args::{self, Config, NativeKind};
use crate::clock;
use crate::gate::Kind;
use crate::metrics::Metrics;
use crate::store::{Store, Tables, controller};
use crate::watch;
use crate::writes::{SendError, Writes};

pub use self::memory::Memory;
use self::memory::snapshot;

type Applied = apply::Applied<Answer>;
/// What decides.
pub type Rules = RulesOf<CronJobs>;

/// Name in logs, metrics and the work queue.
pub const NAME: &str = controller::CRON_JOB;

/// CronJobs of both APIs. No flag is about them.
#[derive(Debug)]
pub struct CronJobs;

impl ServedKind for CronJobs {
    const NAME: &'static str = NAME;
    const KINDS: &'static [Kind] = &[Kind::CronJob, Kind::NativeCronJob];
    const RULES: Rules = Rules {
        plan: cron_job::plan,
        verify: interlock::cron_job::verify,
    };
    const INTERLOCK: &'static [&'static str] = &interlock::cron_job::rules::ALL;
    type Object = CronJob;
    type Action = Action;
    type Answer = Answer;
    type Memory = Memory;
    type Snapshot<'a> = Snapshot<'a>;
    type Inputs = Inputs;
    type Performer<'a> = Performer<'a>;

    /// Nobody but CronJobs of carillon.dev needs a CRD: what a native one starts is a Job.
    fn plans_from(config: &Config) -> Vec<Kind> {
        let runs = config.controllers.contains(&args::Controller::CronJob);
        let ours = runs.then_some([Kind::CronJob, Kind::BroadcastJob]);
        let serves_native = config.serve_native.contains(&NativeKind::CronJobs);
        let native = serves_native.then_some(Kind::NativeCronJob);
        let mut kinds: Vec<Kind> = ours.into_iter().flatten().chain(native).collect();
        if !kinds.is_empty() {
            kinds.push(Kind::NativeJob);
        }
        kinds
    }

    fn configured(_: &Config, _: &[watch::Handle]) -> Option<Self> {
        Some(Self)
    }

    fn each_key(tables: &Tables, each: &mut dyn FnMut(&Arc<ObjectKey>)) {
        tables.each_cron_job(each);
    }

    fn object<'t>(tables: &'t Tables, key: &ObjectKey) -> Option<&'t Arc<CronJob>> {
        tables.cron_job(key)
    }

    fn version(cron: &CronJob) -> (i64, u64) {
        (cron.meta.generation, cron.meta.rv)
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
                let skew = &core.metrics.cronjob_job_creation_skew;
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

    /// Of native ones kube-controller-manager's word.
    fn reporter(cron: &CronJob) -> &'static str {
        match cron.meta.api {
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
        let children = tables.family(key).into_iter().flatten();
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

    fn measure(store: &Store, metrics: &Metrics) {
        observe::measure(store, metrics);
    }

    fn debug(store: &Store, page: &mut Value) {
        page["cronJobs"] = observe::debug(store);
    }

    fn count(metrics: &Metrics, result: &'static str, seconds: f64) {
        let duration = &metrics.cronjob_sync_duration;
        duration.with_label_values(&[result]).observe(seconds);
        metrics.cronjob_syncs.with_label_values(&[result]).inc();
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
