//! A recorded decision is made again, from the objects as they were.

use carillon_plan::Uid;
use carillon_plan::broadcast_job::plan;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::inputs::Inputs;
use super::memory::{Memory, is_behind, snapshot};
use crate::clock;
use crate::flight_recorder::Decision;
use crate::gate::Kind;
use crate::slim::{SlimBroadcastJob, SlimNode, SlimPod, SlimSlice};
use crate::store::{Row, Tables};

/// Why a decision cannot be made again.
#[derive(Debug, thiserror::Error)]
pub enum Irreproducible {
    /// More went into the decision than was recorded.
    #[error("the record is not complete: {0}")]
    Incomplete(String),
    /// A part of the record has a form this version does not know.
    #[error("the record cannot be read: {0}")]
    Unreadable(String),
    /// An object has a form this version does not know.
    #[error("an object of {kind} cannot be read: {error}")]
    Object {
        /// Resource name of its kind.
        kind: &'static str,
        /// What is wrong.
        error: serde_json::Error,
    },
    /// An object was not yet seen in this version.
    #[error("an object of {kind} has resourceVersion {found}; the decision had seen {seen}")]
    Newer {
        /// Resource name of its kind.
        kind: &'static str,
        /// Its version.
        found: u64,
        /// The version seen.
        seen: u64,
    },
    /// The job itself was seen in another version, or is not there.
    #[error("the job has resourceVersion {found:?}; the decision was made at {recorded}")]
    OtherJob {
        /// Of the job among the objects.
        found: Option<u64>,
        /// Of the job decided about.
        recorded: u64,
    },
}

/// Plans again what `decision` recorded, from `objects` as they were then: the job, its pods and
/// NodeResultSlices, and all nodes, in any order. The digest of that plan; [`Decision::digest`] is
/// the same if nothing else went into it.
///
/// # Errors
/// When it cannot be done from this record and these objects.
pub fn replay(
    objects: impl Iterator<Item = (Kind, Value)>,
    decision: &Decision,
) -> Result<String, Irreproducible> {
    let inputs = Inputs::deserialize(&decision.inputs)
        .map_err(|error| Irreproducible::Unreadable(error.to_string()))?;
    if let Some(why) = inputs.incomplete {
        return Err(Irreproducible::Incomplete(why));
    }
    let mut tables = Tables::default();
    for (kind, object) in objects {
        match kind {
            Kind::Pod => enter::<SlimPod>(&mut tables, object, decision),
            Kind::BroadcastJob => enter::<SlimBroadcastJob>(&mut tables, object, decision),
            Kind::Slice => enter::<SlimSlice>(&mut tables, object, decision),
            Kind::Node => enter::<SlimNode>(&mut tables, object, decision),
            // Nothing of the others goes into these decisions.
            Kind::CronJob | Kind::NativeCronJob | Kind::NativeJob => Ok(()),
        }?;
    }
    let uid: Uid = decision
        .uid
        .parse()
        .map_err(|error: carillon_plan::uid::NotAUid| {
            Irreproducible::Unreadable(error.to_string())
        })?;
    tables.recall(uid, &inputs.remembered);
    let job = tables.job(uid);
    let found = job.map(|job| job.rv);
    let Some(job) = job.filter(|job| job.rv == decision.resource_version) else {
        let recorded = decision.resource_version;
        return Err(Irreproducible::OtherJob { found, recorded });
    };
    let mut memory = Memory::recorded(&inputs).map_err(Irreproducible::Unreadable)?;
    memory.behind_since = is_behind(job, tables.ledger(uid)).then(clock::instant);
    let most = inputs.max_pod_changes;
    Ok(snapshot(&tables, job, &memory, most, |snapshot| {
        plan(snapshot, decision.now).digest()
    }))
}

fn enter<K: Row + DeserializeOwned>(
    tables: &mut Tables,
    object: Value,
    decision: &Decision,
) -> Result<(), Irreproducible> {
    let kind = K::KIND.word();
    let object: K =
        serde_json::from_value(object).map_err(|error| Irreproducible::Object { kind, error })?;
    let found = object.resource_version().unwrap_or(0);
    let seen = decision.seen.get(kind).copied().unwrap_or(0);
    if found > seen {
        return Err(Irreproducible::Newer { kind, found, seen });
    }
    object.enter(tables, &mut Vec::new());
    Ok(())
}
