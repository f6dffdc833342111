//! Job of batch/v1: as many pods as its spec wants, each counted once.

mod cached;
mod index;
mod memory;
pub(crate) mod metrics;
pub(crate) mod object;
mod observe;
pub mod orphan_controller;
mod performer;
mod pod;
mod pods;
pub mod requests;
mod row;
pub(crate) mod tables;
mod watch_counts;

use std::sync::Arc;

use carillon_plan::ObjectKey;
use carillon_plan::interlock::{self, Trip};
use carillon_plan::job::action::{Action, Note, Plan};
use carillon_plan::job::unanswered::may_come_until;
use carillon_plan::job::{self, Job, Limits, Snapshot, is_strict};
use carillon_plan::left_behind::Held;
use carillon_plan::object_key::POD;
use jiff::{SignedDuration, Timestamp};

use self::memory::{Inputs, snapshot};
use self::performer::{Answer, Performer, place};
use crate::apply::Effect;
use crate::apply::template::Template;
use crate::args::Config;
use crate::controllers::core::{Core, LIST_RETRY, Next};
use crate::controllers::irreproducible::Irreproducible;
use crate::controllers::kind::{Follow, Learnt, RulesOf, ServedKind, Synced};
use crate::gate::Kind;
use crate::metrics::Metrics;
use crate::queue::Backoff;
use crate::store::Tables;
use crate::writes::{SendError, Writes};
use crate::{apply, watch};

pub use self::memory::Memory;
pub use self::metrics::JobMetrics;
pub use self::object::SlimJob;
pub use self::tables::{CONTROLLER, JobTables};

type Applied = apply::Applied<Answer>;

/// What the flags say about Jobs.
#[derive(Debug)]
pub struct Jobs {
    /// The watch of pods, which may only begin with the first Job.
    pub pods: watch::Handle,
    /// What the flags say.
    pub limits: Limits,
}

impl ServedKind for Jobs {
    const RULES: RulesOf<Self> = RulesOf {
        plan: job::plan,
        verify: interlock::job::verify,
    };
    const INTERLOCK: &'static [&'static str] = &interlock::job::rules::ALL;
    type Action = Action;
    type Answer = Answer;
    type Memory = Memory;
    type Snapshot<'a> = Snapshot<'a>;
    type Inputs = Inputs;
    type Performer<'a> = Performer<'a>;

    fn configured(config: &Config, watches: &[watch::Handle]) -> Option<Self> {
        let of_pods = |watch: &&watch::Handle| watch.kind() == Kind::Pod.word();
        let duration = |given| SignedDuration::try_from(given).unwrap_or(SignedDuration::MAX);
        Some(Self {
            pods: watches.iter().find(of_pods)?.clone(),
            limits: Limits {
                backoff: duration(config.job_pod_failure_backoff),
                max_backoff: duration(config.job_max_pod_failure_backoff),
                max_uncounted: config.job_max_uncounted_pods,
                max_pod_changes: config.max_pod_changes_per_sync,
                strict_parity: config.job_strict_parity,
            },
        })
    }

    fn backoff(config: &Config) -> Backoff {
        Backoff {
            base: config.job_api_backoff,
            max: config.job_max_api_backoff,
        }
    }

    fn defer(&self, tables: &Tables, job: &Job) -> Option<Next> {
        // A Job of this name may be another one by now, so that this is asked each time.
        if !tables.jobs.is_ours(job) {
            return Some(Next::Wait(None));
        }
        let namespace = &*job.meta.owner.namespace;
        let sees_pods = self.pods.has_all_in(namespace) && self.pods.is_synced_in(Some(namespace));
        (!sees_pods).then_some(Next::After(LIST_RETRY))
    }

    fn follow(&self, memory: &mut Memory, of: Follow<'_, Self>) {
        memory.follow(of.tables, &of.object.meta.owner, of.now);
    }

    fn snapshot<T>(
        &self,
        memory: &Memory,
        tables: &Tables,
        job: &Job,
        look: impl FnOnce(&Snapshot<'_>) -> T,
    ) -> T {
        snapshot(tables, job, memory, &self.limits, look)
    }

    fn inputs(&self, memory: &Memory, _: &Snapshot<'_>) -> Inputs {
        memory.inputs(&self.limits)
    }

    fn recorded(
        inputs: Inputs,
        _: &mut Tables,
        _: &ObjectKey,
        _: i64,
    ) -> Result<(Self, Memory), Irreproducible> {
        let (memory, limits) = inputs.recorded();
        let pods = watch::Handle::without_loops(Kind::Pod.word());
        Ok((Self { pods, limits }, memory))
    }

    fn refuse(_: &Job, trip: &Trip, now: Timestamp) -> Plan {
        interlock::job::refuse(trip, now)
    }

    fn is_blank(memory: &Memory) -> bool {
        *memory == Memory::default()
    }

    fn performer<'a>(
        &'a self,
        _: &mut Memory,
        job: &'a Job,
        _: &Plan,
        core: &'a Core,
        _: Timestamp,
    ) -> Performer<'a> {
        Performer {
            job,
            template: Template::new(&job.template, place(job)),
            strict: is_strict(job, &self.limits),
            writes: &core.writes,
            metrics: &core.metrics.jobs,
            not_after: apply::end_of_life(&core.writes),
        }
    }

    /// Failures count once the status that has counted them is written.
    fn learn(
        &self,
        memory: &mut Memory,
        job: &Job,
        applied: &mut Applied,
        core: &Core,
        _: Timestamp,
    ) -> Learnt {
        let mut learnt = Learnt::default();
        if job.has_finished() {
            *memory = Memory::default();
            return learnt;
        }
        for answer in std::mem::take(&mut applied.answers) {
            match answer {
                Answer::Written(backoff) => memory.backoff = backoff,
                Answer::Unanswered(name) => {
                    let until = may_come_until(core.writes.clock().now());
                    memory.unanswered.insert(name, until);
                }
                Answer::Answered(name) => {
                    learnt.at_once |= memory.unanswered.remove(&name).is_some();
                }
                Answer::Named(_) => {}
            }
        }
        learnt
    }

    fn answered(_: &Applied) -> Option<&'static [&'static str]> {
        None
    }

    /// kube-controller-manager's word.
    fn reporter(_: &Job) -> &'static str {
        "job-controller"
    }

    /// What the status says is worth its event only if it was stored. Upstream tells that a Job is suspended or
    /// resumed before it tries.
    fn notes(&self, job: &Job, mut planned: Vec<Note>, applied: &mut Applied) -> Vec<Note> {
        if applied.stopped {
            let strict = is_strict(job, &self.limits);
            planned.retain(|note| strict && ["Suspended", "Resumed"].contains(&note.reason));
        }
        // Pods come before what became of them.
        planned.splice(0..0, std::mem::take(&mut applied.notes));
        planned
    }

    fn held(_: &Memory, tables: &Tables, key: &ObjectKey) -> Vec<Held> {
        let pods = tables.jobs.pods(key).into_iter().flatten();
        let tracked = pods.filter(|(_, pod)| pod.tracked);
        let tracked = tracked.map(|(name, pod)| Held {
            kind: POD,
            name: (**name).into(),
            uid: pod.uid,
            rv: None,
            watched: true,
        });
        tracked.collect()
    }

    async fn release(writes: &Writes, key: &ObjectKey, held: &Held) -> Result<Effect, SendError> {
        let request = requests::release_pod(&key.namespace, &held.name, held.uid);
        apply::release(writes, Kind::Pod, request).await
    }

    fn gated(core: &Core, tables: &Tables, key: &Arc<ObjectKey>) {
        core.metrics.jobs.waits(&core.behind(tables, key));
    }

    fn purpose(job: &Job, plan: &Plan) -> &'static str {
        observe::action(job, plan)
    }

    /// Upstream counts no syncs of Jobs that have ended.
    fn synced(metrics: &Metrics, job: &Job, synced: Synced) {
        let Synced {
            purpose,
            failed,
            seconds,
        } = synced;
        if !job.has_finished() {
            metrics.jobs.synced(job, purpose, failed, seconds);
        }
    }
}
