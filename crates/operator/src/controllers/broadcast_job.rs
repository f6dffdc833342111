//! BroadcastJob: gate, snapshot, plan, apply for one job at a time.

mod inputs;
mod kept;
mod memory;
mod observe;
mod replay;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use carillon_plan::broadcast_job::action::{Action, Note, Plan};
use carillon_plan::broadcast_job::{Job, Snapshot};
use carillon_plan::interlock::{self, Trip};
use carillon_plan::pod_body::PodPlacement;
use carillon_plan::{ObjectKey, Uid};
use jiff::Timestamp;

use super::core::{Considered, Controller, Core, Next, lock, next};
use crate::apply;
use crate::apply::broadcast_job::{Answer, Confirmed, Performer, place};
use crate::apply::template::Template;
use crate::clock;
use crate::gate::Kind;
use crate::request;
use crate::store::Tables;
use crate::writes::SendError;

pub use self::inputs::{Inputs, LastWords, Refusal, Remembered, TemplateAnswer};
use self::kept::Kept;
pub use self::memory::Memory;
use self::memory::snapshot;
pub use self::observe::{debug, measure};
pub use self::replay::replay;

type Applied = apply::Applied<Answer>;

/// Name in logs, metrics and the work queue.
pub const NAME: &str = "broadcastjob";
/// `reportingController` of our events.
const REPORTER: &str = "carillon.dev/broadcastjob-controller";
/// How soon the next pods are tried, when all of a plan were refused each by itself.
const REFUSED_RETRY: Duration = Duration::from_secs(1);

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
            plan: carillon_plan::broadcast_job::plan,
            verify: interlock::verify,
        }
    }
}

/// The controller.
#[derive(Debug)]
pub struct BroadcastJobs {
    /// What every controller works with.
    pub core: Core,
    /// What decides.
    pub rules: Rules,
    /// How pods get to their node.
    pub placement: PodPlacement,
    /// Pods created or deleted in one sync.
    pub max_pod_changes: usize,
    /// What the API server answered, by job.
    pub memory: Mutex<HashMap<Arc<ObjectKey>, Memory>>,
}

impl Controller for BroadcastJobs {
    fn core(&self) -> &Core {
        &self.core
    }

    async fn sync(&self, key: &Arc<ObjectKey>) -> Next {
        let core = &self.core;
        let now = core.writes.clock().now();
        let begin = clock::instant();
        let considered = {
            let tables = core.store.read();
            if let Some(job) = tables.job(key) {
                let kept = self.kept(key);
                let mut kept = lock(&kept);
                let lost = kept.catch_up(&tables, job);
                if !core.may_pass(&tables, &job.owner) {
                    return Next::Gated;
                }
                Some((job.clone(), self.plan(&tables, job, &mut kept, lost, now)))
            } else {
                None
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
        let refuse = |trip: &Trip| interlock::refuse(&job, trip, now);
        let (plan, sequence) = core.decide(&job.owner, considered, now, refuse);
        self.carry_out(&job, plan, sequence, now).await
    }

    fn remembers(&self) -> usize {
        lock(&self.memory).len()
    }

    fn forget(&self, key: &ObjectKey) {
        // As long as there are records of the job, they are read at each event.
        let has_records = self.core.store.read().ledger(key).is_some();
        let mut memory = lock(&self.memory);
        match memory.get_mut(key) {
            Some(memory) if has_records => memory.forget_but_what_was_let_go(),
            _ => drop(memory.remove(key)),
        }
    }

    fn observe(&self, result: &'static str, seconds: f64) {
        let metrics = &self.core.metrics;
        let duration = &metrics.broadcastjob_sync_duration;
        duration.with_label_values(&[result]).observe(seconds);
        metrics
            .broadcastjob_syncs
            .with_label_values(&[result])
            .inc();
    }
}

/// What the answers to a plan mean for the next one.
#[derive(Clone, Copy, Debug)]
struct Learnt {
    /// It should come at once.
    answered: bool,
    /// Pods were refused, each by itself and for the first time.
    refused: bool,
}

impl BroadcastJobs {
    /// What is kept of a job from plan to plan. It may take long to catch up, for which no other job waits.
    fn kept(&self, job: &Arc<ObjectKey>) -> Arc<Mutex<Kept>> {
        let mut memory = lock(&self.memory);
        let kept = memory.entry(job.clone()).or_default().kept.clone();
        if kept.is_poisoned() {
            // Who panicked may have been cut off while it caught up.
            kept.clear_poison();
            *lock(&kept) = Kept::default();
        }
        kept
    }

    fn plan(
        &self,
        tables: &Tables,
        job: &Job,
        kept: &mut Kept,
        results_lost: bool,
        now: Timestamp,
    ) -> Considered<Action> {
        let mut memory = {
            let mut memory = lock(&self.memory);
            let memory = memory.entry(job.owner.clone()).or_default();
            memory.follow(tables, &job.owner, &kept.index, now);
            memory.clone()
        };
        memory.forget_disputed(clock::instant());
        memory.refusal = self.core.refusals.of(&job.owner);
        memory.results_lost = results_lost;
        let index = &kept.index;
        let most = self.max_pod_changes;
        let considered = snapshot(tables, job, &memory, most, Some(index), |snapshot| {
            let plan = (self.rules.plan)(snapshot, now);
            let verdict = (self.rules.verify)(snapshot, &plan, now);
            Considered {
                generation: job.generation,
                rv: job.rv,
                plan,
                verdict,
                seen: tables.seen(&job.owner.namespace),
                inputs: serde_json::to_value(memory.inputs(snapshot)).unwrap_or_default(),
            }
        });
        if considered.verdict.is_err() {
            // What the plan was made from may be wrong: it is read anew.
            *kept = Kept::default();
        }
        considered
    }

    async fn carry_out(&self, job: &Job, mut plan: Plan, sequence: u64, now: Timestamp) -> Next {
        let core = &self.core;
        let (wake, again) = (plan.wake, plan.again);
        let notes = std::mem::take(&mut plan.notes);
        let (unwatched, created) = {
            let memory = lock(&self.memory);
            let memory = memory.get(&job.owner);
            let created = memory.map(|memory| memory.created().map(|(_, uid)| uid).collect());
            (memory.map(Memory::unwatched), created)
        };
        let performer = Performer {
            job,
            template: Template::new(&job.template, place(job)),
            writes: &core.writes,
            placement: self.placement,
            not_after: apply::end_of_life(&core.writes),
            now,
            unwatched: unwatched.unwrap_or_default(),
            of_relatives: of_relatives(&core.store.read(), job, &plan, created.unwrap_or_default()),
            relies_on: Confirmed::nothing(job, &core.writes),
        };
        let owner = &job.owner;
        let mut applied = core.carry_out(owner, &performer, plan, sequence).await;
        let over = core.refusals.learn(owner, &applied, answered(&applied));
        core.tell(owner, REPORTER, told(notes, &applied));
        let learnt = self.remember(owner, &mut applied, now);
        if learnt.refused {
            // The next plan tries them last, and need not wait to try the others.
            let all_refused = applied.created == 0;
            let delay = if all_refused {
                REFUSED_RETRY
            } else {
                Duration::ZERO
            };
            return Next::After(delay);
        }
        next(&applied, wake, again, learnt.answered || over)
    }

    /// Keeps the answers for the next plan.
    fn remember(&self, key: &Arc<ObjectKey>, applied: &mut Applied, now: Timestamp) -> Learnt {
        let (created, pods) = (
            applied.created,
            &self.core.metrics.broadcastjob_pod_creation,
        );
        pods.with_label_values(&["succeeded"])
            .inc_by(created as u64);
        let mut memory = lock(&self.memory);
        let memory = memory.entry(key.clone()).or_default();
        let (mut answered, mut refused_now) = (false, false);
        for answer in std::mem::take(&mut applied.answers) {
            match answer {
                Answer::Template(template) => {
                    memory.template = template;
                    answered = true;
                }
                Answer::Taken(taken) => answered |= memory.learn_taken(*taken),
                Answer::Written(pod) => memory.learn_written(pod),
                Answer::Gone(pod) => answered |= memory.learn_gone(pod),
                Answer::NameConflict(pod) => answered |= memory.learn_conflict(pod),
                Answer::Created(pod, uid) => {
                    answered |= memory.learn_accepted(&pod);
                    memory.learn_created(pod, uid);
                }
                Answer::Disputed(pod, uid) => {
                    if let Some(uid) = uid {
                        memory.learn_created(pod.clone(), uid);
                    }
                    answered |= memory.learn_disputed(pod, clock::instant());
                }
                Answer::CreationAccepted => answered |= memory.learn_all_accepted(),
                Answer::CreationRefused(refused) => {
                    pods.with_label_values(&["failed"]).inc();
                    refused_now |= refused.of_one && !memory.is_refused(&refused.pod);
                    answered |= memory.learn_creation_refused(refused, now);
                }
            }
        }
        Learnt {
            answered,
            refused: refused_now,
        }
    }

    /// The job is not in the cache. When it is really gone its pods are let go.
    async fn after_deletion(&self, key: &ObjectKey) -> Next {
        let core = &self.core;
        let mut held = held(&core.store.read(), key);
        if let Some(memory) = lock(&self.memory).get(key) {
            let unseen = memory.created().map(|(pod, uid)| (pod.into(), uid, false));
            held.extend(unseen);
            held.retain(|(_, uid, watched)| *watched || !memory.was_let_go(*uid));
        }
        core.after_deletion(
            Some(Kind::BroadcastJob),
            key,
            held,
            async |(pod, uid, watched)| {
                let request = request::release_pod(&key.namespace, &pod, uid);
                let reply = apply::settled(core.writes.send(request, None).await)?;
                lock(&self.memory)
                    .entry(Arc::new(key.clone()))
                    .or_default()
                    .learn_let_go(uid);
                // Of one that is not watched nothing is told any more.
                Ok(reply.done().is_some() || !watched)
            },
        )
        .await
    }
}

/// The pods that a job which is gone may have left with our finalizer: name, uid, and whether they are watched.
/// Those that are not have lost its label, or are gone. They are known by its records, which are about to go, too.
fn held(tables: &Tables, job: &ObjectKey) -> Vec<(Box<str>, Uid, bool)> {
    let known: HashSet<Uid> = tables.watched_pods(job).map(|(_, pod)| pod.uid).collect();
    let slices = tables.ledger(job).map_or(&[][..], |ledger| &ledger.slices);
    let open = slices
        .iter()
        .flat_map(|slice| &slice.records)
        .filter(|record| !record.is_final());
    let unseen = open.filter_map(|record| Some((record.pod.clone(), record.pod_uid?, false)));
    let unseen = unseen.filter(|(_, uid, _)| !known.contains(uid));
    let tracked = tables.watched_pods(job).filter(|(_, pod)| pod.tracked);
    let tracked = tracked.map(|(name, pod)| (name.into(), pod.uid, true));
    tracked.chain(unseen).collect()
}

/// Actions of whose refusal the planner is told in a better way. A pod that is other than as it was read is
/// no refusal.
fn answered(applied: &Applied) -> &'static [&'static str] {
    let other = |answer: &Answer| matches!(answer, Answer::NameConflict(_) | Answer::Disputed(..));
    if applied.answers.iter().any(other) {
        &["create_pod", "confirm_pod"]
    } else {
        &["create_pod"]
    }
}

/// The pods that a plan asks for and that no record of the job names: those of others of its family.
fn of_relatives(tables: &Tables, job: &Job, plan: &Plan, created: Vec<Uid>) -> BTreeSet<Uid> {
    let asked = |action: &Action| match action {
        Action::ConfirmGone { uid, .. } => Some(*uid),
        _ => None,
    };
    let actions = plan.steps.iter().flat_map(|step| &step.actions);
    let mut pods: BTreeSet<Uid> = actions.filter_map(asked).collect();
    if !pods.is_empty() {
        let slices = tables.ledger(&job.owner).map_or(&[][..], |l| &l.slices);
        let records = slices.iter().flat_map(|slice| &slice.records);
        for own in records.filter_map(|record| record.pod_uid).chain(created) {
            pods.remove(&own);
        }
    }
    pods
}

/// What people are told of a plan that was carried out.
fn told(notes: Vec<Note>, applied: &Applied) -> Vec<Note> {
    // A change of status is worth its event only if it was stored.
    let mut notes = if applied.stopped { Vec::new() } else { notes };
    let mut note = |warning, reason, action, message| {
        notes.push(Note {
            warning,
            reason,
            action,
            message,
        });
    };
    if applied.created > 0 {
        let message = format!("Created {}", pods(applied.created));
        note(false, "SuccessfulCreate", "Creating", message);
    }
    if applied.deleted > 0 {
        let message = format!("Deleted {}", pods(applied.deleted));
        note(false, "SuccessfulDelete", "Deleting", message);
    }
    if let Some((word, error @ SendError::Refused(_))) = &applied.failed
        && !applied.conflict
    {
        let (reason, action) = match *word {
            "create_pod" => ("FailedCreate", "Creating"),
            "delete_pod" => ("FailedDelete", "Deleting"),
            _ => ("FailedSync", "Syncing"),
        };
        note(true, reason, action, error.to_string());
    }
    notes
}

fn pods(count: usize) -> String {
    if count == 1 {
        "1 pod".to_owned()
    } else {
        format!("{count} pods")
    }
}

#[cfg(test)]
mod tests {
    use carillon_plan::object_key::BROADCAST_JOB;

    use super::*;
    use crate::controllers::refusals::Refusals;

    #[test]
    fn a_pod_that_is_in_the_way_however_long_is_not_told_as_a_write_that_is_refused() {
        let key = ObjectKey::of(BROADCAST_JOB, "ops", "fix", Uid::MAX);
        let told = |code, in_the_way: bool| {
            let refusals = Refusals::default();
            for _ in 0..5 {
                let mut status = kube::core::Status::failure("no", apply::NAME_TAKEN);
                status.code = code;
                let answers = in_the_way.then(|| Answer::NameConflict("fix-1".into()));
                let answers = answers.into_iter();
                let applied = Applied {
                    failed: Some(("confirm_pod", SendError::Refused(Box::new(status)))),
                    answers: answers.collect(),
                    ..Applied::default()
                };
                refusals.learn(&key, &applied, answered(&applied));
            }
            refusals.of(&key).is_some()
        };
        assert!(!told(409, true));
        assert!(told(403, false));
    }
}
