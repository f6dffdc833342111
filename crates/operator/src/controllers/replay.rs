//! A recorded decision is made again, from the objects as they were.

use std::sync::Arc;

use carillon_plan::ObjectKey;
use carillon_plan::object_key::ApiKind;
use carillon_plan::uid::NotAUid;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::flight_recorder::Decision;
use crate::gate::Kind;
use crate::slim::{
    Carillon, Native, SlimBroadcastJob, SlimCronJob, SlimJob, SlimJobPod, SlimNode, SlimPod,
    SlimSlice,
};
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
    /// The object itself was seen in another version, or is not there.
    #[error("the object has resourceVersion {found:?}; the decision was made at {recorded}")]
    Other {
        /// Of the one among the objects.
        found: Option<u64>,
        /// Of the one decided about.
        recorded: u64,
    },
}

/// The object of one of these kinds that a decision was about, and what went into it beside the objects.
pub(super) fn recorded<I: DeserializeOwned>(
    kinds: &[ApiKind],
    decision: &Decision,
) -> Result<(Arc<ObjectKey>, I), Irreproducible> {
    let unreadable = |error: String| Irreproducible::Unreadable(error);
    let inputs = I::deserialize(&decision.inputs).map_err(|error| unreadable(error.to_string()))?;
    let is = |kind: &&ApiKind| (&*decision.api_version, &*decision.kind) == **kind;
    let Some(kind) = kinds.iter().find(is).copied() else {
        return Err(unreadable(format!("it is about a {}", decision.kind)));
    };
    let uid = decision.uid.parse();
    let uid = uid.map_err(|error: NotAUid| unreadable(error.to_string()))?;
    let key = ObjectKey::of(kind, &*decision.namespace, &*decision.name, uid);
    Ok((key, inputs))
}

/// The object a decision was about, if it is the one that was judged: at version `rv`, if there.
pub(super) fn judged<T>(
    found: Option<T>,
    rv: impl Fn(&T) -> u64,
    decision: &Decision,
) -> Result<T, Irreproducible> {
    let version = found.as_ref().map(&rv);
    let recorded = decision.resource_version;
    found
        .filter(|_| version == Some(recorded))
        .ok_or(Irreproducible::Other {
            found: version,
            recorded,
        })
}

/// The caches as the decision saw them.
pub(super) fn tables(
    objects: impl Iterator<Item = (Kind, Value)>,
    decision: &Decision,
) -> Result<Tables, Irreproducible> {
    let mut tables = Tables::default();
    for (kind, object) in objects {
        let enter = match kind {
            Kind::Pod => enter::<SlimPod>,
            Kind::BroadcastJob => enter::<SlimBroadcastJob>,
            Kind::Slice => enter::<SlimSlice>,
            Kind::Node => enter::<SlimNode>,
            Kind::CronJob => enter::<SlimCronJob<Carillon>>,
            Kind::NativeCronJob => enter::<SlimCronJob<Native>>,
            Kind::NativeJob => enter::<SlimJob>,
            Kind::JobPod => enter::<SlimJobPod>,
        };
        enter(&mut tables, object, decision)?;
    }
    Ok(tables)
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
