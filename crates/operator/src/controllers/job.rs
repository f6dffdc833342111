//! Job of batch/v1: gate, snapshot, plan, apply for one at a time.

mod memory;
mod observe;
mod replay;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use carillon_plan::ObjectKey;
use carillon_plan::interlock::{self, Trip};
use carillon_plan::job::action::{Action, Plan};
use carillon_plan::job::unanswered::may_come_until;
use carillon_plan::job::{self, Job, Limits, Snapshot, is_strict};
use jiff::Timestamp;

use super::core::{Considered, Controller, Core, LIST_RETRY, Next, lock, next};
use crate::apply;
use crate::apply::job::{Answer, Performer, place};
use crate::apply::template::Template;
use crate::clock;
use crate::gate::Kind;
use crate::request;
use crate::store::Tables;
use crate::watch;

pub use self::memory::Memory;
use self::memory::snapshot;
pub use self::observe::{debug, measure};
pub use self::replay::replay;

/// Name in logs, metrics and the work queue.
pub const NAME: &str = "job";
/// `reportingController` of our events: kube-controller-manager's word.
const REPORTER: &str = "job-controller";

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
            plan: job::plan,
            verify: interlock::job::verify,
        }
    }
}

/// The controller.
#[derive(Debug)]
pub struct Jobs {
    /// What every controller works with.
    pub core: Core,
    /// The watch of pods, which may only begin with the first Job.
    pub pods: watch::Handle,
    /// What decides.
    pub rules: Rules,
    /// What the flags say.
    pub limits: Limits,
    /// What a restart loses, by Job.
    pub memory: Mutex<HashMap<Arc<ObjectKey>, Memory>>,
}

impl Controller for Jobs {
    fn core(&self) -> &Core {
        &self.core
    }

    async fn sync(&self, key: &Arc<ObjectKey>) -> Next {
        let core = &self.core;
        let now = core.writes.clock().now();
        let begin = clock::instant();
        let considered = {
            let tables = core.store.read();
            match tables.native_job(key) {
                // A Job of this name may be another one by now, so that this is asked each time.
                Some(job) if !tables.is_ours(job) => return Next::Wait(None),
                Some(_) if !self.pods.is_synced_in(Some(&key.namespace)) => {
                    return Next::After(LIST_RETRY);
                }
                Some(job) if core.may_pass(&tables, &job.meta.owner) => {
                    Some((job.clone(), self.plan(&tables, job, now)))
                }
                Some(job) => {
                    let behind = core.behind(&tables, &job.meta.owner);
                    core.metrics.jobs.waits(&behind);
                    return Next::Gated;
                }
                None => None,
            }
        };
        let Some((job, considered)) = considered else {
            return self.after_deletion(key).await;
        };
        let took = begin.elapsed().as_secs_f64();
        core.metrics
            .plan_duration
            .with_label_values(&[NAME])
            .observe(took);
        let refuse = |trip: &Trip| interlock::job::refuse(trip, now);
        let (plan, sequence) = core.decide(&job.meta.owner, considered, now, refuse);
        let action = observe::action(&job, &plan);
        let next = self.carry_out(&job, plan, sequence).await;
        // Upstream counts no syncs of Jobs that have ended.
        if !job.has_finished() {
            let failed = matches!(next, Next::Failed(_));
            let seconds = begin.elapsed().as_secs_f64();
            core.metrics.jobs.synced(&job, action, failed, seconds);
        }
        next
    }

    fn remembers(&self) -> usize {
        lock(&self.memory).len()
    }

    fn forget(&self, key: &ObjectKey) {
        lock(&self.memory).remove(key);
    }

    /// Counted where the Job's mode and what was done to it are known.
    fn observe(&self, _: &'static str, _: f64) {}
}

impl Jobs {
    fn plan(&self, tables: &Tables, job: &Job, now: Timestamp) -> Considered<Action> {
        let owner = &job.meta.owner;
        let memory = self.remembered(tables, owner, now);
        let (plan, verdict) = snapshot(tables, job, &memory, &self.limits, |snapshot| {
            let plan = (self.rules.plan)(snapshot, now);
            let verdict = (self.rules.verify)(snapshot, &plan, now);
            (plan, verdict)
        });
        Considered {
            generation: job.meta.generation,
            rv: job.meta.rv,
            plan,
            verdict,
            seen: tables.seen(&owner.namespace),
            inputs: serde_json::to_value(memory.inputs(&self.limits)).unwrap_or_default(),
        }
    }

    async fn carry_out(&self, job: &Job, mut plan: Plan, sequence: u64) -> Next {
        let core = &self.core;
        let owner = &job.meta.owner;
        let (wake, again) = (plan.wake, plan.again);
        let mut notes = std::mem::take(&mut plan.notes);
        let strict = is_strict(job, &self.limits);
        let performer = Performer {
            job,
            template: Template::new(&job.template, place(job)),
            strict,
            writes: &core.writes,
            metrics: &core.metrics.jobs,
            not_after: apply::end_of_life(&core.writes),
        };
        let mut applied = core.carry_out(owner, &performer, plan, sequence).await;
        // What the status says is worth its event only if it was stored. Upstream tells that a Job is
        // suspended or resumed before it tries.
        if applied.stopped {
            notes.retain(|note| strict && ["Suspended", "Resumed"].contains(&note.reason));
        }
        // Pods come before what became of them.
        notes.splice(0..0, std::mem::take(&mut applied.notes));
        core.tell(owner, REPORTER, notes);
        let learnt = self.remember(job, std::mem::take(&mut applied.answers));
        next(&applied, wake, again, learnt)
    }

    /// What is remembered of a Job, less what its pods answer by being there.
    fn remembered(&self, tables: &Tables, owner: &ObjectKey, now: Timestamp) -> Memory {
        let mut memory = lock(&self.memory);
        let Some(memory) = memory.get_mut(owner) else {
            return Memory::default();
        };
        memory.follow(tables, owner, now);
        memory.clone()
    }

    /// Keeps the answers for the next plan; failures once the status that has counted them is written. True when
    /// that plan should come at once.
    fn remember(&self, job: &Job, answers: Vec<Answer>) -> bool {
        let owner = &job.meta.owner;
        let mut memory = lock(&self.memory);
        if job.has_finished() {
            memory.remove(owner);
        }
        if job.has_finished() || answers.is_empty() {
            return false;
        }
        let memory = memory.entry(owner.clone()).or_default();
        let mut answered = false;
        for answer in answers {
            match answer {
                Answer::Written(backoff) => memory.backoff = backoff,
                Answer::Unanswered(name) => {
                    let until = may_come_until(self.core.writes.clock().now());
                    memory.unanswered.insert(name, until);
                }
                Answer::Answered(name) => answered |= memory.unanswered.remove(&name).is_some(),
                Answer::Named(_) => {}
            }
        }
        answered
    }

    /// The Job is not in the cache. When it is really gone its pods are let go, whoever served it:
    /// nobody will count them any more.
    async fn after_deletion(&self, key: &ObjectKey) -> Next {
        let core = &self.core;
        let tracked: Vec<_> = {
            let tables = core.store.read();
            let pods = tables.job_pods(key).into_iter().flatten();
            let tracked = pods.filter(|(_, pod)| pod.tracked);
            tracked.map(|(name, pod)| (name.clone(), pod.uid)).collect()
        };
        let kind = Some(Kind::NativeJob);
        core.after_deletion(kind, key, tracked, async |(pod, uid)| {
            let request = request::release_job_pod(&key.namespace, &pod, uid);
            let reply = apply::settled(core.writes.send(request, None).await)?;
            Ok(reply.done().is_some())
        })
        .await
    }
}
