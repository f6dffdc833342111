//! A recorded decision is made again, from the objects as they were.

use std::sync::Arc;

use carillon_plan::ObjectKey;
use carillon_plan::object_key::ApiKind;
use carillon_plan::uid::NotAUid;
use serde::Deserialize;
use serde_json::Value;

use super::irreproducible::Irreproducible;
use super::kind::ServedKind;
use crate::flight_recorder::Decision;
use crate::gate::Kind;
use crate::store::Tables;

/// Plans again what `decision` recorded, from `objects` as they were then, in any order: the object, and all
/// that its planner reads. The digest of that plan; [`Decision::digest`] is the same if nothing else went into it.
/// The rules of time zones are those of this machine.
///
/// # Errors
/// When it cannot be done from this record and these objects.
pub fn replay<K: ServedKind>(
    objects: impl Iterator<Item = (Kind, Value)>,
    decision: &Decision,
) -> Result<String, Irreproducible> {
    if decision.resource_version == 0 {
        let why = "it is about what an object that was gone had left behind";
        return Err(Irreproducible::Incomplete(why.to_owned()));
    }
    let (key, inputs) = recorded::<K>(decision)?;
    let mut tables = tables::<K>(objects, decision)?;
    let (kind, memory) = K::recorded(inputs, &mut tables, &key, decision.generation)?;
    let object = judged::<K>(&tables, &key, decision)?;
    Ok(kind.snapshot(&memory, &tables, object, |snapshot| {
        (K::RULES.plan)(snapshot, decision.now).digest()
    }))
}

/// The object that a decision was about, and what went into it beside the objects.
fn recorded<K: ServedKind>(
    decision: &Decision,
) -> Result<(Arc<ObjectKey>, K::Inputs), Irreproducible> {
    let unreadable = |error: String| Irreproducible::Unreadable(error);
    let inputs = K::Inputs::deserialize(&decision.inputs);
    let inputs = inputs.map_err(|error| unreadable(error.to_string()))?;
    let is = |kind: &ApiKind| (&*decision.api_version, &*decision.kind) == *kind;
    let Some(kind) = K::KINDS.iter().map(|kind| kind.api_kind()).find(is) else {
        return Err(unreadable(format!("it is about a {}", decision.kind)));
    };
    let uid = decision.uid.parse();
    let uid = uid.map_err(|error: NotAUid| unreadable(error.to_string()))?;
    let key = ObjectKey::of(kind, &*decision.namespace, &*decision.name, uid);
    Ok((key, inputs))
}

/// The object a decision was about, if it is the one that was judged.
fn judged<'t, K: ServedKind>(
    tables: &'t Tables,
    key: &ObjectKey,
    decision: &Decision,
) -> Result<&'t K::Object, Irreproducible> {
    let found = K::object(tables, key);
    let version = found.map(|object| K::meta(object).rv);
    let recorded = decision.resource_version;
    let judged = found.filter(|_| version == Some(recorded));
    judged.map(|object| &**object).ok_or(Irreproducible::Other {
        found: version,
        recorded,
    })
}

/// The caches as the decision saw them.
fn tables<K: ServedKind>(
    objects: impl Iterator<Item = (Kind, Value)>,
    decision: &Decision,
) -> Result<Tables, Irreproducible> {
    let mut tables = Tables::default();
    for (kind, object) in objects {
        if let Some(read) = K::READS.iter().find(|read| read.kind == kind) {
            (read.enter)(&mut tables, object, decision)?;
        }
    }
    Ok(tables)
}
