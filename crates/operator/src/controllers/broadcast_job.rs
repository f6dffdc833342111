//! BroadcastJob: gate, snapshot, plan, apply for one job at a time.

mod memory;
mod observe;
mod replay;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use carillon_plan::Uid;
use carillon_plan::action::{Note, Plan};
use carillon_plan::broadcast_job::{Job, Snapshot};
use carillon_plan::interlock::{self, Trip};
use carillon_plan::pod_body::PodPlacement;
use futures::{StreamExt, stream};
use jiff::Timestamp;

use crate::apply::{self, Answer, Applied, Means};
use crate::clock;
use crate::event::{Event, EventSink, Regarding, Severity};
use crate::flight_recorder::{Decision, FlightRecorder, Inputs, Outcome, summary};
use crate::gate::{Gate, Kind, Passage, Versions};
use crate::metrics::Metrics;
use crate::queue::{Claim, WorkQueue};
use crate::request;
use crate::store::{Store, Tables};
use crate::watch;

pub use self::memory::Memory;
use self::memory::{is_behind, snapshot};
pub use self::observe::{debug, measure};
pub use self::replay::{Irreproducible, replay};
use crate::writes::{SendError, Writes};

/// Name in logs, metrics and the work queue.
pub const NAME: &str = "broadcastjob";
/// `reportingController` of our events.
const REPORTER: &str = "carillon.dev/broadcastjob-controller";
/// How soon a job whose own writes are not yet seen is looked at again.
const GATE_RETRY: Duration = Duration::from_millis(20);
/// How soon a job is looked at again when its plan was made from an old state.
const CONFLICT_RETRY: Duration = Duration::from_millis(200);

/// How soon a job whose results are not all in the cache is looked at again, and for how long.
const BEHIND_RETRY: Duration = Duration::from_secs(1);
const BEHIND_LIMIT: Duration = Duration::from_secs(30);

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
    /// The caches.
    pub store: Store,
    /// The keys.
    pub queue: WorkQueue<Uid>,
    /// The way of every write.
    pub writes: Writes,
    /// Takes events.
    pub events: EventSink,
    /// Metrics.
    pub metrics: Arc<Metrics>,
    /// The watches, to list anew when the gate is overdue.
    pub watches: Vec<watch::Handle>,
    /// What decides.
    pub rules: Rules,
    /// How pods get to their node.
    pub placement: PodPlacement,
    /// Pods created or deleted in one sync.
    pub max_pod_changes: usize,
    /// Requests of one sync in flight.
    pub parallel: usize,
    /// What was written and not yet seen.
    pub gate: Mutex<Gate>,
    /// What the API server answered, by job.
    pub memory: Mutex<HashMap<Uid, Memory>>,
    /// The last decisions.
    pub flights: Arc<FlightRecorder>,
}

/// A plan under the eyes of the interlock, and what it was made from.
struct Planned {
    job: Arc<Job>,
    plan: Plan,
    verdict: Result<(), Trip>,
    seen: Versions,
    inputs: Inputs,
}

/// What to do with a key after its sync.
#[derive(Debug)]
enum Next {
    /// Nothing until something happens, or until this time.
    Wait(Option<Timestamp>),
    /// Again when the caches have caught up.
    Gated,
    /// Again after this time.
    After(Duration),
    /// The object is gone.
    Forget,
    /// Something failed. Timers of the plan go on while the key backs off.
    Failed(Option<Timestamp>),
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is kept here stays whole: it is changed by single inserts.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl BroadcastJobs {
    /// Takes keys until the queue is shut down.
    pub async fn work(self: Arc<Self>) {
        while let Some(claim) = self.queue.get().await {
            let uid = *claim;
            let begin = clock::instant();
            let sync = std::panic::AssertUnwindSafe(self.sync(uid));
            let next = futures::FutureExt::catch_unwind(sync)
                .await
                .unwrap_or_else(|_| {
                    self.metrics.panics.with_label_values(&[NAME]).inc();
                    tracing::error!(controller = NAME, %uid, "a sync panicked; please report it");
                    Next::Failed(None)
                });
            let result = if matches!(next, Next::Failed(_)) {
                "error"
            } else {
                "success"
            };
            let seconds = begin.elapsed().as_secs_f64();
            self.metrics
                .broadcastjob_sync_duration
                .with_label_values(&[result])
                .observe(seconds);
            self.metrics
                .broadcastjob_syncs
                .with_label_values(&[result])
                .inc();
            self.schedule(claim, &next);
        }
    }

    fn schedule(&self, claim: Claim<Uid>, next: &Next) {
        let uid = *claim;
        match next {
            Next::Gated => {
                claim.later(GATE_RETRY);
                return;
            }
            Next::Failed(wake) => {
                let now = self.writes.clock().now();
                if let Some(time) = wake.filter(|time| *time > now) {
                    self.queue.add_after(uid, self.until(time));
                }
                claim.retry();
                return;
            }
            Next::Wait(None) => {}
            Next::Wait(Some(time)) => {
                self.queue.add_after(uid, self.until(*time));
            }
            Next::After(delay) => self.queue.add_after(uid, *delay),
            Next::Forget => {
                lock(&self.gate).forget(uid);
                lock(&self.memory).remove(&uid);
                self.queue.drop_key(&uid);
            }
        }
        claim.done();
    }

    /// How long to wait for a time: a little later than due, so that the plan then finds it past.
    fn until(&self, time: Timestamp) -> Duration {
        let wait = time.duration_since(self.writes.clock().now());
        Duration::try_from(wait).unwrap_or_default() + Duration::from_millis(1)
    }

    async fn sync(&self, uid: Uid) -> Next {
        let now = self.writes.clock().now();
        let begin = clock::instant();
        let planned = {
            let tables = self.store.read();
            match tables.job(uid) {
                Some(job) if self.waits_for_results(&tables, job) => {
                    return Next::After(BEHIND_RETRY);
                }
                Some(job) if self.may_pass(&tables, job) => Some(self.plan(&tables, job, now)),
                Some(_) => return Next::Gated,
                None => None,
            }
        };
        let Some(planned) = planned else {
            return self.after_deletion(uid).await;
        };
        let took = begin.elapsed().as_secs_f64();
        self.metrics
            .plan_duration
            .with_label_values(&[NAME])
            .observe(took);
        let (job, plan, sequence) = self.decide(planned, now);
        self.carry_out(&job, plan, sequence, now).await
    }

    /// Whether the results in the cache are fewer than the status counts. After a fail-over the
    /// caches of the two kinds may be apart for a moment; if it lasts, results were deleted.
    fn waits_for_results(&self, tables: &Tables, job: &Job) -> bool {
        let mut memory = lock(&self.memory);
        if !is_behind(job, tables.ledger(job.owner.uid)) {
            if let Some(memory) = memory.get_mut(&job.owner.uid) {
                memory.behind_since = None;
            }
            return false;
        }
        let now = clock::instant();
        let since = memory
            .entry(job.owner.uid)
            .or_default()
            .behind_since
            .get_or_insert(now);
        now.saturating_duration_since(*since) < BEHIND_LIMIT
    }

    /// Whether the caches have seen what was written for the job.
    fn may_pass(&self, tables: &Tables, job: &Job) -> bool {
        let seen = tables.seen(&job.owner.namespace);
        match lock(&self.gate).ask(job.owner.uid, &seen, clock::instant()) {
            Passage::Open(waited) => {
                if !waited.is_zero() {
                    self.metrics
                        .gate_wait
                        .with_label_values(&[NAME])
                        .observe(waited.as_secs_f64());
                }
                true
            }
            Passage::Wait => {
                self.metrics.gate_waits.with_label_values(&[NAME]).inc();
                false
            }
            Passage::Overdue => {
                tracing::warn!(
                    controller = NAME,
                    ns = job.owner.namespace,
                    name = job.owner.name,
                    "own writes were not seen in time; listing anew"
                );
                for watch in &self.watches {
                    watch.relist();
                }
                true
            }
        }
    }

    fn plan(&self, tables: &Tables, job: &Arc<Job>, now: Timestamp) -> Planned {
        let uid = job.owner.uid;
        let memory = lock(&self.memory).get(&uid).cloned().unwrap_or_default();
        snapshot(tables, job, &memory, self.max_pod_changes, |snapshot| {
            let plan = (self.rules.plan)(snapshot, now);
            let verdict = (self.rules.verify)(snapshot, &plan, now);
            Planned {
                job: job.clone(),
                plan,
                verdict,
                seen: tables.seen(&job.owner.namespace),
                inputs: memory.inputs(snapshot),
            }
        })
    }

    /// Notes the decision, and puts what may be done in the place of what must not.
    fn decide(&self, planned: Planned, now: Timestamp) -> (Arc<Job>, Plan, u64) {
        let Planned {
            job,
            plan,
            verdict,
            seen,
            inputs,
        } = planned;
        let owner = &job.owner;
        let steps = summary(&plan);
        let decision = Decision {
            now,
            namespace: owner.namespace.clone(),
            name: owner.name.clone(),
            uid: owner.uid.to_string(),
            generation: job.generation,
            resource_version: job.rv,
            seen: Kind::ALL
                .map(|kind| (kind.word().to_owned(), seen.of(kind)))
                .into(),
            inputs,
            digest: plan.digest(),
            all_steps: (plan.steps.len() > steps.len()).then_some(plan.steps.len()),
            steps,
            wake: plan.wake,
            refused: verdict.as_ref().err().map(Trip::to_string),
            ..Decision::default()
        };
        let sequence = self.flights.record(owner.uid, decision);
        let plan = match verdict {
            Ok(()) => plan,
            Err(trip) => self.refuse(&job, &trip, now),
        };
        (job, plan, sequence)
    }

    /// What is done instead of a plan that must not be carried out.
    fn refuse(&self, job: &Job, trip: &Trip, now: Timestamp) -> Plan {
        let owner = &job.owner;
        tracing::error!(
            controller = NAME, ns = owner.namespace, name = owner.name, uid = %owner.uid,
            generation = job.generation, rule = trip.rule, found = trip.what,
            "the interlock refused a plan; please report it"
        );
        self.metrics
            .interlock_trips
            .with_label_values(&[NAME, trip.rule])
            .inc();
        // Either the planner is wrong, or what it was given is: a watch may have lost something.
        for watch in &self.watches {
            watch.relist();
        }
        interlock::refuse(job, trip, now)
    }

    async fn carry_out(&self, job: &Job, mut plan: Plan, sequence: u64, now: Timestamp) -> Next {
        let (wake, again) = (plan.wake, plan.again);
        let notes = std::mem::take(&mut plan.notes);
        for step in &plan.steps {
            for action in &step.actions {
                self.metrics
                    .plan_actions
                    .with_label_values(&[NAME, action.word()])
                    .inc();
            }
        }
        let idle = plan.steps.is_empty();
        let begin = clock::instant();
        let means = Means {
            writes: &self.writes,
            placement: self.placement,
            parallel: self.parallel,
        };
        let applied = apply::apply(means, job, plan, now).await;
        let uid = job.owner.uid;
        {
            let mut gate = lock(&self.gate);
            for (kind, rv) in &applied.versions {
                gate.wrote(uid, *kind, *rv);
            }
        }
        if !idle {
            log_summary(job, &applied, begin.elapsed());
            let outcome = Outcome::of(&applied);
            self.flights.add_outcome(uid, sequence, outcome);
        }
        self.publish(job, notes, &applied);
        let failed = applied.failed.is_some();
        let (conflict, expired) = (applied.conflict, applied.expired);
        let answered = self.remember(uid, applied);
        if conflict {
            Next::After(CONFLICT_RETRY)
        } else if failed {
            Next::Failed(wake)
        } else if again || answered || expired {
            Next::After(Duration::ZERO)
        } else {
            Next::Wait(wake)
        }
    }

    /// Keeps the answers for the next plan. True when that plan should come at once.
    fn remember(&self, uid: Uid, applied: Applied) -> bool {
        let (created, pods) = (applied.created, &self.metrics.broadcastjob_pod_creation);
        pods.with_label_values(&["succeeded"])
            .inc_by(created as u64);
        let mut memory = lock(&self.memory);
        let memory = memory.entry(uid).or_default();
        let mut answered = false;
        for answer in applied.answers {
            match answer {
                Answer::Template(template) => {
                    memory.template = template;
                    answered = true;
                }
                Answer::Gone(pod) => answered |= memory.gone.insert(pod),
                Answer::NameConflict(pod) => answered |= memory.conflicts.insert(pod),
                Answer::CreationAccepted => answered |= memory.creation_problem.take().is_some(),
                Answer::CreationRefused(problem) => {
                    pods.with_label_values(&["failed"]).inc();
                    memory.creation_problem = Some(problem);
                }
            }
        }
        answered
    }

    fn publish(&self, job: &Job, notes: Vec<Note>, applied: &Applied) {
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
        for note in notes {
            self.events.publish(Event {
                regarding: Regarding {
                    api_version: carillon_api::names::API_VERSION,
                    kind: "BroadcastJob",
                    namespace: job.owner.namespace.clone(),
                    name: job.owner.name.clone(),
                    uid: job.owner.uid.to_string(),
                },
                controller: REPORTER,
                severity: if note.warning {
                    Severity::Warning
                } else {
                    Severity::Normal
                },
                action: note.action,
                reason: note.reason.into(),
                note: note.message,
            });
        }
    }

    /// The job is not in the cache. When it is really gone its pods are let go.
    async fn after_deletion(&self, uid: Uid) -> Next {
        let (namespace, job, tracked) = {
            let tables = self.store.read();
            let Some(owned) = tables.pods(uid) else {
                return Next::Forget;
            };
            let tracked: Vec<(Box<str>, Uid)> = owned
                .pods
                .iter()
                .filter(|(_, pod)| pod.tracked)
                .map(|(name, pod)| (name.clone(), pod.uid))
                .collect();
            (owned.namespace.clone(), owned.job.clone(), tracked)
        };
        if tracked.is_empty() {
            return Next::Forget;
        }
        // The cache of jobs may be behind that of pods: only the API server knows.
        match apply::found(&self.writes, request::get_job(&namespace, &job)).await {
            Ok(Some(meta)) if meta.uid() == Some(uid) => {
                return Next::After(Duration::from_secs(1));
            }
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(controller = NAME, ns = %namespace, name = %job, %error, "cannot tell whether the job exists");
                return Next::Failed(None);
            }
        }
        let released: Vec<_> = stream::iter(tracked)
            .map(|(pod, pod_uid)| {
                let request = request::release_pod(&namespace, &pod, pod_uid);
                async move { apply::settled(self.writes.send(request, None).await) }
            })
            .buffer_unordered(self.parallel)
            .collect()
            .await;
        tracing::info!(controller = NAME, ns = %namespace, name = %job, %uid, pods = released.len(), "released the pods of a deleted job");
        if released.iter().any(Result::is_err) {
            Next::Failed(None)
        } else {
            Next::After(Duration::from_secs(1))
        }
    }
}

fn pods(count: usize) -> String {
    if count == 1 {
        "1 pod".to_owned()
    } else {
        format!("{count} pods")
    }
}

fn log_summary(job: &Job, applied: &Applied, took: Duration) {
    let owner = &job.owner;
    let took_ms = took.as_millis() as u64;
    let (created, deleted, released) = (applied.created, applied.deleted, applied.released);
    let writes = applied.writes;
    match &applied.failed {
        None => tracing::info!(
            controller = NAME, ns = owner.namespace, name = owner.name, uid = %owner.uid,
            generation = job.generation, writes, created, deleted, released, took_ms,
            "synced"
        ),
        Some((action, error)) => tracing::warn!(
            controller = NAME, ns = owner.namespace, name = owner.name, uid = %owner.uid,
            generation = job.generation, writes, created, deleted, released, took_ms,
            action, %error, conflict = applied.conflict,
            "synced in part"
        ),
    }
}
