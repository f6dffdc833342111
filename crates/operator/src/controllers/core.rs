//! What every controller works with, and what it does the same way as the others: take keys, wait at
//! the gate, note decisions, tell people.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use carillon_plan::interlock::Trip;
use carillon_plan::{Act, Note, Owner, Plan, Uid};
use jiff::Timestamp;

use crate::apply::{self, Applied, Perform};
use crate::clock;
use crate::event::{Event, EventSink, Regarding, Severity};
use crate::flight_recorder::{Decision, FlightRecorder, Outcome, summary};
use crate::gate::{Gate, Kind, Passage, Versions};
use crate::metrics::Metrics;
use crate::queue::{Claim, WorkQueue};
use crate::request;
use crate::store::{Store, Tables};
use crate::transport::{self, WATCH_PAUSE};
use crate::watch;
use crate::writes::{SendError, Writes};

/// How soon an object whose own writes are not yet seen is looked at again: watches are read no
/// more often.
const GATE_RETRY: Duration = WATCH_PAUSE;
/// How soon an object is looked at again when its plan was made from an old state.
const CONFLICT_RETRY: Duration = Duration::from_millis(200);

/// What a controller is given.
#[derive(Debug)]
pub struct Core {
    /// Its name in logs and metrics.
    pub name: &'static str,
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
    /// Requests of one sync in flight.
    pub parallel: usize,
    /// What was written and not yet seen.
    pub gate: Mutex<Gate>,
    /// The last decisions.
    pub flights: Arc<FlightRecorder>,
}

/// What to do with a key after its sync.
#[derive(Debug)]
pub enum Next {
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

/// A controller: one object at a time.
pub trait Controller: 'static {
    /// What it works with.
    fn core(&self) -> &Core;
    /// Brings one object up to date.
    fn sync(&self, uid: Uid) -> impl Future<Output = Next>;
    /// Drops what is remembered of an object that is gone.
    fn forget(&self, uid: Uid);
    /// Counts a sync: `success` or `error`, and its seconds.
    fn observe(&self, result: &'static str, seconds: f64);
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is kept here stays whole: it is changed by single inserts.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes keys until the queue is shut down.
pub async fn work<C: Controller>(controller: Arc<C>) {
    let core = controller.core();
    while let Some(claim) = core.queue.get().await {
        let uid = *claim;
        // What was read together is planned together: a Job and the pods that it is to adopt.
        transport::all_is_taken_in().await;
        let begin = clock::instant();
        let sync = std::panic::AssertUnwindSafe(controller.sync(uid));
        let next = futures::FutureExt::catch_unwind(sync)
            .await
            .unwrap_or_else(|_| {
                core.metrics.panics.with_label_values(&[core.name]).inc();
                tracing::error!(controller = core.name, %uid, "a sync panicked; please report it");
                Next::Failed(None)
            });
        let failed = matches!(next, Next::Failed(_));
        let result = if failed { "error" } else { "success" };
        controller.observe(result, begin.elapsed().as_secs_f64());
        if matches!(next, Next::Forget) {
            lock(&core.gate).forget(uid);
            controller.forget(uid);
        }
        core.schedule(claim, &next);
    }
}

impl Core {
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
            Next::Forget => self.queue.drop_key(&uid),
        }
        claim.done();
    }

    /// How long to wait for a time: a little later than due, so that the plan then finds it past.
    fn until(&self, time: Timestamp) -> Duration {
        let wait = time.duration_since(self.writes.clock().now());
        Duration::try_from(wait).unwrap_or_default() + Duration::from_millis(1)
    }

    /// Whether the caches have seen what was written for an object.
    pub(super) fn may_pass(&self, tables: &Tables, owner: &Owner) -> bool {
        let seen = tables.seen(&owner.namespace);
        match lock(&self.gate).ask(owner.uid, &seen, clock::instant()) {
            Passage::Open(waited) => {
                if !waited.is_zero() {
                    self.metrics
                        .gate_wait
                        .with_label_values(&[self.name])
                        .observe(waited.as_secs_f64());
                }
                true
            }
            Passage::Wait => {
                self.metrics
                    .gate_waits
                    .with_label_values(&[self.name])
                    .inc();
                false
            }
            Passage::Overdue => {
                tracing::warn!(
                    controller = self.name,
                    ns = owner.namespace,
                    name = owner.name,
                    "own writes were not seen in time; listing anew"
                );
                self.relist();
                true
            }
        }
    }

    /// The kinds whose caches have not seen what was written for an object.
    pub(super) fn behind(&self, tables: &Tables, owner: &Owner) -> Vec<Kind> {
        lock(&self.gate).behind(owner.uid, &tables.seen(&owner.namespace))
    }

    fn relist(&self) {
        for watch in &self.watches {
            watch.relist();
        }
    }

    /// Whether an object that is not in the cache is there all the same: one cache may be behind
    /// another, only the API server knows.
    pub(super) async fn exists(
        &self,
        kind: Kind,
        namespace: &str,
        name: &str,
        uid: Uid,
    ) -> Result<bool, SendError> {
        let found = apply::found(&self.writes, request::get(kind, namespace, name)).await?;
        Ok(found.is_some_and(|meta| meta.uid() == Some(uid)))
    }

    /// Keeps what was decided and what it was made from. The plan to carry out, which is another one
    /// when the interlock refused it, and the number of the decision.
    pub(super) fn decide<A: Act>(
        &self,
        owner: &Owner,
        considered: Considered<A>,
        now: Timestamp,
        refuse: impl FnOnce(&Trip) -> Plan<A>,
    ) -> (Plan<A>, u64) {
        let Considered {
            generation,
            rv,
            plan,
            verdict,
            seen,
            inputs,
        } = considered;
        let steps = summary(&plan);
        let decision = Decision {
            now,
            namespace: owner.namespace.clone(),
            name: owner.name.clone(),
            uid: owner.uid.to_string(),
            generation,
            resource_version: rv,
            seen: Kind::ALL
                .map(|kind| (kind.word().into(), seen.of(kind)))
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
        match verdict {
            Ok(()) => (plan, sequence),
            Err(trip) => {
                self.tripped(owner, generation, &trip);
                (refuse(&trip), sequence)
            }
        }
    }

    /// Says that the interlock refused a plan.
    fn tripped(&self, owner: &Owner, generation: i64, trip: &Trip) {
        tracing::error!(
            controller = self.name, ns = owner.namespace, name = owner.name, uid = %owner.uid,
            generation, rule = trip.rule, found = trip.what,
            "the interlock refused a plan; please report it"
        );
        self.metrics
            .interlock_trips
            .with_label_values(&[self.name, trip.rule])
            .inc();
        // Either the planner is wrong, or what it was given is: a watch may have lost something.
        self.relist();
    }

    /// Carries a plan out, and remembers what was written until the caches have seen it.
    pub(super) async fn carry_out<P: Perform>(
        &self,
        owner: &Owner,
        performer: &P,
        plan: Plan<P::Action>,
        sequence: u64,
    ) -> Applied<P::Answer> {
        for action in plan.steps.iter().flat_map(|step| &step.actions) {
            self.metrics
                .plan_actions
                .with_label_values(&[self.name, action.word()])
                .inc();
        }
        let idle = plan.steps.is_empty();
        let begin = clock::instant();
        let applied = apply::apply(performer, self.parallel, plan).await;
        {
            let mut gate = lock(&self.gate);
            for (kind, rv) in &applied.versions {
                gate.wrote(owner.uid, *kind, *rv);
            }
        }
        if !idle {
            self.log(owner, &applied, begin.elapsed());
            let outcome = Outcome::of(&applied);
            self.flights.add_outcome(owner.uid, sequence, outcome);
        }
        applied
    }

    /// One line for a plan that did something.
    fn log<R>(&self, owner: &Owner, applied: &Applied<R>, took: Duration) {
        let took_ms = took.as_millis() as u64;
        let (created, deleted, released) = (applied.created, applied.deleted, applied.released);
        let writes = applied.writes;
        match &applied.failed {
            None => tracing::info!(
                controller = self.name, ns = owner.namespace, name = owner.name, uid = %owner.uid,
                writes, created, deleted, released, took_ms,
                "synced"
            ),
            Some((action, error)) => tracing::warn!(
                controller = self.name, ns = owner.namespace, name = owner.name, uid = %owner.uid,
                writes, created, deleted, released, took_ms,
                action, %error, conflict = applied.conflict,
                "synced in part"
            ),
        }
    }

    /// Publishes events about an object.
    pub(super) fn tell(&self, owner: &Owner, reporter: &'static str, notes: Vec<Note>) {
        for note in notes {
            self.events.publish(Event {
                regarding: Regarding {
                    api_version: owner.api_version,
                    kind: owner.kind,
                    namespace: owner.namespace.clone(),
                    name: owner.name.clone(),
                    uid: owner.uid.to_string(),
                },
                controller: reporter,
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
}

/// A plan under the eyes of the interlock, and what it was made from.
#[derive(Debug)]
pub(super) struct Considered<A> {
    pub(super) generation: i64,
    pub(super) rv: u64,
    pub(super) plan: Plan<A>,
    pub(super) verdict: Result<(), Trip>,
    pub(super) seen: Versions,
    /// What else went into it, for the flight recorder.
    pub(super) inputs: serde_json::Value,
}

/// When a key comes back after its plan was carried out. `soon`: the next plan has something to do
/// at once.
pub(super) fn next<R>(applied: &Applied<R>, wake: Option<Timestamp>, soon: bool) -> Next {
    if applied.conflict {
        Next::After(CONFLICT_RETRY)
    } else if applied.failed.is_some() {
        Next::Failed(wake)
    } else if soon || applied.expired {
        Next::After(Duration::ZERO)
    } else {
        Next::Wait(wake)
    }
}
