//! The controller of a kind: gate, snapshot, plan, interlock, apply for one object at a time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use carillon_plan::condition::told_refusal;
use carillon_plan::interlock::Trip;
use carillon_plan::left_behind::Held;
use carillon_plan::{ObjectKey, Plan};
use jiff::Timestamp;

use super::core::{Considered, Core, Next, Reconcile, lock, next};
use super::kind::{Follow, RulesOf, ServedKind, Synced};
use crate::clock;
use crate::store::Tables;

/// Serves the objects of a kind.
#[derive(Debug)]
pub struct Controller<K: ServedKind> {
    /// What every controller works with.
    pub core: Core,
    /// What decides.
    pub rules: RulesOf<K>,
    /// What the flags say about the kind.
    pub kind: K,
    /// What is remembered of objects.
    pub memory: Mutex<HashMap<Arc<ObjectKey>, K::Memory>>,
}

impl<K: ServedKind> Reconcile for Controller<K> {
    fn core(&self) -> &Core {
        &self.core
    }

    async fn reconcile(&self, key: &Arc<ObjectKey>) -> Next {
        let core = &self.core;
        let now = core.writes.clock().now();
        let begin = clock::instant();
        let considered = {
            let tables = core.store.read();
            match K::object(&tables, key) {
                Some(object) => {
                    if let Some(next) = self.kind.defer(&tables, object) {
                        return next;
                    }
                    if !core.may_pass(&tables, key) {
                        K::gated(core, &tables, key);
                        return Next::Gated;
                    }
                    Some((object.clone(), self.consider(&tables, key, object, now)))
                }
                None => None,
            }
        };
        let Some((object, considered)) = considered else {
            return self.release(key).await;
        };
        let took = begin.elapsed().as_secs_f64();
        let durations = &core.metrics.plan_duration;
        durations.with_label_values(&[K::NAME]).observe(took);
        let refuse = |trip: &Trip| K::refuse(&object, trip, now);
        let (plan, sequence) = core.decide(key, considered, now, refuse);
        let purpose = K::purpose(&object, &plan);
        let next = self.carry_out(key, &object, plan, sequence, now).await;
        let synced = Synced {
            purpose,
            failed: matches!(next, Next::Failed(_)),
            seconds: begin.elapsed().as_secs_f64(),
        };
        K::synced(&core.metrics, &object, synced);
        next
    }

    fn remembers(&self) -> usize {
        lock(&self.memory).len()
    }

    fn forget(&self, key: &ObjectKey) {
        let tables = self.core.store.read();
        let mut memories = lock(&self.memory);
        if let Some((key, memory)) = memories.remove_entry(key)
            && let Some(left) = K::after_deletion(memory, &tables, &key)
        {
            memories.insert(key, left);
        }
    }

    fn discard_derived(&self, key: &ObjectKey) {
        if let Some(memory) = lock(&self.memory).get_mut(key) {
            K::discard_derived(memory);
        }
    }

    fn count(&self, result: &'static str, seconds: f64) {
        K::count(&self.core.metrics, result, seconds);
    }
}

impl<K: ServedKind> Controller<K> {
    /// A controller that remembers nothing.
    pub fn new(kind: K, rules: RulesOf<K>, core: Core) -> Self {
        Self {
            core,
            rules,
            kind,
            memory: Mutex::default(),
        }
    }

    fn consider(
        &self,
        tables: &Tables,
        key: &Arc<ObjectKey>,
        object: &K::Object,
        now: Timestamp,
    ) -> Considered<K::Action> {
        let told = told_refusal(K::conditions(object));
        let follow = Follow {
            tables,
            object,
            refusal: self.core.refusals.of(key, told),
            now,
        };
        self.with_memory(key, |memory| {
            self.kind.follow(memory, follow);
            let known = &*memory;
            let considered = self.kind.snapshot(known, tables, object, |snapshot| {
                let plan = (self.rules.plan)(snapshot, now);
                let verdict = (self.rules.verify)(snapshot, &plan, now);
                let inputs = self.kind.inputs(known, snapshot);
                let meta = K::meta(object);
                Considered {
                    generation: meta.generation,
                    rv: meta.rv,
                    plan,
                    verdict,
                    seen: tables.seen(&key.namespace),
                    inputs: serde_json::to_value(inputs).unwrap_or_default(),
                }
            });
            if considered.verdict.is_err() {
                K::discard_derived(memory);
            }
            considered
        })
    }

    async fn carry_out(
        &self,
        key: &Arc<ObjectKey>,
        object: &K::Object,
        mut plan: Plan<K::Action>,
        sequence: u64,
        now: Timestamp,
    ) -> Next {
        let core = &self.core;
        let (wake, again) = (plan.wake, plan.again);
        let planned = std::mem::take(&mut plan.notes);
        let performer = self.with_memory(key, |memory| {
            self.kind.performer(memory, object, &plan, core, now)
        });
        let mut applied = core.carry_out(key, &performer, plan, sequence).await;
        let answered = K::answered(&applied);
        let over = answered.is_some_and(|answered| core.refusals.learn(key, &applied, answered));
        let notes = self.kind.notes(object, planned, &mut applied);
        core.tell(key, K::reporter(object), notes);
        let learnt = self.with_memory(key, |memory| {
            self.kind.learn(memory, object, &mut applied, core, now)
        });
        match learnt.after {
            Some(delay) => Next::After(delay),
            None => next(&applied, wake, again, learnt.at_once || over),
        }
    }

    /// The object is not in the cache. When it is really gone, what it held is released, whoever served it.
    async fn release(&self, key: &Arc<ObjectKey>) -> Next {
        let core = &self.core;
        let held = {
            let tables = core.store.read();
            self.with_memory(key, |memory| K::held(memory, &tables, key))
        };
        let of = (key.api_version, key.kind);
        let kind = K::KINDS.iter().find(|kind| kind.api_kind() == of);
        core.release(key, kind.copied(), &held, async |held: &Held| {
            let effect = K::release(&core.writes, key, held).await?;
            self.with_memory(key, |memory| K::released(memory, held.uid));
            Ok(effect)
        })
        .await
    }

    /// Nothing is kept that is not worth it.
    fn with_memory<T>(&self, key: &Arc<ObjectKey>, with: impl FnOnce(&mut K::Memory) -> T) -> T {
        let mut memories = lock(&self.memory);
        let memory = memories.entry(key.clone()).or_default();
        let result = with(memory);
        if K::is_blank(memory) {
            memories.remove(key);
        }
        result
    }
}
