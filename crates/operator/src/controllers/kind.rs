//! What a kind says of itself, so that [`Controller`](super::Controller) can serve it.

use std::fmt::{self, Debug};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use carillon_plan::condition::Refusal;
use carillon_plan::interlock::Trip;
use carillon_plan::left_behind::Held;
use carillon_plan::{Act, Note, ObjectKey, Plan, Uid};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::cached_kind::CachedKind;
use super::core::{Core, Next};
use super::irreproducible::Irreproducible;
use crate::apply::{Applied, Effect, Perform};
use crate::args::Config;
use crate::metrics::Metrics;
use crate::queue::Backoff;
use crate::store::Tables;
use crate::watch;
use crate::writes::{SendError, Writes};

/// A failing sync waits this long, doubled up to a minute.
const BACKOFF: Backoff = Backoff {
    base: Duration::from_millis(100),
    max: Duration::from_mins(1),
};

/// A kind that is served. A value of it has what the flags say about it.
pub trait ServedKind: CachedKind {
    /// What decides.
    const RULES: RulesOf<Self>;
    /// The rules of its interlock, by name.
    const INTERLOCK: &'static [&'static str];
    /// What a plan consists of.
    type Action: Act;
    /// What the API server may answer to a plan.
    type Answer;
    /// What is remembered of an object from plan to plan. A restart loses it.
    type Memory: Debug + Default + Send;
    /// What a plan is made from.
    type Snapshot<'a>;
    /// What a plan is made from besides the objects, as the flight recorder keeps it.
    type Inputs: DeserializeOwned + Serialize;
    /// Carries out the actions of a plan.
    type Performer<'a>: Perform<Action = Self::Action, Answer = Self::Answer>;

    /// What the flags say. `None` without a watch that it needs.
    fn configured(config: &Config, watches: &[watch::Handle]) -> Option<Self>;

    /// How long a key that fails waits.
    fn backoff(_: &Config) -> Backoff {
        BACKOFF
    }

    /// What to do with an object that is not to be planned now, though the caches may have seen what was written.
    fn defer(&self, _: &Tables, _: &Self::Object) -> Option<Next> {
        None
    }

    /// Brings what is remembered up to date before a plan.
    fn follow(&self, memory: &mut Self::Memory, of: Follow<'_, Self>);

    /// Makes the snapshot of an object.
    fn snapshot<T>(
        &self,
        memory: &Self::Memory,
        tables: &Tables,
        object: &Self::Object,
        look: impl FnOnce(&Self::Snapshot<'_>) -> T,
    ) -> T;

    /// What goes into the flight recorder besides the versions of the objects.
    fn inputs(&self, memory: &Self::Memory, snapshot: &Self::Snapshot<'_>) -> Self::Inputs;

    /// The flags and the memory that were recorded. `tables` are those of the record, without what rows remember of
    /// earlier versions of their objects.
    ///
    /// # Errors
    /// When the record is not complete, or cannot be read.
    fn recorded(
        inputs: Self::Inputs,
        tables: &mut Tables,
        key: &ObjectKey,
        generation: i64,
    ) -> Result<(Self, Self::Memory), Irreproducible>;

    /// What is done instead of a plan that the interlock refused.
    fn refuse(object: &Self::Object, trip: &Trip, now: Timestamp) -> Plan<Self::Action>;

    /// Drops what was derived from the caches: a plan made with it was refused, or the planner panicked.
    fn discard_derived(_: &mut Self::Memory) {}

    /// Whether there is nothing worth remembering.
    fn is_blank(_: &Self::Memory) -> bool {
        false
    }

    /// What carries out this plan.
    fn performer<'a>(
        &'a self,
        memory: &mut Self::Memory,
        object: &'a Self::Object,
        plan: &Plan<Self::Action>,
        core: &'a Core,
        now: Timestamp,
    ) -> Self::Performer<'a>;

    /// Learns from what became of a plan.
    fn learn(
        &self,
        memory: &mut Self::Memory,
        object: &Self::Object,
        applied: &mut Applied<Self::Answer>,
        core: &Core,
        now: Timestamp,
    ) -> Learnt;

    /// Actions of whose refusal the planner is told in a better way; `None` where the status has no place for any.
    fn answered(applied: &Applied<Self::Answer>) -> Option<&'static [&'static str]>;

    /// The conditions of its status, of kinds that tell there what is refused.
    fn conditions(_: &Self::Object) -> &[Condition] {
        &[]
    }

    /// `reportingController` of events about an object.
    fn reporter(object: &Self::Object) -> &'static str;

    /// What people are told of a plan that was carried out; `planned` is what the plan says.
    fn notes(
        &self,
        object: &Self::Object,
        planned: Vec<Note>,
        applied: &mut Applied<Self::Answer>,
    ) -> Vec<Note>;

    /// What an object that is in no cache may have left with our finalizer. Most kinds have none.
    fn held(_: &Self::Memory, _: &Tables, _: &ObjectKey) -> Vec<Held> {
        Vec::new()
    }

    /// Removes our finalizer.
    fn release(
        _: &Writes,
        _: &ObjectKey,
        _: &Held,
    ) -> impl Future<Output = Result<Effect, SendError>> {
        std::future::ready(Ok(Effect::Nothing))
    }

    /// Learns that it was removed.
    fn released(_: &mut Self::Memory, _: Uid) {}

    /// What stays remembered of an object that is gone; most often nothing.
    fn after_deletion(_: Self::Memory, _: &Tables, _: &ObjectKey) -> Option<Self::Memory> {
        None
    }

    /// Counts a sync: `success` or `error`, and its seconds.
    fn count(_: &Metrics, _result: &'static str, _seconds: f64) {}

    /// Counts an object whose own writes are not seen yet.
    fn gated(_: &Core, _: &Tables, _: &Arc<ObjectKey>) {}

    /// What a plan is for, as [`Self::synced`] counts it.
    fn purpose(_: &Self::Object, _: &Plan<Self::Action>) -> &'static str {
        ""
    }

    /// Counts a plan that was carried out.
    fn synced(_: &Metrics, _: &Self::Object, _: Synced) {}
}

/// Whether a plan may be carried out.
pub type Verify<K> = for<'a> fn(
    &<K as ServedKind>::Snapshot<'a>,
    &Plan<<K as ServedKind>::Action>,
    Timestamp,
) -> Result<(), Trip>;

/// What decides, and what may forbid it. Functions, so that a test can put a mistake in the place of the one, and
/// nothing in that of the other.
pub struct RulesOf<K: ServedKind> {
    /// What should happen.
    pub plan: for<'a> fn(&K::Snapshot<'a>, Timestamp) -> Plan<K::Action>,
    /// Whether it may.
    pub verify: Verify<K>,
}

impl<K: ServedKind> Default for RulesOf<K> {
    fn default() -> Self {
        K::RULES
    }
}

impl<K: ServedKind> Clone for RulesOf<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: ServedKind> Copy for RulesOf<K> {}

impl<K: ServedKind> Debug for RulesOf<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rules of {}", K::NAME)
    }
}

/// What memory is brought up to date with.
#[derive(Debug)]
pub struct Follow<'a, K: ServedKind> {
    /// The caches.
    pub tables: &'a Tables,
    /// The object.
    pub object: &'a K::Object,
    /// What is refused again and again.
    pub refusal: Option<Refusal>,
    /// When the plan is made.
    pub now: Timestamp,
}

/// What the answers to a plan mean for the next one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Learnt {
    /// It should come at once.
    pub at_once: bool,
    /// It should come after this time, whatever failed.
    pub after: Option<Duration>,
}

/// A plan that was carried out.
#[derive(Clone, Copy, Debug)]
pub struct Synced {
    /// What it was for.
    pub purpose: &'static str,
    /// Whether it is to be tried again.
    pub failed: bool,
    /// From the snapshot to the last answer.
    pub seconds: f64,
}
