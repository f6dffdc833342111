//! What every controller works with, and what it does the same way as the others: take keys, wait at
//! the gate, note decisions, tell people.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use carillon_plan::interlock::Trip;
use carillon_plan::{Act, Note, ObjectKey, Plan};
use jiff::{SignedDuration, Timestamp};

use crate::apply::{self, Applied, Perform};
use crate::clock;
use crate::controllers::refusals::Refusals;
use crate::controllers::relists::Relists;
use crate::event::recorder::EventSink;
use crate::event::{Event, Regarding, Severity};
use crate::flight_recorder::{Decision, FlightRecorder, Outcome, summary};
use crate::gate::{Gate, Kind, Passage, Versions};
use crate::metrics::Metrics;
use crate::queue::{Claim, WorkQueue};
use crate::request;
use crate::store::{Store, Tables};
use crate::transport::{BatchWindow, WINDOW};
use crate::watch;
use crate::writes::{SendError, Writes};

/// How soon an object whose own writes are not yet seen is looked at again: watches are read no
/// more often.
const GATE_RETRY: Duration = WINDOW;
/// The same of one that is due already. Most often its time has come while its plan was carried out; should a planner
/// ask for it each time, it does not spin.
const PAST_DUE: Duration = Duration::from_millis(100);
/// The same of one that waits for a list, which may not come for long.
pub(crate) const LIST_RETRY: Duration = Duration::from_secs(1);

/// What a controller is given.
#[derive(Debug)]
pub struct Core {
    /// Its name in logs and metrics.
    pub name: &'static str,
    /// The caches.
    pub store: Store,
    /// The keys.
    pub queue: WorkQueue<Arc<ObjectKey>>,
    /// When what was read is in the caches.
    pub window: BatchWindow,
    /// The way of every write.
    pub writes: Writes,
    /// Takes events.
    pub events: EventSink,
    /// Metrics.
    pub metrics: Arc<Metrics>,
    /// The watches of the kinds that it plans from, to list anew when the gate is overdue.
    pub watches: Vec<watch::Handle>,
    /// Requests of one sync in flight.
    pub parallel: usize,
    /// How many creations of an object may be sent side by side by its next plan, which comes at once.
    pub paces: Mutex<HashMap<Arc<ObjectKey>, usize>>,
    /// What was written and not yet seen.
    pub gate: Mutex<Gate>,
    /// What is refused again and again.
    pub refusals: Refusals,
    /// How often refused plans may have all listed anew.
    pub relists: Relists,
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
pub trait Reconcile: 'static {
    /// What it works with.
    fn core(&self) -> &Core;
    /// Brings one object up to date.
    fn reconcile(&self, key: &Arc<ObjectKey>) -> impl Future<Output = Next>;
    /// Drops what is remembered of an object that is gone.
    fn forget(&self, key: &ObjectKey);
    /// Drops what is remembered of an object and can be read anew: the planner panicked.
    fn discard_derived(&self, key: &ObjectKey);
    /// Of how many objects something is remembered, the core apart.
    fn remembers(&self) -> usize;
    /// Counts a sync: `success` or `error`, and its seconds.
    fn count(&self, result: &'static str, seconds: f64);
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is kept here stays whole: it is changed by single inserts.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes keys until the queue is shut down.
pub async fn work<C: Reconcile>(controller: Arc<C>) {
    let core = controller.core();
    while let Some(claim) = core.queue.get().await {
        let key = claim.clone();
        // What was read together is planned together: a Job and the pods that it is to adopt.
        core.window.idle().await;
        let begin = clock::instant();
        let reconciled = std::panic::AssertUnwindSafe(controller.reconcile(&key));
        let next = futures::FutureExt::catch_unwind(reconciled)
            .await
            .unwrap_or_else(|_| {
                core.metrics.panics.with_label_values(&[core.name]).inc();
                controller.discard_derived(&key);
                tracing::error!(controller = core.name, %key, "a sync panicked; please report it");
                Next::Failed(None)
            });
        let failed = matches!(next, Next::Failed(_));
        let result = if failed { "error" } else { "success" };
        controller.count(result, begin.elapsed().as_secs_f64());
        if matches!(next, Next::Forget) {
            lock(&core.gate).forget(&key);
            lock(&core.paces).remove(&key);
            core.refusals.forget(&key);
            core.relists.forget(&key);
            controller.forget(&key);
        }
        core.schedule(claim, &next);
    }
}

/// Tells of how many objects a controller remembers something.
pub fn measure<C: Reconcile>(controller: &C, metrics: &Metrics) {
    let core = controller.core();
    let of_core = [
        ("memory", controller.remembers()),
        ("gate", lock(&core.gate).len()),
        ("paces", lock(&core.paces).len()),
        ("refusals", core.refusals.len()),
        ("relists", core.relists.len()),
    ];
    for (of, objects) in of_core.into_iter().chain(core.queue.later()) {
        let remembered = &metrics.remembered_objects;
        let remembered = remembered.with_label_values(&[core.name, of]);
        remembered.set(objects as i64);
    }
}

impl Core {
    fn schedule(&self, claim: Claim<Arc<ObjectKey>>, next: &Next) {
        // A little later than due, so that the plan then finds it past.
        let add_at = |time: Timestamp| {
            let time = time.saturating_add(SignedDuration::from_millis(1));
            self.queue
                .add_at(claim.clone(), time.unwrap_or(Timestamp::MAX));
        };
        match next {
            Next::Gated => {
                let waits_for_list = lock(&self.gate).waits_for_list(&claim);
                claim.later(if waits_for_list {
                    LIST_RETRY
                } else {
                    GATE_RETRY
                });
                return;
            }
            Next::Failed(wake) => {
                let now = self.writes.clock().now();
                if let Some(time) = wake.filter(|time| *time > now) {
                    add_at(time);
                }
                claim.retry();
                return;
            }
            Next::Wait(None) => {}
            Next::Wait(Some(time)) if *time <= self.writes.clock().now() => {
                self.queue.add_after(claim.clone(), PAST_DUE);
            }
            Next::Wait(Some(time)) => add_at(*time),
            Next::After(delay) => self.queue.add_after(claim.clone(), *delay),
            Next::Forget => self.queue.drop_key(&claim),
        }
        claim.done();
    }

    /// Whether the caches have seen what was written for an object.
    pub(crate) fn may_pass(&self, tables: &Tables, owner: &Arc<ObjectKey>) -> bool {
        let seen = tables.seen(&owner.namespace);
        let passage = lock(&self.gate).ask(
            owner,
            &seen,
            |kind| self.last_list(kind, &owner.namespace),
            clock::instant(),
        );
        match passage {
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
            Passage::Overdue(kinds) => {
                tracing::warn!(
                    controller = self.name,
                    ns = owner.namespace,
                    name = owner.name,
                    ?kinds,
                    "own writes were not seen in time; listing anew"
                );
                self.wait_for_lists(owner, kinds);
                false
            }
        }
    }

    /// Lists these kinds anew. An object is not planned before that.
    fn wait_for_lists(&self, owner: &Arc<ObjectKey>, kinds: Vec<Kind>) {
        let mut gate = lock(&self.gate);
        for kind in kinds {
            let number = self.watch_of(kind).map_or(0, watch::Handle::relist);
            gate.lists(owner, kind, number);
        }
    }

    /// The number of the last list of a kind that shows a namespace. Of one that is not watched nothing is waited for.
    fn last_list(&self, kind: Kind, namespace: &str) -> u64 {
        self.watch_of(kind)
            .map_or(u64::MAX, |watch| watch.last_list(namespace))
    }

    fn watch_of(&self, kind: Kind) -> Option<&watch::Handle> {
        let mut watches = self.watches.iter();
        watches.find(|watch| watch.kind() == kind.word())
    }

    /// The kinds whose caches have not seen what was written for an object.
    pub(crate) fn behind(&self, tables: &Tables, owner: &ObjectKey) -> Vec<Kind> {
        let seen = tables.seen(&owner.namespace);
        lock(&self.gate).behind(owner, &seen, |kind| self.last_list(kind, &owner.namespace))
    }

    fn relist(&self) {
        for watch in &self.watches {
            watch.relist();
        }
    }

    /// Whether an object that is not in the cache is there all the same: one cache may be behind
    /// another, only the API server knows.
    pub(crate) async fn exists(&self, kind: Kind, key: &ObjectKey) -> Result<bool, SendError> {
        let get = request::get(kind, &key.namespace, &key.name);
        let found = apply::found(&self.writes, get).await?;
        Ok(found.is_some_and(|meta| meta.uid() == Some(key.uid)))
    }

    /// Keeps what was decided and what it was made from. The plan to carry out, which is another one
    /// when the interlock refused it, and the number of the decision.
    pub(crate) fn decide<A: Act>(
        &self,
        owner: &Arc<ObjectKey>,
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
            api_version: owner.api_version.into(),
            kind: owner.kind.into(),
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
        let sequence = self.flights.record(owner, decision);
        match verdict {
            Ok(()) => (plan, sequence),
            Err(trip) => {
                self.tripped(owner, generation, &trip);
                (refuse(&trip), sequence)
            }
        }
    }

    /// Says that the interlock refused a plan.
    fn tripped(&self, owner: &Arc<ObjectKey>, generation: i64, trip: &Trip) {
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
        if self.relists.may(owner, clock::instant()) {
            self.relist();
        }
    }

    /// Carries a plan out, and remembers what was written until the caches have seen it.
    pub(crate) async fn carry_out<P: Perform>(
        &self,
        owner: &Arc<ObjectKey>,
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
        let seen = self.store.read().seen(&owner.namespace);
        let (pace, again) = (lock(&self.paces).remove(owner), plan.again);
        let applied = apply::apply(performer, self.parallel, pace.unwrap_or(1), plan).await;
        // What comes next was held up by the age of this plan alone, or by its length.
        if applied.pace > 1 && (applied.expired || again) {
            lock(&self.paces).insert(owner.clone(), applied.pace);
        }
        {
            let mut gate = lock(&self.gate);
            for (kind, rv) in &applied.versions {
                gate.wrote(owner, *kind, *rv);
            }
        }
        if applied
            .creations
            .iter()
            .any(|(kind, rv)| *rv > 0 && *rv <= seen.of(*kind))
        {
            tracing::error!(
                controller = self.name,
                ns = owner.namespace,
                name = owner.name,
                "a new object is older than what was seen before: the API server was restored from a backup"
            );
            // Whatever this process remembers may never have happened.
            self.writes.leadership().end();
        }
        if applied.expired_in_vain() {
            let expired = &self.metrics.plans_expired;
            expired.with_label_values(&[self.name]).inc();
        }
        if !idle {
            self.log(owner, &applied, begin.elapsed());
            let outcome = Outcome::of(&applied);
            self.flights.add_outcome(owner, sequence, outcome);
        }
        applied
    }

    /// One line for a plan that did something.
    fn log<R>(&self, owner: &ObjectKey, applied: &Applied<R>, took: Duration) {
        let took_ms = took.as_millis() as u64;
        let (created, deleted, released) = (applied.created, applied.deleted, applied.released);
        let writes = applied.writes;
        match &applied.failed {
            None if applied.expired_in_vain() => tracing::warn!(
                controller = self.name, ns = owner.namespace, name = owner.name, uid = %owner.uid,
                writes, created, deleted, released, took_ms,
                "a plan grew too old before anything was created"
            ),
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
    pub(crate) fn tell(&self, owner: &ObjectKey, reporter: &'static str, notes: Vec<Note>) {
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
                about: note.about,
            });
        }
    }
}

/// A plan under the eyes of the interlock, and what it was made from.
#[derive(Debug)]
pub(crate) struct Considered<A> {
    pub(crate) generation: i64,
    pub(crate) rv: u64,
    pub(crate) plan: Plan<A>,
    pub(crate) verdict: Result<(), Trip>,
    pub(crate) seen: Versions,
    /// What else went into it, for the flight recorder.
    pub(crate) inputs: serde_json::Value,
}

/// When a key comes back after its plan was carried out. `again`: the plan has more to do; `learnt`:
/// the API server has answered something that the next plan needs.
///
/// Only progress comes back at once. What was tried and changed nothing waits longer each time: an
/// object that is gone or has changed says so by an event, and a webhook may give the same answer for ever.
pub(crate) fn next<R>(
    applied: &Applied<R>,
    wake: Option<Timestamp>,
    again: bool,
    learnt: bool,
) -> Next {
    let progress = applied.writes > 0 || learnt;
    let unfinished = again || applied.expired || applied.in_vain > 0;
    if applied.failed.is_some() || unfinished && !progress {
        Next::Failed(wake)
    } else if again || applied.expired || learnt {
        Next::After(Duration::ZERO)
    } else {
        Next::Wait(wake)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(writes: usize, in_vain: usize) -> Applied<()> {
        Applied {
            writes,
            in_vain,
            ..Applied::default()
        }
    }

    #[test]
    fn only_progress_brings_a_key_back_at_once() {
        let at_once = |next: &Next| matches!(next, Next::After(Duration::ZERO));
        let backs_off = |next: &Next| matches!(next, Next::Failed(None));
        let waits = |next: &Next| matches!(next, Next::Wait(None));
        for (writes, in_vain, again, learnt, expected) in [
            (1, 0, true, false, &at_once as &dyn Fn(&Next) -> bool),
            (0, 0, false, true, &at_once),
            (0, 0, true, false, &backs_off),
            (0, 1, true, false, &backs_off),
            (0, 1, false, false, &backs_off),
            (1, 1, false, false, &waits),
            (0, 0, false, false, &waits),
        ] {
            let next = next(&applied(writes, in_vain), None, again, learnt);
            assert!(
                expected(&next),
                "{writes} {in_vain} {again} {learnt}: {next:?}"
            );
        }
    }

    #[test]
    fn a_plan_that_grew_old_before_anything_was_sent_backs_off() {
        let old = |writes| Applied {
            expired: true,
            ..applied(writes, 0)
        };
        assert!(matches!(
            next(&old(0), None, false, false),
            Next::Failed(None)
        ));
        let goes_on = next(&old(7), None, false, false);
        assert!(matches!(goes_on, Next::After(Duration::ZERO)));
    }

    #[test]
    fn a_conflict_is_a_failure() {
        let mut status = kube::core::Status::failure("it has changed", "Conflict");
        status.code = 409;
        let conflict = Applied {
            conflict: true,
            failed: Some(("write_status", SendError::Refused(Box::new(status)))),
            ..applied(3, 0)
        };
        assert!(matches!(
            next(&conflict, None, true, false),
            Next::Failed(None)
        ));
    }
}
