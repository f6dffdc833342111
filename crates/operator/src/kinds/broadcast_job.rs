//! BroadcastJob: one pod on each node that fits.

mod cached;
mod confirmed;
mod family;
mod inputs;
mod kept;
mod ledger;
mod memory;
pub(crate) mod metrics;
mod node_changed;
pub(crate) mod object;
mod observe;
mod performer;
mod pod;
mod pod_rows;
mod pods;
pub mod requests;
mod retries;
mod row;
pub(crate) mod slice;
mod slices;
pub(crate) mod tables;
mod taken;

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use carillon_plan::broadcast_job::action::{Action, Note, Plan};
use carillon_plan::broadcast_job::{BroadcastJob, Snapshot};
use carillon_plan::interlock::{self, Trip};
use carillon_plan::left_behind::Held;
use carillon_plan::object_key::POD;
use carillon_plan::pod_body::PodPlacement;
use carillon_plan::{ObjectKey, Uid};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use self::confirmed::Confirmed;
use self::kept::Kept;
use self::memory::snapshot;
use self::performer::{Answer, Performer, place};
use crate::apply::Effect;
use crate::apply::template::Template;
use crate::args::{self, Config};
use crate::controllers::core::Core;
use crate::controllers::irreproducible::Irreproducible;
use crate::controllers::kind::{Follow, Learnt, RulesOf, ServedKind};
use crate::gate::Kind;
use crate::metrics::Metrics;
use crate::store::Tables;
use crate::writes::{SendError, Writes};
use crate::{apply, clock, watch};

pub use self::inputs::{Inputs, LastWords, Refusal, Remembered, TemplateAnswer};
pub use self::ledger::Ledger;
pub use self::memory::Memory;
pub use self::metrics::BroadcastJobMetrics;
pub use self::object::SlimBroadcastJob;
pub use self::pod_rows::PodRows;
pub use self::slice::SlimSlice;
pub use self::tables::{BroadcastJobTables, CONTROLLER};

type Applied = apply::Applied<Answer>;
/// How soon the next pods are tried, when all of a plan were refused each by itself.
const REFUSED_RETRY: Duration = Duration::from_secs(1);

/// What the flags say about BroadcastJobs.
#[derive(Debug)]
pub struct BroadcastJobs {
    /// How pods get to their node.
    pub placement: PodPlacement,
    /// Pods created or deleted in one sync.
    pub max_pod_changes: usize,
}

impl ServedKind for BroadcastJobs {
    const RULES: RulesOf<Self> = RulesOf {
        plan: carillon_plan::broadcast_job::plan,
        verify: interlock::broadcast_job::verify,
    };
    const INTERLOCK: &'static [&'static str] = &interlock::broadcast_job::rules::ALL;
    type Action = Action;
    type Answer = Answer;
    type Memory = Memory;
    type Snapshot<'a> = Snapshot<'a>;
    type Inputs = Inputs;
    type Performer<'a> = Performer<'a>;

    fn configured(config: &Config, _: &[watch::Handle]) -> Option<Self> {
        Some(Self {
            placement: match config.pod_placement {
                args::PodPlacement::Scheduler => PodPlacement::Scheduler,
                args::PodPlacement::NodeName => PodPlacement::NodeName,
            },
            max_pod_changes: config.max_pod_changes_per_sync,
        })
    }

    fn follow(&self, memory: &mut Memory, of: Follow<'_, Self>) {
        memory.catch_up(of.tables, of.object, of.now);
        memory.forget_disputed(clock::instant());
        memory.refusal = of.refusal;
    }

    fn snapshot<T>(
        &self,
        memory: &Memory,
        tables: &Tables,
        job: &BroadcastJob,
        look: impl FnOnce(&Snapshot<'_>) -> T,
    ) -> T {
        snapshot(tables, job, memory, self.max_pod_changes, look)
    }

    fn inputs(&self, memory: &Memory, snapshot: &Snapshot<'_>) -> Inputs {
        memory.inputs(snapshot)
    }

    fn recorded(
        inputs: Inputs,
        tables: &mut Tables,
        key: &ObjectKey,
        _: i64,
    ) -> Result<(Self, Memory), Irreproducible> {
        if let Some(why) = inputs.incomplete {
            return Err(Irreproducible::Incomplete(why));
        }
        tables.recall(&key.namespace, &inputs.remembered);
        let mut memory = Memory::recorded(&inputs).map_err(Irreproducible::Unreadable)?;
        let job = tables.broadcast_jobs.get(key);
        memory.results_lost = job.is_some_and(|job| Kept::default().catch_up(tables, job));
        let kind = Self {
            placement: PodPlacement::Scheduler,
            max_pod_changes: inputs.max_pod_changes,
        };
        Ok((kind, memory))
    }

    fn refuse(job: &BroadcastJob, trip: &Trip, now: Timestamp) -> Plan {
        interlock::broadcast_job::refuse(job, trip, now)
    }

    fn discard_derived(memory: &mut Memory) {
        memory.kept = None;
    }

    fn is_blank(memory: &Memory) -> bool {
        memory.is_blank()
    }

    fn performer<'a>(
        &'a self,
        memory: &mut Memory,
        job: &'a BroadcastJob,
        plan: &Plan,
        core: &'a Core,
        now: Timestamp,
    ) -> Performer<'a> {
        let created = memory.created().map(|(_, uid)| uid).collect();
        Performer {
            job,
            template: Template::new(&job.template, place(job)),
            writes: &core.writes,
            placement: self.placement,
            not_after: apply::end_of_life(&core.writes),
            now,
            unwatched: memory.unwatched(),
            of_relatives: of_relatives(&core.store.read(), job, plan, created),
            relies_on: Confirmed::nothing(job, &core.writes),
        }
    }

    fn learn(
        &self,
        memory: &mut Memory,
        _: &BroadcastJob,
        applied: &mut Applied,
        core: &Core,
        now: Timestamp,
    ) -> Learnt {
        let pods = &core.metrics.broadcast_jobs.pod_creation;
        let succeeded = pods.with_label_values(&["succeeded"]);
        succeeded.inc_by(applied.created as u64);
        let (mut at_once, mut refused_now) = (false, false);
        for answer in std::mem::take(&mut applied.answers) {
            match answer {
                Answer::Template(template) => {
                    memory.template = template;
                    at_once = true;
                }
                Answer::Taken(taken) => at_once |= memory.learn_taken(*taken),
                Answer::Written(pod) => memory.learn_written(pod),
                Answer::Gone(pod) => at_once |= memory.learn_gone(pod),
                Answer::NameConflict(pod) => at_once |= memory.learn_conflict(pod),
                Answer::Created(pod, uid) => {
                    at_once |= memory.learn_accepted(&pod);
                    memory.learn_created(pod, uid);
                }
                Answer::Disputed(pod, uid) => {
                    if let Some(uid) = uid {
                        memory.learn_created(pod.clone(), uid);
                    }
                    at_once |= memory.learn_disputed(pod, clock::instant());
                }
                Answer::CreationAccepted => at_once |= memory.learn_all_accepted(),
                Answer::CreationRefused(refused) => {
                    pods.with_label_values(&["failed"]).inc();
                    refused_now |= refused.of_one && !memory.is_refused(&refused.pod);
                    at_once |= memory.learn_creation_refused(refused, now);
                }
            }
        }
        // The next plan tries those last that were refused, and need not wait to try the others.
        let after = match applied.created {
            0 => REFUSED_RETRY,
            _ => Duration::ZERO,
        };
        Learnt {
            at_once,
            after: refused_now.then_some(after),
        }
    }

    /// A pod that is other than as it was read is no refusal.
    fn answered(applied: &Applied) -> Option<&'static [&'static str]> {
        let other =
            |answer: &Answer| matches!(answer, Answer::NameConflict(_) | Answer::Disputed(..));
        Some(if applied.answers.iter().any(other) {
            &["create_pod", "confirm_pod"]
        } else {
            &["create_pod"]
        })
    }

    fn conditions(job: &BroadcastJob) -> &[Condition] {
        &job.status.conditions
    }

    fn reporter(_: &BroadcastJob) -> &'static str {
        "carillon.dev/broadcastjob-controller"
    }

    fn notes(&self, _: &BroadcastJob, planned: Vec<Note>, applied: &mut Applied) -> Vec<Note> {
        told(planned, applied)
    }

    fn held(memory: &Memory, tables: &Tables, key: &ObjectKey) -> Vec<Held> {
        held(memory, tables, key)
    }

    async fn release(writes: &Writes, key: &ObjectKey, held: &Held) -> Result<Effect, SendError> {
        let request = requests::release_pod(&key.namespace, &held.name, held.uid);
        apply::release(writes, Kind::Pod, request).await
    }

    fn released(memory: &mut Memory, pod: Uid) {
        memory.learn_released(pod);
    }

    /// As long as there are records of the job, they are read at each event.
    fn after_deletion(memory: Memory, tables: &Tables, key: &ObjectKey) -> Option<Memory> {
        tables.broadcast_jobs.ledger(key)?;
        Some(memory.only_what_was_released()).filter(|left| !left.is_blank())
    }

    fn count(metrics: &Metrics, result: &'static str, seconds: f64) {
        metrics.broadcast_jobs.syncs.count(result, seconds);
    }
}

/// The pods that a job which is gone may have left with our finalizer. Those that are not watched have lost its
/// label, or are gone. They are known by its records, which are about to go, too, or from their creation.
fn held(memory: &Memory, tables: &Tables, job: &ObjectKey) -> Vec<Held> {
    let pod = |name: &str, uid, watched| Held {
        kind: POD,
        name: name.into(),
        uid,
        rv: None,
        watched,
    };
    let known: HashSet<Uid> = tables
        .broadcast_jobs
        .watched_pods(job)
        .map(|(_, pod)| pod.uid)
        .collect();
    let slices = tables
        .broadcast_jobs
        .ledger(job)
        .map_or(&[][..], |ledger| &ledger.slices);
    let records = slices.iter().flat_map(|slice| &slice.records);
    let open = records.filter(|record| !record.is_final());
    let unseen = open.filter_map(|record| Some((&*record.pod, record.pod_uid?)));
    let unseen = unseen.chain(memory.created());
    let unseen = unseen.filter(|(_, uid)| !known.contains(uid) && !memory.was_released(*uid));
    let unseen = unseen.map(|(name, uid)| pod(name, uid, false));
    let tracked = tables
        .broadcast_jobs
        .watched_pods(job)
        .filter(|(_, pod)| pod.tracked);
    let tracked = tracked.map(|(name, row)| pod(name, row.uid, true));
    tracked.chain(unseen).collect()
}

/// The pods that a plan asks for and that no record of the job names: those of others of its family.
fn of_relatives(
    tables: &Tables,
    job: &BroadcastJob,
    plan: &Plan,
    created: Vec<Uid>,
) -> BTreeSet<Uid> {
    let asked = |action: &Action| match action {
        Action::ConfirmGone { uid, .. } => Some(*uid),
        _ => None,
    };
    let actions = plan.steps.iter().flat_map(|step| &step.actions);
    let mut pods: BTreeSet<Uid> = actions.filter_map(asked).collect();
    if !pods.is_empty() {
        let slices = tables
            .broadcast_jobs
            .ledger(&job.meta.owner)
            .map_or(&[][..], |l| &l.slices);
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
            about: None,
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
                let answered = BroadcastJobs::answered(&applied).unwrap();
                refusals.learn(&key, &applied, answered);
            }
            refusals.of(&key, None).is_some()
        };
        assert!(!told(409, true));
        assert!(told(403, false));
    }
}
